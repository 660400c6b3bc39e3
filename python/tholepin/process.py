"""One process on its GPUs and CPUs: ProcessTemplate says which, Process runs it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Mapping, Sequence, Union

from . import _pickling, _shares, _start, _waiting, _wire, words
from ._named_file import open_to_append
from .errors import Error, WrongRequest, WrongType
from .policy import Policy, under_those_around

if TYPE_CHECKING:
    Redirection = Union[None, int, str, "os.PathLike[str]", BinaryIO, Any]

_FAR = 10  # the child's number of the socket with its function


class ProcessTemplate:
    """What is to run, where and how: for a ProcessGroup, which may start it many times.

    >>> import tholepin
    >>> template = tholepin.ProcessTemplate("sh", args=["-c", "exit 3"])
    >>> with tholepin.ProcessGroup(ignore_error_on_exit=True) as group:
    ...     group.add_process(nproc=2, template=template)
    ...     group.init()
    ...     group.start()
    ...     group.join(timeout=60)
    ...     [status for _, status in group.exit_status]
    [3, 3]

    Args:
        target: a function, or a program: its path, its name on PATH, or a file in ``cwd``.
        args, kwargs: what a function is called with; a program has ``args`` only.
        cwd: where it starts.
        env: variables on top of this process's; None as a value removes one.
        stdin: PIPE, a file, or a path; nothing to read, if not given.
        stdout, stderr: PIPE, DEVNULL, a file, or a path, which is appended to; this process's, if not given. stderr may be
            STDOUT.
        policy: its GPUs and CPUs; what it does not say, its group's policy says.
        options: Dragon's, about its own channels; not looked at.
    """

    PIPE = -1
    STDOUT = -2
    DEVNULL = -3

    def __init__(
        self,
        target: str | os.PathLike[str] | Callable[..., object],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        cwd: str = ".",
        env: Mapping[str, str | None] | None = None,
        stdin: Redirection = None,
        stdout: Redirection = None,
        stderr: Redirection = None,
        policy: Policy | None = None,
        options: object = None,
    ) -> None:
        if not callable(target) and not words.path(target, "target"):
            raise WrongRequest(f"target: expected a function or a program, got {target!r}")
        if not callable(target) and kwargs:
            raise WrongRequest("kwargs are for functions; a program has args only")
        words.one_of(policy, Policy, "policy")
        for name, where in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            _check_stream(name, where)
        self.target = target
        self.args = tuple(words.listed(() if args is None else args, "args"))
        self.kwargs = words.mapping(kwargs, "kwargs")
        self.cwd = os.fsdecode(words.path(cwd, "cwd"))
        self.env = words.variables(env, "env")
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.policy = policy

    def __repr__(self) -> str:
        return f"<tholepin.ProcessTemplate {getattr(self.target, '__qualname__', self.target)}>"


def _check_stream(name: str, where: Any) -> None:
    if isinstance(where, (str, os.PathLike)):
        if not words.path(where, name):
            raise WrongRequest(f"{name}: the path is empty")
        return
    if where == ProcessTemplate.STDOUT and isinstance(where, int) and name != "stderr":
        raise WrongRequest(f"{name}: STDOUT is for stderr")
    number = isinstance(where, int) and not isinstance(where, bool) and ProcessTemplate.DEVNULL <= where < 2**31
    if where is not None and not number and not hasattr(where, "fileno"):
        raise WrongType(f"{name}: expected PIPE, DEVNULL, a file or a path, got {where!r}")


class Started:
    """A process made from a template, and our ends of its pipes; :func:`start` starts it."""

    def __init__(self) -> None:
        self.child = _start.Child()
        self.pipes: Mapping[int, BinaryIO] = {}


def start(started: Started, template: ProcessTemplate, share: _shares.Share) -> None:
    """Starts what a template says, with this share of the GPUs; whoever calls discards the child where this raises.

    Raises:
        WorkerNotStarted: for want of processes, memory or descriptors; of a function also where there is no Python.
        Error: the program is not there (code 127), cannot be run (126), or the binding was refused under "strict" (69).
        OSError: a file that the template names cannot be opened; it says which.
    """
    try:
        _start_with(started, _Streams(template), template, share)
    except (OSError, Error) as problem:
        no_python = callable(template.target) and problem.errno != 0 and getattr(problem, "code", 126) in (126, 127)
        if not _start.is_want(problem) and (getattr(problem, "filename", None) is not None or not no_python):
            raise
        program = None if callable(template.target) else os.fsdecode(os.fspath(template.target))
        raise _start.not_started("a process", problem, program) from problem


def _start_with(started: Started, streams: _Streams, template: ProcessTemplate, share: _shares.Share) -> None:
    change = {**share.change, **template.env}
    directory = None if template.cwd in (".", "") else template.cwd
    try:
        if callable(template.target):
            _start_function(started.child, template, change, share.binding, directory, streams.theirs)
        else:
            argv = [_program(template), *map(_word, template.args)]
            _start.start(
                started.child, argv, change=change, binding=share.binding, directory=directory, descriptors=streams.theirs
            )
        started.pipes = streams.take_ours()
    finally:
        streams.close()


def _word(argument: Any) -> str:
    return (
        argument
        if isinstance(argument, str)
        else os.fsdecode(argument) if isinstance(argument, (bytes, os.PathLike)) else str(argument)
    )


def _program(template: ProcessTemplate) -> str:
    assert not callable(template.target)
    name = os.fspath(template.target)
    here = os.path.join(template.cwd, name)
    if "/" not in name and shutil.which(name, path=template.env.get("PATH")) is None and os.access(here, os.X_OK):
        return os.path.abspath(here)
    return os.path.abspath(name) if "/" in name and os.path.exists(name) else name


def _start_function(
    child: _start.Child,
    template: ProcessTemplate,
    change: Mapping[str, str | None],
    binding: Mapping[str, Any] | None,
    directory: str | None,
    descriptors: Mapping[int, int],
) -> None:
    near, far = _wire.pair()
    with contextlib.closing(near), contextlib.closing(far):
        setup, work = _start.setup_part(), _pickling.dumped((template.target, template.args, template.kwargs))
        _wire.send(near, 0, 0, 0, setup, b"")
        _wire.send(near, _wire.CALL, 0, 0, b"", work)
        _start.start(
            child,
            _start.python("tholepin._child", _FAR),
            change=change,
            binding=binding,
            directory=directory,
            descriptors={**descriptors, _FAR: far.fileno()},
        )


class _Streams:
    """The child's three streams, as a template says."""

    def __init__(self, template: ProcessTemplate) -> None:
        self.theirs: dict[int, int] = {}
        self._ours: dict[int, int] = {}
        self._opened: list[int] = []
        try:
            self._place(0, template.DEVNULL if template.stdin is None else template.stdin)
            self._place(1, template.stdout)
            if isinstance(template.stderr, int) and template.stderr == template.STDOUT:
                self.theirs[2] = self.theirs.get(1, 1)
            else:
                self._place(2, template.stderr)
        except BaseException:
            self.close()
            raise

    def _open(self, path: str | os.PathLike[str], number: int) -> int:
        self._opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC) if number == 0 else open_to_append(path))
        return self._opened[-1]

    def _place(self, number: int, where: Redirection) -> None:
        if where is None:
            return
        if isinstance(where, (str, os.PathLike)):
            self.theirs[number] = self._open(where, number)
        elif where == ProcessTemplate.DEVNULL:
            self.theirs[number] = self._open(os.devnull, number)
        elif where == ProcessTemplate.PIPE:
            ends = os.pipe()
            theirs, ours = ends if number == 0 else ends[::-1]
            self._opened.append(theirs)
            self.theirs[number], self._ours[number] = theirs, ours
        else:
            self.theirs[number] = where if isinstance(where, int) else where.fileno()

    def take_ours(self) -> dict[int, BinaryIO]:
        ours, self._ours = self._ours, {}
        return {
            number: os.fdopen(fd, "wb" if number == 0 else "rb", buffering=0 if number == 0 else -1)
            for number, fd in ours.items()
        }

    def close(self) -> None:
        for fd in (*self._opened, *self._ours.values()):
            os.close(fd)
        self._opened, self._ours = [], {}


class Process:
    """A program or a function in a process of its own, on its GPUs and CPUs from its first instruction.

    >>> import tholepin
    >>> process = tholepin.Process("sh", ["-c", "echo $CUDA_VISIBLE_DEVICES"], stdout=tholepin.Process.PIPE,
    ...                             policy=tholepin.Policy(gpu_affinity=[3]))
    >>> process.start()
    >>> process.stdout_conn.read(), process.join()
    (b'3\\n', 0)

    The GPUs of its policy are claimed in :meth:`start` and free again when it has ended. It has a process group of its own,
    which a terminal's Ctrl-C does not reach; what is left of the group when it has ended is killed. When this process ends, in
    whatever way, the kernel kills it. The arguments are those of ProcessTemplate, ``ident``: a name to know it by, and
    ``wait``: how long to wait for the GPUs.

    Attributes:
        ident: what it was made with.
        name: ``ident`` as text, else its process id.
        puid: its process id; None before the start.
        returncode, exitcode: its exit status, minus the signal's number where one killed it; None before its end, and where it
            is not known: this program ignores SIGCHLD, or waits for every child.
        is_alive: whether it runs; no method, as it is in multiprocessing.
        node, h_uid: 0, the number of its host.
        stdin_conn, stdout_conn, stderr_conn: files, our ends of its pipes.
    """

    PIPE = ProcessTemplate.PIPE
    STDOUT = ProcessTemplate.STDOUT
    DEVNULL = ProcessTemplate.DEVNULL
    _make_shares = _shares.Shares

    def __init__(
        self,
        target: str | os.PathLike[str] | Callable[..., object],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        cwd: str = ".",
        env: Mapping[str, str | None] | None = None,
        ident: int | str | None = None,
        *,
        stdin: Redirection = None,
        stdout: Redirection = None,
        stderr: Redirection = None,
        policy: Policy | None = None,
        options: object = None,
        wait: words.Duration | None = None,
    ) -> None:
        if ident is not None and not isinstance(ident, (int, str)):
            raise WrongType(f"ident: expected a name or a number, got {ident!r}")
        self.ident = ident
        self._template = ProcessTemplate(target, args, kwargs, cwd, env, stdin, stdout, stderr, policy)
        self._policy = under_those_around(policy)
        self._patience = _waiting.Patience(wait)
        self._child: _start.Child | None = None
        self._shares: _shares.Shares | None = None
        self.stdin_conn: BinaryIO | None = None
        self.stdout_conn: BinaryIO | None = None
        self.stderr_conn: BinaryIO | None = None

    @classmethod
    def from_template(
        cls, template: ProcessTemplate, ident: int | str | None = None, *, wait: words.Duration | None = None
    ) -> Process:
        """A process as a template says.

        >>> import tholepin
        >>> process = tholepin.Process.from_template(tholepin.ProcessTemplate("true"))
        >>> process.start()
        >>> process.join()
        0
        """
        words.this_one(template, ProcessTemplate, "template")
        made = cls(template.target, ident=ident, wait=wait)
        made._template = template
        made._policy = under_those_around(template.policy)
        return made

    def start(self) -> None:
        """Claims its GPUs and starts it. Raises RuntimeError the second time, and WorkerNotStarted for want of
        processes, memory or descriptors."""
        if self._child is not None:
            raise RuntimeError("the process was started already")
        started, shares = Started(), self._make_shares()
        try:
            _shares.for_policies(shares, [self._policy or Policy()], self._patience)
            start(started, self._template, shares.each[0])
            self._child, self._shares = started.child, shares
            self.stdin_conn, self.stdout_conn, self.stderr_conn = (started.pipes.get(number) for number in range(3))
            if self._policy is not None:
                _start.start_thread("the process's thread", self._release_at_end, "thole-process")
        except BaseException:
            self._child = None
            started.child.discard()
            shares.release()
            raise

    def _release_at_end(self, begun: Callable[[], None]) -> None:
        begun()
        child, shares = self._child, self._shares
        if child is not None and shares is not None:  # else the start was given up
            child.wait()
            shares.release()

    def join(self, timeout: float | None = None) -> int | None:
        """Sleeps until it has ended, at most ``timeout`` seconds; its exit status, None where it still runs or that is not
        known."""
        timeout = words.timeout(timeout)
        child = self._started()
        if child.wait(timeout) and self._shares is not None:
            self._shares.release()
        return child.exit_status

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._child is not None and not self._child.ended

    @property
    def name(self) -> str:
        """What it is known by."""
        return str(self.puid if self.ident is None else self.ident)

    @property
    def puid(self) -> int | None:
        """Its process id."""
        return None if self._child is None else self._child.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status."""
        return None if self._child is None or not self._child.ended else self._child.exit_status

    exitcode = returncode
    node = h_uid = 0

    def send_signal(self, sig: int) -> None:
        """Sends a signal to it, not to its children; nothing where it has ended."""
        sig = words.signal_number(sig, "sig")
        self._started().send_signal(sig)

    def terminate(self) -> None:
        """Sends SIGTERM to it and its process group."""
        self._started().send_signal(signal.SIGTERM, group=True)

    def kill(self) -> None:
        """Sends SIGKILL to it and its process group."""
        self._started().send_signal(signal.SIGKILL, group=True)

    def _started(self) -> _start.Child:
        if self._child is None:
            raise RuntimeError("the process was not started")
        return self._child

    def __repr__(self) -> str:
        return f"<tholepin.Process {self.puid} of {self._template!r}>"

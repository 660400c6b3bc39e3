"""Starting processes that are bound before they start and that end with this one.

How this works. ``thole_start`` (thole.h) does between fork and exec what must be in force before the program runs: CPUs,
memory policy, a process group of its own, descriptors, and the tie to our life. That tie is one pipe for the whole process,
whose write end nobody but us has: when we end, however we end, the kernel sends SIGKILL to the group of every process that was
started here. A forked child of ours closes its copy, so that it does not keep them alive.

A process is watched by its pidfd, never by its pid: pids are given out again.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import functools
import os
import signal
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence

from . import _epoll, _native
from .errors import WANTS, Error, WorkerNotStarted

if TYPE_CHECKING:
    from . import _wire

_libthole = _native.libthole
_libthole.thole_start.restype = ctypes.c_int
_libthole.thole_start.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]

_STARTED = (0).__lt__  # a pid

_lock = threading.Lock()
_life: tuple[int, int] | None = None


def _life_end() -> int:
    """The read end of the pipe that ends with this process."""
    global _life
    with _lock:
        if _life is None:
            _life = os.pipe()
        return _life[0]


def _after_fork() -> None:
    global _life, _lock
    _lock = threading.Lock()
    ends, _life = _life, None
    for end in ends or ():
        os.close(end)


os.register_at_fork(after_in_child=_after_fork)


def _array(words: Iterable[bytes]) -> Any:
    listed = [*words, None]
    return (ctypes.c_char_p * len(listed))(*listed)


def environment(change: Mapping[str, str | None] | None = None) -> list[bytes]:
    """This process's environment with these variables set, those that are None removed, as execve takes it."""
    merged = dict(os.environb)
    for name, value in (change or {}).items():
        if value is None:
            merged.pop(os.fsencode(name), None)
        else:
            merged[os.fsencode(name)] = os.fsencode(value)
    return [name + b"=" + value for name, value in merged.items()]


class Child(_native.Owner):
    """A process, the leader of its own process group, once :func:`start` has started it.

    Attributes:
        pid: its process id, which is its group's too.
        fd: its pidfd: readable when it has ended.
        exit_status: as ``multiprocessing`` has it: the status, or minus the signal's number; None while it runs, and where
            somebody else has waited for it.
    """

    _pids: list[int] = []  # of one whose making was cut short

    def __init__(self) -> None:
        # Made before it is started, so that whoever is to end it has it already.
        self._fd = ctypes.c_int(-1)
        self._pids = []
        self.exit_status: int | None = None
        self._ended = False
        self._reaping = threading.Lock()

    @property
    def pid(self) -> int:
        return self._pids[0]

    @property
    def fd(self) -> int:
        return self._fd.value

    def discard(self) -> None:
        """Kills it and what it has started, and waits for it; nothing where it was never started."""
        if self._pids:
            self.send_signal(signal.SIGKILL, group=True)
            self.wait()

    @property
    def ended(self) -> bool:
        """Whether it has ended; asks the kernel."""
        return self._ended or self.wait(0)

    def wait(self, timeout: float | None = None) -> bool:
        """Sleeps until it has ended, at most ``timeout`` seconds; whether it has. What is left of its group is killed then."""
        if not self._ended and _epoll.is_readable(self.fd, timeout):
            self.reap()
        return self._ended

    def reap(self) -> None:
        """Takes its exit status; it has ended. Only until then its pid is surely its own, so what is left of its group is
        killed first."""
        with self._reaping:
            if self._ended:
                return
            try:
                os.waitid(os.P_PIDFD, self.fd, os.WEXITED | os.WNOWAIT)
                self._signal_group(signal.SIGKILL)
                how = os.waitid(os.P_PIDFD, self.fd, os.WEXITED)
                if how is not None:
                    self.exit_status = how.si_status if how.si_code == os.CLD_EXITED else -how.si_status
            except ChildProcessError:
                pass  # somebody waits for every child; its status is lost
            self._ended = True

    def __del__(self) -> None:
        if self._pids:
            os.close(self.fd)  # not before: another thread may be about to sleep on it

    def send_signal(self, number: int, group: bool = False) -> bool:
        """Sends it a signal, or to all of its process group; False when it has ended."""
        with self._reaping:
            if self._ended:
                return False
            try:
                if group:
                    self._signal_group(number)
                if not group or os.getpgid(self.pid) != self.pid:  # it may have gone into another one
                    os.kill(self.pid, number)  # a zombie at worst: it was not waited for yet
            except ProcessLookupError:
                return False
            return True

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # nobody is left, or nobody but programs of another user


def start(
    child: Child,
    argv: Sequence[str],
    *,
    change: Mapping[str, str | None] | None = None,
    directory: str | None = None,
    binding: Mapping[str, Any] | None = None,
    descriptors: Mapping[int, int] | None = None,
) -> None:
    """Starts a program as this child; whoever calls discards that where this raises. ``descriptors``: the number at which it
    has one, and which of ours that is.

    Raises:
        Error: it is not there (code 127), cannot be run (126), or the binding was refused under "strict" (69).
        OSError: no pipe for its tie to our life.
    """
    from . import _worker

    _worker.stop_import_of_main()
    pairs = [number for there, ours in (descriptors or {}).items() for number in (ours, there)]
    error = ctypes.c_void_p()
    passed = (
        _array(map(os.fsencode, argv)),
        _array(environment(change)),
        None if directory is None else ctypes.c_char_p(os.fsencode(directory)),
        None if binding is None else ctypes.c_char_p(_native.encoded(binding)),
        (ctypes.c_int * (len(pairs) + 1))(*pairs, -1),
        _life_end(),
        ctypes.byref(child._fd),
        ctypes.byref(error),
    )
    # One step for signal handlers, as in _native.call_into.
    child._pids.extend(filter(_STARTED, map(_libthole.thole_start, *((argument,) for argument in passed))))
    if error:
        _native.raise_from(error)


def python(module: str, number: int) -> list[str]:
    """The command of a fresh interpreter, with the options of this one, that calls ``main(number)`` of a module of this
    package."""
    import subprocess

    if not sys.executable:  # an embedded interpreter
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = f"import sys; sys.path.insert(0, {package!r}); from {module} import main; main({number})"
    return [sys.executable, *flags, "-c", code]


def setup_part() -> bytes | _wire.Part:
    """What such an interpreter is told first: where modules lie, and what the main script is."""
    import marshal

    from . import _pickling, _wire

    # What the script defines is a worker's __mp_main__, as with multiprocessing; what comes back is looked for under that name.
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])
    here = os.getcwd()
    told = {
        "path": [str.__str__(entry) or here for entry in sys.path if isinstance(entry, str)],  # what imports look at
        "argv": [str.__str__(word) if isinstance(word, str) else str(word) for word in sys.argv],
        "main": _pickling.script_for_workers(),
        "package": getattr(sys.modules.get("__main__"), "__package__", None),
    }
    return _wire.part_of(marshal.dumps(told))


_NO_PYTHON = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)


def is_want(problem: OSError | Error) -> bool:
    """Whether it is for want of processes, memory or descriptors; it passes."""
    return problem.errno in WANTS


def not_started(worker: str, problem: OSError | Error, program: str | None = None) -> WorkerNotStarted:
    """What is raised where something cannot be started, by a Python of ours where no program is named."""
    number = problem.errno or 0
    why = f": {problem.message}" if isinstance(problem, Error) and not number else ""
    hint = getattr(problem, "hint", "") or WANTS.get(number, "")
    if program is None and not hint and number in _NO_PYTHON:
        hint = "sys.executable must be the path of a Python"
    object = (sys.executable or "sys.executable") if program is None else program
    return WorkerNotStarted(f"cannot start {worker}{why}", object=object, hint=hint, errno=number)


class Handover:
    """Of what a thread is to end, when it has begun: whoever takes it first, the thread or who has started it and gave up,
    ends it."""

    def __init__(self) -> None:
        self._left = [True]

    def taken(self) -> bool:
        """Takes it; False where the other one has."""
        try:
            return self._left.pop()
        except IndexError:
            return False


_LOOK_S = 0.01  # how often a thread that has said nothing yet is looked at


class _Thread(threading.Thread):
    """One that may die before its first word, for want of memory: Python's own start() waits for that for ever.

    Attributes:
        lives: gives None once that has ended which is to say the first word.
    """

    lives: Callable[[], object]

    @property
    def _bootstrap(self) -> Callable[[], None]:  # what Python gives to the new thread, which has it until it ends
        first: Callable[[], None] = functools.partial(super()._bootstrap)  # type: ignore[misc]
        self.lives = weakref.ref(first)
        return first


def start_thread(what: str, run: Callable[[Callable[[], None]], None], name: str) -> threading.Thread:
    """A thread that keeps nobody from ending; WorkerNotStarted where there are too many, or no memory for it. Its first word
    is waited for: ``run`` is given what says that, which cannot fail, to be called first of all that must come to an end."""
    begun = _thread.allocate_lock()
    begun.acquire()
    thread = _Thread(target=run, args=(begun.release,), name=name, daemon=True)
    problems: list[BaseException] = []

    def start() -> None:
        # In a thread without signals: Python code waits for the new one, and a handler's exception there would keep that back.
        try:
            thread.start()
        except BaseException as problem:
            problems.append(problem)

    firsts = [functools.partial(start)]  # Python may keep a function for ever that it had no memory to begin, but not this
    thread.lives = weakref.ref(firsts[0])
    started: list[int] = []
    try:
        started.extend(map(_thread.start_new_thread, (firsts.pop(),), ((),)))  # one step for signal handlers
    except RuntimeError:
        if started:  # it is a handler's
            raise
        raise thread_not_started(what) from None
    while not begun.acquire(True, _LOOK_S):
        if thread.lives() is not None:
            continue
        if begun.acquire(False):  # it has begun, and ended, since
            break
        too_many = any(isinstance(problem, RuntimeError) for problem in problems)
        raise thread_not_started(what) if too_many else thread_died(what)
    return thread


def thread_not_started(what: str) -> WorkerNotStarted:
    """What is raised where Python says no more than that it cannot start a thread."""
    return not_started(what, OSError(errno.EAGAIN, ""), "")


def thread_died(what: str) -> WorkerNotStarted:
    """What is raised where a thread has ended without its first word: it does for want of memory only."""
    return not_started(what, OSError(errno.ENOMEM, ""), "")

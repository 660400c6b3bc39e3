"""``dragon.native.process``: Process, ProcessTemplate and Popen, over tholepin.Process."""

from __future__ import annotations

import logging
import os
import weakref
from typing import Any, Callable, Mapping, Sequence, Union

import tholepin
from tholepin import errors
from tholepin._aside import Aside

from .._claims import ProgramProcess
from ..infrastructure.connection import Connection
from ..infrastructure.facts import PMIBackend
from ..infrastructure.policy import Policy
from . import _others
from ._popen import Popen
from ._template import ProcessTemplate

__all__ = ["MSG_DEVNULL", "MSG_PIPE", "MSG_STDOUT", "Popen", "Process", "ProcessTemplate", "current"]

MSG_PIPE, MSG_STDOUT, MSG_DEVNULL = ProcessTemplate.PIPE, ProcessTemplate.STDOUT, ProcessTemplate.DEVNULL
Running = Union[tholepin.Process, _others.Member, _others.Other]

ProcessTemplate.__module__ = Popen.__module__ = __name__  # where Dragon's are; only the file is another


class Process(ProcessTemplate):
    """A program or a function in a process of its own, with what its policy says from its first instruction.

    >>> process = Process("sh", ["-c", "echo $CUDA_VISIBLE_DEVICES"], stdout=Process.PIPE, policy=Policy(gpu_affinity=[3, 1]))
    >>> process.start()
    >>> process.stdout_conn.recv(), process.join(), process.is_alive
    ('3,1\\n', 0, False)

    The GPUs of its policy are claimed in :meth:`start` and free again when it has ended. ``Process(None, ident=...)`` is one
    that is there already: by the name that it was made with in this program, or by its number. ``ident`` is the name of a new
    one.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Process:
        if cls is not Process:
            raise NotImplementedError("Subclassing process not supported by the Dragon runtime.")
        return super().__new__(cls)

    def __init__(
        self,
        target: str | Callable[..., object] | None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        cwd: str = ".",
        env: Mapping[str, str | None] | None = None,
        ident: str | int | None = None,
        _pmi: PMIBackend | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        policy: Policy | None = None,
        options: object = None,
    ) -> None:
        self.ident = ident
        self._pmi = _pmi
        self._running: Running | None = None
        self._connections: dict[int, Connection] = {}
        known = _known(ident, strangers=target is None)  # a new one's number is a name only
        self.started = known is not None
        if known is not None:
            if target is not None:
                log = logging.getLogger(__name__)
                with Aside():
                    log.warning("there is a process %r already: this is it, the target is not started", ident)
            self._running, self._connections = known
            return
        if target is None:
            hint = "give the name or the number of one that runs"
            raise errors.WrongRequest(f"ident: there is no process {ident!r}", hint=hint)
        super().__init__(target, args, kwargs, cwd, env, stdin, stdout, stderr, policy, options)

    @classmethod
    def from_template(cls, template: ProcessTemplate, ident: str | None = None, _pmi: PMIBackend | None = None) -> Process:
        """A new process as a template says; ValueError where there is one of this name."""
        if _known(ident, strangers=False) is not None:
            raise errors.WrongRequest(f"ident: a process {ident!r} already exists")
        names = ("target", "args", "kwargs", "cwd", "env", "stdin", "stdout", "stderr", "policy", "options")
        return cls(ident=ident, _pmi=_pmi, **{name: getattr(template, name) for name in names})

    def start(self) -> None:
        """Claims its GPUs and starts it. RuntimeError the second time."""
        if self.started:
            raise RuntimeError(f"This Process has already been started with puid {self.puid}")
        if self._pmi is not None:
            tholepin.ProcessGroup(pmi=self._pmi)  # raises: there are no ranks of MPI here
        running = ProgramProcess.from_template(self._own(), self.ident)
        running.start()
        self._running, self.started = running, True
        files = (running.stdin_conn, running.stdout_conn, running.stderr_conn)
        self._connections = {number: Connection(file) for number, file in enumerate(files) if file is not None}
        _started[running.puid] = self
        if self.ident:
            _started[self.ident] = self

    def join(self, timeout: float | None = None) -> int | None:
        """Sleeps until it has ended, ``timeout`` seconds at most; its exit status, None where it still runs or that is not
        known."""
        return self._there().join(timeout)

    @property
    def is_alive(self) -> bool:
        """Whether it runs; no method."""
        return self._running is not None and self._running.is_alive

    def terminate(self) -> None:
        """Sends SIGTERM to it."""
        self._there().terminate()

    def kill(self) -> None:
        """Sends SIGKILL to it."""
        self._there().kill()

    def send_signal(self, sig: int) -> None:
        """Sends a signal to it."""
        self._there().send_signal(sig)

    @property
    def name(self) -> str:
        """What it is known by: ``ident``, else its number."""
        return self._there().name

    @property
    def puid(self) -> int:
        """Its number: its process id."""
        puid = self._there().puid
        assert puid is not None
        return puid

    @property
    def node(self) -> int:
        """The number of its host: 0."""
        return 0

    @property
    def h_uid(self) -> int:
        """The number of its host: 0."""
        return 0

    @property
    def returncode(self) -> int | None:
        """Its exit status, minus the signal's number where one killed it; None before its end, and where that is not known."""
        return self._there().returncode

    @property
    def exitcode(self) -> int | None:
        """What ``returncode`` is."""
        return self.returncode

    def children(self) -> list[Process]:
        """The processes that it has started and that run.

        >>> process = Process("sleep", ["1000"])
        >>> process.start()
        >>> process.puid in [child.puid for child in current().children()]
        True
        >>> process.kill()
        """
        return [Process(None, ident=puid) for puid in _others.children(self.puid) if _known(puid, strangers=True) is not None]

    def parent(self) -> Process:
        """The process that has started it.

        >>> current().parent().puid == os.getppid()
        True
        """
        return Process(None, ident=_others.parent(self.puid))

    @property
    def stdin_conn(self) -> Connection | None:
        """Our end of its stdin where that is PIPE; else None."""
        return self._connections.get(0)

    @property
    def stdout_conn(self) -> Connection | None:
        """Our end of its stdout where that is PIPE; else None."""
        return self._connections.get(1)

    @property
    def stderr_conn(self) -> Connection | None:
        """Our end of its stderr where that is PIPE; else None."""
        return self._connections.get(2)

    def _there(self) -> Running:
        if self._running is None:
            raise RuntimeError("the process was not started: start() it first")
        return self._running


_started: weakref.WeakValueDictionary[Any, Process] = weakref.WeakValueDictionary()


def _known(ident: str | int | None, strangers: bool) -> tuple[Running, dict[int, Connection]] | None:
    """The process of this name or number, and its pipes; of this program only, or any of this host."""
    if not ident:
        return None
    process = _started.get(ident)
    if process is not None and process._running is not None:
        return process._running, process._connections
    other = _others.found(ident) if strangers and isinstance(ident, int) else None
    return None if other is None else (other, other.connections())


def current() -> Process:
    """This process.

    >>> current().puid == os.getpid(), current().is_alive
    (True, True)
    """
    return Process(None, ident=os.getpid())

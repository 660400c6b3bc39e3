"""``dragon.native.process_group``: tholepin.ProcessGroup under Dragon's parameters, states and exceptions."""

from __future__ import annotations

import enum
from typing import Any, Callable, TypeVar

import tholepin
from tholepin import errors

from .._claims import ProgramShares
from ..infrastructure.connection import Connection
from ..infrastructure.facts import PMIBackend
from ..infrastructure.policy import Policy, own
from . import _others
from .process import Process, ProcessTemplate

__all__ = [
    "DragonLoggingError", "DragonProcessGroupAlreadyInitialized", "DragonProcessGroupError", "DragonProcessGroupException",
    "DragonProcessGroupIdleError", "DragonProcessGroupJoinError", "DragonProcessGroupRunningError",
    "DragonProcessGroupSignalError", "DragonProcessGroupStartError", "DragonUserCodeError", "Process", "ProcessGroup",
    "ProcessTemplate", "State",
]  # fmt: skip

Result = TypeVar("Result")


class DragonLoggingError(Exception):
    """What Dragon's errors are; ``lib_err`` is a number or a name, ``msg`` what has happened."""

    def __init__(self, lib_err: object, msg: str) -> None:
        super().__init__(lib_err, msg)
        self.lib_err, self.msg = lib_err, msg

    def __str__(self) -> str:
        return self.msg


class DragonProcessGroupError(DragonLoggingError):
    """What a group cannot do, and what has gone wrong in it."""


class DragonProcessGroupException(DragonProcessGroupError):
    """Not raised here."""


class DragonProcessGroupAlreadyInitialized(DragonProcessGroupError):
    """The group is made already: processes are added before ``init()``, which is called once."""


class DragonProcessGroupIdleError(DragonProcessGroupError):
    """Not raised here."""


class DragonProcessGroupStartError(DragonProcessGroupError):
    """The processes cannot be started now: before ``init()``, while the group runs, after ``close()``."""


class DragonProcessGroupRunningError(DragonProcessGroupError):
    """The group is not made yet, or closed."""


class DragonUserCodeError(DragonProcessGroupError):
    """A process has ended with a status other than 0."""


class DragonProcessGroupJoinError(DragonProcessGroupError):
    """Not raised here."""


class DragonProcessGroupSignalError(DragonProcessGroupError):
    """There is nobody to get the signal: the group does not run."""


class State(enum.Enum):
    """What a group does; here it is IDLE, RUNNING or ERROR."""

    ERROR = "Error"
    IDLE = "Idle"
    START = "Start"
    MAKE_JOINER = "MakeJoiner"
    RUNNING = "Running"
    JOIN = "Join"
    ADD_TEMPLATES = "AddTemplates"


class ProcessGroup(tholepin.ProcessGroup):
    """Processes that are started, watched and ended together.

    >>> group = ProcessGroup()
    >>> group.add_process(nproc=2, template=ProcessTemplate("true", policy=Policy(gpu_affinity=[0])))
    >>> group.init()
    >>> group.start()
    >>> group.join()
    >>> [status for _, status in group.exit_status], group._state
    ([0, 0], <State.IDLE: 'Idle'>)
    >>> group.close()

    The GPUs that the policies name are claimed by :meth:`init`, all or none, and free again after :meth:`close`; how long that
    may wait ``thole compat --wait`` says. It is a :class:`tholepin.ProcessGroup`, and has what that has besides.
    """

    _make_shares = ProgramShares

    def __init__(
        self,
        restart: bool = False,
        ignore_error_on_exit: bool = False,
        pmi: PMIBackend | str | None = None,
        walltime: float | None = None,
        policy: Policy | None = None,
        critical: bool = False,
        name: str | None = None,
    ) -> None:
        if pmi is not None:
            try:
                pmi = PMIBackend.from_str(pmi)
            except ValueError:
                raise RuntimeError("Unsupported PMI backend requested") from None
        super().__init__(
            restart, ignore_error_on_exit, pmi, walltime, None if policy is None else own(policy), critical, name
        )
        self._ends: dict[int, dict[int, Connection]] = {}
        _others.groups.add(self)

    def add_process(self, nproc: int, template: ProcessTemplate) -> None:  # type: ignore[override]  # Dragon's own template
        """Adds ``nproc`` processes of this template; before :meth:`init`."""
        if not isinstance(template, ProcessTemplate):
            raise errors.WrongType(f"template: expected a ProcessTemplate, got {template!r}")
        _told(DragonProcessGroupAlreadyInitialized, super().add_process, nproc, template._own())

    def init(self) -> None:
        """Claims the GPUs that the policies name, all or none."""
        _told(DragonProcessGroupAlreadyInitialized, super().init)

    def start(self) -> None:
        """Starts all processes."""
        _told(DragonProcessGroupStartError, super().start)

    def join(self, timeout: float | None = None) -> None:
        """Sleeps until all processes have ended.

        Raises:
            TimeoutError: they have not in ``timeout`` seconds; the group runs on. 0 only looks.
            DragonUserCodeError: one has failed; the others may still run.
        """
        try:
            super().join(timeout)
        except tholepin.WorkerDied as problem:
            codes = [status for _, status in self.exit_status if status]
            raise DragonUserCodeError(
                "DRAGON_USER_CODE_ERROR", f"Error(s) in user-provided code resulted in exit codes: {codes}"
            ) from problem

    def send_signal(self, sig: int, hide_stderr: bool = False) -> None:
        """Sends a signal to every process and its children."""
        _told(DragonProcessGroupSignalError, super().send_signal, sig, hide_stderr)

    def terminate(self, hide_stderr: bool = False) -> None:
        """Sends SIGTERM to all, and starts none again."""
        _told(DragonProcessGroupSignalError, super().terminate, hide_stderr)

    def kill(self, hide_stderr: bool = False) -> None:
        """Sends SIGKILL to all, and starts none again."""
        _told(DragonProcessGroupSignalError, super().kill, hide_stderr)

    def stop(self, patience: float = 5.0) -> None:
        """Ends all and waits for it: SIGINT, ``patience`` seconds later SIGTERM, after as many again SIGKILL."""
        _told(DragonProcessGroupRunningError, super().stop, patience)

    def stop_restart(self) -> None:
        """From now on what ends is not started again."""
        _told(DragonProcessGroupRunningError, super().stop_restart)

    def close(self, patience: float = 5.0) -> None:
        """Stops what runs and gives the GPUs back; a second time does nothing."""
        super().close(patience)

    @property
    def _state(self) -> State:
        return State[self.state]

    def connections(self, puid: int) -> dict[int, Connection]:
        """Our ends of the pipes of a process: ``Process(None, ident=puid).stdout_conn`` and its like."""
        if puid not in self._ends:
            self._ends[puid] = {number: Connection(file) for number, file in self.pipes().get(puid, {}).items()}
        return self._ends[puid]


def _told(kind: type[DragonProcessGroupError], call: Callable[..., Result], *arguments: Any) -> Result:
    """Calls it; that the group cannot do this now is said by Dragon's exception."""
    try:
        return call(*arguments)
    except tholepin.Error as problem:
        if type(problem) is not tholepin.Error or problem.code != 64:  # of the claim, or of an argument
            raise
        raise kind("DRAGON_INVALID_OPERATION", str(problem)) from problem

"""Claiming GPUs: for this process, for a block of code, for a function.

How a wait stays interruptible: the library call that waits cannot run Python's signal handlers, and ending it early would lose
the place in line. So a helper thread makes the call while ours waits for it on a lock, as any Python code would wait. A handler
that raises (Ctrl-C, in the main thread) leaves the lock; then the library is told through a pipe to leave the line, and only
when it has, the exception goes on. A handler that returns disturbs nothing. A thread costs more than a claim that need not
wait, so one that does not is tried before.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, TypeVar

from . import _late, _native, _waiting, errors, words

if TYPE_CHECKING:
    from types import TracebackType

    from . import _aio

Function = TypeVar("Function", bound=Callable[..., Any])


class Claim(_native.Owner):
    """GPUs that are yours, until :meth:`release`, the end of a ``with`` block, or the end of this process.

    >>> import tholepin
    >>> with tholepin.claim(2, pick="first") as claim:
    ...     claim.indices, os.environ["CUDA_VISIBLE_DEVICES"]
    ([0, 1], '0,1')

    Dropping the object releases nothing. In a forked child it is only a description: the claim is its parent's. But such a
    child inherits the lock, and the GPUs stay claimed while it lives: join it first, or start it by spawn or forkserver.

    Attributes:
        id: its name, as ``thole status`` shows it.
        gpus: what ``THOLE_GPUS`` tells of each: a dict with "uuid", "index", "model", "memory_mib", "pci", "numa".
        env: the variables that show these GPUs, and no others, to a program; they are set in ``os.environ`` already.
        unset: variables that such a program must not have.
        why: why these GPUs, in words.
    """

    def __init__(self, handle: int, machine: _native.Machine) -> None:
        self._handle = handle
        self._ended = 0  # the handle of a released claim that others of this process are within
        self._machine = machine  # which must stay open as long
        self._pid = os.getpid()
        told, _ = _native.decoded(_native.libthole.thole_claim_json(handle).decode())
        self.id: str = told["id"]
        self.gpus: list[dict[str, Any]] = told["gpus"]
        self.why: str = told["explain"]
        self._cautions: list[str] = told["cautions"]
        self.env: dict[str, str] = told["environment"]["set"]
        self.unset: list[str] = told["environment"]["unset"]
        self._before: dict[str, str | None] = {}
        with _changes:
            _held.append(self)

    @property
    def uuids(self) -> list[str]:
        """The UUIDs of the GPUs, in machine order."""
        return [gpu["uuid"] for gpu in self.gpus]

    @property
    def indices(self) -> list[int]:
        """The indices of the GPUs on this machine, as ``thole status`` counts. In this process CUDA numbers them from 0."""
        return [gpu["index"] for gpu in self.gpus]

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs near these GPUs, to which ``thole run`` would bind a program; :func:`bind` binds this one."""
        if not self.gpus:
            return frozenset()
        from .machine import plan

        return plan(on=self.indices).ranks[0].cpus

    @property
    def released(self) -> bool:
        """Whether the claim has ended."""
        return not self._handle

    def release(self) -> None:
        """Ends the claim and takes its variables out of ``os.environ``; a second time does nothing.

        At once, unless a child that this process forked (``os.fork``, multiprocessing's start method fork) lives: it may still
        compute, so the GPUs are free only when it has ended, and the next claim here waits for that. Join it first.

        Where claims of this process that came out of this one are open still (another thread's, a pool's), its GPUs stay
        claimed until the last of them has ended. What this process still has on the GPUs stays there: others see it as use
        without a claim.
        """
        if os.getpid() != self._pid:
            self._handle = 0
            return
        with _changes:
            if self._handle:
                self._ended, self._handle = self._handle, 0
                self._leave_environment()
                _give_back()

    def _is_around(self, other: Claim) -> bool:
        # A claim of all that another has is called like it.
        return other is not self and f"{other.id}/".startswith(f"{self.id}/")

    def _enter_environment(self) -> None:
        _entered.append(self)
        for name, value in self.env.items():
            self._before[name] = _native.variable(name)
            os.environ[name] = value
        for name in self.unset:
            before = _native.variable(name)
            if before is not None:
                self._before[name] = before
                del os.environ[name]

    def _leave_environment(self) -> None:
        # What somebody has changed since is left alone.
        if self not in _entered:
            return
        since = _entered[_entered.index(self) + 1 :]
        _entered.remove(self)
        changed, self._before = self._before, {}
        for name, before in changed.items():
            later = next((claim for claim in since if name in claim._before), None)
            now = _native.variable(name) if later is None else later._before[name]
            if now != self.env.get(name):
                continue
            if later is not None:
                later._before[name] = before
            elif before is not None:
                os.environ[name] = before
            elif now is not None:
                del os.environ[name]

    def __enter__(self) -> Claim:
        if self.released:
            raise errors.Error("the claim has been released", code=64, object=self.id, hint="claim again")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def _instead(self) -> str:
        return "; another one is shown its GPUs by claim.env, and knows them by claim.uuids"

    def __repr__(self) -> str:
        which = ", ".join(str(gpu["index"]) for gpu in self.gpus) or "none"
        return f"<tholepin.Claim {self.id}: GPU {which}{' (released)' if self.released else ''}>"


# What this process holds, the oldest first: a claim lasts as long as the process also where nobody keeps the object. And those
# whose variables it has, the newest last. Threads and signal handlers change both.
_held: list[Claim] = []
_entered: list[Claim] = []
_changes = threading.RLock()


def _give_back() -> None:
    for claim in reversed(_held[:]):
        within = _held[_held.index(claim) + 1 :]
        if claim._ended and not any(claim._is_around(other) for other in within):
            _held.remove(claim)
            _native.libthole.thole_claim_release(claim._ended)
            claim._ended = 0


def _after_fork() -> None:
    global _changes, _entering
    _changes, _entering = threading.RLock(), threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def claim(
    gpus: int = 1,
    *,
    on: Iterable[words.Name] | words.Name = (),
    not_on: Iterable[words.Name] | words.Name = (),
    model: str | None = None,
    memory: words.Size | None = None,
    wait: words.Duration | None = None,
    share: bool | None = None,
    share_with: words.ShareWith | None = None,
    beside: words.Beside | None = None,
    max_load: float | None = None,
    max_memory: float | None = None,
    pick: words.Pick | None = None,
    shape: words.Shape | None = None,
    order: Iterable[words.Name] | words.Name = (),
    trust_claims: bool | None = None,
    ids: words.Ids | None = None,
    command: str | None = None,
    cancel: _waiting.Cancel | None = None,
    on_wait: _waiting.OnWait | None = None,
    quiet: bool | None = None,
) -> Claim:
    """Claims GPUs for this process: all that are asked for or none, waiting in the machine's one line where they are not free.

    The first thing a program does: what has started CUDA before can no longer choose its GPUs, and :class:`TooLateError` says
    so. Sets ``CUDA_VISIBLE_DEVICES`` and its like in ``os.environ``. Within another claim (of this process or of one that
    started it) the GPUs come out of that one.

    >>> import tholepin
    >>> with tholepin.claim(gpus=2, memory="20G", wait="30m") as claim:
    ...     len(claim.gpus)
    2

    Args:
        gpus: how many; 0 claims none and hides all.
        on, not_on: only these, none of these: indices, "0:1" for an instance, UUIDs or unique beginnings of them, PCI
            addresses.
        model: a part of the model's name, "A100".
        memory: the free memory needed on each, MiB or "20G"; with ``share`` what this program will use (then required).
        wait: how long at most, seconds or "30m"; 0 does not wait; None for as long as it takes, or as configured.
        share: beside others who share; ``share_with`` "user" or "any" says whose programs.
        beside: unclaimed processes that are put up with: "none", "mine", "any"; within ``max_load`` and ``max_memory``
            (percent, 50).
        pick: which of the free ones: "pack", "first", "last", "random", "load", "memory".
        shape: how they talk to each other: "collective", "pairwise", "independent".
        order: these first, in this order.
        trust_claims: do not look whether somebody uses them without a claim.
        ids: how the variables name them: "auto", "uuid", "index".
        command: what others see the GPUs are used for; this program's command line if not given.
        cancel: a descriptor, or what has one (an eventfd, a pipe, a socket), that ends the wait when it becomes readable: Error
            with code 130. In coroutines: :func:`aclaim`.
        on_wait: called once when a wait has begun, with a dict: "gpus", "position" in line, "promise" (the time of the start,
            or None), "why" (sentences).
        quiet: a wait says nothing on stderr; None: as ``THOLE_QUIET`` says. See docs/python.md, "Waiting".

    Raises:
        NoneFree: none free, and ``wait`` was 0.
        WaitTimeout: the wait ran out.
        NeverPossible: this machine can never meet the request.
        TooLateError: CUDA, HIP or Level Zero runs in this process already.
        DriverError: the driver does not answer, or a GPU asked for cannot be used.
        Error: a wrong request; the state directory cannot be used.
    """
    gpus = words.own(gpus)
    shown = of_worker()
    if shown is not None:
        return shown
    sure = _late.check(gpus)
    request = request_for(
        gpus=gpus, on=on, not_on=not_on, model=model, memory=memory, share=share, share_with=share_with, beside=beside,
        max_load=max_load,
        max_memory=max_memory, pick=pick, shape=shape, order=order, trust_claims=trust_claims, ids=ids, command=command,
    )  # fmt: skip
    return _entered_in_time(request, _waiting.Patience(wait, cancel, on_wait, quiet), sure)


def aclaim(
    gpus: int = 1,
    *,
    wait: words.Duration | None = None,
    on_wait: _waiting.OnWait | None = None,
    quiet: bool | None = None,
    **request: Any,
) -> _aio.Opening[Claim]:
    """:func:`claim` for coroutines, with the same arguments: ``await`` it, or hold it for a block by ``async with``.

    >>> import asyncio, tholepin
    >>> async def main():
    ...     async with tholepin.aclaim(2, pick="first") as claim:
    ...         return claim.indices
    >>> asyncio.run(main())
    [0, 1]

    The loop goes on meanwhile. A coroutine that is cancelled (``asyncio.wait_for``, ``task.cancel``, Ctrl-C) leaves the line
    before the cancellation goes on: nothing is claimed and no variable is set later. ``on_wait`` is called in the loop. The
    claim and its variables belong to the whole process, not to the task.

    Raises:
        NoneFree, WaitTimeout, NeverPossible, TooLateError, DriverError, Error: when awaited, as :func:`claim`.
    """
    from . import _aio

    gpus = words.own(gpus)
    asked = request_for(gpus=gpus, **request)
    _waiting.Patience(wait, None, on_wait, quiet)  # what is wrong is said at once

    async def made() -> Claim:
        shown = of_worker()
        if shown is not None:
            return shown
        told = _aio.in_loop(on_wait)
        sure = _late.check(gpus)
        return await _aio.waited(
            lambda cancel: _entered_in_time(asked, _waiting.Patience(wait, cancel, told, quiet), sure), Claim.release
        )

    async def leave(made: Claim, *_: object) -> None:
        made.release()

    return _aio.Opening(made, leave)


def release() -> None:
    """Ends every claim that :func:`claim` and :func:`aclaim` have made in this process, also where nobody has the object any
    more (a notebook's cell that was run again has replaced it).

    >>> import tholepin
    >>> lost = tholepin.claim(2)
    >>> lost = tholepin.claim(2)                # comes out of the first, which has no name now
    >>> tholepin.release()
    >>> tholepin.claim(8, wait=0).release()

    The GPUs of pools stay claimed until those end, also where they came out of a claim.
    """
    with _changes:
        for claim in reversed(_entered[:]):
            claim.release()


def of_worker() -> Claim | None:
    """What a claim is in a worker of a pool that imports the main script: the GPUs that the worker has, described, and nothing
    more is claimed. None anywhere else."""
    from . import _worker

    if not _worker.importing_main:
        return None
    import json

    shown = Claim.__new__(Claim)
    shown._handle, shown._ended, shown._pid = -1, 0, 0  # of another process, as in a forked child
    shown.id = os.environ.get("THOLE_CLAIM", "")
    shown.gpus = json.loads(os.environ.get("THOLE_GPUS") or "[]")
    shown.why = "what this worker has"
    shown._cautions, shown._before, shown.unset = [], {}, []
    shown.env = {name: os.environ[name] for name in _SHOWN_BY if name in os.environ}
    return shown


# Variables of a claim; those that it removes beside them do not tell what it has.
_SHOWN_BY = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
    "THOLE_CLAIM", "THOLE_GPUS",
)  # fmt: skip


# Whoever takes a claim enters it before another looks: the variables belong to the whole process.
_entering = threading.Lock()


def _entered_in_time(request: dict[str, Any], patience: _waiting.Patience, sure: bool) -> Claim:
    while True:
        try:
            with _entering:
                return _entered_now(_made_in_time(request, _waiting.Patience(0), sure))
        except errors.NoneFree:
            if patience.milliseconds == 0:
                raise
        made = _made_in_time(request, patience, sure)
        with _entering:
            if not _entered or _entered[-1]._is_around(made):
                return _entered_now(made)
        made.release()  # another thread has one since: this one is to come out of that


def _made_in_time(request: dict[str, Any], patience: _waiting.Patience, sure: bool) -> Claim:
    made = _obtained_unless_late(request, patience, sure)
    try:
        if not sure:
            _late.confirm(made.env)
    except errors.TooLateError:
        made.release()
        raise
    return made


def _entered_now(made: Claim) -> Claim:
    with _changes:
        made._enter_environment()
    return made


def _obtained_unless_late(request: dict[str, Any], patience: _waiting.Patience, sure: bool) -> Claim:
    # A process that the driver shows on a GPU would wait for itself; but within its claim that is where it belongs.
    if not sure:
        try:
            return obtained(request, _waiting.Patience(0))
        except errors.NoneFree:  # that claim has ended, or another process of it has a part
            pass
    return obtained({**request, "not_started": True}, patience)


# A word of claim() -> the field of thole.h, and what checks and translates it.
_FIELDS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "gpus": ("gpus", words.whole),
    "on": ("on", words.gpu_names),
    "not_on": ("not", words.gpu_names),
    "order": ("order", words.gpu_names),
    "model": ("model", words.text),
    "memory": ("memory_mib", words.mebibytes),
    "share": ("share", words.flag),
    "share_with": ("share_with", words.choice),
    "beside": ("beside", words.choice),
    "max_load": ("max_load_percent", words.percent),
    "max_memory": ("max_memory_percent", words.percent),
    "pick": ("pick", words.choice),
    "shape": ("shape", words.choice),
    "trust_claims": ("trust_claims", words.flag),
    "ids": ("ids", words.choice),
    "command": ("command", words.text),
}


def request_for(**said: Any) -> dict[str, Any]:
    """The JSON request of thole.h for these words of :func:`claim`; what is not said is not in it: the configuration decides.

    >>> request_for(gpus=2, on=3, memory="1G", model=None)
    {'gpus': 2, 'on': ['3'], 'memory_mib': 1024}
    """
    request: dict[str, Any] = {}
    for name, value in said.items():
        if name not in _FIELDS:
            raise TypeError(f"there is no word {name!r} about claims; see help(tholepin.claim)")
        if value is None or (isinstance(value, tuple) and not value):
            continue
        field, checked = _FIELDS[name]
        request[field] = checked(value, name)
    return request


def obtained(request: Mapping[str, Any], patience: _waiting.Patience) -> Claim:
    """The claim for a request of thole.h, waited for; it changes nothing in this process."""
    return obtained_from(_native.machine(), request, patience)


def obtained_from(machine: _native.Machine, request: Mapping[str, Any], patience: _waiting.Patience) -> Claim:
    """The same of one machine."""
    from . import _worker

    _worker.stay_here()
    shares = sys.modules.get("tholepin._shares")
    own = shares.of_this_thread() if shares is not None else []
    if own:
        request = {**request, "own": own}
    try:
        claim = Claim(_waited(machine, _native.encoded_request(request), patience), machine)
        _waiting.warn(claim._cautions, patience.quiet)
        return claim
    except errors.WrongRequest as error:
        for argument in ("on", "not_on", "order"):
            if error.object and error.object in request.get(_FIELDS[argument][0], ()):
                error.say(f"{argument}: {error.message}")
                break
        raise


def _waited(machine: _native.Machine, request: bytes, patience: _waiting.Patience) -> int:
    try:
        return _native.call("thole_claim_gpus", machine, request, 0, -1)
    except errors.NoneFree:
        if patience.milliseconds == 0:
            raise
    canceller = patience.canceller()
    try:
        if threading.current_thread() is threading.main_thread():
            return _waited_in_line(machine, request, patience, canceller)
        with _waiting.ended_with_the_program(canceller):
            return _waited_in_line(machine, request, patience, canceller)
    finally:
        canceller.close()


def _waited_in_line(machine: object, request: bytes, patience: _waiting.Patience, canceller: _waiting.Canceller) -> int:
    outcome: list[int | BaseException] = []
    reason: list[dict[str, Any]] = []
    started: list[int] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            reason.append(patience.reason(machine, request))
            outcome.append(_native.call("thole_claim_gpus", machine, request, patience.milliseconds, canceller.fd))
        except BaseException as problem:
            outcome.append(problem)
        finally:
            done.release()

    try:
        # The start and its record are one step for signal handlers: what has not begun yet must be waited for, too.
        started.extend(map(_thread.start_new_thread, (work,), ((),)))
        while not done.acquire(True, _waiting.MOMENT):
            if reason:
                patience.tell(request, reason[0])
                done.acquire()
                break
    except BaseException as problem:
        if not started and isinstance(problem, RuntimeError) and not isinstance(problem, errors.Error):
            from . import _start

            raise _start.thread_not_started("a thread that waits") from None
        if started:
            canceller.cancel()
            _ended_whatever_comes(done, outcome)
            if isinstance(outcome[0], int):
                _native.libthole.thole_claim_release(outcome[0])
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _ended_whatever_comes(done: _thread.LockType, outcome: list[int | BaseException]) -> None:
    # A second Ctrl-C changes nothing: the line is left within a moment. The first may have come just after the lock was taken.
    while not outcome:
        try:
            done.acquire(True, _waiting.MOMENT)
        except KeyboardInterrupt:
            continue

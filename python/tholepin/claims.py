"""Claiming GPUs: for this process, for a block of code.

How a claim is made is in :mod:`tholepin._line`, what this process holds and shows in :mod:`tholepin._holding`.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Iterable, Mapping

from . import _changes, _forkserver, _holding, _late, _leaving, _line, _native, _waiting, errors, words
from ._request import FIELDS, request_for

if TYPE_CHECKING:
    from . import _aio


class Claim(_native.Owner):
    """GPUs that are yours, until :meth:`release`, the end of a ``with`` block, or the end of this process.

    >>> import tholepin
    >>> with tholepin.claim(2, pick="first") as claim:
    ...     claim.indices, os.environ["CUDA_VISIBLE_DEVICES"]
    ([0, 1], '0,1')

    Dropping the object releases nothing. In a forked child it is only a description: the claim is its parent's. But such a
    child inherits the lock, and the GPUs stay claimed while it lives: join it first, or start it by spawn.

    Attributes:
        id: its name, as ``thole status`` shows it.
        gpus: what ``THOLE_GPUS`` tells of each: a dict with "key", "uuid", "index", "listed_as", "model", "memory_mib", "pci".
        env: the variables that show these GPUs, and no others, to a program; they are set in ``os.environ`` already.
        unset: variables that such a program must not have.
        why: why these GPUs, in words.
    """

    def __init__(self, of_process: bool = False) -> None:
        # Made before it is claimed, so that whoever is to release it has it already.
        self._holdings = [_holding.Holding(of_process)]
        self._holdings[0].tickets.add(id(self))

    def _know(self, told: Mapping[str, Any]) -> None:
        self.id: str = told["id"]
        self.gpus: list[dict[str, Any]] = told["gpus"]
        self.why: str = told["explain"]
        self._cautions: list[str] = told["cautions"]
        self.env: dict[str, str] = told["environment"]["set"]
        self.unset: list[str] = told["environment"]["unset"]

    @property
    def uuids(self) -> list[str]:
        """The UUIDs of the GPUs, in machine order. A GPU that has none is named by its address, "pci-0000:18:00.0.0", and by
        that wherever a UUID is taken: ``on``, ``Policy.gpu_affinity``, ``thole run --on``."""
        return [gpu.get("key") or gpu["uuid"] for gpu in self.gpus]  # no key: of a thole before this one

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
        return not any(id(self) in holding.tickets for holding in self._holdings)

    def release(self) -> None:
        """Ends the claim and takes its variables out of ``os.environ``; a second time does nothing.

        At once, unless a child that this process forked (``os.fork``, multiprocessing's start method fork) lives: it may still
        compute, so the GPUs are free only when it has ended, and the next claim here waits for that. Join it first.

        Where claims of this process that came out of this one are open still (another thread's, a pool's), its GPUs stay
        claimed until the last of them has ended. What this process still has on the GPUs stays there: others see it as use
        without a claim.
        """
        try:
            shown = [holding for holding in self._holdings if holding in _holding.entered]
            self._let_go()
        except BaseException:  # a signal handler's
            _changes.to_the_end(self._let_go)
            raise
        _tell_of_given_back(shown)

    def _let_go(self) -> None:
        for holding in list(self._holdings):
            holding.tickets.discard(id(self))
        lost = vars(self).pop("_lost", [])  # the collector took it before the coroutine that has its block, and ends that now
        for holding in lost:
            holding.found()
        _holding.settle()

    def _enter(self) -> None:
        """Shows the process its GPUs. Where it is shown the same already there is nothing to keep: the older lock is enough."""
        try:
            with _changes.lock:
                own, newest = self._holdings[0], _holding.newest()
                own.call_as_around()
                self.id, self.env = own.id, own.env
                if newest is None or not newest.is_shown_as(own):
                    own.enter()
                else:
                    self._holdings.append(newest)
                    newest.tickets.add(id(self))
                    own.tickets.discard(id(self))
                    self._holdings.remove(own)
        finally:
            _holding.settle()

    def _leave(self) -> None:
        """Shows the process what it was shown before; the GPUs stay claimed."""
        self._holdings[0].leave()

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing():
            return
        for holding in getattr(self, "_holdings", ()):
            if id(self) in holding.tickets:
                if holding.entered:
                    holding.lose()
                    vars(self).setdefault("_lost", []).append(holding)
                holding.tickets.discard(id(self))
                if not holding.tickets:
                    _holding.settle()

    def __enter__(self) -> Claim:
        if self.released:
            raise errors.Error("the claim has been released", code=64, object=self.id, hint="claim again")
        _leaving.entered(self)
        return self

    __exit__ = _leaving.Exit(lambda claim, *_: claim.release(), release)

    def _instead(self) -> str:
        return "; another one is shown its GPUs by claim.env, and knows them by claim.uuids"

    def __repr__(self) -> str:
        which = ", ".join(str(gpu["index"]) for gpu in self.gpus) or "none"
        return f"<tholepin.Claim {self.id}: GPU {which}{' (released)' if self.released else ''}>"

# Whoever takes a claim enters it before another looks: the variables belong to the whole process.
_entering: Any = threading.RLock()  # the type has no name, and _is_owned() no declaration


def _after_fork() -> None:
    global _entering
    _entering = threading.RLock()


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
            with code 130. A file or a closed descriptor is a wrong request. In coroutines: :func:`aclaim`.
        on_wait: called once when a wait has begun, with a dict: "gpus", "position" in line, "promise" (the time of the start,
            or None), "why" (sentences). Before that with "why" alone, where something keeps it from the line: somebody keeps
            the claims locked, the driver is late.
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

    return _aio.Opening(made, leave, Claim.release)


def release_all() -> None:
    """As :func:`tholepin.release`."""
    shown = _holding.entered[:]
    _changes.to_the_end(_let_all_go)
    _tell_of_given_back(shown)


def _let_all_go() -> None:
    for holding in _holding.held[:]:
        if holding.of_process and holding.id:
            holding.tickets.clear()
    _holding.settle()


def _tell_of_given_back(shown: list[_holding.Holding]) -> None:
    for holding in shown:
        if holding not in _holding.entered:
            _forkserver.tell_of_given_back(holding)


def of_worker() -> Claim | None:
    """What a claim is in a worker of a pool that imports the main script: the GPUs that the worker has, described, and nothing
    more is claimed. None anywhere else."""
    from . import _worker

    if not _worker.importing_main:
        return None
    import json

    shown = Claim()  # which this process has not got
    shown.id = os.environ.get("THOLE_CLAIM", "")
    shown.gpus = json.loads(os.environ.get("THOLE_GPUS") or "[]")
    shown.why = "what this worker has"
    shown._cautions, shown.unset = [], []
    shown.env = {name: os.environ[name] for name in SHOWN_BY if name in os.environ}
    return shown


# Variables of a claim; those that it removes beside them do not tell what it has.
SHOWN_BY = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
    "THOLE_CLAIM", "THOLE_GPUS",
)  # fmt: skip


def _entered_in_time(request: dict[str, Any], patience: _waiting.Patience, sure: bool) -> Claim:
    if _entering._is_owned() or _changes.within():
        raise errors.Error(
            "a signal handler cannot claim while the code that it has interrupted claims or releases",
            code=64,
            hint="let it set a flag, and claim where that is read",
        )
    while True:
        claim = Claim(of_process=True)
        try:
            if _is_made_and_entered(claim, request, patience, sure):
                for holding in claim._holdings:
                    _forkserver.tell_of_set(holding)
                return claim
            claim.release()  # another thread has one since: this one is to come out of that
        except BaseException:
            claim.release()
            raise


def _is_made_and_entered(claim: Claim, request: dict[str, Any], patience: _waiting.Patience, sure: bool) -> bool:
    try:
        with _entering:
            _make(claim, request, patience.in_a_moment(), sure)
            claim._enter()
            return True
    except errors.NoneFree as none:
        if patience.milliseconds == 0 and not isinstance(none, _line.Unseen):
            raise
    _make(claim, request, patience, sure)
    with _entering:
        newest = _holding.newest()
        if newest is None or newest.is_around(claim._holdings[0]):
            claim._enter()
            return True
    return False


def _make(claim: Claim, request: dict[str, Any], patience: _waiting.Patience, sure: bool) -> None:
    # A process that the driver shows on a GPU would wait for itself; but within its claim that is where it belongs.
    made = False
    if not sure:
        try:
            obtain(claim, request, patience.at_once())
            made = True
        except errors.NoneFree as none:  # that claim has ended, or another process of it has a part
            if isinstance(none, _line.Unseen):
                raise
    if not made:
        obtain(claim, {**request, "not_started": True}, patience)
    if not sure:
        _late.confirm(claim.env)


def obtain(
    claim: Claim, request: Mapping[str, Any], patience: _waiting.Patience, machine: _native.Machine | None = None
) -> None:
    """Claims what a request of thole.h says, when its turn has come; it changes nothing in this process. Whoever calls releases
    the claim, also where this raises."""
    from . import _worker

    _worker.stay_here()
    shares = sys.modules.get("tholepin._shares")
    own = shares.of_who_waits() if shares is not None else []
    if own:
        request = {**request, "own": own}
    holding = claim._holdings[0]
    holding.memory_mib = request.get("memory_mib") if request.get("share") else None
    try:
        _line.obtain(holding, holding.begin(machine), _native.encoded_request(request), patience)
    except BaseException as problem:
        if not holding.handles:
            holding.fail()
        if isinstance(problem, errors.WrongRequest):
            _name_argument(problem, request)
        raise
    claim._know(holding.told())
    holding.quiet = patience.quiet
    _waiting.warn(claim._cautions, patience.quiet)


def _name_argument(error: errors.WrongRequest, request: Mapping[str, Any]) -> None:
    for argument in ("on", "not_on", "order"):
        if error.object and error.object in request.get(FIELDS[argument][0], ()):
            error.say(f"{argument}: {error.message}")
            break

"""Asking the library for a claim, and waiting in line for it.

How a wait stays interruptible: the library call that waits cannot run Python's signal handlers, and ending it early would lose
the place in line. So a helper thread makes the call while ours waits for it on a lock, as any Python code would wait. A handler
that raises (Ctrl-C, in the main thread) leaves the lock; then the library is told through a pipe to leave the line, and only
when it has, the exception goes on. A handler that returns disturbs nothing. A thread costs more than a claim that need not
wait, so one that does not is tried before.
"""

from __future__ import annotations

import _thread
import functools
import threading
import weakref
from typing import Any, Callable

from . import _native, _waiting, errors
from ._holding import Holding


def obtain(holding: Holding, machine: _native.Machine, request: bytes, patience: _waiting.Patience) -> None:
    """Puts the claim for a request of thole.h into the holding, when its turn has come."""
    try:
        _native.call_into(holding.handles, "thole_claim_gpus", machine, request, 0, -1)
        return
    except (errors.NoneFree, errors.DriverError):  # a driver that is late is waited for, too; a sick GPU is refused once more
        if patience.milliseconds == 0:
            raise
    canceller = patience.canceller()
    try:
        if threading.current_thread() is threading.main_thread():
            _wait(holding, machine, request, patience, canceller)
        else:
            with _waiting.ended_with_the_program(canceller):
                _wait(holding, machine, request, patience, canceller)
    finally:
        canceller.close()


def _wait(
    holding: Holding, machine: object, request: bytes, patience: _waiting.Patience, canceller: _waiting.Canceller
) -> None:
    outcome: list[BaseException | None] = []
    reason: list[dict[str, Any]] = []
    started: list[int] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            reason.append(patience.reason(machine, request))
            _native.call_into(holding.handles, "thole_claim_gpus", machine, request, patience.milliseconds, canceller.fd)
            outcome.append(None)
        except BaseException as problem:
            outcome.append(problem)
        finally:
            done.release()
            holding.end_if_nobody_has_it()

    works = [functools.partial(work)]  # not the function: as for _start.start_thread
    lives = weakref.ref(works[0])  # the thread alone has it, until it ends
    try:
        # The start and its record are one step for signal handlers: what has not begun yet must be waited for, too.
        started.extend(map(_thread.start_new_thread, (works.pop(),), ((),)))
        while not done.acquire(True, _waiting.MOMENT):
            if reason:
                patience.tell(request, reason[0])
                done.acquire()
                break
            if lives() is not None:
                continue
            if done.acquire(False):  # it has ended since
                break
            from . import _start

            raise _start.thread_died("a thread that waits")
    except BaseException as problem:
        if not started and isinstance(problem, RuntimeError) and not isinstance(problem, errors.Error):
            from . import _start

            raise _start.thread_not_started("a thread that waits") from None
        if started:
            canceller.cancel()
            _ended_whatever_comes(done, outcome, lives)
        raise
    if not outcome:  # it had no memory to say why it failed
        raise MemoryError
    if outcome[0] is not None:
        raise outcome[0]


def _ended_whatever_comes(done: _thread.LockType, outcome: list[BaseException | None], lives: Callable[[], object]) -> None:
    # A second Ctrl-C changes nothing: the line is left within a moment. The first may have come just after the lock was taken.
    while not outcome and lives() is not None:
        try:
            done.acquire(True, _waiting.MOMENT)
        except BaseException:
            continue

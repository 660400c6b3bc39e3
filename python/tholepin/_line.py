"""Asking the library for a claim, and waiting in line for it.

How a wait stays interruptible: the library call that waits cannot run Python's signal handlers, and ending it early would lose
the place in line. So a helper thread makes the call while ours waits for it on a lock, as any Python code would wait. A handler
that raises (Ctrl-C, in the main thread) leaves the lock; then the library is told through a pipe to leave the line, and only
when it has, the exception goes on. A handler that returns disturbs nothing. A thread costs more than a claim that need not
wait, so one that does not is tried before, for a moment only: somebody may keep the claims locked.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import threading
import weakref
from typing import Callable

from . import _native, _waiting, errors
from ._holding import Holding

_TRY_MS = 50  # on a busy machine a decision is waited for, some milliseconds
_CANCELLED = 130


class Unseen(errors.NoneFree):
    """A moment was not enough to see whether they are free."""


def obtain(holding: Holding, machine: _native.Machine, request: bytes, patience: _waiting.Patience) -> None:
    """Puts the claim for a request of thole.h into the holding, when its turn has come."""
    hurried = _native.with_number(request, "try_ms", _TRY_MS)
    try:
        _native.call_into(holding.handles, "thole_claim_gpus", machine, hurried, 0, -1)
        return
    except (errors.NoneFree, errors.DriverError):  # a driver that is late is waited for, too; a sick GPU is refused once more
        if patience.milliseconds == 0:
            raise
    except errors.Error as problem:
        if problem.code != _CANCELLED:
            raise
        if patience.is_a_moment:
            raise Unseen("the claims are kept locked") from None
    with contextlib.ExitStack() as meanwhile:
        canceller = meanwhile.enter_context(contextlib.closing(patience.canceller()))
        telling = meanwhile.enter_context(contextlib.closing(_waiting.Telling(request, patience)))
        if threading.current_thread() is not threading.main_thread():
            meanwhile.enter_context(_waiting.ended_with_the_program(canceller))
        asked = _native.with_number(request, "tell_fd", telling.fd)
        _wait(holding, machine, asked, patience.milliseconds, canceller, telling)


def _wait(
    holding: Holding,
    machine: object,
    request: bytes,
    milliseconds: int,
    canceller: _waiting.Canceller,
    telling: _waiting.Telling,
) -> None:
    outcome: list[BaseException | None] = []
    started: list[int] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            _native.call_into(holding.handles, "thole_claim_gpus", machine, request, milliseconds, canceller.fd)
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
        while not done.acquire(True, telling.pause):
            telling.say()
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
    telling.say(is_over=True)
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

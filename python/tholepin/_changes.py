"""The lock of what a process has only once: its claims and the variables that show them.

A signal handler, or a ``__del__``, runs within whatever its thread was doing, perhaps amid such a change. It must not wait for
its own thread, nor change the same things under it: what it wants done is done by that thread as soon as it has let go, also
where that is because the handler raises (``do``, ``work_off``).
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable

lock: Any = threading.RLock()  # the type has no name, and _is_owned() no declaration
_waiting: list[Callable[[], None]] = []
_TRIES = 5  # each for an exception of a handler's; what fails by itself fails as often


def within() -> bool:
    """Whether this thread is amid a change."""
    owned: bool = lock._is_owned()
    return owned


def do(work: Callable[[], None]) -> None:
    """Does it under the lock, now or when this thread lets go of that. It can be left at any instruction, and done again."""
    _waiting.append(work)
    work_off()


def work_off() -> None:
    """What was to be done when this thread has let go of the lock. Whoever has, whatever came, calls this."""
    if _waiting:
        to_the_end(_work_off)


def _work_off() -> None:
    while _waiting and not within():
        with lock:
            works = _waiting[:]
            for work in dict.fromkeys(works):
                work()
            del _waiting[: len(works)]


def to_the_end(work: Callable[[], object], tries: int = _TRIES) -> None:
    """Does it, again where an exception of a signal handler has cut it short; that goes on when it is done."""
    try:
        work()
    except BaseException:
        if tries:
            to_the_end(work, tries - 1)
        raise


def _after_fork() -> None:
    global lock
    lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)

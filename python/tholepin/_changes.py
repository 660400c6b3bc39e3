"""The lock of what a process has only once: its claims and the variables that show them.

A signal handler, or a ``__del__``, runs within whatever its thread was doing, perhaps amid such a change. It must not wait for
its own thread, nor change the same things under it: what it wants done is done by that thread as soon as it has let go
(``later``, ``work_off``).
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable

lock: Any = threading.RLock()  # the type has no name, and _is_owned() no declaration
_waiting: list[Callable[[], None]] = []


def within() -> bool:
    """Whether this thread is amid a change."""
    owned: bool = lock._is_owned()
    return owned


def later(work: Callable[[], None]) -> None:
    """To be done when this thread lets go of the lock."""
    _waiting.append(work)


def work_off() -> None:
    """What was to be done later. Whoever has let go of the lock calls this."""
    while _waiting and not within():
        try:
            work = _waiting.pop()
        except IndexError:  # another thread does it
            return
        work()


def _after_fork() -> None:
    global lock
    lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)

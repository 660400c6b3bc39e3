"""Threads that sleep until something is so which another one brings about.

``threading.Condition`` and ``Event`` are Python code: an exception of a signal handler that comes within them leaves their lock
taken, and who is to wake the others waits for ever. Here nobody shares a lock: each sleeper has a gate of its own, which is C.
"""

from __future__ import annotations

import threading
import time
from typing import Callable


class Sleepers:
    """Those who sleep until something is so."""

    def __init__(self) -> None:
        self._gates: set[threading.Lock] = set()

    def until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleeps until it is so, at most ``timeout`` seconds; whether it is."""
        if condition():
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        gate = threading.Lock()
        gate.acquire()
        self._gates.add(gate)
        try:
            while not condition():
                left = -1 if deadline is None else deadline - time.monotonic()
                if deadline is not None and left <= 0:
                    return False
                gate.acquire(timeout=left)
            return True
        finally:
            self._gates.discard(gate)

    def wake(self) -> None:
        """All look again. Whoever has changed what they look at calls this afterwards."""
        for gate in list(self._gates):
            try:
                gate.release()
            except RuntimeError:  # it is open already
                pass

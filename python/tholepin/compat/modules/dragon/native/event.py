"""``dragon.native.event``: a flag that several processes see."""

from __future__ import annotations

import threading

from .._shared import POOL, Handle


class Event(Handle):
    """A flag that processes set and wait for; it can be an argument of a process, or go through a Queue.

    >>> event = Event()
    >>> event.wait(timeout=0)
    False
    >>> event.set()
    >>> event.is_set()
    True
    """

    def __init__(self, m_uid: int = POOL) -> None:
        super().__init__(threading.Event())

    def set(self) -> None:
        """Sets it, and wakes who waits."""
        self._call("set")

    def is_set(self) -> bool:
        """Whether it is set."""
        return bool(self._call("is_set"))

    def wait(self, timeout: float | None = None) -> bool:
        """Sleeps until it is set, at most ``timeout`` seconds; whether it is."""
        return bool(self._call("wait", timeout))

    def clear(self) -> None:
        """Takes it back."""
        self._call("clear")

    def __enter__(self) -> None:
        self.set()

    def __exit__(self, *args: object) -> None:
        self.clear()

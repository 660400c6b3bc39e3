"""``dragon.native.lock``: a lock that several processes take."""

from __future__ import annotations

import threading

from .._shared import POOL, Handle


class Lock(Handle):
    """A lock; it can be an argument of a process, or go through a Queue. Who ends with it leaves it taken.

    >>> with Lock() as lock:
    ...     lock
    >>> lock = Lock(recursive=True)
    >>> lock.acquire(), lock.acquire(), lock.count()
    (True, True, 2)
    """

    def __init__(self, m_uid: int = POOL, recursive: bool = False) -> None:
        super().__init__(threading.Lock())
        self._recursive = recursive
        self._count = 0

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_recursive": self._recursive, "_count": 0}

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Takes it; whether that was possible, in ``timeout`` seconds at most. One that is recursive its process may take
        again."""
        if self._recursive and self._count:
            self._count += 1
            return True
        seconds = -1 if timeout is None or not block else max(0.0, timeout)
        taken = bool(self._call("acquire", block, seconds))
        if taken:
            self._count = 1
        return taken

    def release(self) -> None:
        """Gives it back: once for each time that it was taken where it is recursive, else from any process. ValueError where
        nobody has it."""
        if self._recursive:
            assert self._count > 0, "attempt to release recursive lock not owned by process"
            self._count -= 1
            if self._count:
                return
        try:
            self._call("release")
        except RuntimeError:
            raise ValueError("Cannot release unlocked lock.") from None
        self._count = 0

    def is_recursive(self) -> bool:
        """Whether its process may take it again."""
        return self._recursive

    def is_mine(self) -> bool:
        """Whether this handle has taken it."""
        return self._count > 0

    def count(self) -> int:
        """How often this handle has taken it."""
        return self._count

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *args: object) -> None:
        self.release()

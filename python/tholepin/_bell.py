"""What wakes a thread that sleeps in epoll."""

from __future__ import annotations

import os
import select


class Bell:
    """A pipe that the thread watches; others ring it.

    Attributes:
        fd: what epoll reports when it was rung.
    """

    def __init__(self, epoll: select.epoll) -> None:
        self.fd, self._ring = os.pipe()
        epoll.register(self.fd, select.EPOLLIN)

    def ring(self) -> None:
        """Wakes the thread, now or when it is next about to sleep."""
        os.write(self._ring, b"!")

    def clear(self) -> None:
        """For the thread: it has heard it."""
        os.read(self.fd, 4096)

    def __del__(self) -> None:
        for end in (self.fd, self._ring):  # not before: somebody may be about to ring
            os.close(end)

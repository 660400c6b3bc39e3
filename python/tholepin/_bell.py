"""What wakes a thread that sleeps in epoll."""

from __future__ import annotations

import os
import select

from . import _epoll
from .errors import Error


def _refused(problem: OSError) -> Error:
    return Error("cannot make a descriptor", code=69, errno=problem.errno or 0, hint="raise the descriptor limit: ulimit -n")


def new_epoll() -> select.epoll:
    try:
        return _epoll.epoll()
    except OSError as problem:
        raise _refused(problem) from None


class Bell:
    """A pipe that the thread watches; others ring it.

    Attributes:
        fd: what epoll reports when it was rung.
    """

    fd = _ring = -1  # of one whose making was cut short

    def __init__(self, epoll: select.epoll) -> None:
        try:
            self.fd, self._ring = os.pipe()
        except OSError as problem:
            raise _refused(problem) from None
        epoll.register(self.fd, select.EPOLLIN)

    def ring(self) -> None:
        """Wakes the thread, now or when it is next about to sleep."""
        os.write(self._ring, b"!")

    def clear(self) -> None:
        """For the thread: it has heard it."""
        os.read(self.fd, 4096)

    def __del__(self) -> None:
        for end in (self.fd, self._ring):  # not before: somebody may be about to ring
            if end >= 0:
                os.close(end)

"""Beside safe-gpu itself: who uses that one looks for processes on the GPUs, under a lock that it holds until its own are
there.

So a claim alone does not keep it away; a placeholder does, once it exists. Until then its lock must be ours. It is taken after
the claim, since nobody may hold it while he stands in a line, and then the GPUs are looked at again: whoever of safe-gpu's
users chose before has his processes there by now. Safe-gpu 1 has its lock elsewhere, so there may be two.

The kernel's lock belongs to the open file, which a fork gives to the child; there it is closed at once, or the child of a
program that is killed would keep it for its own life.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .safe_gpu import Logger

_PATIENCE = 15  # seconds: choosing takes its users seconds; whoever keeps the lock for ever is not waited for
_NAMED_AFTER = 2  # seconds


class Neighbours:
    """The locks at ``paths``, where safe-gpu has made them; a simulated machine has no neighbours."""

    def __init__(self, paths: Sequence[str], logger: Logger) -> None:
        self._fds: list[int] = []
        self._paths, self._logger = paths, logger
        _all.add(self)

    @property
    def there(self) -> bool:
        """Whether there are locks of theirs, ours by now or kept."""
        return bool(self._fds)

    def acquire(self) -> None:
        """Takes the locks that are there. One that is not to be had is told in the log: the claim holds all the same."""
        if os.environ.get("THOLE_MACHINE"):
            return
        end = time.monotonic() + _PATIENCE
        for path in self._paths:
            try:
                with _no_fork:
                    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                    self._fds.append(fd)
            except FileNotFoundError:
                continue
            except OSError as problem:
                self._warn(f"Users of safe-gpu may choose at the same moment: {problem}")
                continue
            if not self._locked(fd, path, end):
                self._warn(
                    f"Users of safe-gpu have been choosing for {_PATIENCE} s; not waiting for them, who may take the same GPU: "
                    f"{_keeper(fd)} keeps {path}"
                )

    def release(self) -> None:
        """Lets safe-gpu's users choose again."""
        for fd in self._fds:
            _lock(fd, fcntl.F_UNLCK)  # a child that was forked without Python's knowing may have it open too
        self._close()

    def _warn(self, text: str) -> None:
        # The original calls info() and error() only: what a program gives may have no more.
        getattr(self._logger, "warning", self._logger.error)(text)

    def _close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    def _locked(self, fd: int, path: str, end: float) -> bool:
        begin = time.monotonic()
        named = False
        pause = 0.005
        while True:
            try:
                _lock(fd, fcntl.F_WRLCK)
                return True
            except (BlockingIOError, PermissionError):
                now = time.monotonic()
                if now > end:
                    return False
                if now > begin + _NAMED_AFTER and not named:
                    named = True
                    self._logger.info(f"Waiting for {_keeper(fd)} to let go of safe-gpu's lock: {path}")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)


_all: weakref.WeakSet[Neighbours] = weakref.WeakSet()
_no_fork = threading.RLock()  # between opening a file and knowing of it


def _in_child() -> None:
    for neighbours in _all:
        neighbours._close()
    _no_fork.release()


os.register_at_fork(before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_in_child)


def _keeper(fd: int) -> str:
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    pid = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[4]
    return f"process {pid}" if pid > 0 else "somebody"  # an open file's lock names no process


def _lock(fd: int, kind: int) -> None:
    # Of this open file, not of the process: the library opens and closes the same file, which would end a process's lock. Its
    # locks and safe-gpu's exclude each other.
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0))

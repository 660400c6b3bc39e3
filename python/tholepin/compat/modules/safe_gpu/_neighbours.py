"""Beside safe-gpu itself: who uses that one looks for processes on the GPUs, under a lock that it holds until its own are
there.

So a claim alone does not keep it away; a placeholder does, once it exists. Until then its lock must be ours. It is taken after
the claim, since nobody may hold it while he stands in a line, and then the GPUs are looked at again: whoever of safe-gpu's
users chose before has his processes there by now.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .safe_gpu import Logger

_PATIENCE = 15  # seconds: choosing takes its users seconds; whoever keeps the lock for ever is not waited for
_NAMED_AFTER = 2  # seconds


class Neighbours:
    """The lock at ``path``, where safe-gpu has made one; a simulated machine has no neighbours."""

    def __init__(self, path: str, logger: Logger) -> None:
        self._fd = -1
        self._path, self._logger = path, logger

    @property
    def held(self) -> bool:
        """Whether safe-gpu's users wait for us now."""
        return self._fd >= 0

    def acquire(self) -> None:
        """Takes the lock if it is there. A lock that is not to be had is a log line: the claim holds all the same."""
        if os.environ.get("THOLE_MACHINE"):
            return
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as problem:
            self._logger.info(f"Users of safe-gpu may choose at the same moment: {problem}")
            return
        try:
            if self._locked(fd):
                self._fd, fd = fd, -1
            else:
                self._logger.info(f"Users of safe-gpu have been choosing for {_PATIENCE} s; not waiting for them: {self._path}")
        finally:
            if fd >= 0:
                os.close(fd)

    def release(self) -> None:
        """Lets safe-gpu's users choose again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _lock(fd, fcntl.F_UNLCK)  # a forked child may have it open too
            os.close(fd)

    def _locked(self, fd: int) -> bool:
        begin = time.monotonic()
        named = False
        pause = 0.005
        while True:
            try:
                _lock(fd, fcntl.F_WRLCK)
                return True
            except (BlockingIOError, PermissionError):
                waited = time.monotonic() - begin
                if waited > _PATIENCE:
                    return False
                if waited > _NAMED_AFTER and not named:
                    named = True
                    self._logger.info(f"Waiting for {_keeper(fd)} to let go of safe-gpu's lock: {self._path}")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)


def _keeper(fd: int) -> str:
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    pid = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[4]
    return f"process {pid}" if pid > 0 else "somebody"  # an open file's lock names no process


def _lock(fd: int, kind: int) -> None:
    # Of this open file, not of the process: the library opens and closes the same file, which would end a process's lock. Its
    # locks and safe-gpu's exclude each other.
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0))

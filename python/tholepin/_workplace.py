"""A worker as its pool sees it: the process, the socket between them, and what lies in it unread."""

from __future__ import annotations

import errno
import os
import resource
from _socket import MSG_DONTWAIT

from . import _start, _wire
from ._chunks import Chunk
from ._shares import Share

FULL = (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS)  # no room for descriptors, here or on the way
_FAR = 10  # the worker's number of its socket


class Worker:
    """A worker, started with its share.

    Raises:
        Error, OSError: it cannot be started.
    """

    def __init__(self, share: Share) -> None:
        self.share = share
        self.child = _start.Child()
        self.ready = False
        self.stopping = False
        self.chunks: dict[int, Chunk] = {}  # sent and not answered, oldest first
        self.taken = 0  # chunks that it was given
        self.refusal: BaseException | None = None  # why it was to begin no more
        self.near, self.far = _wire.pair()
        try:
            with open(os.devnull, "rb") as nothing:
                _start.start(
                    self.child,
                    _start.python("tholepin._worker", _FAR),
                    change=share.change,
                    binding=share.binding,
                    descriptors={0: nothing.fileno(), _FAR: self.far.fileno()},
                )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """When it has ended, and what it has answered is read."""
        self.near.close()
        self.far.close()

    def take_back(self, room: memoryview) -> Chunk | None:
        """A chunk that it has not begun with."""
        while True:
            try:
                packet = _wire.receive(self.far, room, MSG_DONTWAIT)
            except BlockingIOError:
                return None
            if packet is not None and packet.kind == _wire.NO_MORE:
                continue
            if packet is None or packet.number not in self.chunks:
                return None
            self.taken -= 1
            return self.chunks.pop(packet.number)

    def unread(self, room: memoryview) -> list[Chunk]:
        """All of them, taken back."""
        found: list[Chunk] = []
        while True:
            chunk = self.take_back(room)
            if chunk is None:
                return found
            found.append(chunk)

    def begin_no_more(self, problem: BaseException) -> None:
        """Has it leave what it has not begun of its chunk, which is lost to this then."""
        if not self.chunks:
            return
        self.refusal = problem
        try:
            _wire.send(self.near, _wire.NO_MORE, 0, 0, b"", b"", MSG_DONTWAIT)
        except OSError:
            pass  # it is told again

    def stop(self, room: memoryview) -> None:
        """Has it end when it has computed what it is at."""
        if self.ready:  # else nothing was sent to it but what it needs to become so
            self.unread(room)
        try:
            _wire.send(self.near, _wire.STOP, 0, 0, b"", b"", MSG_DONTWAIT)
        except OSError:
            pass  # it ends by signals, at the latest


def has_many_descriptors() -> bool:
    """Whether the memory that is on its way to workers has so many that no more is sent ahead: others need some, too."""
    return len(_wire.Part.open) >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4

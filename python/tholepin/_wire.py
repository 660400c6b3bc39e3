"""What pool and worker say to each other: packets, small ones whole, large ones as memory that is handed over.

How this works. The connection is a SEQPACKET socket: a packet is one message and is read by exactly one reader. The pool keeps
the worker's end open too, so it can take back what the worker has not begun with: that is how work ahead of a worker is no
risk, and how it is known what a worker that died was working at.

A packet: the head, the function's bytes, the body. A body is a pickle; where the pickle has buffers out of band (protocol 5:
NumPy arrays, bytearrays), it is a table of sizes, then the pickle and the buffers, each at a multiple of 64. What is larger
than ``LIMIT`` travels as a memfd beside the packet: written once by the sender, mapped copy-on-write by the reader, so a 1 GiB
array is copied once. Either part may be such a memfd.

Worker processes import this module, so it imports little and late.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, MSG_DONTWAIT, MSG_PEEK, SOCK_SEQPACKET, socketpair
from _struct import Struct
from errno import EMFILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket
    from typing import Any, Callable, Sequence, Union

    Segment = Union[bytes, memoryview]

LIMIT = 32 * 1024  # of a part of a packet; a socket's buffer holds at least 4 such packets
ROOM = 4 * LIMIT  # for the largest packet
ALIGNED = 64
SPILLED = 1 << 31  # in a length: the part is in a memfd of that kind, its true length unknown here

# kind, flags, number of the chunk, number of the function, length of the function, length of the body
HEAD = Struct("<BBQQII")
_COUNT = Struct("<I")
_INT = Struct("i")

CALL, MAP, STARMAP = 1, 2, 3  # the worker is to compute f(*args, **kwargs); f(x) or f(*x) for every x of a list
STOP = 4
READY, RESULT, RAISED, UNREADY = 5, 6, 7, 8  # UNREADY: the initializer raised
NO_MORE, UNBEGUN = 9, 10  # the worker is to begin no more of its chunk; it has not
OUT_OF_BAND = 1

_ANCILLARY = 64  # enough for two descriptors
_NO_FDS: list[int] = []


def pair() -> tuple[Socket, Socket]:
    """A connection that blocks, whatever ``socket.setdefaulttimeout`` says, or stands for ``socket.socket``."""
    near, far = socketpair(AF_UNIX, SOCK_SEQPACKET)
    near.settimeout(None)
    far.settimeout(None)
    return near, far


class Part:
    """A part with buffers in it, or one that travels beside the packet as a memfd, which is closed when this is dropped."""

    __slots__ = ("data", "fd", "out_of_band")
    open: set[int] = set()  # the descriptors of all of this process

    def __init__(self, data: bytes, fd: int, out_of_band: bool) -> None:
        self.data = data
        self.fd = fd
        self.out_of_band = out_of_band
        if fd >= 0:
            Part.open.add(fd)

    def __del__(self) -> None:
        fd = getattr(self, "fd", -1)  # none, where its making was cut short
        if fd >= 0:
            Part.open.discard(fd)  # before another one can have the number
            os.close(fd)


def part_of(pickled: bytes, buffers: Sequence[memoryview] = ()) -> bytes | Part:
    """The part for a pickle and its buffers: the pickle itself, nearly always."""
    if not buffers:
        return pickled if len(pickled) <= LIMIT else Part(b"", _spilled([pickled]), False)
    segments: list[Segment] = [pickled, *buffers]
    table = _COUNT.pack(len(segments)) + Struct(f"<{len(segments)}Q").pack(*map(_bytes_of, segments))
    padded: list[Segment] = []
    for segment in (table, *segments):
        padded.append(segment)
        padded.append(bytes(-_bytes_of(segment) % ALIGNED))
    if sum(map(_bytes_of, padded)) <= LIMIT:
        return Part(b"".join(padded), -1, True)
    return Part(b"", _spilled(padded), True)


def _bytes_of(segment: Segment) -> int:
    return segment.nbytes if isinstance(segment, memoryview) else len(segment)


def _spilled(segments: list[Segment]) -> int:
    fd = os.memfd_create("thole-pool", os.MFD_CLOEXEC)
    try:
        left = [memoryview(segment).cast("B") for segment in segments if _bytes_of(segment)]
        while left:
            written = os.writev(fd, left[:512])
            while left and written >= left[0].nbytes:
                written -= left.pop(0).nbytes
            if written:
                left[0] = left[0][written:]
    except BaseException:
        os.close(fd)
        raise
    return fd


def mapped(fd: int) -> memoryview:
    """The memory of a memfd, private to this process; the descriptor is closed."""
    import mmap

    try:
        return memoryview(mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
    finally:
        os.close(fd)


def segments_of(body: memoryview) -> tuple[memoryview, list[memoryview]]:
    """The pickle and the buffers of a body that has buffers."""
    (count,) = _COUNT.unpack_from(body)
    sizes = Struct(f"<{count}Q").unpack_from(body, _COUNT.size)
    place = _COUNT.size + 8 * count
    found = []
    for size in sizes:
        place += -place % ALIGNED
        found.append(body[place : place + size])
        place += size
    return found[0], found[1:]


def send(socket: Socket, kind: int, number: int, function: int, code: bytes | Part, body: bytes | Part, flags: int = 0) -> None:
    """Sends a packet. Raises BlockingIOError under MSG_DONTWAIT."""
    if type(code) is bytes and type(body) is bytes:
        socket.send(HEAD.pack(kind, 0, number, function, len(code), len(body)) + code + body, flags)
        return
    parts = [part if isinstance(part, Part) else Part(part, -1, False) for part in (code, body)]
    fds = [part.fd for part in parts if part.fd >= 0]
    lengths = [SPILLED if part.fd >= 0 else len(part.data) for part in parts]
    head = HEAD.pack(kind, OUT_OF_BAND if parts[1].out_of_band else 0, number, function, *lengths)
    beside = [(1, 1, b"".join(map(_INT.pack, fds)))] if fds else []  # SOL_SOCKET, SCM_RIGHTS
    socket.sendmsg([head, parts[0].data, parts[1].data], beside, flags)


class Packet:
    """A packet that was read. Where its memory could not be had here, only its head is known."""

    __slots__ = ("body", "code", "function", "kind", "number", "out_of_band", "want")

    def __init__(self, data: memoryview, fds: list[int]) -> None:
        self.kind, flags, self.number, self.function, code, body = HEAD.unpack_from(data)
        self.out_of_band = flags & OUT_OF_BAND
        self.want: int | None = None  # of what: an errno
        place = HEAD.size
        if code == SPILLED:
            self.code = self._mapped(fds)
        else:
            self.code = data[place : place + code]
            place += code
        self.body = self._mapped(fds) if body == SPILLED else data[place : place + body]

    def _mapped(self, fds: list[int]) -> memoryview:
        try:
            if fds:
                return mapped(fds.pop(0))
            self.want = EMFILE  # the kernel has dropped what there was no number for
        except (OSError, ImportError) as problem:  # mapping takes one more descriptor, as the import of mmap does, and memory
            self.want = getattr(problem, "errno", EMFILE)
        return memoryview(b"")

    def check(self) -> None:
        """Raises Error where its memory could not be had."""
        if self.want is not None:
            from .errors import WANTS, Error

            raise Error("cannot receive a large object", code=69, hint=WANTS.get(self.want, ""), errno=self.want)

    def load(self, loads: Callable[..., Any]) -> Any:
        """What the body says. Small buffers lie in memory that the next packet overwrites: they are copied."""
        self.check()
        if not self.out_of_band:
            return loads(self.body)
        pickled, buffers = segments_of(self.body)
        if self.body.nbytes <= LIMIT:
            return loads(pickled, buffers=[bytearray(buffer) for buffer in buffers])
        return loads(pickled, buffers=buffers)


def next_kind(socket: Socket) -> int:
    """Of the packet that lies there and is read next; 0: there is none."""
    try:
        data = socket.recv(1, MSG_PEEK | MSG_DONTWAIT)
    except BlockingIOError:
        return 0
    return data[0] if data else 0


def receive(socket: Socket, room: memoryview, flags: int = 0) -> Packet | None:
    """The next packet, in ``room`` until the next call; None at the end. Raises BlockingIOError."""
    length, beside, _, _ = socket.recvmsg_into([room], _ANCILLARY, flags)
    if not length:
        return None
    fds = (
        [_INT.unpack_from(data, place)[0] for _, _, data in beside for place in range(0, len(data) - 3, 4)]
        if beside
        else _NO_FDS
    )
    return Packet(room, fds)

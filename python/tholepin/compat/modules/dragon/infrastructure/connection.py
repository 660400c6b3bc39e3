"""``dragon.infrastructure.connection``: of it the ends of a process's pipes. Connections over channels are out."""

from __future__ import annotations

import codecs
import os
from typing import Any, BinaryIO

from tholepin import _epoll, errors

from .._outside import refuse
from .._shared import Handle

_CHUNK = 65536


class _Pipe:
    """The descriptor itself, in the process that has it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._text = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def read(self, most: int) -> bytes:
        if self._file.closed:
            raise OSError("the connection is closed")
        return os.read(self._file.fileno(), most)

    def read_text(self) -> str:
        while True:
            chunk = self.read(_CHUNK)
            text = self._text.decode(chunk, final=not chunk)
            if text or not chunk:
                return text

    def write(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._file.fileno(), rest) :]

    def poll(self, timeout: float | None) -> bool:
        return _epoll.is_readable(self._file.fileno(), timeout)

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


class Connection(Handle):
    """This program's end of a process's pipe: text is received as it comes, in pieces, and EOFError says that all is read.

    >>> from dragon.native.process import Process
    >>> process = Process("echo", ["four", "GPUs"], stdout=Process.PIPE)
    >>> process.start()
    >>> process.stdout_conn.recv()
    'four GPUs\\n'
    >>> try:
    ...     process.stdout_conn.recv()
    ... except EOFError:
    ...     process.join()
    0

    It can be an argument of another process, which then reads or writes here.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(_Pipe(file))
        self._readable = file.readable()
        self._closed = False

    def open(self) -> None:
        """It is open from its start."""

    def recv(self) -> str:
        """The next piece of text; it may end anywhere."""
        text: str = self._receive("read_text")
        return text

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        """The next bytes, ``maxlength`` at most."""
        content: bytes = self._receive("read", _CHUNK if maxlength is None else maxlength)
        return content

    def recv_bytes_into(self, buffer: Any, offset: int = 0) -> int:
        """Puts the next bytes into a buffer, from this place on; how many."""
        room = memoryview(buffer).cast("B")[offset:]
        content = self.recv_bytes(len(room))
        room[: len(content)] = content
        return len(content)

    def send(self, obj: str | bytes) -> None:
        """Writes a text to the process."""
        if not isinstance(obj, (str, bytes)):
            raise errors.WrongType(f"obj: a process reads text from its pipe, got {obj!r}")
        self.send_bytes(obj.encode() if isinstance(obj, str) else obj)

    def send_bytes(self, buffer: Any, offset: int = 0, size: int | None = None) -> None:
        """Writes bytes to the process: ``size`` of them, from this place on."""
        content = bytes(memoryview(buffer).cast("B")[offset:])
        self._check(not self._readable, "sending")
        self._call("write", content if size is None else content[:size])

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether there is something to receive, or its end, in ``timeout`` seconds at the latest."""
        self._check(self._readable, "receiving")
        return bool(self._call("poll", timeout))

    def fileno(self) -> int:
        """Its descriptor, in the process that has it."""
        return int(self._call("fileno"))

    def close(self) -> None:
        """Closes the pipe. A process that writes on is ended by SIGPIPE; one that reads has come to the end."""
        if not self._closed:
            self._closed = True
            self._call("close")

    def ghost_close(self) -> None:
        """This handle is not used any more; the pipe stays open for the others."""
        self._closed = True

    @property
    def closed(self) -> bool:
        """Whether this handle is closed."""
        return self._closed

    @property
    def readable(self) -> bool:
        """Whether it is for receiving: of stdout or stderr."""
        return self._readable

    @property
    def writable(self) -> bool:
        """Whether it is for sending: to stdin."""
        return not self._readable

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_readable": self._readable, "_closed": self._closed}

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, exc_type: object, exc_inst: object, exc_tb: object) -> None:
        self.close()

    def _receive(self, method: str, *arguments: int) -> Any:
        self._check(self._readable, "receiving")
        received = self._call(method, *arguments)
        if not received:
            raise EOFError
        return received

    def _check(self, can: bool, what: str) -> None:
        if self._closed:
            raise OSError("the connection is closed")
        if not can:
            raise OSError(f"no {what} on this connection: stdout_conn and stderr_conn are received from, stdin_conn is sent to")


def __getattr__(name: str) -> object:
    refuse(__name__, name, ("Address", "CUID", "Client", "ConnectionOptions", "Listener", "Pipe", "PipeOptions"))

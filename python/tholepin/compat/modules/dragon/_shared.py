"""Objects that several processes use: they live in the process that made them, and the others call them there.

A handle (Queue, Event, Barrier, Lock, Connection) can be pickled at any time, to whatever process. Its object lives in the
process that made it, which answers the others by a socket without a name in the file system. Only processes of the same user
are heard, and only those that know a key, which the handle tells: who is heard can have code run here. What goes through a
queue is pickled by who puts it and unpickled by who gets it: the process between does not look at it. When the process that
made it ends, the object is gone; and one whose handle was never pickled goes with the handle.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
import struct
import threading
import time
import weakref
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any, Callable, Dict

from tholepin import _start

_PAUSE = 0.1  # seconds
POOL = 1 << 62  # the number of Dragon's memory pool, the default of parameters that mean nothing here


class Home:
    """What this process has made, and the threads that answer for it: one that listens, one for each caller."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.key = os.urandom(32)
        self.address = f"\0thole-dragon-{self.pid}-{os.urandom(8).hex()}"
        self._objects: Dict[int, Any] = {}
        self._numbers = itertools.count()
        self._listener = Listener(self.address, "AF_UNIX", backlog=128)
        _start.start_thread("a thread that answers other processes", self._listen, "dragon-home")

    def place(self, thing: object) -> int:
        """A new object; its number."""
        number = next(self._numbers)
        self._objects[number] = thing
        return number

    def remove(self, number: int) -> None:
        """Forgets an object: who calls it from now on gets a ValueError."""
        self._objects.pop(number, None)

    def call(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Calls a method of an object."""
        thing = self._objects.get(number)
        if thing is None:
            raise ValueError("it is destroyed")
        return getattr(thing, method)(*arguments)

    def _listen(self, begun: Callable[[], None]) -> None:
        begun()
        while True:
            try:
                connection = self._listener.accept()
                if _user_of(connection) not in (0, os.getuid(), os.geteuid()):
                    connection.close()
                    continue
                answer = functools.partial(self._answer, connection)
                _start.start_thread("a thread that answers a process", answer, "dragon-home")
            except OSError:  # it has ended meanwhile; or there are no descriptors, no threads: then not at once again
                time.sleep(_PAUSE)

    def _answer(self, connection: Connection, begun: Callable[[], None]) -> None:
        with connection:
            begun()
            try:  # not where others wait to be heard: a stranger may say nothing
                deliver_challenge(connection, self.key)
                answer_challenge(connection, self.key)
            except (OSError, EOFError, AuthenticationError):
                return
            while True:
                try:
                    number, method, arguments = connection.recv()
                except (OSError, EOFError):
                    return
                try:
                    answer = True, self.call(number, method, arguments)
                except Exception as problem:
                    answer = False, problem
                try:
                    connection.send(answer)
                except OSError:  # the caller has ended: what it would have got is for the next
                    undo = getattr(self._objects.get(number), "not_" + method, None)
                    if undo is not None and answer[0]:
                        undo(answer[1])
                    return


def _user_of(connection: Connection) -> int:
    """Who has connected."""
    with socket.socket(fileno=os.dup(connection.fileno())) as its:
        its.settimeout(None)  # or the connection, too, does not block any more where socket.setdefaulttimeout was called
        _, user, _ = struct.unpack("3i", its.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        return int(user)


_homes: Dict[int, Home] = {}
_making = threading.Lock()


def _home() -> Home:
    with _making:
        if os.getpid() not in _homes:
            _homes[os.getpid()] = Home()
        return _homes[os.getpid()]


class Handle:
    """The base of what can be given to other processes."""

    def __init__(self, thing: object) -> None:
        home = _home()
        self._place = home.pid, home.address, home.key, home.place(thing)
        self._alone = weakref.finalize(self, home.remove, self._place[3])
        self._alone.atexit = False

    def __getstate__(self) -> dict[str, Any]:
        if "_alone" in self.__dict__:
            self._alone.detach()
        return {"_place": self._place}

    def _call(self, method: str, *arguments: Any) -> Any:
        pid, address, key, number = self._place
        if pid == os.getpid():
            return _homes[pid].call(number, method, arguments)
        try:
            connection = _connection(address, key)
            try:
                connection.send((number, method, arguments))
                succeeded, answer = connection.recv()
            except BaseException:  # a signal handler's: what comes later on this one would answer another call
                _lines().pop(address).close()
                raise
        except (EOFError, ConnectionError) as problem:
            raise ConnectionError(
                f"{type(self).__name__}: process {pid}, which made it, has ended, or does not answer; keep that one running as "
                "long as others use what it has made"
            ) from problem
        if not succeeded:
            raise answer
        return answer

    def destroy(self) -> None:
        """Ends it for all processes."""
        pid, *_, number = self._place
        if pid == os.getpid():
            _homes[pid].remove(number)


_thread = threading.local()


def _lines() -> Dict[str, Connection]:
    """This thread's connections, by address; a forked child makes its own."""
    if getattr(_thread, "pid", None) != os.getpid():
        _thread.pid, _thread.lines = os.getpid(), {}
    lines: Dict[str, Connection] = _thread.lines
    return lines


def _connection(address: str, key: bytes) -> Connection:
    lines = _lines()
    if address not in lines:
        lines[address] = Client(address, "AF_UNIX", authkey=key)
    return lines[address]

"""What the workers of a pool compute: functions, chunks of work, and what came of them."""

from __future__ import annotations

import _pickle
import itertools
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Callable

from . import _pickling, _wire, _worker
from ._aside import Aside
from .errors import Error

if TYPE_CHECKING:
    # (which chunk, whether it succeeded, the value or the exception)
    Done = Callable[[int, bool, Any], None]


class RemoteTraceback(Exception):
    """The traceback of an exception in a worker, as text: the ``__cause__`` of the exception that is raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class Function:
    """A function that workers are to call. It is pickled once."""

    _numbers = itertools.count(1)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.number = next(Function._numbers)
        self.code = _pickling.dumped(function)


class Chunk:
    """What one worker computes at one go, and who is told of it."""

    __slots__ = ("_done", "_index", "body", "function", "given", "kind", "number", "tries")

    def __init__(self, kind: int, function: Function, given: Any, done: Done, index: int = 0) -> None:
        self.kind = kind
        self.function = function
        self.given = given  # until it is pickled, when it is sent
        self._done = done
        self._index = index  # which of its job's chunks it is
        self.body: bytes | _wire.Part | None = None
        self.number = 0
        self.tries = 0

    def packed(self) -> bytes | _wire.Part:
        """What is to be sent, perhaps once more."""
        if self.body is None:
            self.body = _pickling.dumped(self.given)
            self.given = None
        return self.body

    def done(self, succeeded: bool, value: Any) -> None:
        """Tells what came of it. What a callback raises is shown and changes nothing, as with futures."""
        self.body = self.given = None
        pid = os.getpid()
        try:
            self._done(self._index, succeeded, value)
        except Exception:
            with Aside():
                sys.excepthook(*sys.exc_info())
        finally:
            if os.getpid() != pid:  # a copy that a callback has forked: the pool is none of its business
                _worker.leave(getattr(sys.exc_info()[1], "code", None))

    def wanted(self) -> bool:
        """Whether it is still to be computed; asked when a worker is about to get it."""
        return True

    def lost(self, problem: BaseException) -> None:
        """Tells that the pool has ended before it was done."""
        self.done(False, problem)


def how(status: int | None) -> str:
    if status is None:
        return "its exit status is not known"
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def with_cause(problem: BaseException, text: str) -> BaseException:
    problem.__cause__ = RemoteTraceback(text)
    return problem


def failure(message: str, packet: _wire.Packet) -> Error:
    try:
        problem, text = packet.load(_pickle.loads)
    except Exception as unreadable:
        problem, text = unreadable, ""
    error = Error(f"{message}: {type(problem).__name__}: {problem}")
    error.__cause__ = with_cause(problem, text)
    return error

"""What a pool's calls return while the work is under way: results, maps, iterators, and how far they are."""

from __future__ import annotations

import itertools
import math
import threading
from collections import deque
from typing import Any, Callable, Generic, Iterator, TypeVar, Union

from . import words
from ._aside import Aside
from ._sleepers import Sleepers
from ._waiting import to_stderr

Result = TypeVar("Result")
Callback = Callable[[Any], object]
# A function that is called with (done, all), or True for a bar on stderr.
Progress = Union[bool, Callable[[int, int], object]]


def timeout_error() -> TimeoutError:
    # Both the built-in one and the one that users of multiprocessing catch; that module is only imported when it is needed.
    import multiprocessing

    kind = type("TimeoutError", (TimeoutError, multiprocessing.TimeoutError), {"__module__": "tholepin"})
    error: TimeoutError = kind("the result is not there yet")
    return error


class AsyncResult(Generic[Result]):
    """A result that is being computed: what ``apply_async``, ``map_async`` and ``starmap_async`` return.

    >>> import tholepin
    >>> with tholepin.Pool(2) as pool:
    ...     pool.apply_async(pow, (2, 10)).get(timeout=60)
    1024
    """

    def __init__(self, callback: Callback | None, error_callback: Callback | None) -> None:
        self._done = False
        self._sleepers = Sleepers()
        self._succeeded = False
        self._value: Any = None
        self._callback = callback
        self._error_callback = error_callback

    def chunk_done(self, index: int, succeeded: bool, value: Any) -> None:
        self._set(succeeded, value)

    def _set(self, succeeded: bool, value: Any) -> None:
        self._succeeded, self._value = succeeded, value
        callback = self._callback if succeeded else self._error_callback
        try:
            if callback is not None:
                callback(value)
        finally:
            self._done = True
            self._sleepers.wake()

    def ready(self) -> bool:
        """Whether it is done."""
        return self._done

    def successful(self) -> bool:
        """Whether it was computed without an exception. Raises ValueError while it is not done."""
        if not self.ready():
            raise ValueError("the result is not there yet")
        return self._succeeded

    def wait(self, timeout: float | None = None) -> None:
        """Sleeps until it is done, at most ``timeout`` seconds."""
        self._sleepers.until(self.ready, words.timeout(timeout))

    def get(self, timeout: float | None = None) -> Result:
        """The result, or the exception that the function raised, whose ``__cause__`` is its traceback in the worker.

        Raises:
            TimeoutError: it is not done in ``timeout`` seconds (also a ``multiprocessing.TimeoutError``).
            WorkerDied: its workers died, again and again.
        """
        if not self._sleepers.until(self.ready, words.timeout(timeout)):
            raise timeout_error()
        if self._succeeded:
            result: Result = self._value
            return result
        raise self._value


class MapResult(AsyncResult[list[Any]]):
    """The chunks of one map, put together; the first exception comes when all are done."""

    def __init__(
        self, items: int, chunk: int, callback: Callback | None, error_callback: Callback | None, progress: Progress | None
    ) -> None:
        super().__init__(callback, error_callback)
        self._items: list[Any] = [None] * items
        self._chunk = chunk
        self._left = math.ceil(items / chunk)
        self._failure: Any = None
        self._progress = _Bar(progress, items)
        if not items:
            self._finish()

    def chunk_done(self, index: int, succeeded: bool, value: Any) -> None:
        start = index * self._chunk
        number = min(self._chunk, len(self._items) - start)
        if succeeded:
            self._items[start : start + number] = value
        elif self._failure is None:
            self._failure = value
        self._left -= 1
        try:
            self._progress.advance(number)
        finally:
            if not self._left:
                self._finish()

    def _finish(self) -> None:
        self._progress.close()
        if self._failure is None:
            self._set(True, self._items)
        else:
            self._set(False, self._failure)


class _Bar:
    """Tells how far a map is: to a callback, to tqdm where it is installed, else as a line on stderr."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self._done, self._total = 0, total
        self._tell: Callable[[int, int], object] | None = progress if callable(progress) else None
        self._bar: Any = None
        if progress is True:
            try:
                from importlib import import_module

                tqdm = import_module("tqdm.auto").tqdm
            except ImportError:
                self._tell = _line
                return
            with Aside():  # nobody's results are lost for want of somebody who reads of them
                self._bar = tqdm(total=total)

    def advance(self, number: int) -> None:
        self._done += number
        if self._bar is not None:
            with Aside():
                self._bar.update(number)
        elif self._tell is not None:
            self._tell(self._done, self._done if self._total is None else self._total)

    def close(self) -> None:
        if self._bar is not None:
            with Aside():
                self._bar.close()


def _line(done: int, total: int) -> None:
    to_stderr(f"\r{done}/{total}" + ("\n" if done == total else ""))


class Results(Iterator[Any]):
    """What ``imap`` and ``imap_unordered`` return: results one by one, as they come or in order."""

    def __init__(self, ordered: bool, progress: Progress | None, items: int | None) -> None:
        self._arrivals = None if ordered else itertools.count()
        self._sleepers = Sleepers()
        self._taking = threading.RLock()  # a handler's call comes within another one's
        self._ready: dict[int, tuple[bool, Any]] = {}  # each at its place
        self._next = 0
        self._total: int | None = None
        self._values: deque[Any] = deque()
        self._bar = _Bar(progress, items)

    def chunk_done(self, index: int, succeeded: bool, value: Any) -> None:
        self._ready[index if self._arrivals is None else next(self._arrivals)] = (succeeded, value)
        self._sleepers.wake()

    def _complete(self, chunks: int) -> None:
        self._total = chunks
        self._sleepers.wake()

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result; raises TimeoutError when there is none in ``timeout`` seconds."""
        if not self._values:
            self._take_chunk(words.timeout(timeout))
        self._bar.advance(1)
        return self._values.popleft()

    def _take_chunk(self, timeout: float | None) -> None:
        while not self._values:
            if not self._sleepers.until(lambda: self._next in self._ready or self._next == self._total, timeout):
                raise timeout_error()
            with self._taking:
                if self._next in self._ready and not self._values:
                    self._take(*self._ready[self._next])
                elif self._next == self._total:
                    self._bar.close()
                    raise StopIteration

    def _take(self, succeeded: bool, value: Any) -> None:
        values = deque(value if succeeded else ())
        self._values, self._next = values, self._next + 1  # one step for signal handlers
        self._ready.pop(self._next - 1, None)
        if not succeeded:
            raise value

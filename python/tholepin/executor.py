"""The pool as an executor of ``concurrent.futures``."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from concurrent.futures import Executor as _Executor
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, TypeVar

from . import _chunks, _crew, _leaving, _shares, _waiting, _wire, pool, words

if TYPE_CHECKING:
    from . import _aio

Result = TypeVar("Result")


class Executor(_Executor):
    """A ``concurrent.futures.Executor`` whose workers are those of :class:`tholepin.Pool`, each on its own GPU.

    >>> import tholepin
    >>> with tholepin.Executor(gpus=2) as executor:
    ...     executor.submit(pow, 2, 5).result()
    32
    >>> with tholepin.Executor(2) as executor:
    ...     list(executor.map(abs, [-1, -2], chunksize=1))
    [1, 2]

    A drop-in for ``ProcessPoolExecutor``: ``max_workers`` is a Pool's ``processes``; all other arguments are a Pool's. A
    future that a worker has not begun can be cancelled. A worker that dies breaks nothing: its task is tried again,
    ``retries`` times, and fails with WorkerDied. What an initializer raises breaks the executor, and futures raise
    ``BrokenProcessPool``.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        *,
        max_tasks_per_child: int | None = None,
        policy: _shares.Policies | None = None,
        processes_per_policy: int | None = None,
        gpus: _shares.Gpus | None = None,
        wait: words.Duration | None = None,
        bind: words.Binding | None = None,
        retries: int = 2,
        cancel: _waiting.Cancel | None = None,
        on_wait: _waiting.OnWait | None = None,
        quiet: bool | None = None,
    ) -> None:
        if max_workers is not None:
            max_workers = words.count(words.whole(max_workers, "max_workers"), "max_workers")
        max_tasks_per_child = words.count(max_tasks_per_child, "max_tasks_per_child")
        retries = pool.check_work(initializer, initargs, retries)
        patience = self._patience = _waiting.Patience(wait, cancel, on_wait, quiet)
        self._lock = threading.Lock()
        self._shut = False
        self._functions: dict[Any, _chunks.Function] = {}
        self._crew = _crew.Crew(max_tasks_per_child, retries, ahead=4)
        _live.add(self._crew)
        self._forgotten = weakref.finalize(self, self._crew.close)
        self._forgotten.atexit = False
        self._crew.begin(
            lambda shares: pool.share_out(shares, max_workers, policy, processes_per_policy, gpus, patience, bind),
            initializer,
            tuple(initargs),
        )
        self._max_workers = self._crew.size  # joblib and Dask look for it

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """As :meth:`tholepin.Pool.wait_until_ready`; RuntimeError where the executor is shut down."""
        return self._crew.wait_until_ready(words.timeout(timeout), RuntimeError("the executor is shut down"))

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Schedules ``fn(*args, **kwargs)`` and returns its future."""
        future: Future[Result] = Future()
        self._submit([(_wire.CALL, fn, (args, kwargs), future)])
        return future

    def map(
        self,
        fn: Callable[..., Result],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **kwargs: Any,
    ) -> Iterator[Result]:
        """As ``ProcessPoolExecutor.map``: results in order; TimeoutError when one is not there ``timeout`` seconds from now."""
        pool.check_function(fn, "fn")
        chunksize = words.count(0 if chunksize is None else chunksize, "chunksize")
        timeout = words.timeout(timeout)
        for one in iterables:
            words.iterable(one, "iterables")
        if kwargs:  # buffersize of Python 3.14
            return super().map(fn, *iterables, timeout=timeout, chunksize=chunksize, **kwargs)
        end = None if timeout is None else time.monotonic() + timeout
        items = list(zip(*iterables))
        starts = range(0, len(items), chunksize)
        futures: list[Future[list[Result]]] = [Future() for _ in starts]
        self._submit([(_wire.STARMAP, fn, items[start : start + chunksize], future) for start, future in zip(starts, futures)])
        return chain.from_iterable(_results(futures, end))

    def _submit(self, work: list[tuple[int, Callable[..., Any], Any, Future[Any]]]) -> None:
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._crew.broken is not None:
                raise _broken(self._crew.broken)
            if work:
                function = pool.function_for(work[0][1], self._functions, "fn")
                self._crew.submit([_FutureChunk(kind, function, given, future) for kind, _, given, future in work])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more is coming: workers end, and the claim with them, when all is done. ``cancel_futures``: what nobody has begun
        is not done."""
        with self._lock:
            self._shut = True
            if cancel_futures:
                self._crew.cancel_pending(lambda chunk: isinstance(chunk, _FutureChunk) and chunk.future.cancel())
            self._crew.close()
        if wait:
            self._crew.join()

    def __enter__(self) -> Executor:
        _leaving.entered(self)
        return self

    __exit__ = _leaving.Exit(  # type: ignore[assignment]
        lambda executor, *_: executor.shutdown(), lambda executor: executor.shutdown(wait=False)
    )

    @classmethod
    def aopen(cls, *args: Any, on_wait: _waiting.OnWait | None = None, **others: Any) -> _aio.Opening[Executor]:
        """An executor for coroutines: ``async with tholepin.Executor.aopen(gpus=2) as executor:``, with the same arguments.

        As :meth:`tholepin.Pool.aopen`. At the end of the block what was submitted is done first, unless the coroutine is
        cancelled: then the workers are ended.
        """
        from . import _aio

        return _aio.opening(
            lambda cancel, told: cls(*args, cancel=cancel, on_wait=told, **others), on_wait, cls._end, cls._take_no_more
        )

    async def __aenter__(self) -> Executor:
        return self.__enter__()

    async def _aend(self, kind: type[BaseException] | None, *_: object) -> None:
        from asyncio import CancelledError

        from . import _aio

        if kind is not None and issubclass(kind, CancelledError):
            await _aio.to_the_end(self._end, lambda: None)
        else:
            await _aio.to_the_end(self.shutdown, self._end_workers)

    def _take_no_more(self) -> None:
        self.shutdown(wait=False)

    __aexit__ = _leaving.AsyncExit(_aend, _take_no_more)

    def _end(self) -> None:
        self._end_workers()
        self._crew.join()

    def _end_workers(self) -> None:
        self.shutdown(wait=False, cancel_futures=True)
        self._crew.terminate(pool.PATIENCE)


class _FutureChunk(_chunks.Chunk):
    __slots__ = ("future",)

    def __init__(self, kind: int, function: _chunks.Function, given: Any, future: Future[Any]) -> None:
        super().__init__(kind, function, given, self._tell)
        self.future = future

    def wanted(self) -> bool:
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def _tell(self, _: int, succeeded: bool, value: Any) -> None:
        if self.future.cancelled():
            return
        if succeeded:
            self.future.set_result(value)
        else:
            self.future.set_exception(value)

    def lost(self, problem: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(_broken(problem))


def _results(futures: list[Future[list[Result]]], end: float | None) -> Iterator[list[Result]]:
    futures.reverse()
    try:
        while futures:
            yield futures.pop().result(None if end is None else end - time.monotonic())
    finally:
        for future in futures:
            future.cancel()


def _broken(problem: BaseException) -> BrokenProcessPool:
    error = BrokenProcessPool(str(problem))
    error.__cause__ = problem.__cause__ or problem
    return error


_live: weakref.WeakSet[_crew.Crew] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    # As ProcessPoolExecutor does: what was submitted is done first. Ctrl-C ends this wait.
    for crew in list(_live):
        crew.close()
        crew.join()

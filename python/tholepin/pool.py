"""A pool of worker processes, each on its own GPU: the interface of ``multiprocessing.Pool``."""

from __future__ import annotations

import atexit
import itertools
import math
import os
import time
import types
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar

from . import _chunks, _crew, _leaving, _shares, _start, _waiting, _wire, errors, words
from .policy import Policy, under_those_around
from .results import AsyncResult, Callback, MapResult, Progress, Results, timeout_error

if TYPE_CHECKING:
    from . import _aio

Result = TypeVar("Result")
PATIENCE = 5.0


def check_work(initializer: object, initargs: object, retries: Any) -> int:
    """The retries; of what workers do, which Pool and Executor are told alike."""
    words.function(initializer, "initializer")
    words.listed(initargs, "initargs")
    if retries is None:
        raise errors.WrongType("retries: expected a number of 0 or more, got None")
    return int(words.count(retries, "retries", 0))


def share_out(
    shares: _shares.Shares,
    processes: int | None,
    policy: _shares.Policies | None,
    processes_per_policy: int | None,
    gpus: _shares.Gpus | None,
    patience: _waiting.Patience,
    bind: words.Binding | None,
) -> None:
    """What the workers get that a Pool's arguments describe."""
    from . import _worker

    _worker.stop_import_of_main()
    if processes is not None:
        processes = words.count(words.whole(processes, "processes"), "processes")
    if processes_per_policy is not None:
        processes_per_policy = words.count(words.whole(processes_per_policy, "processes_per_policy"), "processes_per_policy")
    if bind is not None:
        words.binding(bind)
    if policy is not None and not isinstance(policy, Policy):
        found: Any = policy
        policy = list(found) if hasattr(found, "__iter__") and not isinstance(found, str) else [found]
        for one in policy:
            if not isinstance(one, Policy):
                raise errors.WrongType(f"policy: expected a Policy or a list of them, got {found!r}")
    if policy is not None and gpus is not None:
        raise ValueError("cannot provide both policy and gpus: a policy names its GPUs itself")
    several = gpus is not None or (policy is not None and not isinstance(policy, Policy))
    if processes is not None and (several or processes_per_policy is not None):
        raise ValueError(
            "cannot provide a total number of processes together with processes_per_policy, gpus, or a list of policies"
        )
    each = processes_per_policy or 1
    if gpus is not None:
        _shares.for_gpus(shares, gpus, each, patience, bind)
        return
    if policy is not None and not isinstance(policy, Policy):
        listed = [under_those_around(one) or one for one in policy for _ in range(each)]
        if not listed:
            raise ValueError("policy: the list is empty")
        _shares.for_policies(shares, listed, patience, bind)
        return
    if processes is None:
        processes = processes_per_policy or len(os.sched_getaffinity(0))
    common = under_those_around(policy) or Policy()
    if not common.gpu_affinity and not patience.quiet:
        _shares.warn_of_no_claim()
    _shares.for_policies(shares, [common] * processes, patience, bind)


class Pool:
    """Worker processes that compute functions: each a fresh interpreter, on its GPU and CPUs before Python starts.

    >>> import tholepin
    >>> with tholepin.Pool(gpus=2) as pool:                         # claims two GPUs, one worker on each
    ...     sorted(set(pool.map(os.getenv, ["CUDA_VISIBLE_DEVICES"] * 20, chunksize=1)) <= {"0", "1"} and "01")
    ['0', '1']
    >>> with tholepin.Pool(policy=tholepin.System().gpu_policies(), processes_per_policy=2) as pool:
    ...     pool.map(abs, [-1, -2, -3])
    [1, 2, 3]

    Which workers there are: ``processes`` of them, all under one ``policy`` or none; or ``processes_per_policy`` for each of a
    list of policies; or as many for each of ``gpus``. The GPUs are claimed here, all or none, and are free again when the pool
    has ended. Each worker sees its own only, and a claim made in it comes out of them.

    Workers may have children. What belongs to ``__main__`` is sent by value where cloudpickle is installed; see docs/pool.md
    for where it is not. Arguments and results with large buffers (NumPy) are copied once.

    A worker that dies is replaced, and its task tried again, ``retries`` times; then it fails with WorkerDied. A worker's
    Ctrl-C is ours: the workers do not hear it. When this process ends, in whatever way, its workers are killed by the kernel.

    Args:
        processes: how many; all CPUs of this process, if nothing else is said.
        initializer: called in each worker with ``initargs`` first; what it raises breaks the pool.
        maxtasksperchild: after so many chunks a worker is replaced by a fresh one.
        policy: a Policy, or a list of them.
        processes_per_policy: how many workers for each policy or GPU (1).
        gpus: how many GPUs, or "free": all that are free now, or the first to become free.
        wait: how long to wait for the GPUs at most: seconds or "30m"; 0 does not wait. For ever, if not given.
        bind: how to bind: a mode ("node", "exclusive", …), or a dict with "mode", "mem", "smt", "threads" as in
            docs/binding.md.
        cancel, on_wait, quiet: of the wait for the GPUs, as :func:`tholepin.claim` has them.
        retries: how often a task is tried again whose worker died.

    Raises:
        NoneFree, WaitTimeout, NeverPossible, DriverError: from the claim.
        ValueError: arguments that do not go together.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        *,
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
        maxtasksperchild = words.count(maxtasksperchild, "maxtasksperchild")
        retries = check_work(initializer, initargs, retries)
        patience = self._patience = _waiting.Patience(wait, cancel, on_wait, quiet)
        self._open = True
        self._functions: dict[Any, _chunks.Function] = {}
        self._crew = _crew.Crew(maxtasksperchild, retries, shares=self._make_shares())
        _live.add(self._crew)
        self._forgotten = weakref.finalize(self, self._crew.terminate, PATIENCE)
        self._forgotten.atexit = False
        self._crew.begin(
            lambda shares: share_out(shares, processes, policy, processes_per_policy, gpus, patience, bind),
            initializer,
            tuple(initargs),
        )

    _make_shares = _shares.Shares

    @property
    def size(self) -> int:
        """How many workers it has.

        >>> import tholepin
        >>> with tholepin.Pool(gpus=2, processes_per_policy=3) as pool:
        ...     pool.size
        6
        """
        return self._crew.size

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Sleeps until every worker has started and run its initializer; whether they have within ``timeout`` seconds.

        Work can be given to a pool at once; this is for who wants to know before. Raises what made it impossible: ValueError
        where the pool is closed, also meanwhile.
        """
        return self._crew.wait_until_ready(words.timeout(timeout), _closed())

    def apply(self, func: Callable[..., Result], args: Iterable[Any] = (), kwds: Mapping[str, Any] | None = None) -> Result:
        """Calls ``func(*args, **kwds)`` in a worker and waits for the result."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(
        self,
        func: Callable[..., Result],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult[Result]:
        """The same without waiting. The callbacks are called in a thread of the pool."""
        self._check_open()
        _check_callbacks(callback, error_callback)
        result: AsyncResult[Result] = AsyncResult(callback, error_callback)
        given = (tuple(words.listed(args, "args")), words.mapping(kwds, "kwds"))
        self._crew.submit([_chunks.Chunk(_wire.CALL, self._function(func), given, result.chunk_done)])
        return result

    def map(
        self,
        func: Callable[[Any], Result],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        *,
        progress: Progress | None = None,
    ) -> list[Result]:
        """``[func(x) for x in iterable]`` by all workers. ``progress``: called with (done, all), or True for a bar."""
        return self._mapped(_wire.MAP, func, iterable, chunksize, None, None, progress).get()

    def map_async(
        self,
        func: Callable[[Any], Result],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
        *,
        progress: Progress | None = None,
    ) -> AsyncResult[list[Result]]:
        """The same without waiting. The first exception, if any, comes when all is done."""
        return self._mapped(_wire.MAP, func, iterable, chunksize, callback, error_callback, progress)

    def starmap(
        self,
        func: Callable[..., Result],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        *,
        progress: Progress | None = None,
    ) -> list[Result]:
        """``[func(*x) for x in iterable]`` by all workers."""
        return self._mapped(_wire.STARMAP, func, iterable, chunksize, None, None, progress).get()

    def starmap_async(
        self,
        func: Callable[..., Result],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
        *,
        progress: Progress | None = None,
    ) -> AsyncResult[list[Result]]:
        """The same without waiting."""
        return self._mapped(_wire.STARMAP, func, iterable, chunksize, callback, error_callback, progress)

    def imap(
        self, func: Callable[[Any], Result], iterable: Iterable[Any], chunksize: int = 1, *, progress: Progress | None = None
    ) -> Iterator[Result]:
        """An iterator over the results, in order, each as soon as it is there."""
        return self._iterated(True, func, iterable, chunksize, progress)

    def imap_unordered(
        self, func: Callable[[Any], Result], iterable: Iterable[Any], chunksize: int = 1, *, progress: Progress | None = None
    ) -> Iterator[Result]:
        """An iterator over the results as they come."""
        return self._iterated(False, func, iterable, chunksize, progress)

    def close(self) -> None:
        """Takes no more work; workers end when all is done."""
        self._open = False
        self._crew.close()

    def terminate(self, patience: float = PATIENCE) -> None:
        """Ends the workers and their children now: SIGTERM, and ``patience`` seconds later SIGKILL. What is not done fails."""
        patience = words.patience(patience)
        self._open = False
        self._crew.terminate(patience)

    def kill(self) -> None:
        """Ends the workers and their children now, by SIGKILL. What is not done fails."""
        self.terminate(0)

    def join(self, timeout: float | None = None, *, patience: float | None = None) -> None:
        """Sleeps until all workers have ended and the claim is released; call close() or terminate() before.

        With ``patience`` that takes no longer: after so many seconds the workers are ended, as by :meth:`terminate`.

        Raises:
            TimeoutError: that is not so in ``timeout`` seconds.
        """
        timeout = words.timeout(timeout)
        if patience is not None:
            patience = words.patience(patience)
        if self._open:
            raise ValueError("the pool is still open: close() or terminate() it first")
        if patience is not None and not self._crew.join(patience):
            self._crew.terminate(patience)
        if not self._crew.join(timeout):
            raise timeout_error()
        self._forgotten.detach()

    def __enter__(self) -> Pool:
        self._check_open()
        _leaving.entered(self)
        return self

    __exit__ = _leaving.Exit(lambda pool, *_: pool._end(), terminate)

    @classmethod
    def aopen(cls, *args: Any, on_wait: _waiting.OnWait | None = None, **others: Any) -> _aio.Opening[Pool]:
        """A pool for coroutines: ``async with tholepin.Pool.aopen(gpus=2) as pool:``, with the same arguments.

        The loop goes on while the GPUs are waited for and while the pool ends; a coroutine that is cancelled leaves the line
        before the cancellation goes on.
        """
        from . import _aio

        return _aio.opening(
            lambda cancel, told: cls(*args, cancel=cancel, on_wait=told, **others), on_wait, cls._end, cls.terminate
        )

    async def __aenter__(self) -> Pool:
        return self.__enter__()

    async def _aend(self, *_: object) -> None:
        from . import _aio

        await _aio.to_the_end(self._end, lambda: None)

    __aexit__ = _leaving.AsyncExit(_aend, terminate)

    def _end(self) -> None:
        self.terminate()
        self.join()

    def _check_open(self) -> None:
        if not self._open:
            raise _closed()

    def _function(self, func: Callable[..., Any]) -> _chunks.Function:
        return function_for(func, self._functions)

    def _mapped(
        self,
        kind: int,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        chunksize: int | None,
        callback: Callback | None,
        error_callback: Callback | None,
        progress: Progress | None,
    ) -> AsyncResult[list[Any]]:
        self._check_open()
        _check_callbacks(callback, error_callback)
        chunksize = _check_map(func, iterable, chunksize, progress)
        items = iterable if isinstance(iterable, (list, tuple, range)) else list(iterable)
        if chunksize is None:
            chunksize = max(1, math.ceil(len(items) / (self.size * 4)))
        result = MapResult(len(items), chunksize, callback, error_callback, progress)
        if not len(items):
            return result
        function = self._function(func)
        self._crew.submit(
            [
                _chunks.Chunk(kind, function, tuple(items[start : start + chunksize]), result.chunk_done, index)
                for index, start in enumerate(range(0, len(items), chunksize))
            ]
        )
        return result

    def _iterated(
        self, ordered: bool, func: Callable[[Any], Result], iterable: Iterable[Any], chunksize: int, progress: Progress | None
    ) -> Iterator[Result]:
        self._check_open()
        chunksize = _check_map(func, iterable, 0 if chunksize is None else chunksize, progress)
        function, crew = self._function(func), self._crew
        known = iterable if isinstance(iterable, (list, tuple, range)) else None
        results = Results(ordered, progress, None if known is None else len(known))

        def feed(begun: Callable[[], object]) -> None:
            number = 0
            try:
                begun()
                rest = iter(iterable)
                for items in iter(lambda: tuple(itertools.islice(rest, chunksize)), ()):
                    crew.submit([_chunks.Chunk(_wire.MAP, function, items, results.chunk_done, number)])
                    number += 1
            except BaseException as problem:  # of the iterable, or of a pool that has ended: it is the next result
                results.chunk_done(number, False, problem)
                number += 1
            results._complete(number)

        if known is not None:
            feed(int)
        else:  # results are to come while a slow iterable still gives
            _start.start_thread("a thread that reads what is to be done", feed, "thole-pool-feed")
        return results


def _closed() -> ValueError:
    return ValueError("the pool is closed")


def _check_callbacks(callback: Callback | None, error_callback: Callback | None) -> None:
    words.function(callback, "callback")
    words.function(error_callback, "error_callback")


def _check_map(func: object, iterable: object, chunksize: int | None, progress: Progress | None) -> Any:
    """The chunksize."""
    check_function(func, "func")
    words.iterable(iterable, "iterable")
    if progress is not None and not isinstance(progress, bool):
        words.function(progress, "progress")
    return words.count(chunksize, "chunksize")


def check_function(func: object, what: str) -> None:
    """Raises unless it can be called."""
    if not callable(func):
        raise errors.WrongType(f"{what}: expected a function, got {func!r}")


def function_for(func: Callable[..., Any], known: dict[Any, _chunks.Function], what: str = "func") -> _chunks.Function:
    """``func`` pickled; the same again where it is one that is found by name."""
    check_function(func, what)
    try:
        found = known.get(func)
    except TypeError:  # not hashable
        return _chunks.Function(func)
    if found is None:
        found = _chunks.Function(func)
        if _is_always_the_same(func) and len(known) < 1000:
            known[func] = found
    return found


def _is_always_the_same(func: Callable[..., Any]) -> bool:
    """Whether it is pickled as a mere name: what is sent by value may have changed since."""
    if isinstance(func, types.BuiltinFunctionType):
        return isinstance(func.__self__, types.ModuleType)
    return (
        isinstance(func, (types.FunctionType, type))
        and func.__module__ != "__main__"
        and "<" not in func.__qualname__  # <locals>, <lambda>
    )


def call_in(
    share_out: Callable[[_shares.Shares], None],
    function: Callable[..., Result],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Result:
    """Calls a function in a process of its own that gets the one share, and ends it. The claim is released, whatever
    happens."""
    crew = _crew.Crew(None, 0)
    _live.add(crew)
    result: AsyncResult[Result] = AsyncResult(None, None)
    try:
        crew.begin(share_out, None, ())
        crew.submit([_chunks.Chunk(_wire.CALL, _chunks.Function(function), (tuple(args), dict(kwargs)), result.chunk_done)])
        crew.close()
        return result.get()
    except BaseException:
        crew.terminate(PATIENCE)
        raise
    finally:
        crew.join()


_live: weakref.WeakSet[_crew.Crew] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    crews = list(_live)
    for crew in crews:
        crew.terminate(1.0)
    deadline = time.monotonic() + 3
    for crew in crews:
        crew.join(max(0.0, deadline - time.monotonic()))

"""What blocks, for coroutines: in a thread of its own that is never abandoned.

A coroutine that is cancelled tells the thread through a descriptor, which ends the wait in the line, and goes on only when the
thread has left: what it got all the same is given back before. So nothing is claimed, and no variable set, after a
cancellation.

A loop that is closed cancels nothing: its tasks stay where they are for ever. But it drops the timers that it has, and one of
them is ours, which nobody else has: its end tells the thread. What the thread got, and the coroutine has not taken, is given
back by whoever sees that first.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any, Callable, Coroutine, Generator, Mapping, TypeVar

from . import _leaving, _shares, _start, _waiting, words

Result = TypeVar("Result")
_NEVER = 1e9  # seconds, until a timer that is there to be dropped


def _nothing(*_: object) -> None:
    pass


async def to_the_end(
    work: Callable[[], Result], cancelled: Callable[[], object], undo: Callable[[Result], object] = _nothing
) -> Result:
    """``work()`` in a thread, never left before its end. At a cancellation ``cancelled()`` is to bring that near, and a result
    that came all the same is given to ``undo``; only then the cancellation goes on. So it is where the loop is closed, with
    nobody to be told."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError as problem:
        closed = problem.__context__
        if not isinstance(closed, GeneratorExit):
            raise
        cancelled()  # the coroutine is closed after its loop: who has the block lets go without waiting
        raise closed from None
    left = asyncio.Event()
    results: list[Result] = []
    problems: list[BaseException] = []
    caller = _shares.who()

    def give_back() -> None:
        try:
            result = results.pop()
        except IndexError:  # there is none, or somebody else has it
            return
        undo(result)

    def abandon() -> None:
        cancelled()
        give_back()

    def run(begun: Callable[[], None]) -> None:
        try:
            begun()
            _shares.work_for(caller)
            results.append(work())
        except BaseException as problem:
            problems.append(problem)
        try:
            loop.call_soon_threadsafe(left.set)
        except RuntimeError:  # the loop is closed
            give_back()

    stop: asyncio.CancelledError | None = None
    stop_watching = _when_closed(loop, abandon)
    try:
        thread = _start.start_thread("a thread that waits", run, "tholepin-async")
        while not left.is_set():
            try:
                await left.wait()
            except asyncio.CancelledError as said:
                if stop is None:
                    cancelled()
                stop = said
            except BaseException:  # the coroutine is closed, and there is no loop to wait in
                cancelled()
                if thread is not threading.current_thread():  # which was the last to have it
                    thread.join()
                give_back()
                raise
    finally:
        stop_watching()
    thread.join()  # it has said its last word
    if stop is not None:
        if results:
            await to_the_end(give_back, _nothing)
        raise stop
    if problems:
        raise problems[0]
    return results.pop()


def _when_closed(loop: asyncio.AbstractEventLoop, do: Callable[[], object]) -> Callable[[], None]:
    """Has it done when the loop is closed, in the thread that closes it, until what this returns is called."""
    known = weakref.ref(loop)

    def dropped() -> None:
        loop = known()
        if loop is None or loop.is_closed():
            do()

    watching = weakref.finalize(loop.call_later(_NEVER, _nothing), dropped)
    watching.atexit = False

    def stop_watching() -> None:
        kept = watching.detach()
        if kept is not None:
            kept[0].cancel()

    return stop_watching


async def waited(begin: Callable[[int], Result], undo: Callable[[Result], object]) -> Result:
    """``begin`` in a thread, with the descriptor that it is to listen to; ``undo`` gives back what it got in spite of that."""
    canceller = _waiting.Canceller(None)
    try:
        return await to_the_end(lambda: begin(canceller.fd), canceller.cancel, undo)
    finally:
        canceller.close()


class Opening(Coroutine[Any, Any, Result]):
    """What is being made: ``await`` gives it, ``async with`` gives it and leaves it at the end of the block. Once, as a
    coroutine: a second one would be a second claim that nobody asked for. A coroutine also for ``asyncio.run`` and
    ``create_task``, which take nothing else."""

    def __init__(
        self,
        make: Callable[[], Coroutine[Any, Any, Result]],
        leave: Callable[..., Coroutine[Any, Any, object]],
        let_go: Callable[[Result], object],
    ) -> None:
        self._make = make
        self._leave = leave
        self._let_go = let_go
        self._making: Coroutine[Any, Any, Result] | None = None
        self._over = False  # whether there are no steps to make, or somebody else makes them
        self._made: list[Result] = []

    def __await__(self) -> Generator[Any, None, Result]:
        if self._making is not None:
            raise _awaited_already()
        self._making, self._over = self._make(), True
        return self._making.__await__()

    def _step(self, how: Callable[[Coroutine[Any, Any, Result]], Any]) -> Any:
        if self._over:
            raise _awaited_already()
        if self._making is None:
            self._making = self._make()
        try:
            return how(self._making)
        except BaseException:  # StopIteration with the result among them
            self._over = True
            raise

    def send(self, value: Any) -> Any:
        return self._step(lambda making: making.send(value))

    def throw(self, *problem: Any) -> Any:
        return self._step(lambda making: making.throw(*problem))

    def close(self) -> None:
        if self._making is not None:
            self._making.close()

    async def __aenter__(self) -> Result:
        self._made.append(await self)
        _leaving.entered(self)  # not before: a second block, which is refused, ends nothing
        return self._made[0]

    async def _left(self, *how: Any) -> None:
        await self._leave(self._made[0], *how)

    def _cut_short(self) -> None:
        for made in self._made:
            self._let_go(made)

    __aexit__ = _leaving.AsyncExit(_left, _cut_short)


def _awaited_already() -> RuntimeError:
    return RuntimeError("awaited already: each claim, pool or executor is a call of its own")


def opening(
    make: Callable[[int, _waiting.OnWait | None], Result],
    on_wait: _waiting.OnWait | None,
    end: Callable[[Result], object],
    let_go: Callable[[Result], object],
) -> Opening[Result]:
    """What ``make`` gives in a thread, told of its descriptor and callback; it is left by its ``__aexit__``. ``let_go`` ends it
    without waiting, where that is cut short."""

    words.function(on_wait, "on_wait")

    async def made() -> Result:
        from . import _worker

        _worker.stop_import_of_main()  # here, not in the thread
        told = in_loop(on_wait)
        return await waited(lambda cancel: make(cancel, told), end)

    async def leave(made: Any, *how: Any) -> None:
        await made.__aexit__(*how)

    return Opening(made, leave, let_go)


def in_loop(on_wait: _waiting.OnWait | None) -> _waiting.OnWait | None:
    """The same callback, called in the loop that runs now."""
    if on_wait is None:
        return None
    call, loop = on_wait, asyncio.get_running_loop()

    def told(reason: Mapping[str, Any]) -> None:
        loop.call_soon_threadsafe(call, reason)

    return told

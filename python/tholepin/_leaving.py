"""The end of a ``with`` or ``async with`` block: what it had is let go, whatever a signal handler raises, and whenever.

How this works. Python runs signal handlers also just before the first instruction of an ``__exit__``: after a block that ends
with one long computation (``c = a @ b``) that is where Ctrl-C comes, and nothing of ``__exit__`` is done. So what Python keeps
for the end of a block is a builtin that has a generator, which ``__enter__`` has begun and which stands within a ``try``. Where
the call is cut short Python drops the builtin, and with it the generator, which then does what was left to do.
"""

from __future__ import annotations

import functools
import types
import weakref
from typing import Any, Callable, Coroutine, Generator

from . import _changes


class Exit:
    """``__exit__`` of a class whose ``__enter__`` calls :func:`entered`.

    Args:
        leave: called at the end of a block with the object and the three words about an exception.
        let_go: called with the object where that was cut short; it does not wait.
    """

    def __init__(self, leave: Callable[..., object], let_go: Callable[[Any], object]) -> None:
        self._leave = leave
        self._let_go = let_go

    def __get__(self, owner: Any, kind: object = None) -> Callable[..., Any]:
        if owner is None:
            return self._left
        watching = _watch(functools.partial(self._let_go, owner))
        owner._block = weakref.ref(watching)
        bound = functools.partial(self._left, owner)
        vars(bound)["watching"] = watching
        return bound

    def _left(self, owner: Any, *how: Any) -> Any:
        self._leave(owner, *how)
        _go_on(owner)


class AsyncExit(Exit):
    """``__aexit__``, where ``leave`` is a coroutine function, and ``__aenter__`` calls :func:`entered`."""

    def _left(self, owner: Any, *how: Any) -> Any:
        leave: Any = functools.partial(self._leave, owner, *how)
        return _awaited(_watching(owner), leave)


@types.coroutine
def _awaited(
    watching: Generator[None, None, None] | None, leave: Callable[[], Coroutine[Any, Any, object]]
) -> Generator[Any, Any, None]:
    # No coroutine is made before it is awaited: where that is cut short, Python would complain of it.
    try:
        yield from leave().__await__()
    except BaseException:
        if watching is not None:
            watching.close()
        raise
    if watching is not None:
        next(watching, None)


def entered(owner: Any) -> None:
    """From now on the block will be left: a look at ``__exit__`` alone has no consequence."""
    _go_on(owner)


def _watching(owner: Any) -> Generator[None, None, None] | None:
    watching: Generator[None, None, None] | None = getattr(owner, "_block", _nothing)()
    return watching


def _go_on(owner: Any) -> None:
    watching = _watching(owner)
    if watching is not None:
        next(watching, None)


def _nothing() -> None:
    return None


def _watch(let_go: Callable[[], object]) -> Generator[None, None, None]:
    try:
        yield
    except BaseException:
        _changes.to_the_end(let_go)
        raise

"""Functions that run on GPUs of their own: :func:`on_gpu`."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar, cast

from . import _waiting, errors, words
from ._request import request_for

Function = TypeVar("Function", bound=Callable[..., Any])


def on_gpu(
    gpus: int = 1,
    *,
    wait: words.Duration | None = None,
    bind: words.Binding | None = None,
    on_wait: _waiting.OnWait | None = None,
    quiet: bool | None = None,
    **request: Any,
) -> Callable[[Function], Function]:
    """Makes a function that runs, each time it is called, in a fresh process that owns GPUs.

    The process is a new interpreter, bound near its GPUs and shown nothing but them before it starts; it ends with the
    function, and the claim with it. So this process needs no GPU, may have started CUDA long ago, and gets all memory back.
    Arguments and result are pickled.

    >>> import os, tholepin
    >>> visible = tholepin.on_gpu(2, pick="first")(os.getenv)
    >>> visible("CUDA_VISIBLE_DEVICES")
    '0,1'

    As a decorator, of a function of a module, a script or a notebook::

        @tholepin.on_gpu(1, memory="20G", wait="1h")
        def train(rate):
            ...

    Args:
        gpus, wait, on_wait, quiet, request: what to claim, in the words of :func:`claim`.
        bind: how the process is bound: a mode, or a dict with "mode", "smt", "nic", … (docs/binding.md); as ``thole run``
            does if not given.

    Raises:
        WorkerDied: when called: the process was killed.
        NoneFree, WaitTimeout, NeverPossible, DriverError, Error: when called: as :func:`claim`. What the function raises is
            raised, with its traceback there as ``__cause__``.
    """
    if callable(gpus):
        raise errors.WrongRequest("gpus: how many GPUs?", code=64, hint="write @tholepin.on_gpu(1), with parentheses")
    asked, patience = request_for(gpus=gpus, **request), _waiting.Patience(wait, None, on_wait, quiet)

    if bind is not None:
        words.binding(bind)

    def decorate(function: Function) -> Function:
        if not callable(function):
            raise errors.WrongType(f"on_gpu: expected a function, got {function!r}")
        # What a class has in its __dict__ is the class's: its methods, which a function does not have.
        @functools.wraps(function, updated=() if isinstance(function, type) else functools.WRAPPER_UPDATES)
        def owner(*args: Any, **kwargs: Any) -> Any:
            from tholepin import _shares, pool  # absolute: a copy that was sent by value knows no package

            def share_out(shares: _shares.Shares) -> None:
                _shares.for_request(shares, asked, patience, bind)

            return pool.call_in(share_out, _inside, (owner, args, kwargs), {})

        return cast(Function, owner)

    return decorate


def _inside(owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # By its name a decorated function is found again only as what decorate() made of it.
    return owner.__wrapped__(*args, **kwargs)

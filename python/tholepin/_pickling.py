"""Pickling for another process: protocol 5 with large buffers out of band, and what only exists here by value.

What belongs to ``__main__`` cannot be found by name in a worker, whose main program is another. Where cloudpickle is installed
such objects, lambdas and functions within functions travel by value. Where it is not, the worker imports the main script under
another name, and :mod:`tholepin._byvalue` sends plain functions of notebooks and of prompts, which no file holds. So the worker
does in either case for a process that has the script under that name itself, a child of multiprocessing: to cloudpickle this is
a module as any other.
"""

from __future__ import annotations

import _pickle

from . import _wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_UNPICKLABLE = (_pickle.PicklingError, AttributeError, TypeError)


def dumped(value: Any) -> bytes | _wire.Part:
    """The value as a part of a packet."""
    buffers: list[Any] = []
    pickled = _pickled(value, buffers)
    if not buffers and len(pickled) <= _wire.LIMIT:
        return pickled
    return _wire.part_of(pickled, [buffer.raw() for buffer in buffers])


def whole(value: Any) -> bytes:
    """The value in one piece, for ``pickle.loads`` in another process."""
    return _pickled(value, None)


def _pickled(value: Any, buffers: list[Any] | None) -> bytes:
    """Its buffers are put into the list; into the pickle itself where there is none."""
    take = None if buffers is None else buffers.append
    try:
        pickled: bytes = _pickle.dumps(value, 5, buffer_callback=take)
        by_value = _by_value() if b"__main__" in pickled else None
        if by_value is None:
            return pickled
    except _UNPICKLABLE:
        by_value = _by_value()
        if by_value is None:  # lambdas and inner functions of a script
            from . import _byvalue

            by_value = _byvalue.dumps
    if buffers is not None:
        buffers.clear()
    return by_value(value, 5, take)


_found: list[Callable[..., bytes] | None] = []


def _by_value() -> Callable[..., bytes] | None:
    """The pickler for what exists only here; None where the worker finds it in the main script."""
    if not _found:
        try:
            from importlib import import_module

            _found.append(import_module("cloudpickle").dumps)
        except ImportError:
            _found.append(None)
    if _found[0] is None and main_path() is None:
        from ._byvalue import dumps as plain

        return plain
    return _found[0]


def main_path() -> str | None:
    """The file of the main program; None in a notebook, at a prompt, under ``python -c``."""
    import os
    import sys

    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(path) if path and os.path.isfile(path) else None


def script_for_workers() -> str | None:
    """The main script, where workers are to import it for what the pickles name in it."""
    import sys
    from importlib.util import find_spec

    is_again = getattr(sys.modules.get("__main__"), "__name__", None) == "__mp_main__"
    return main_path() if is_again or not find_spec("cloudpickle") else None

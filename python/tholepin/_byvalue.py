"""Functions and classes of a notebook or a prompt by value, where cloudpickle is not installed.

A function is its code, its defaults, what it has closed over, and those globals that it names; a class its bases and
attributes. Modules go by name. Only Python code of the same version can be sent so, and that is what workers run. cloudpickle
knows many more cases (enumerations, abstract and generic classes, named tuples, properties of slots): install it where this
says no.
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import sys
import types
from typing import Any, Callable

_NOT_COPIED = ("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__")


def dumps(value: Any, protocol: int = 5, buffer_callback: Callable[[Any], object] | None = None) -> bytes:
    """As :func:`pickle.dumps`."""
    file = io.BytesIO()
    _Pickler(file, protocol, buffer_callback=buffer_callback).dump(value)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType) and not _is_importable(value):
            return _reduced_function(value)
        if isinstance(value, type) and not _is_importable(value):
            return _reduced_class(value)
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        return NotImplemented


def _is_importable(value: Any) -> bool:
    module = sys.modules.get(value.__module__)
    if module is None or value.__module__ == "__main__":
        return False
    found: Any = module
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _reduced_function(function: types.FunctionType) -> Any:
    cells = function.__closure__ or ()
    made = (marshal.dumps(function.__code__), function.__name__, len(cells))
    state = {
        "globals": {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__},
        "cells": [cell.cell_contents for cell in cells],
        "attributes": {
            name: getattr(function, name) for name in ("__defaults__", "__kwdefaults__", "__qualname__", "__doc__")
        },
        "dict": function.__dict__,
    }
    return _made_function, made, state, None, None, _filled_function


def _made_function(code: bytes, name: str, cells: int) -> types.FunctionType:
    closure = tuple(types.CellType() for _ in range(cells))
    return types.FunctionType(marshal.loads(code), {"__builtins__": __builtins__, "__name__": "__main__"}, name, None, closure)


def _filled_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    # After it was made, since it may be among its own globals.
    function.__globals__.update(state["globals"])
    for cell, content in zip(function.__closure__ or (), state["cells"]):
        cell.cell_contents = content
    for name, value in state["attributes"].items():
        setattr(function, name, value)
    function.__dict__.update(state["dict"])


def _reduced_class(kind: type) -> Any:
    attributes = {name: value for name, value in vars(kind).items() if name not in _NOT_COPIED}
    return _made_class, (kind.__name__, kind.__bases__, kind.__module__), attributes, None, None, _filled_class


def _made_class(name: str, bases: tuple[type, ...], module: str) -> type:
    return types.new_class(name, bases, exec_body=lambda space: space.update({"__module__": module}))


def _filled_class(kind: type, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(kind, name, value)

"""libthole by ctypes: finding it, calling it, and its errors as exceptions.

How this works. Every function of thole.h that can fail takes ``thole_error **`` last and returns NULL on failure;
``call_into`` passes it and raises. Handles are plain ints here. ctypes lets go of the GIL during a call. Where the library
lies: THOLE_LIBRARY, else ``_lib/lib/`` beside this file (the wheel; the program is in ``_lib/bin/``), else where the loader
finds ``libthole.so.0``.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections import deque
from typing import Any, Callable, Mapping, NoReturn

from . import _changes, _option_words, errors

FOR_EVER = -1
AS_CONFIGURED = -2  # as request.wait of the configuration or THOLE_WAIT says

_HERE = os.path.dirname(os.path.abspath(__file__))
_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_HINT = "install the wheel of tholepin, which has both (pip install . in a checkout of thole); or set {} to the path of {}"

# name -> result, arguments. A char * that is ours to free is a _POINTER; the error is added to those in _FALLIBLE.
_PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "thole_version": (_TEXT, []),
    "thole_is_loaded": (ctypes.c_int, [_TEXT]),
    "thole_may_have_started": (ctypes.c_int, [_TEXT]),
    "thole_error_code": (ctypes.c_int, [_POINTER]),
    "thole_error_message": (_TEXT, [_POINTER]),
    "thole_error_object": (_TEXT, [_POINTER]),
    "thole_error_hint": (_TEXT, [_POINTER]),
    "thole_error_reason": (_TEXT, [_POINTER]),
    "thole_error_errno": (ctypes.c_int, [_POINTER]),
    "thole_error_free": (None, [_POINTER]),
    "thole_free": (None, [_POINTER]),
    "thole_close": (None, [_POINTER]),
    "thole_claim_json": (_TEXT, [_POINTER]),
    "thole_claim_release": (None, [_POINTER]),
}
_FALLIBLE: dict[str, list[Any]] = {
    "thole_open": [_TEXT],
    "thole_snapshot": [_POINTER],
    "thole_plan": [_POINTER, _TEXT],
    "thole_plan_answer": [_POINTER, _TEXT],
    "thole_bind": [_POINTER, _TEXT],
    "thole_claim_gpus": [_POINTER, _TEXT, ctypes.c_int64, ctypes.c_int],
    "thole_claim_ranks": [_POINTER, _POINTER, _TEXT],
    "thole_claim_around": [_POINTER],
}


def _load() -> ctypes.CDLL:
    bundled = os.path.join(_HERE, "_lib", "lib", "libthole.so.0")
    path = os.environ.get("THOLE_LIBRARY") or (bundled if os.path.exists(bundled) else "libthole.so.0")
    try:
        library = ctypes.CDLL(path)
    except OSError as problem:
        raise errors.Error(
            f"the library of thole cannot be loaded: {problem}",
            object=path,
            hint=_HINT.format("THOLE_LIBRARY", "libthole.so.0"),
        ) from None
    for name, (result, arguments) in _PLAIN.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    for name, arguments in _FALLIBLE.items():
        function = getattr(library, name)
        function.restype, function.argtypes = _POINTER, [*arguments, ctypes.POINTER(_POINTER)]
    return library


libthole = _load()


def program() -> str:
    """The path of the program ``thole`` that belongs to this package: THOLE_PROGRAM, the wheel's own, or the one on PATH."""
    named = os.environ.get("THOLE_PROGRAM")
    if named:
        return named
    bundled = os.path.join(_HERE, "_lib", "bin", "thole")
    if os.access(bundled, os.X_OK):
        return bundled
    from shutil import which

    found = which("thole")
    if not found:
        raise errors.Error("the program thole is not there", hint=_HINT.format("THOLE_PROGRAM", "it"))
    return found


_KINDS: dict[str, type[errors.Error]] = {
    "usage": errors.WrongRequest,
    "not-found": errors.WrongRequest,  # a command that is not there
    "not-executable": errors.WrongRequest,
    "never-possible": errors.NeverPossible,
    "driver": errors.DriverError,
    "busy": errors.NoneFree,
    "timed-out": errors.WaitTimeout,
    "too-late": errors.TooLateError,
}


def exception(reason: str, message: str, *, code: int, object: str = "", hint: str = "", errno: int = 0) -> errors.Error:
    """The exception for a failure; ``reason`` as thole_error_reason has it."""
    return _KINDS.get(reason, errors.Error)(message, code=code, object=object, hint=hint, errno=errno)


def raise_from(error: ctypes.c_void_p, *arguments: Any) -> NoReturn:
    """Raises what a ``thole_error *`` says of these arguments, and frees it."""
    said = [word for one in arguments if isinstance(one, bytes) for word in _option_words.texts_in(json.loads(one))]

    def text(name: str) -> str:
        return str(getattr(libthole, name)(error).decode(errors="replace"))

    try:
        raise exception(
            text("thole_error_reason"),
            _option_words.in_arguments(_option_words.of_field(text("thole_error_message")), said),
            code=libthole.thole_error_code(error),
            object=_option_words.in_arguments(text("thole_error_object"), said),
            hint=_option_words.in_arguments(text("thole_error_hint"), said),
            errno=libthole.thole_error_errno(error),
        )
    finally:
        libthole.thole_error_free(error)


def call_into(handles: list[int], name: str, *arguments: Any) -> None:
    """Calls a function that returns a handle, and puts that into the list; raises what it reports.

    Both are one step for signal handlers, which run between instructions of Python: whoever has the list can end what is in it,
    whatever a handler raises, and whenever.
    """
    error = _POINTER()
    passed = [(argument,) for argument in (*arguments, ctypes.byref(error))]
    handles.extend(filter(None, map(getattr(libthole, name), *passed)))
    if error:
        raise_from(error, *arguments)


def end_in(handles: list[int], name: str) -> None:
    """Takes a handle out of the list and ends it by this function, in one step; where none is left, nothing."""
    try:
        deque(map(getattr(libthole, name), map(handles.pop, (0,))), maxlen=0)
    except IndexError:
        pass


def call_json(name: str, *arguments: Any) -> Any:
    """Calls a function that returns JSON text; returns what it says."""
    texts: list[int] = []
    try:
        call_into(texts, name, *arguments)
        return json.loads(ctypes.string_at(texts[0]))
    finally:
        end_in(texts, "thole_free")


# One of each: json.loads and json.dumps look at their options, and at the text's encoding, at every call.
decoded: Callable[[str], tuple[Any, int]] = json.JSONDecoder().raw_decode
_encode: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":")).encode


def encoded(value: Any) -> bytes:
    """A JSON argument."""
    return _encode(value).encode()


@functools.lru_cache(maxsize=32, typed=True)
def _encoded_before(**request: Any) -> bytes:
    return encoded(request)


def encoded_request(request: Mapping[str, Any]) -> bytes:
    """A request as a JSON argument. Programs ask for the same again and again."""
    try:
        return _encoded_before(**request)
    except TypeError:  # a list in it
        return encoded(request)


def with_number(request: bytes, name: str, number: int) -> bytes:
    """The same request with one more field."""
    return b'%b%b"%b":%d}' % (request[:-1], b"," if request != b"{}" else b"", name.encode(), number)


# ---- This process's machine ----


class Owner:
    """Something of this process: a copy of the object would be a second owner of what there is once."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{self!r} cannot be copied or pickled: it belongs to this process{self._instead()}")

    def _instead(self) -> str:
        return ""


class Machine(Owner):
    """An open ``thole_machine``, to be passed where the library takes one. It closes itself when nothing uses it any more."""

    _handles: list[int] = []  # of one whose making was cut short

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._close = libthole.thole_close
        self._handles = []
        call_into(self._handles, "thole_open", None)
        self._as_parameter_ = self._handles[0]

    def __del__(self) -> None:
        # Not in a forked child: the handle, and the locks it keeps, are the parent's.
        for handle in self._handles:
            if os.getpid() == self._owner:
                self._close(handle)


# The library reads the environment once, in thole_open, but a Python program changes its own as it goes: claiming sets
# CUDA_VISIBLE_DEVICES, a test sets THOLE_MACHINE. So a machine is kept for each of the last few environments, as far as thole
# looks at them (docs/environment.md, docs/configuration.md): these, and what begins so.
_HEEDED = (
    "THOLE_", "CUDA_", "HIP_", "ROCR_", "GPU_DEVICE_ORDINAL", "ZE_", "NVIDIA_", "SLURM_", "SGE_", "PBS_", "OMPI_", "MPI_",
    "PMI_",
    "LOCAL_", "XDG_", "HOME",
)  # fmt: skip
# os.environ encodes and decodes at every look, which would be a third of a claim; its bytes are looked at where they can be.
_environ: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)


def _as_key(name: str) -> Any:
    return name if _environ is os.environ else name.encode()


_HEEDED_KEYS: Any = tuple(map(_as_key, _HEEDED))
_KEPT = 4
_machines: dict[frozenset[Any], Machine] = {}  # the last one used is the last
# the last one used, and the whole environment then: mostly nothing has changed
_latest: list[tuple[dict[Any, Any], Machine]] = []


def variable(name: str) -> str | None:
    """``os.environ.get(name)``, faster for a variable that is not there."""
    return os.environ[name] if _as_key(name) in _environ else None


def machine() -> Machine:
    """The machine that the environment means."""
    try:
        with _changes.lock:  # not while a claim's variables are half set
            found = _machine_now()
    finally:
        _changes.work_off()
    return found


def _machine_now() -> Machine:
    for environment, kept in _latest:
        if environment == _environ:
            return kept
    now = dict(_environ)  # another thread may be changing it
    key = frozenset(entry for entry in now.items() if entry[0].startswith(_HEEDED_KEYS))
    found: Machine | None = _machines.pop(key, None)
    if found is None:
        found = Machine()
    _machines[key] = found
    if len(_machines) > _KEPT:
        _machines.pop(next(iter(_machines)), None)
    _latest[:] = [(now, found)]
    return found


def _forget() -> None:
    _machines.clear()
    _latest.clear()


os.register_at_fork(after_in_child=_forget)  # a handle must not be used in a forked child

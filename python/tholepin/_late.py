"""Is it too late to claim? Finds what has started CUDA, HIP or Level Zero in this process, and names it.

How this works. A runtime reads its visibility variable (``CUDA_VISIBLE_DEVICES`` and its like) once, when it starts; a claim
that comes later would go unnoticed. Whoever started it left traces, looked for from the most telling to the surest, the first
one found is told:

1. Frameworks that are loaded (``sys.modules``; nothing is ever imported) are asked what they know of themselves, by attributes
   that start nothing.
2. libcuda, where it is loaded: before ``cuInit`` every function says NOT_INITIALIZED (3), afterwards ``cuDeviceGetCount``
   succeeds. It finds what frameworks do not know of themselves: ``torch.cuda.is_available()`` starts the driver without
   "initialising" torch.
3. Open device files. CUDA opens /dev/nvidia-uvm. NVML (``nvidia-smi``, pynvml) needs /dev/nvidia0 only, which therefore proves
   nothing (libnvidia-container, src/nvc_mount.c: containers without compute get no UVM device). HIP opens /dev/kfd. A render
   node is Level Zero's only where its library is loaded: video and graphics have it open too.
4. The driver's own list of processes is asked by the library, which looks at it for every claim anyway ("not_started" in
   thole.h).

A forked child is judged by the same traces: it has inherited a runtime that cannot be used in it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from typing import Any, Callable, Mapping, NamedTuple

from . import _native, errors

_NVIDIA = "CUDA"
_LOADED_ONLY = 4  # RTLD_NOLOAD: a library that is not loaded is not loaded now
_CUDA_SUCCESS = 0


class Trace(NamedTuple):
    """What was found: the culprit ("torch"), the runtime it has started ("CUDA") and how that is known (a clause)."""

    culprit: str
    runtime: str
    seen: str
    forked: bool = False


def check(gpus: int | None = None) -> bool:
    """Raises TooLateError when a claim can no longer choose this process's GPUs; else whether that is sure.

    ``gpus`` is what will be asked for: as many as the claim this process is inside of has are those it sees already, and asking
    for them changes nothing, at any time. Whether the claim named in the environment lives is not known here: see
    :func:`confirm`.

    >>> check()
    True
    """
    if gpus is not None and gpus == _held_by_environment():
        return False
    _refuse_if_late()
    return True


def confirm(variables: Mapping[str, str]) -> None:
    """Raises TooLateError when it is too late and ``variables``, those of a claim made, are not what the environment has
    already.

    >>> confirm({"PATH": os.environ["PATH"]})
    """
    if any(os.environ.get(name) != value for name, value in variables.items()):
        _refuse_if_late()


def _refuse_if_late() -> None:
    found = trace()
    if found:
        raise _error(found)


def trace() -> Trace | None:
    """The first trace of a runtime that was started in this process; None when it is not too late."""
    loaded = sys.modules
    for name, ask in _FRAMEWORKS.items():
        if name in loaded:
            try:
                found = ask(loaded[name])
            except Exception:  # half imported, or a version that has no such attribute: the traces below remain
                continue
            if found:
                return found
    root = _native.variable("THOLE_SYSROOT") or ""
    if not _native.libthole.thole_may_have_started(root.encode()):  # mostly: one call instead of five
        return None
    return _libcuda() or _open_devices(root)


def _held_by_environment() -> int | None:
    """How many GPUs the claim has that this process is inside of, by its variables."""
    if not _native.variable("THOLE_CLAIM"):
        return None
    import json

    try:
        return len(json.loads(os.environ["THOLE_GPUS"]))
    except (KeyError, ValueError, TypeError):
        return None


def _error(found: Trace) -> errors.TooLateError:
    if found.forked:
        hint = "start workers by spawn, not by fork: multiprocessing.set_start_method('spawn'), or tholepin.Pool"
    elif "ipykernel" in sys.modules:
        hint = "restart the kernel and claim in its first cell, or use a kernel that `thole jupyter install` made"
    else:
        hint = (
            f"claim before {found.culprit} first touches a GPU, in the first line of the program; or start it with `thole run`"
        )
    error = errors.TooLateError(
        f"too late to claim: {found.culprit} has started {found.runtime} in this process ({found.seen})", hint=hint
    )
    error.culprit = found.culprit
    return error


# ---- 1. Frameworks ----


def _torch(torch: Any) -> Trace | None:
    cuda = getattr(torch, "cuda", None)
    runtime = "HIP" if getattr(getattr(torch, "version", None), "hip", None) else _NVIDIA
    forked = getattr(cuda, "_is_in_bad_fork", None)
    if forked is not None and forked():
        return Trace("torch", runtime, "torch.cuda was initialised in the process that forked this one", forked=True)
    for name, of in (("cuda", runtime), ("xpu", "Level Zero")):
        device = getattr(torch, name, None)
        if device is not None and device.is_initialized():
            return Trace("torch", of, f"torch.{name}.is_initialized() is true")
    return None


def _tensorflow(module: Any) -> Trace | None:
    context = module._context  # None until something eager was done
    for what in ("_logical_devices", "_physical_devices"):
        if any(device.device_type == "GPU" for device in getattr(context, what, None) or ()):
            return Trace("tensorflow", _NVIDIA, f"its {what.strip('_').replace('_', ' ')} have been listed, GPUs among them")
    return None


def _jax(bridge: Any) -> Trace | None:
    runtimes = {"cuda": _NVIDIA, "gpu": _NVIDIA, "rocm": "HIP", "oneapi": "Level Zero", "sycl": "Level Zero"}
    for platform in list(bridge._backends):
        if platform in runtimes:
            return Trace("jax", runtimes[platform], f"its backend {platform!r} has been initialised")
    return None


def _cupy(driver: Any) -> Trace | None:
    if driver.ctxGetCurrent():  # raises before cuInit, and never calls it
        return Trace("cupy", _NVIDIA, "cupy has a current context")
    return None


def _numba(module: Any) -> Trace | None:
    driver = module.driver
    if driver.is_initialized and driver.initialization_error is None:
        return Trace("numba", _NVIDIA, "numba.cuda has initialised its driver")
    return None


def _pycuda(driver: Any) -> Trace | None:
    if driver.Context.get_current() is not None:  # raises before cuInit
        return Trace("pycuda", _NVIDIA, "pycuda has a current context")
    return None


# The module that knows -> how it is asked. ctxGetCurrent of cupy for ROCm would start HIP: there /dev/kfd tells.
_FRAMEWORKS: dict[str, Callable[[Any], Trace | None]] = {
    "torch": _torch,
    "tensorflow.python.eager.context": _tensorflow,
    "jax._src.xla_bridge": _jax,
    "cupy_backends.cuda.api.driver": lambda driver: None if _on_rocm() else _cupy(driver),
    "numba.cuda.cudadrv.driver": _numba,
    "pycuda.driver": _pycuda,
}


def _on_rocm() -> bool:
    return bool(getattr(sys.modules.get("cupy_backends.cuda.api.runtime"), "is_hip", False))


_COMPUTING = (
    "torch",
    "tensorflow",
    "jax",
    "cupy",
    "numba.cuda",
    "pycuda",
    "cudf",
    "paddle",
    "mxnet",
    "onnxruntime",
    "tensorrt",
)


def _suspects() -> str:
    """Who may have done it, for traces that name nobody: the loaded frameworks, else the program."""
    loaded = [name for name in _COMPUTING if name in sys.modules]
    return " or ".join(loaded) or "a library"


# ---- 2. libcuda ----


def _libcuda() -> Trace | None:
    if not _is_loaded("libcuda.so"):
        return None
    try:
        library = ctypes.CDLL("libcuda.so.1", mode=_LOADED_ONLY)
        count = ctypes.c_int()
        started: int = library.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError):
        return None
    if started != _CUDA_SUCCESS:
        return None
    return Trace(_suspects(), _NVIDIA, "the CUDA driver has been initialised, as torch.cuda.is_available() does")


# ---- 3. Device files ----


def _open_devices(root: str) -> Trace | None:
    """``root`` lies before /dev, for simulations of whole machines."""
    render_node = ""
    for entry in os.listdir("/proc/self/fd"):
        try:
            if not root and not stat.S_ISCHR(os.fstat(int(entry)).st_mode):
                continue
            path = os.readlink("/proc/self/fd/" + entry)
        except OSError:
            continue  # closed meanwhile, such as the listing's own
        path = path[len(root) :] if root and path.startswith(root + "/") else path
        if path == "/dev/nvidia-uvm":
            return Trace(_suspects(), _NVIDIA, f"{path} is open")
        if path == "/dev/kfd":
            return Trace(_suspects(), "HIP", f"{path} is open")
        if path.startswith("/dev/dri/renderD"):
            render_node = path
    if render_node and _is_loaded("libze_intel_gpu.so"):
        return Trace(_suspects(), "Level Zero", f"{render_node} is open")
    return None


def _is_loaded(library: str) -> bool:
    return bool(_native.libthole.thole_is_loaded(library.encode()))

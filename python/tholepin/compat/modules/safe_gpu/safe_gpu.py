"""claim_gpus and what belongs to it, under the original's names.

How this works. The claim is thole's: all or nothing, in the machine's one line, freed by the kernel with the process. A
placeholder is still made where its framework is there, as programs expect, and so that users of the original without
thole see the GPUs in use. The log says what the original's would: its "lock" is the place in line.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import tholepin
from tholepin import _native

from ._placeholders import (
    PyCudaPlaceholder,
    PytorchPlaceholder,
    TensorflowPlaceholder,
    pytorch_placeholder,
    tensorflow_placeholder,
)

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "GPUOwner", "LOCK_FILENAME", "NvidiasmiError", "PyCudaPlaceholder", "PytorchPlaceholder", "SafeLock", "SafeUmask",
    "TensorflowPlaceholder", "claim_gpus", "get_free_gpus", "get_nvidia_smi_value", "gpu_owner", "is_single_gpu_display_mode",
    "pytorch_placeholder", "release_gpus", "tensorflow_placeholder",
]  # fmt: skip

# The lock of safe-gpu itself. thole takes it, where it exists, while it chooses; nothing here does.
LOCK_FILENAME = "/tmp/safe_gpu/gpu-lock-magic-RaNdOM-This_Name-NEED_BE-THE_SAME-Across_Users"

# What claim_gpus() made last.
gpu_owner: GPUOwner | None = None


class NvidiasmiError(Exception):
    """This machine has no GPU, or its driver does not answer.

    >>> from safe_gpu import safe_gpu
    >>> try:
    ...     safe_gpu.claim_gpus(placeholder_fn=lambda device_no: None)
    ... except safe_gpu.NvidiasmiError:
    ...     pass                                     # without a GPU
    """


class _NoDriver(NvidiasmiError, FileNotFoundError):
    # FileNotFoundError is what the original raises where nvidia-smi is missing, and what programs have learnt to catch.
    pass


class Logger(Protocol):
    """A logging.Logger, or the module logging."""

    def info(self, message: str) -> None: ...
    def error(self, message: str) -> None: ...


def _seen() -> dict[str, Any]:
    try:
        seen: dict[str, Any] = _native.call_json("thole_snapshot", _native.machine())
    except tholepin.DriverError as problem:
        raise NvidiasmiError(str(problem)) from problem
    if not seen["gpus"]:
        problems = [one["problem"] for one in seen["observations"] if one["problem"]]
        raise _NoDriver("; ".join(problems) or "this machine has no GPU")
    return seen


def get_free_gpus() -> list[str]:
    """The indices of the GPUs that nobody has claimed or uses, ascending. A moment later this may be wrong.

    >>> get_free_gpus()
    ['0', '1', '2', '3', '4', '5', '6', '7']
    """
    seen = _seen()
    claimed = {claim["gpu"] for claim in seen["claims"]}
    return [
        str(i)
        for i, gpu in enumerate(seen["gpus"])
        if i not in claimed and gpu["health"] == "ok" and not _computing(gpu["use"])
    ]


def _computing(use: dict[str, Any] | None) -> bool:
    # Who cannot be seen may be there.
    processes = use["processes"] if use else None
    return processes is None or any(process["kind"] != "graphics" for process in processes)


def is_single_gpu_display_mode() -> bool:
    """Whether the machine's only GPU has a monitor.

    >>> is_single_gpu_display_mode()
    False
    """
    gpus = _seen()["gpus"]
    return len(gpus) == 1 and bool(gpus[0].get("monitor", gpus[0].get("display")))


def get_nvidia_smi_value(nvidia_smi_lines: Sequence[str], key: str) -> str:
    """The last word of the first line with this key, of what ``nvidia-smi -q`` prints.

    >>> get_nvidia_smi_value(["Attached GPUs      : 8"], "Attached GPUs")
    '8'
    """
    for line in nvidia_smi_lines:
        if key in line:
            return line.split()[-1]
    raise KeyError(f'"{key}" not found in the provided nvidia-smi output')


class SafeLock:
    """Holds a write lock on an open file during a ``with`` block.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file, SafeLock(file):
    ...     pass
    """

    def __init__(self, fd: Any, logger: Logger | None = None) -> None:
        self.logger: Logger = logger or logging
        self._fd = fd

    def __enter__(self) -> None:
        self.logger.info("acquiring lock")
        fcntl.lockf(self._fd, fcntl.LOCK_EX)
        self.logger.info("lock acquired")

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN)
        self.logger.info("lock released")


class SafeUmask:
    """Sets the process's umask during a ``with`` block.

    >>> with SafeUmask(0o077):
    ...     oct(os.umask(0o077))
    '0o77'
    """

    def __init__(self, working_mask: int) -> None:
        self.old_mask: int | None = None
        self.working_mask = working_mask

    def __enter__(self) -> None:
        self.old_mask = os.umask(self.working_mask)

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        if self.old_mask is not None:
            os.umask(self.old_mask)


class GPUOwner:
    """GPUs of this process: claimed when it is made, until :meth:`release_gpus` or until it is dropped.

    >>> owner = GPUOwner(2, placeholder_fn=lambda device_no: f"on {device_no}")
    >>> owner.devices_taken, owner.placeholders
    ([0, 1], ['on 0', 'on 1'])
    >>> owner.release_gpus()

    Args:
        nb_gpus: how many; 0 hides all.
        placeholder_fn: called with 0, 1, … for each GPU of the claim, as CUDA numbers them in this process from now on; what it
            returns is kept.
        logger: a logger, or the module logging.
        debug_sleep: seconds between claiming and the placeholders.

    Attributes:
        devices_taken: the indices of the GPUs on this machine.
        placeholders: what `placeholder_fn` returned.

    Raises:
        RuntimeError: not enough free in the time that ``thole compat --wait`` gave; more than this machine has; CUDA runs in
            this process already; what `placeholder_fn` raises.
        ValueError: more than one, on a machine whose only GPU has the display.
        NvidiasmiError: no GPU, or the driver does not answer.
    """

    def __init__(
        self,
        nb_gpus: int = 1,
        placeholder_fn: Callable[[int], Any] = PytorchPlaceholder(),
        logger: Logger | None = None,
        debug_sleep: float = 0.0,
    ) -> None:
        self.logger: Logger = logging if logger is None else logger
        self.debug_sleep = debug_sleep
        self.placeholder_fn = placeholder_fn
        self.devices_taken: list[int] = []
        self.placeholders: list[Any] = []
        self._claim: tholepin.Claim | None = None
        if is_single_gpu_display_mode():
            self.logger.info("Running on a machine with single GPU used for actual display")
            if nb_gpus != 1:
                raise ValueError(f"Requested {nb_gpus} GPUs on a machine with single one.")
            self._take(self._claimed(nb_gpus))
            return
        self.logger.info("acquiring lock")
        try:
            claim = self._claimed(nb_gpus)
            self.logger.info("lock acquired")
            self._take(claim)
        finally:
            self.logger.info("lock released")

    def _take(self, claim: tholepin.Claim) -> None:
        self._claim = claim
        end = weakref.finalize(self, claim.release)
        end.atexit = False  # the kernel does it, when also the placeholders are gone
        variable = next(
            (name for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK") if name in claim.env), ""
        )
        self.logger.info(f"Set {variable}={os.environ.get(variable, '')}")
        try:
            self._occupy(claim.indices)
        except BaseException:
            self._let_go()
            raise

    def _claimed(self, nb_gpus: int) -> tholepin.Claim:
        try:
            try:
                return tholepin.claim(nb_gpus, wait=0)
            except tholepin.NoneFree:
                self.logger.info(f"Waiting for {nb_gpus} GPUs, only found these free: {get_free_gpus()}")
                return tholepin.claim(nb_gpus)
        except tholepin.TooLateError as late:
            self.logger.error(str(late))
            raise RuntimeError(str(late)) from late
        except (tholepin.NoneFree, tholepin.WaitTimeout, tholepin.NeverPossible) as refused:
            raise RuntimeError(
                f"Required {nb_gpus} GPUs, only found these free: {get_free_gpus()}. "
                "Somebody didn't properly declare their resources?"
            ) from refused

    def allocate_gpus(self, gpu_device_numbers: Sequence[str]) -> None:
        """Makes these GPUs the visible ones and puts placeholders on them. Claims nothing: the constructor does."""
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu_device_numbers)
        self.logger.info(f"Set CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']}")
        self._occupy([int(gpu) for gpu in gpu_device_numbers])

    def _occupy(self, indices: Sequence[int]) -> None:
        time.sleep(self.debug_sleep)
        try:
            self.placeholders.extend(self.placeholder_fn(device_no) for device_no in range(len(indices)))
        except RuntimeError:
            self.logger.error(
                "Failed to acquire placeholder: the GPU is full, or the framework was started before claim_gpus()"
            )
            raise
        self.devices_taken.extend(indices)

    def release_gpus(self) -> None:
        """Releases the placeholders and ends the claim; a second time does nothing. The variables are as before the claim."""
        release = getattr(self.placeholder_fn, "release", None)
        for index, placeholder in zip(self.devices_taken, self.placeholders):
            self.logger.info(f"Releasing placeholder on CUDA device: {index}")
            if release:
                release(placeholder)
        self._let_go()

    def _let_go(self) -> None:
        self.placeholders.clear()
        if self._claim:
            self._claim.release()


def claim_gpus(
    nb_gpus: int = 1,
    placeholder_fn: Callable[[int], Any] = PytorchPlaceholder(),
    logger: Logger | None = None,
    debug_sleep: float = 0.0,
) -> None:
    """Claims GPUs for this process, waiting in line where they are not free. The first thing to do, before CUDA is started.

    The :class:`GPUOwner` is kept in ``gpu_owner``; one of an earlier call is given back first. Parameters and errors are
    its own.

    >>> from safe_gpu import safe_gpu
    >>> safe_gpu.claim_gpus(2, placeholder_fn=lambda device_no: None)
    >>> safe_gpu.gpu_owner.devices_taken
    [0, 1]
    """
    global gpu_owner
    earlier, gpu_owner = gpu_owner, None
    if earlier:
        earlier._let_go()
    gpu_owner = GPUOwner(nb_gpus, placeholder_fn, logger, debug_sleep)


def release_gpus() -> None:
    """Gives back what :func:`claim_gpus` claimed; nothing if there is nothing.

    >>> claim_gpus(placeholder_fn=lambda device_no: None)
    >>> release_gpus()
    """
    if gpu_owner:
        gpu_owner.release_gpus()

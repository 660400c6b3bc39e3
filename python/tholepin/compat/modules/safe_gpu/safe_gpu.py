"""claim_gpus and what belongs to it, under the original's names.

How this works. The claim is thole's: all or nothing, in the machine's one line, freed by the kernel with the process. A
placeholder is still made where its framework is there, as programs expect, and so that users of the original without
thole see the GPUs in use; until it is there their lock is held (``_neighbours``). The log says what the original's would: its
"lock" is the place in line, and that lock.
"""

from __future__ import annotations

import fcntl
import logging
import operator
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import tholepin
from tholepin import _late

from ._errors import NvidiasmiError, translated
from ._looks import computing, get_free_gpus, get_nvidia_smi_value, is_single_gpu_display_mode
from ._neighbours import Neighbours
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

# The lock of safe-gpu itself. Here it is never made: without it nobody uses that one.
LOCK_FILENAME = "/tmp/safe_gpu/gpu-lock-magic-RaNdOM-This_Name-NEED_BE-THE_SAME-Across_Users"


def _lock_files() -> list[str]:
    """That of safe-gpu 2, and that of safe-gpu 1, which is one folder further up."""
    folder, name = os.path.split(LOCK_FILENAME)
    return [LOCK_FILENAME, os.path.join(os.path.dirname(folder), name)]


# What claim_gpus() made last; and all that it made and that still hold GPUs, each out of the one before it.
gpu_owner: GPUOwner | None = None
_owners: list[GPUOwner] = []


class Logger(Protocol):
    """A logging.Logger, or the module logging."""

    def info(self, message: str) -> None: ...
    def error(self, message: str) -> None: ...


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
    """GPUs of this process: claimed when it is made, until :meth:`release_gpus` or the end of the process.

    Dropping it drops the placeholders, and neither the claim nor its variables.

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
        ValueError: more than one, on a machine whose only GPU has the display; fewer than none.
        TypeError: `nb_gpus` is no whole number.
        NvidiasmiError: no GPU, the driver does not answer, or the claims of this machine cannot be kept.
    """

    _waits = True

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
        nb_gpus = operator.index(nb_gpus)
        if nb_gpus < 0:
            raise ValueError(f"Requested {nb_gpus} GPUs.")
        if is_single_gpu_display_mode():
            self.logger.info("Running on a machine with single GPU used for actual display")
            if nb_gpus != 1:
                raise ValueError(f"Requested {nb_gpus} GPUs on a machine with single one.")
            self._take(self._claimed(nb_gpus))
            return
        neighbours = Neighbours(_lock_files(), self.logger)
        self.logger.info("acquiring lock")
        try:
            claim = self._claimed_before_neighbours(nb_gpus, neighbours)
            self.logger.info("lock acquired")
            self._take(claim)
        finally:
            neighbours.release()
            self.logger.info("lock released")

    def _take(self, claim: tholepin.Claim) -> None:
        self._claim = claim
        variable = next(
            (name for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK") if name in claim.env), ""
        )
        self.logger.info(f"Set {variable}={os.environ.get(variable, '')}")
        try:
            self._occupy(claim.indices)
        except BaseException:
            self._let_go()
            raise

    def _claimed_before_neighbours(self, nb_gpus: int, neighbours: Neighbours) -> tholepin.Claim:
        """A claim that safe-gpu's users heed until `neighbours` is released: whoever was choosing at the same moment came
        first, as long as he is waited for."""
        while True:
            before = computing()
            claim = self._claimed(nb_gpus)
            try:
                neighbours.acquire()
                if not neighbours.there or "/" in claim.id:  # within a claim there are its own processes
                    return claim
                if not any(gpu in claim.indices for gpu, _ in computing() - before):
                    return claim
            except BaseException:
                claim.release()
                raise
            claim.release()
            neighbours.release()

    def _claimed(self, nb_gpus: int) -> tholepin.Claim:
        try:
            try:
                return tholepin.claim(nb_gpus, wait=0)
            except tholepin.NoneFree:
                if not self._waits:
                    raise
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
        except tholepin.Error as problem:
            raise translated(problem) from problem

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


class _AtOnce(GPUOwner):
    _waits = False


def claim_gpus(
    nb_gpus: int = 1,
    placeholder_fn: Callable[[int], Any] = PytorchPlaceholder(),
    logger: Logger | None = None,
    debug_sleep: float = 0.0,
) -> None:
    """Claims GPUs for this process, waiting in line where they are not free. The first thing to do, before CUDA is started.

    The :class:`GPUOwner` is kept in ``gpu_owner``. Parameters and errors are its own. A second call takes its GPUs out of those
    of the first. If it wants more, and they are free at once, the first are given back when the new ones are had; else that is
    RuntimeError, and the first stay.

    >>> from safe_gpu import safe_gpu
    >>> safe_gpu.claim_gpus(2, placeholder_fn=lambda device_no: None)
    >>> safe_gpu.gpu_owner.devices_taken
    [0, 1]
    """
    global gpu_owner
    _owners[:] = [owner for owner in _owners if owner._claim and not owner._claim.released]
    while len(_owners) > 1 and _is_in_the_way(_owners[-1], nb_gpus):
        _owners.pop()._let_go()  # its GPUs are kept by the one before it
        gpu_owner = _owners[-1]
    if _owners and nb_gpus > len(_owners[0].devices_taken):
        made = _outgrown(_owners[0], nb_gpus, placeholder_fn, logger, debug_sleep)
        _owners.pop()
    else:
        made = GPUOwner(nb_gpus, placeholder_fn, logger, debug_sleep)
    gpu_owner = made
    _owners.append(made)


def _is_in_the_way(inner: GPUOwner, wanted: int) -> bool:
    """Whether the one before it is to give the GPUs: it has more, and they are wanted; or it has the same."""
    has = len(inner.devices_taken)
    if wanted <= has:
        return has == len(_owners[-2].devices_taken)
    try:
        _late.check(wanted)
    except tholepin.TooLateError as late:
        raise RuntimeError(str(late)) from late
    return True


def _outgrown(held: GPUOwner, *wanted: Any) -> GPUOwner:
    """A claim beside `held`, which ends when this one is had. It does not wait: two that hold and wait would wait for ever."""
    claim = held._claim
    assert claim
    claim._leave()
    try:
        made = _AtOnce(*wanted)
    except BaseException:
        claim._enter()
        raise
    held._let_go()
    return made


def release_gpus() -> None:
    """Gives back what :func:`claim_gpus` claimed; nothing if there is nothing.

    >>> claim_gpus(placeholder_fn=lambda device_no: None)
    >>> release_gpus()
    """
    for owner in [gpu_owner, *_owners[-2::-1]]:
        if owner:
            owner.release_gpus()
    _owners.clear()

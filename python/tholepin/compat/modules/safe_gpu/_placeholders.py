"""What makes a GPU look used to those who only look at its processes: a context of the framework the program uses anyway.

A framework that is not installed is no error: the claim holds without a placeholder.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .safe_gpu import Logger


def _framework(name: str, logger: Logger) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != name.partition(".")[0]:
            raise
        logger.info(f"No placeholder: {missing.name} is not installed; the claim holds without one")
        return None


class _Placeholder:
    def __init__(self, logger: Logger = logging) -> None:
        self.logger = logger


class PytorchPlaceholder(_Placeholder):
    """One element of PyTorch's on the GPU.

    >>> PytorchPlaceholder().release(None)
    """

    def __call__(self, device_no: int) -> Any:
        torch = _framework("torch", self.logger)
        return torch and torch.zeros((1), device=f"cuda:{device_no}")

    def release(self, placeholder: Any) -> None:
        """PyTorch keeps its context until the process ends."""
        self.logger.info("Did nothing, PyTorch doesn't expose interface for releasing GPUs")


class TensorflowPlaceholder(_Placeholder):
    """One element of TensorFlow's on the GPU.

    >>> TensorflowPlaceholder().release(None)
    """

    def __call__(self, device_no: int) -> Any:
        tensorflow = _framework("tensorflow", self.logger)
        if not tensorflow:
            return None
        with tensorflow.device(f"GPU:{device_no}"):
            return tensorflow.constant([1.0])

    def release(self, placeholder: Any) -> None:
        """TensorFlow keeps its context until the process ends."""
        self.logger.info("Did nothing, TensorFlow doesn't expose interface for releasing GPUs")


class PyCudaPlaceholder(_Placeholder):
    """A context of pycuda's on the GPU.

    >>> PyCudaPlaceholder().release(None)
    """

    def __call__(self, device_no: int) -> Any:
        driver = _framework("pycuda.driver", self.logger)
        if not driver:
            return None
        driver.init()
        return driver.Device(device_no).make_context()

    def release(self, placeholder: Any) -> None:
        """Detaches the context."""
        if placeholder is not None:
            placeholder.detach()
        self.logger.info("Released a CUDA context")


def pytorch_placeholder(device_no: int) -> Any:
    """safe-gpu 1's name for :class:`PytorchPlaceholder`.

    >>> from safe_gpu import safe_gpu
    >>> safe_gpu.claim_gpus(0, placeholder_fn=safe_gpu.pytorch_placeholder)
    """
    return PytorchPlaceholder()(device_no)


def tensorflow_placeholder(device_no: int) -> Any:
    """safe-gpu 1's name for :class:`TensorflowPlaceholder`.

    >>> from safe_gpu import safe_gpu
    >>> safe_gpu.claim_gpus(0, placeholder_fn=safe_gpu.tensorflow_placeholder)
    """
    return TensorflowPlaceholder()(device_no)

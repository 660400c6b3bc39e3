"""safe-gpu's one exception, and what else a program may have learnt to catch at the same place."""

from __future__ import annotations

import errno
import subprocess

import tholepin


class NvidiasmiError(Exception):
    """This machine has no GPU, its driver does not answer, or claims cannot be kept.

    >>> from safe_gpu import safe_gpu
    >>> try:
    ...     safe_gpu.claim_gpus(placeholder_fn=lambda device_no: None)
    ... except safe_gpu.NvidiasmiError:
    ...     pass                                     # without a GPU
    """


class NoDriver(NvidiasmiError, FileNotFoundError):
    """The original raises FileNotFoundError where nvidia-smi is missing."""


class DriverFails(NvidiasmiError, subprocess.CalledProcessError):
    """The original's ``get_free_gpus`` raises CalledProcessError where nvidia-smi fails."""

    def __init__(self, said: str) -> None:
        subprocess.CalledProcessError.__init__(self, 9, ["nvidia-smi"], said)

    def __str__(self) -> str:
        return str(self.output)


class NoClaims(NvidiasmiError, PermissionError):
    """The original raises PermissionError where its lock cannot be opened."""


def translated(error: tholepin.Error) -> Exception:
    """What the original would raise for a driver that fails, or where it cannot keep its lock; a mistake of the user's is
    that."""
    if isinstance(error, tholepin.DriverError):
        return DriverFails(str(error))
    if error.code == 64:
        return error
    return NoClaims(error.errno or errno.EACCES, str(error))

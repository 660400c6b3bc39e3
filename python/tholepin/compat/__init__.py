"""Programs written for safe-gpu, GPUtil, gpu_affinity and Dragon, unmodified, on thole's claims.

>>> import tholepin.compat
>>> tholepin.compat.enable()
>>> import GPUtil
>>> GPUtil.getFirstAvailable()              # claimed: nobody else gets it as long as this process lives
[0]

For a program that is not to be touched at all: ``thole compat -- python script.py``. What differs from the originals, and why:
docs/compat.md.

How this works: a finder in front of all others of this interpreter resolves the four names to the packages below ``modules/``,
also where the script's own directory has a copy of the original. ``thole compat`` does the same at the start of every
interpreter below it (``start/sitecustomize.py``).
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from typing import TYPE_CHECKING

from .. import errors, words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["enable"]

NAMES = ("safe_gpu", "GPUtil", "gpu_affinity", "dragon")
_MODULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "modules")


class _Finder:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.PathFinder.find_spec(name, [_MODULES]) if name in NAMES else None


def enable(*, wait: words.Duration | None = None) -> None:
    """From here on ``import safe_gpu``, ``GPUtil``, ``gpu_affinity`` and ``dragon`` give thole's modules, in this interpreter.

    Programs that it starts get the originals: for them there is ``thole compat``. A second call changes nothing but ``wait``.

    >>> import tholepin.compat
    >>> tholepin.compat.enable(wait="30m")         # safe_gpu.claim_gpus() waits that long, then raises RuntimeError
    >>> from safe_gpu import safe_gpu
    >>> safe_gpu.claim_gpus(2, placeholder_fn=lambda device_no: None)
    >>> len(safe_gpu.gpu_owner.devices_taken)
    2

    Args:
        wait: how long ``safe_gpu.claim_gpus`` waits for GPUs, in seconds or "30m"; 0: RuntimeError at once, as the original;
            None: as long as it takes, or as THOLE_WAIT says.

    Raises:
        Error: one of the originals is imported already.
    """
    for name in NAMES:
        loaded = sys.modules.get(name)
        where = str(getattr(loaded, "__file__", None) or "")
        if loaded is not None and not where.startswith(_MODULES + os.sep):
            raise errors.Error(
                f"{name} has been imported already", code=64, object=where, hint="call tholepin.compat.enable() before that"
            )
    if wait is not None:
        os.environ["THOLE_WAIT"] = f"{words.seconds(wait, 'wait'):.0f}s"
    finders: list[object] = list(sys.meta_path)
    if _Finder not in finders:
        sys.meta_path.insert(0, _Finder)

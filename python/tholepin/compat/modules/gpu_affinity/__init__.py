"""NVIDIA gpu_affinity 0.1.0's interface on thole's own planner. docs/compat.md says what differs.

>>> import tholepin.compat
>>> tholepin.compat.enable()
>>> import gpu_affinity
>>> gpu_affinity.Mode("unique_contiguous") is gpu_affinity.Mode.UNIQUE_CONTIGUOUS
True
"""

from . import gpu_affinity
from .gpu_affinity import GPUAffinityError, Mode, Multithreading, Scope, set_affinity

__all__ = ["GPUAffinityError", "Mode", "Multithreading", "Scope", "gpu_affinity", "set_affinity"]

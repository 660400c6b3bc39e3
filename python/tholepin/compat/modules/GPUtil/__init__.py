"""GPUtil 1.4.0's interface on thole: what it hands out is claimed. docs/compat.md says what differs.

>>> import tholepin.compat
>>> tholepin.compat.enable()
>>> import GPUtil
>>> GPUtil.__version__
'1.4.0'
"""

from __future__ import annotations

from .GPUtil import GPU, __version__, getAvailability, getAvailable, getFirstAvailable, getGPUs, showUtilization

__all__ = ["GPU", "__version__", "getAvailability", "getAvailable", "getFirstAvailable", "getGPUs", "showUtilization"]


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), "GPUtil", *__all__]

"""Dragon 0.15's interface on one host, over thole's claims and processes. docs/compat.md says what differs and what is out.

>>> from dragon import Policy, System
>>> [policy.gpu_affinity for policy in System().gpu_policies()][:2]
[[0], [1]]

Programs for Dragon 0.14.1 find the names below ``dragon.native`` and ``dragon.infrastructure``, as there.
"""

from . import _outside
from .infrastructure.policy import Policy
from .native.machine import System, current
from .native.process import ProcessTemplate
from .native.process_group import ProcessGroup

__version__ = "0.15.0"
__all__ = ["Policy", "ProcessGroup", "ProcessTemplate", "System", "current", "in_dragon"]


def in_dragon() -> bool:
    """Whether Dragon's services are there: what this drop-in has of them always is.

    >>> in_dragon()
    True
    """
    return True


def __getattr__(name: str) -> object:
    _outside.refuse(__name__, name, ("Batch", "DDict"))

"""What a claim says where multiprocessing's forkserver runs.

That process starts the children of the start method ``forkserver``, and gives them the environment that it was started with: of
a claim since then they see nothing, of one that has ended they see all.
"""

from __future__ import annotations

import os
import sys
from typing import Iterable

from . import _waiting
from ._holding import Holding

_INSTEAD = "start it once, within the claim that its children are for, or use spawn"


def tell_of_set(holding: Holding) -> None:
    """After the process has got its variables."""
    _tell(
        holding,
        f"claim {holding.id}: multiprocessing's forkserver was started before with other variables, and what it starts has "
        f"those, not this claim's: {_INSTEAD}",
    )


def tell_of_given_back(holding: Holding) -> None:
    """After its variables were taken back."""
    _tell(
        holding,
        f"claim {holding.id} has ended, but multiprocessing's forkserver still has its variables, and so has what that starts "
        f"from now on: {_INSTEAD}",
    )


def _tell(holding: Holding, caution: str) -> None:
    if holding.told_of_forkserver or not _has_others([*holding.env, *holding.unset]):
        return
    holding.told_of_forkserver = True
    _waiting.say(caution, holding.quiet)


def _has_others(names: Iterable[str]) -> bool:
    """Whether a forkserver of this process runs that has other values of these variables."""
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    pid = getattr(server, "_forkserver_pid", None)
    if pid is None:
        return False
    try:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return False  # it has ended; the next one gets what is set then
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:  # it is not ours, but of the process that forked this one
        return False
    its = {name: value for name, _, value in (entry.partition(b"=") for entry in entries)}
    return any(its.get(name) != os.environb.get(name) for name in map(os.fsencode, names))

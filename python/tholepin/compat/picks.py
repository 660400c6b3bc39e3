"""What GPUtil's functions hand out is claimed: the readings of this machine, and claims that last as long as this process.

How this works. GPUtil is a look at the machine, and two programs that look at once choose the same GPU. Here a GPU that
is handed out is claimed first, without waiting; if that fails it was not available. Claims are kept for the life of the
process, and a GPU that this process has claimed counts as available to it, so asking twice gives the same answer.
Programs name the GPU to CUDA themselves, so no variable is set but CUDA_DEVICE_ORDER, without which the number would
mean another card.

The machine is that of the environment in which this process first asked: afterwards programs narrow CUDA_VISIBLE_DEVICES to
what they were given, and would see nothing else any more.
"""

from __future__ import annotations

import os
from typing import Any

from .. import _native, _waiting, claims, errors

_machine: _native.Machine | None = None
_mine: dict[int, claims.Claim] = {}

# Somebody has it, or it is not allotted to us (a CUDA_VISIBLE_DEVICES of Slurm's).
_NOT_THIS_ONE = (75, 64)


def _first_machine() -> _native.Machine:
    global _machine
    if _machine is None:
        _machine = _native.machine()
    return _machine


def _forget() -> None:
    # A forked child has its own life: what the parent claimed is not the child's to hand out.
    global _machine
    _machine = None
    _mine.clear()


os.register_at_fork(after_in_child=_forget)


def snapshot() -> dict[str, Any]:
    """What ``thole status --json`` prints of this machine.

    >>> len(snapshot()["gpus"])
    8
    """
    answer: dict[str, Any] = _native.call_json("thole_snapshot", _first_machine())
    return answer


def take(index: int) -> bool:
    """Whether GPU `index` is now this process's own. Does not wait, and does not ask who uses it: the caller has looked.

    >>> take(3), take(3)
    (True, True)
    """
    if index in _mine:
        return True
    of_worker = claims.of_worker()
    if of_worker is not None:
        return index in of_worker.indices
    try:
        _claim({"gpus": 1, "on": [str(index)], "trust_claims": True}, 0)
    except errors.Error as refused:
        if refused.code not in _NOT_THIS_ONE:
            raise
        return False
    return True


def wait(request: dict[str, Any], seconds: float) -> list[int]:
    """Waits in the machine's line for a GPU as in `request` (see thole.h): its index, or nothing when the time is up.

    >>> wait({"gpus": 1, "pick": "last"}, 10)
    [7]
    """
    try:
        return _claim(request, seconds)
    except (errors.NoneFree, errors.WaitTimeout):
        return []


def _claim(request: dict[str, Any], seconds: float) -> list[int]:
    of_worker = claims.of_worker()
    if of_worker is not None:
        return of_worker.indices
    claim = claims.Claim()
    try:
        claims.obtain(claim, request, _waiting.Patience(seconds), _first_machine())
        _mine.update(dict.fromkeys(claim.indices, claim))
    except BaseException:
        claim.release()
        raise
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return claim.indices

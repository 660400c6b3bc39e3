"""What the driver and thole know of the GPUs now, in safe-gpu's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tholepin
from tholepin import _native

from ._errors import DriverFails, NoDriver, translated


def _now() -> dict[str, Any]:
    """thole's snapshot (thole.h), where there are GPUs and a driver that answers."""
    try:
        told: dict[str, Any] = _native.call_json("thole_snapshot", _native.machine())
    except tholepin.Error as problem:
        raise translated(problem) from problem
    if not told["gpus"]:
        problems = [one["problem"] for one in told["observations"] if one["problem"]]
        raise NoDriver("; ".join(problems) or "this machine has no GPU")
    if all(gpu["health"] != "ok" for gpu in told["gpus"]):
        reasons = dict.fromkeys(gpu["health_reason"] or gpu["health"] for gpu in told["gpus"])
        raise DriverFails(f"no GPU of this machine can be used: {'; '.join(reasons)}")
    return told


def get_free_gpus() -> list[str]:
    """The indices of the GPUs that nobody has claimed or uses, ascending. A moment later this may be wrong.

    >>> get_free_gpus()
    ['0', '1', '2', '3', '4', '5', '6', '7']
    """
    told = _now()
    claimed = {claim["gpu"] for claim in told["claims"]}
    return [
        str(i)
        for i, gpu in enumerate(told["gpus"])
        if i not in claimed and gpu["health"] == "ok" and not _computing(gpu["use"])
    ]


def _computing(use: dict[str, Any] | None) -> bool:
    # Who cannot be seen may be there.
    processes = use["processes"] if use else None
    return processes is None or any(process["kind"] != "graphics" for process in processes)


def computing() -> set[tuple[int, int]]:
    """The processes that the driver shows on the GPUs: the GPU's index, and theirs."""
    uses = [(i, gpu["use"]) for i, gpu in enumerate(_now()["gpus"]) if gpu["use"]]
    return {(i, one["pid"]) for i, use in uses for one in use["processes"] or () if one["kind"] != "graphics"}


def is_single_gpu_display_mode() -> bool:
    """Whether the machine's only GPU has a monitor.

    >>> is_single_gpu_display_mode()
    False
    """
    gpus = _now()["gpus"]
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

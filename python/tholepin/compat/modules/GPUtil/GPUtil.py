"""GPUtil's functions, over thole's readings and claims. Names, order and defaults of the parameters are the original's."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Container, Iterable, Sequence
from typing import Any

from tholepin import errors
from tholepin.compat import picks

from ._table import table

__version__ = "1.4.0"


class GPU:
    """One GPU, as read when it was made.

    >>> gpu = GPU(0, "GPU-1", 0.5, 80000.0, 20000.0, 60000.0, "580.65", "NVIDIA A100", "[N/A]", "Disabled", "Disabled", 31.0)
    >>> gpu.id, gpu.memoryUtil
    (0, 0.25)

    Attributes:
        id: its index, as nvidia-smi counts.
        load: share of the last sampling period in which a kernel ran, 0 to 1.
        memoryUtil: memory in use by total memory, 0 to 1; NaN where one is unknown or the total is 0.
        memoryTotal, memoryUsed, memoryFree: MiB. A number that cannot be read is NaN.
        temperature: Celsius.
        uuid, driver, name, serial, display_mode, display_active: text; "[N/A]" where there is none.
    """

    def __init__(
        self,
        ID: int,
        uuid: str,
        load: float,
        memoryTotal: float,
        memoryUsed: float,
        memoryFree: float,
        driver: str,
        gpu_name: str,
        serial: str,
        display_mode: str,
        display_active: str,
        temp_gpu: float,
    ) -> None:
        self.id = ID
        self.uuid = uuid
        self.load = load
        self.memoryUtil = float(memoryUsed) / float(memoryTotal) if memoryTotal else math.nan
        self.memoryTotal = memoryTotal
        self.memoryUsed = memoryUsed
        self.memoryFree = memoryFree
        self.driver = driver
        self.name = gpu_name
        self.serial = serial
        self.display_mode = display_mode
        self.display_active = display_active
        self.temperature = temp_gpu


def safeFloatCast(strNumber: str | float) -> float:
    """A number, as nvidia-smi prints it; NaN for what is none.

    >>> safeFloatCast("31"), safeFloatCast("[N/A]")
    (31.0, nan)
    """
    try:
        return float(strNumber)
    except ValueError:
        return math.nan


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _text(value: str | None) -> str:
    return value or "[N/A]"


def _switch(value: bool | None) -> str:
    return "[N/A]" if value is None else "Enabled" if value else "Disabled"


def _host_memory() -> tuple[float, float]:
    """Total and available memory of this host, MiB."""
    with open("/proc/meminfo") as file:
        sizes = dict(line.split(":", 1) for line in file)
    total, available = (int(sizes[name].split()[0]) / 1024 for name in ("MemTotal", "MemAvailable"))
    return total, available


def _gpu(index: int, seen: dict[str, Any], simulated: bool) -> GPU:
    use = seen["use"] or {}
    total, used = _number(seen["memory_mib"]), _number(use.get("memory_used_mib"))
    free = use.get("memory_free_mib")
    if seen["coherent"] and math.isnan(used) and not simulated:
        total, free = _host_memory()  # it has no memory but the host's (GB10, Jetson), and nvidia-smi says nothing
        used = total - free
    return GPU(
        index,
        _text(seen["uuid"]),
        _number(use.get("utilization_percent")) / 100,
        total,
        used,
        total - used if free is None else float(free),
        _text(seen.get("driver")),
        _text(seen["model"]),
        _text(seen.get("serial")),
        _switch(seen.get("monitor")),
        _switch(seen.get("display")),
        _number(use.get("temperature_c")),
    )


def _gpus(seen: dict[str, Any]) -> list[GPU]:
    return [_gpu(index, gpu, seen["simulated"]) for index, gpu in enumerate(seen["gpus"])]


def getGPUs() -> list[GPU]:
    """All GPUs of this machine, in the order of their ids; [] where there are none or the driver does not answer.

    >>> [gpu.id for gpu in getGPUs()]
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    return _gpus(picks.snapshot())


def getAvailability(
    GPUs: Iterable[GPU],
    maxLoad: float = 0.5,
    maxMemory: float = 0.5,
    memoryFree: float = 0,
    includeNan: bool = False,
    excludeID: Container[int] = [],
    excludeUUID: Container[str] = [],
) -> list[int]:
    """1 for each GPU that is below these bounds, 0 for the others. Looks at the given readings only and claims nothing.

    >>> getAvailability(getGPUs(), excludeID=[0])
    [0, 1, 1, 1, 1, 1, 1, 1]

    Args:
        maxLoad, maxMemory: load and memoryUtil must be below, 0 to 1.
        memoryFree: at least so many MiB free.
        includeNan: a load or memoryUtil that cannot be read counts as below.
        excludeID, excludeUUID: not these.
    """

    def below(value: float, bound: float) -> bool:
        return value < bound or (includeNan and math.isnan(value))

    return [
        int(
            gpu.memoryFree >= memoryFree
            and below(gpu.load, maxLoad)
            and below(gpu.memoryUtil, maxMemory)
            and gpu.id not in excludeID
            and gpu.uuid not in excludeUUID
        )
        for gpu in GPUs
    ]


def _last_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _ordered(GPUs: list[GPU], order: str) -> list[GPU]:
    if order == "random":
        return random.sample(GPUs, len(GPUs))
    if order == "last":
        return GPUs[::-1]
    if order == "load":
        return sorted(GPUs, key=lambda gpu: _last_if_nan(gpu.load))
    if order == "memory":
        return sorted(GPUs, key=lambda gpu: _last_if_nan(gpu.memoryUtil))
    return GPUs  # "first", and as in the original anything else


def getAvailable(
    order: str = "first",
    limit: int = 1,
    maxLoad: float = 0.5,
    maxMemory: float = 0.5,
    memoryFree: float = 0,
    includeNan: bool = False,
    excludeID: Container[int] = [],
    excludeUUID: Container[str] = [],
) -> list[int]:
    """The ids of up to `limit` GPUs below these bounds that nobody else has claimed. They are this process's own until it ends.

    >>> getAvailable(order="last", limit=2)
    [7, 6]

    Args:
        order: "first", "last", "random", "load" or "memory": which ones come first.
        limit: how many at most; math.inf for all. The others are as for :func:`getAvailability`.
    """
    seen = picks.snapshot()
    GPUs = _gpus(seen)
    available = getAvailability(GPUs, maxLoad, maxMemory, memoryFree, includeNan, excludeID, excludeUUID)
    healthy = [one["health"] == "ok" for one in seen["gpus"]]
    ids = [gpu.id for gpu in _ordered([gpu for gpu, good in zip(GPUs, available) if good and healthy[gpu.id]], order)]
    most = len(ids[: min(limit, len(ids))])  # a negative limit leaves out the last ones, as any slice
    taken: list[int] = []
    for id in ids[:limit] if limit < 0 else ids:
        if len(taken) == most:
            break
        if picks.take(id):
            taken.append(id)
    return taken


def getFirstAvailable(
    order: str = "first",
    maxLoad: float = 0.5,
    maxMemory: float = 0.5,
    attempts: int = 1,
    interval: float = 900,
    verbose: bool = False,
    includeNan: bool = False,
    excludeID: Sequence[int] = [],
    excludeUUID: Sequence[str] = [],
) -> list[int]:
    """The id of one available GPU, in a list. It is this process's own until it ends.

    Between attempts it waits in the machine's line, so it gets a GPU as soon as it is its turn, not at the end of the interval.

    >>> import os
    >>> os.environ["CUDA_VISIBLE_DEVICES"] = str(getFirstAvailable()[0])

    Args:
        attempts: how often it looks.
        interval: seconds between two looks.
        verbose: prints what it does. The others are as for :func:`getAvailable`.

    Raises:
        RuntimeError: none was available at any attempt.
    """
    available: list[int] = []
    for attempt in range(attempts):
        if verbose:
            print(f"Attempting ({attempt + 1}/{attempts}) to locate available GPU.")
        available = available or getAvailable(order, 1, maxLoad, maxMemory, 0, includeNan, excludeID, excludeUUID)
        if available:
            if verbose:
                print(f"GPU {available} located!")
            return available
        if attempt != attempts - 1:
            available = _wait(order, maxLoad, maxMemory, interval, includeNan, excludeID, excludeUUID)
    raise RuntimeError(f"Could not find an available GPU after {attempts} attempts with {interval} seconds interval.")


def _percent_below(share: float) -> float:
    # "Below" is GPUtil's word, "at most" thole's.
    return math.nextafter(min(1.0, share) * 100, 0)


def _wait(
    order: str,
    maxLoad: float,
    maxMemory: float,
    seconds: float,
    includeNan: bool,
    excludeID: Sequence[int],
    excludeUUID: Sequence[str],
) -> list[int]:
    present = [gpu for gpu in getGPUs() if gpu.id in excludeID or gpu.uuid in excludeUUID]
    request = {
        "gpus": 1,
        "not": [str(gpu.id) for gpu in present],
        "pick": order if order in ("last", "random", "load", "memory") else "first",
        "beside": "any",
        "max_load_percent": _percent_below(maxLoad),
        "max_memory_percent": _percent_below(maxMemory),
        "trust_claims": includeNan,
    }
    if maxLoad <= 0 or maxMemory <= 0:
        time.sleep(seconds)  # nothing is below; the original looks again after a while
        return []
    try:
        return picks.wait(request, seconds)
    except errors.Error as refused:
        if refused.code != 64:
            raise
        time.sleep(seconds)  # no GPU of this machine can ever do, as it stands
        return []


def showUtilization(
    all: bool = False,
    attrList: list[list[dict[str, Any]]] | None = None,
    useOldCode: bool = False,
) -> None:
    """Prints a table of all GPUs: id, load and memory use.

    >>> showUtilization()  # doctest: +ELLIPSIS
    | ID | GPU | MEM |
    ------------------
    |  0 |  0% |  0% |
    ...

    Args:
        all: everything that is known of them; `attrList` is then not looked at.
        attrList: the columns instead: groups of them, each a dict with "attr" (an attribute of :class:`GPU`) and "name" (the
            heading), and where wanted "suffix", "transform" (a function of the value) and "precision" (decimals).
        useOldCode: the plain format of GPUtil's first versions.

    Raises:
        TypeError: an attribute is neither a number nor a text.
    """
    for line in table(getGPUs(), all, attrList, useOldCode):
        print(line)

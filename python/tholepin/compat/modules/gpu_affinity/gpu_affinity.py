"""set_affinity and what it is made of, under the original's names.

How this works. The inputs are gathered by :class:`Device`, :func:`get_thread_siblings_list` and
``os.sched_getaffinity``, looked up at every call, since the original's own tests replace them. The assignment is
thole's (``mode: compat`` of docs/plan.md, which was checked against the original's results). The functions of
``_groups`` are here for programs that call them; nothing here does.
"""

import functools
import os
import pathlib
from collections.abc import Iterable
from typing import Any, Optional

from tholepin import _native, errors, words

from ._groups import (
    Cores,
    build_thread_siblings_dict,
    check_affinities,
    check_core_count,
    group_by_node,
    group_list_by_key,
    ungroup_all_and_check_count,
    ungroup_by_nodes,
    ungroup_by_siblings,
)
from ._words import GPUAffinityError, Mode, Multithreading, Scope

__all__ = [
    "Device", "GPUAffinityError", "Mode", "Multithreading", "Scope", "build_thread_siblings_dict", "check_affinities",
    "check_core_count", "get_affinities", "get_all", "get_grouped_affinities", "get_single", "get_single_unique",
    "get_thread_siblings_list", "get_unique", "group_by_node", "group_by_siblings", "group_list_by_key", "set_affinity",
    "ungroup_all_and_check_count", "ungroup_by_nodes", "ungroup_by_siblings",
]  # fmt: skip


@functools.lru_cache(maxsize=4)
def _gpus(machine: _native.Machine) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = _native.call_json("thole_snapshot", machine)["gpus"]
    return seen


class Device:
    """The GPU that the process's device number `device_idx` means, heeding CUDA_VISIBLE_DEVICES as CUDA does.

    >>> Device(0).get_cpu_affinity(Scope.NODE)[:2]
    [48, 49]

    Raises:
        GPUAffinityError: there is no such device, or the driver does not answer.
    """

    def __init__(self, device_idx: int) -> None:
        try:
            gpus = _gpus(_native.machine())
        except errors.Error as problem:
            raise GPUAffinityError("Error while initializing pynvml") from problem
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        index = _by_cuda_number(gpus, device_idx) if named is None else _named(gpus, device_idx, named.split(","))
        if not 0 <= index < len(gpus):
            raise GPUAffinityError(f"Unable to get NVML handle for device {index}")
        self._gpu = gpus[index]

    def get_name(self) -> str:
        """The model's name."""
        return self._gpu["model"] or ""

    def get_uuid(self) -> str:
        """The UUID."""
        return self._gpu["uuid"] or ""

    def get_cpu_affinity(self, scope: Scope) -> list[int]:
        """The CPUs near it, ascending: those of its NUMA node, or of its socket."""
        if scope not in (Scope.NODE, Scope.SOCKET):
            raise GPUAffinityError("Unknown affinity scope")
        near = self._gpu["near_cpus"]["node" if scope == Scope.NODE else "package"]
        if near is None:
            raise GPUAffinityError(f"The CPUs near {self.get_uuid()} within scope {scope} are not known")
        return sorted(words.cpus(near))


def _by_cuda_number(gpus: list[dict[str, Any]], number: int) -> int:
    # CUDA counts the fastest first unless CUDA_DEVICE_ORDER says PCI_BUS_ID.
    if os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return number
    return next((index for index, gpu in enumerate(gpus) if gpu["cuda_index"] == number), number)


def _named(gpus: list[dict[str, Any]], device_idx: int, visible: list[str]) -> int:
    """The index of the GPU that an entry of CUDA_VISIBLE_DEVICES means: a number, or the beginning of a UUID."""
    if device_idx >= len(visible):
        raise GPUAffinityError(
            f"Requested device_idx={device_idx} is out of bounds for the specified CUDA_VISIBLE_DEVICES={visible}"
        )
    entry = visible[device_idx].strip()
    if entry.lstrip("-").isdigit():
        return _by_cuda_number(gpus, int(entry))
    uuids = [[gpu["uuid"] or "", *(instance["uuid"] or "" for instance in gpu["mig"])] for gpu in gpus]
    matching = [i for i, names in enumerate(uuids) if entry and any(name.startswith(entry) for name in names)]
    if len(matching) != 1:
        how_many = "Multiple" if matching else "None of the"
        raise GPUAffinityError(
            f"{how_many} devices matched the specified UUID prefix, prefix={entry}, devices={[names[0] for names in uuids]}"
        )
    return matching[0]


def get_thread_siblings_list() -> list[tuple[int, ...]]:
    """The CPUs of each physical core that has several, as tuples.

    >>> all(len(core) > 1 for core in get_thread_siblings_list())
    True
    """
    siblings = set()
    for name in pathlib.Path("/").glob("sys/devices/system/cpu/cpu*/topology/thread_siblings_list"):
        with open(name) as file:
            core = tuple(sorted(words.cpus(file.read())))
        if len(core) > 1:
            siblings.add(core)
    return sorted(siblings)


def group_by_siblings(affinities: Iterable[Iterable[int]]) -> list[tuple[Cores, ...]]:
    """Each list of CPUs as its physical cores.

    >>> group_by_siblings([[4090, 4091]])
    [((4090,), (4091,))]
    """
    cores = build_thread_siblings_dict(get_thread_siblings_list())
    return [tuple(group_list_by_key(affinity, key=lambda cpu: cores.get(cpu, (cpu,)))) for affinity in affinities]


# The mask before set_affinity first narrowed it, and the one that it set: a second call starts from the first.
_narrowed: Optional[tuple[set[int], set[int]]] = None


def _available() -> set[int]:
    now = set(os.sched_getaffinity(0))
    return _narrowed[0] if _narrowed and now == _narrowed[1] else now


def get_affinities(nproc_per_node: int, scope: Scope, exclude_unavailable_cores: bool = True) -> list[list[int]]:
    """The CPUs near each GPU, those that this process may use.

    >>> get_affinities(1, Scope.NODE, exclude_unavailable_cores=False)[0][:2]
    [48, 49]

    Raises:
        GPUAffinityError: two of these sets overlap without being the same.
    """
    affinities = [Device(i).get_cpu_affinity(scope) for i in range(nproc_per_node)]
    if exclude_unavailable_cores:
        available = _available()
        affinities = [sorted(set(affinity) & available) for affinity in affinities]
    check_affinities(affinities)
    return affinities


def get_grouped_affinities(nproc_per_node: int, exclude_unavailable_cores: bool = True) -> list[tuple[Any, ...]]:
    """Each GPU's near cores, each in a group with its share of the socket's other cores.

    >>> len(get_grouped_affinities(1, exclude_unavailable_cores=False))
    1
    """
    socket = get_affinities(nproc_per_node, Scope.SOCKET, exclude_unavailable_cores)
    node = get_affinities(nproc_per_node, Scope.NODE, exclude_unavailable_cores)
    return group_by_node(group_by_siblings(socket), group_by_siblings(node))


def get_all(
    nproc_per_node: int,
    scope: Scope,
    multithreading: Multithreading,
    min_physical_cores: int,
    max_physical_cores: Optional[int],
) -> list[list[int]]:
    """The CPUs of each GPU in mode ALL: all that are near it.

    >>> get_all(1, Scope.NODE, Multithreading.ALL_LOGICAL, 1, None) == get_affinities(1, Scope.NODE)
    True
    """
    return _assigned(nproc_per_node, Mode.ALL, scope, multithreading, min_physical_cores, max_physical_cores, True)


def get_single(
    nproc_per_node: int,
    scope: Scope,
    multithreading: Multithreading,
    min_physical_cores: int = 1,
    max_physical_cores: Optional[int] = 1,
) -> list[list[int]]:
    """The CPUs of each GPU in mode SINGLE: those of the first core near it. Always one core.

    >>> get_single(2, Scope.NODE, Multithreading.SINGLE_LOGICAL)
    [[48], [48]]
    """
    return _assigned(nproc_per_node, Mode.SINGLE, scope, multithreading, 1, 1, True)


def get_single_unique(
    nproc_per_node: int,
    scope: Scope,
    multithreading: Multithreading,
    min_physical_cores: int = 1,
    max_physical_cores: Optional[int] = 1,
) -> list[list[int]]:
    """The CPUs of each GPU in mode SINGLE_UNIQUE: those of the first core near it that no GPU before it has. Always one core.

    >>> first, second = get_single_unique(2, Scope.NODE, Multithreading.SINGLE_LOGICAL)
    >>> first, first == second
    ([48], False)
    """
    return _assigned(nproc_per_node, Mode.SINGLE_UNIQUE, scope, multithreading, 1, 1, True)


def get_unique(
    nproc_per_node: int,
    scope: Scope,
    multithreading: Multithreading,
    mode: Mode,
    min_physical_cores: int,
    max_physical_cores: Optional[int],
    balanced: bool = True,
) -> list[list[int]]:
    """The CPUs of each GPU in the modes UNIQUE_CONTIGUOUS and UNIQUE_INTERLEAVED: its share of the near cores.

    >>> [len(cpus) for cpus in get_unique(8, Scope.NODE, Multithreading.SINGLE_LOGICAL, Mode.UNIQUE_CONTIGUOUS, 1, 2)]
    [2, 2, 2, 2, 2, 2, 2, 2]
    """
    if mode not in (Mode.UNIQUE_CONTIGUOUS, Mode.UNIQUE_INTERLEAVED):
        raise GPUAffinityError("Unknown affinity mode")
    return _assigned(nproc_per_node, mode, scope, multithreading, min_physical_cores, max_physical_cores, balanced)


def _assigned(
    nproc_per_node: int,
    mode: Mode,
    scope: Scope,
    multithreading: Multithreading,
    min_physical_cores: int,
    max_physical_cores: Optional[int],
    balanced: bool,
) -> list[list[int]]:
    if multithreading not in tuple(Multithreading):
        raise GPUAffinityError("Unknown multithreading mode")
    near = {s: get_affinities(nproc_per_node, s) for s in (Scope.SOCKET, Scope.NODE)}
    highest = max((cpu for lists in near.values() for affinity in lists for cpu in affinity), default=0)
    core = build_thread_siblings_dict(get_thread_siblings_list())
    request = {
        "machine": {
            "cpus": [{"id": cpu, "core": core.get(cpu, (cpu,))[0]} for cpu in range(highest + 1)],
            "gpus": [
                {"near_cpus": {"node": words.cpu_list(node), "package": words.cpu_list(socket)}}
                for node, socket in zip(near[Scope.NODE], near[Scope.SOCKET])
            ],
        },
        "ranks": nproc_per_node,
        "bind": {
            "mode": "compat",
            "affinity": mode.value,
            "scope": scope.value,
            "smt": "one" if multithreading == Multithreading.SINGLE_LOGICAL else "all",
            "balanced": balanced,
            "min_cores": max(0, min_physical_cores),
            "max_cores": max_physical_cores,
        },
    }
    answer = _native.call_json("thole_plan_answer", _native.machine(), _native.encoded(request))
    if "error" in answer:
        who = f"GPU {answer['error']['rank']}: " if "rank" in answer["error"] else ""
        raise GPUAffinityError(f"{who}{answer['error']['message']}")
    return [sorted(words.cpus(rank["cpus"])) for rank in answer["ranks"]]


def set_affinity(
    gpu_id: int,
    nproc_per_node: int,
    *,
    mode: Mode = Mode.UNIQUE_CONTIGUOUS,
    scope: Scope = Scope.NODE,
    multithreading: Multithreading = Multithreading.ALL_LOGICAL,
    balanced: bool = True,
    min_physical_cores: int = 1,
    max_physical_cores: Optional[int] = None,
) -> set[int]:
    """Binds this process to CPUs near its GPU; the CPUs that it may run on then.

    >>> try:
    ...     set_affinity(8, 8)
    ... except GPUAffinityError as problem:
    ...     print(problem)
    gpu_id=8 should be smaller than nproc_per_node=8

    Args:
        gpu_id: which of the node's processes this is, 0 to ``nproc_per_node - 1``; it uses the GPU of that number.
        nproc_per_node: how many processes the node has, one for each GPU.
        mode: which of the near cores: ALL; a SINGLE one; SINGLE_UNIQUE, one that no other has; UNIQUE_INTERLEAVED and
            UNIQUE_CONTIGUOUS, this process's share of them.
        scope: near means of the same NODE, or of the same SOCKET.
        multithreading: all threads of a core, or its first one only.
        balanced: every process gets as many cores as the poorest (UNIQUE modes).
        min_physical_cores: less than so many is an error (not in the SINGLE modes).
        max_physical_cores: no more than so many (not in the SINGLE modes).

    Raises:
        GPUAffinityError: this machine cannot give every process its share, or the kernel refused the mask.
    """
    global _narrowed
    if gpu_id >= nproc_per_node:
        raise GPUAffinityError(f"gpu_id={gpu_id} should be smaller than nproc_per_node={nproc_per_node}")
    if mode not in tuple(Mode):
        raise GPUAffinityError("Unknown affinity mode")
    if mode == Mode.ALL:
        affinity = get_all(nproc_per_node, scope, multithreading, min_physical_cores, max_physical_cores)
    elif mode == Mode.SINGLE:
        affinity = get_single(nproc_per_node, scope, multithreading)
    elif mode == Mode.SINGLE_UNIQUE:
        affinity = get_single_unique(nproc_per_node, scope, multithreading)
    else:
        affinity = get_unique(nproc_per_node, scope, multithreading, mode, min_physical_cores, max_physical_cores, balanced)
    before = _available()
    try:
        os.sched_setaffinity(0, affinity[gpu_id])
        got = set(os.sched_getaffinity(0))
    except OSError as problem:
        raise GPUAffinityError("Error while calling os affinity functions") from problem
    _narrowed = (before, got)
    os.environ.setdefault("KMP_AFFINITY", "disabled")  # else Intel's OpenMP takes it back in every forked child
    return got

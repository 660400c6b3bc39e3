"""This machine: its GPUs, who has them, why they are handed out or not, how it is built, and what a job would get on it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from . import _native, _option_words, _program, errors, words


@dataclass(frozen=True)
class Unit:
    """What can be claimed: a whole GPU, or one instance of a partitioned one.

    >>> import tholepin
    >>> tholepin.gpus()[5].units[0].name, tholepin.gpus()[5].units[0].state
    ('5', 'idle')

    Attributes:
        name: "3", or "3:1" for the second instance of GPU 3.
        uuid: its UUID, or what stands for it where it has none.
        model: as the driver names it.
        memory_mib: in all; None where it cannot be read.
        state: "idle", "claimed", "shared", "overdue", "foreign", "sick", "unknown".
        why: the state in words; "" when it is idle.
        visible: whether what allots GPUs to this process from outside (``CUDA_VISIBLE_DEVICES``) leaves it.
        mine: whether a claim of this user is on it.
    """

    name: str
    uuid: str
    model: str
    memory_mib: int | None
    state: str
    why: str
    visible: bool
    mine: bool

    @property
    def free(self) -> bool:
        """Whether a claim could have it now, if nobody waits before."""
        return self.state == "idle" and self.visible


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine, as it is now. Figures that the driver does not give are None.

    >>> import tholepin
    >>> gpu = tholepin.gpus()[0]
    >>> gpu.index, gpu.model, gpu.memory_mib, gpu.free
    (0, 'NVIDIA A100-SXM4-80GB', 81920, True)

    Attributes:
        index: as ``nvidia-smi`` and ``thole status`` count, by PCI address.
        uuid, vendor, model, pci, numa: what and where it is; ``numa`` is the memory node.
        memory_mib, memory_used_mib: in all, and used by programs.
        utilization_percent, memory_utilization_percent, temperature_c, power_w: as the driver says.
        health: "ok", "lost", "reset-required", …
        units: what of it can be claimed: itself, or its instances.
        processes: of those that use it: dicts with "pid", "user", "command", "memory_mib"; None where it is not known.
        claims: on it: dicts with "id", "user", "pid", "since", "until", "command" (docs/json.md).
    """

    index: int
    uuid: str | None
    vendor: str
    model: str
    pci: str | None
    numa: int | None
    memory_mib: int | None
    memory_used_mib: int | None
    utilization_percent: float | None
    memory_utilization_percent: float | None
    temperature_c: float | None
    power_w: float | None
    health: str
    units: tuple[Unit, ...]
    processes: list[dict[str, Any]] | None
    claims: list[dict[str, Any]]

    @property
    def free(self) -> bool:
        """Whether a claim could have it, or an instance of it, now."""
        return any(unit.free for unit in self.units)


def status() -> dict[str, Any]:
    """The machine, its present use, its claims and who waits: what ``thole status --json`` prints (docs/json.md).

    Takes as long as the driver takes to answer, at most about 10 s; one that does not answer is told, not waited for.

    >>> import tholepin
    >>> now = tholepin.status()
    >>> now["schema"], len(now["gpus"]), now["claims"]
    ('thole/machine/1', 8, [])

    Raises:
        Error: the state directory cannot be read.
    """
    told: dict[str, Any] = _native.call_json("thole_snapshot", _native.machine())
    return told


def gpus() -> list[Gpu]:
    """The GPUs of this machine by index, each with its use and its claims. A machine without GPUs has none; that is no error.

    >>> import tholepin
    >>> [gpu.index for gpu in tholepin.gpus() if gpu.free]
    [0, 1, 2, 3, 4, 5, 6, 7]

    Raises:
        Error: the state directory cannot be read.
    """
    told = status()
    units: list[list[Unit]] = [[] for _ in told["gpus"]]
    for unit in told["units"]:
        units[unit["gpu"]].append(
            Unit(
                unit["unit"],
                unit["key"],
                unit["model"],
                unit["memory_mib"],
                unit["state"],
                unit["why"] or "",
                unit["visible"],
                unit["mine"],
            )
        )
    claims: list[list[dict[str, Any]]] = [[] for _ in told["gpus"]]
    for claim in told["claims"]:
        if claim["gpu"] is not None:
            claims[claim["gpu"]].append(claim)
    return [_gpu(index, gpu, tuple(units[index]), claims[index]) for index, gpu in enumerate(told["gpus"])]


def _gpu(index: int, told: dict[str, Any], units: tuple[Unit, ...], claims: list[dict[str, Any]]) -> Gpu:
    use = told.get("use") or {}
    known: dict[str, Any] = {
        name: told.get(name) for name in ("uuid", "vendor", "model", "pci", "numa", "memory_mib", "health")
    }
    known.update({name: use.get(name) for name in _USE})
    return Gpu(index=index, units=units, claims=claims, **known)


_USE = ("memory_used_mib", "utilization_percent", "memory_utilization_percent", "temperature_c", "power_w", "processes")


def why(*what: words.Name, **request: Any) -> dict[str, Any]:
    """Why a GPU is handed out or not, what a job waits for, or what would become of a request now; nothing is claimed.

    >>> import tholepin
    >>> tholepin.why(3)["units"][0]["why"]
    ['free: nobody has claimed it, and the driver reports no use that counts']
    >>> tholepin.why(gpus=2)["plan"]["would"]
    'claim'

    Args:
        what: GPUs (3, "0:1", a UUID) or jobs ("job 12", "12.3").
        request: the words of :func:`claim` instead: ``gpus=4, memory="70G"``.

    Returns:
        ``thole/why/1`` (docs/json.md): sentences, the most important first.

    Raises:
        Error: there is no such GPU or job.
    """
    named = [word for name in words.names(what, "what") for word in name.split()]
    told: dict[str, Any] = _program.answer("why", _program.options(request), named)
    return told


def topo(form: words.Form = "text") -> str:
    """The machine drawn: which cores and memory are near which GPU and NIC, how the GPUs are joined, who has them.

    >>> import tholepin
    >>> "NUMA node" in tholepin.topo() and "</svg>" in tholepin.topo("svg")
    True

    Args:
        form: "text" (80 columns wide), "svg" (a picture), "matrix" (as ``nvidia-smi topo -m``).
    """
    words_of: dict[str, list[str]] = {"text": [], "svg": ["--svg", "-"], "matrix": ["--matrix"]}
    return _program.text("topo", words_of[words.choice(form, "form")])


@dataclass(frozen=True)
class Rank:
    """One process of a planned job.

    >>> import tholepin
    >>> tholepin.plan(ranks=2, bind="exclusive").ranks[1].why
    'node 3: 8 of 16 cores, divided among GPUs 0,1'

    Attributes:
        rank: its number.
        gpus: its GPUs, by index.
        cpus: those it is to be bound to; none: not bound.
        degraded: whether it is less than was asked for.
        why: these CPUs, in a sentence.
    """

    rank: int
    gpus: list[int]
    cpus: frozenset[int]
    degraded: bool
    why: str


@dataclass(frozen=True)
class Plan:
    """Which GPUs a job would get, and what its processes would be bound to.

    >>> import tholepin
    >>> tholepin.plan(2).why
    '0,1: NV12 pair on node 3; leaves six free'

    Attributes:
        gpus: by index.
        ranks: its processes.
        why: why these GPUs.
        score: the sum of the links among them (docs/plan.md).
        exact: whether all sets were compared; False where there were more than 16 to choose from.
    """

    gpus: list[int]
    ranks: list[Rank]
    why: str
    score: float
    exact: bool


def plan(
    gpus: int | None = None,
    *,
    ranks: int | None = None,
    on: Iterable[words.Name] | words.Name | None = None,
    busy: Iterable[words.Name] | words.Name | None = None,
    order: Iterable[words.Name] | words.Name | None = None,
    shape: str | None = None,
    bind: words.Binding | None = None,
    machine: str | Mapping[str, Any] | None = None,
    allowed: str | None = None,
) -> Plan:
    """Which GPUs a job of several processes would get and what each would be bound to, on this machine or another one.

    Claims nothing and does not look at who has what now (``busy`` says that); :func:`why` does.

    >>> import tholepin
    >>> plan = tholepin.plan(gpus=2, ranks=2, busy=[0], bind="exclusive")
    >>> plan.gpus, len(plan.ranks[0].cpus)
    ([2, 3], 16)

    Args:
        gpus: how many; all of ``on`` or one for each rank if not given.
        ranks: processes; one with all the GPUs if not given.
        on: only these, by index: [0, 1], or "0-1". busy: others have these. order: these first.
        shape: "collective", "pairwise", "independent".
        bind: how they are bound; as ``thole run`` does if not given.
        machine: a machine file's path, a name ("dgx-a100"), a shorthand ("8xA100"), or a machine as a dict; this one if not
            given.
        allowed: the CPUs that may be used, as for ``taskset -c``.

    Raises:
        NeverPossible: that machine cannot give it; ``object`` names the rank where one is to blame.
        Error: a wrong request.
    """
    request: dict[str, Any] = {"gpus": gpus, "ranks": ranks, "shape": shape, "machine": machine, "allowed": allowed}
    for name, value in (("on", on), ("busy", busy), ("order", order)):
        if value is not None:
            request[name] = words.gpu_numbers(value, name)
    if bind is not None:
        request["bind"] = words.binding(bind, "bind")
    asked = {name: words.plain(value, name) for name, value in request.items() if value is not None}
    answer = _native.call_json("thole_plan_answer", _native.machine(), _native.encoded(asked))
    if "error" in answer:
        refused = answer["error"]
        kind = errors.NeverPossible if refused["code"] == "unsatisfiable" else errors.WrongRequest
        said = _option_words.in_arguments(_option_words.of_field(refused["message"], {}), _option_words.texts_in(asked))
        raise kind(said, code=64, object="" if refused.get("rank") is None else f"rank {refused['rank']}")
    return Plan(
        gpus=answer["gpus"],
        ranks=[Rank(one["rank"], one["gpus"], words.cpus(one["cpus"]), one["degraded"], one["why"]) for one in answer["ranks"]],
        why=answer["explain"],
        score=answer["score"],
        exact=answer.get("exact", True),
    )


@dataclass(frozen=True)
class Bound:
    """What a process has been bound to.

    >>> import tholepin
    >>> bound = tholepin.bind(0, 8, how="package")
    >>> bound.rank, bound.gpus, bound.degraded
    (0, [0], False)

    Attributes:
        cpus: those its threads may run on now.
        gpus: its GPUs, by index. rank: which process of the job it is.
        degraded: whether it is less than was asked for. why: these CPUs, in a sentence.
        env: variables that were set with it (NICs for UCX and NCCL, KMP_AFFINITY, thread counts if asked for).
        differences: how what the kernel gave differs from what was asked: sentences, none when it does not.
    """

    cpus: frozenset[int]
    gpus: list[int]
    rank: int
    degraded: bool
    why: str
    env: dict[str, str]
    differences: list[str]


def bind(
    local_rank: int | None = None,
    nproc_per_node: int | None = None,
    *,
    gpus_per_rank: int = 1,
    on: Iterable[words.Name] | words.Name = (),
    how: words.Binding | None = None,
) -> Bound:
    """Binds this process, all its threads, to the CPUs near its GPUs: for a rank that torchrun or another launcher has started.

    Without numbers the launcher's variables tell (torchrun, Open MPI, MPICH, Slurm); without those it is the only process, with
    all GPUs that it may see, such as the claimed ones. Call it before data loaders and thread pools start: what they inherit
    follows. Memory that is in use stays where it is; ``thole bind COMMAND`` and ``thole run`` bind before the program starts.

    >>> import tholepin
    >>> with tholepin.claim(1, on=0):
    ...     bound = tholepin.bind(how="package")
    >>> bound.cpus == os.sched_getaffinity(0)
    True

    Args:
        local_rank, nproc_per_node: which of how many processes of this job on this machine, from 0.
        gpus_per_rank: the GPUs of each, counted off from those that it may see.
        on: counted off from these instead.
        how: "node", "exclusive", "core:4" …, or a dict of words (docs/binding.md); as configured if not given.

    Raises:
        DriverError: the driver does not answer.
        Error: a wrong request; none of the CPUs near the GPUs may be used; with {"strict": True} anything less than asked for.
    """
    numbers = {"local_rank": local_rank, "nproc_per_node": nproc_per_node, "gpus_per_rank": gpus_per_rank}
    request: dict[str, Any] = {what: None if number is None else words.whole(number, what) for what, number in numbers.items()}
    if request["gpus_per_rank"] == 0:
        raise errors.WrongRequest("gpus_per_rank: expected 1 or more, got 0")
    request["ranks"] = request.pop("nproc_per_node")
    request["on"] = words.gpu_names(on, "on")
    if how is not None:
        request["bind"] = words.binding(how, "how")
    try:
        told = _native.call_json("thole_bind", _native.machine(), _native.encoded(request))
    except errors.WrongRequest as error:
        error.say(re.sub(r"^bind(?=[.:])", "how", error.message))
        raise
    rank = told["binding"]["ranks"][told["rank"]]
    os.environ.update(rank["set"])
    now: set[int] = set()
    for mask in told["got"]:
        now |= words.cpus(mask["cpus"])
    return Bound(frozenset(now), rank["gpus"], told["rank"], rank["degraded"], rank["why"], rank["set"], told["differences"])

"""Which GPUs and CPUs a process gets: Policy, in the words that Dragon's users know."""

from __future__ import annotations

import contextvars
import enum
import os
from dataclasses import dataclass, fields
from typing import Any, Mapping, Sequence, Union

from . import words
from .errors import NeverPossible, WrongRequest, WrongType


@dataclass(frozen=True, repr=False)
class Policy:
    """What a process of a Pool, a ProcessGroup or a Process gets.

    >>> import tholepin
    >>> one_gpu = tholepin.Policy(gpu_affinity=[0])
    >>> with tholepin.Pool(policy=[one_gpu], processes_per_policy=2) as pool:
    ...     pool.map(os.getenv, ["CUDA_VISIBLE_DEVICES"] * 2)
    ['0', '0']

    A policy without ``gpu_affinity`` leaves the GPUs as they are; one without ``cpu_affinity`` binds to the CPUs near its
    GPUs, or leaves the CPUs as they are where it has no GPUs. The GPUs are claimed by the process that makes the pool or
    group, until that ends.

    ``with policy:`` puts it below what is made inside: a Pool, a Process or a ProcessGroup has of it what its own policy does
    not say. Of one within another the inner says first. It holds for this thread, or asyncio's task.

    Attributes:
        placement: ``Policy.Placement``. All there is is this host, so HOST_NAME and HOST_ID only say which host it must be.
        host_name: with HOST_NAME; another host's name raises NeverPossible.
        host_id: with HOST_ID: 0 is this host.
        distribution: ``Policy.Distribution``: over hosts, and so without meaning on one.
        cpu_affinity: the numbers of the CPUs.
        gpu_affinity: the GPUs, in the order in which the process is to number them: indices as ``thole status`` counts, "0:1"
            for an instance, UUIDs or unique beginnings, PCI addresses.
        gpu_env_str, wait_mode, refcounted: Dragon's, and without meaning there, too.
    """

    class Placement(enum.IntEnum):
        """Which host."""

        LOCAL = -5
        ANYWHERE = -4
        HOST_NAME = -3
        HOST_ID = -2
        DEFAULT = -1

    class Distribution(enum.IntEnum):
        """How several processes spread over hosts."""

        ROUNDROBIN = 1
        BLOCK = 2
        DEFAULT = 3

    class WaitMode(enum.IntEnum):
        """How Dragon's channels wait."""

        IDLE = 1
        SPIN = 2
        DEFAULT = 3

    placement: Placement = Placement.DEFAULT
    host_name: str = ""
    host_id: int = -1
    distribution: Distribution = Distribution.DEFAULT
    cpu_affinity: Sequence[int] = ()
    gpu_env_str: str = ""
    gpu_affinity: Sequence[Union[int, str]] = ()
    wait_mode: WaitMode = WaitMode.DEFAULT
    refcounted: bool = True

    def __post_init__(self) -> None:
        for name, kind in (("placement", self.Placement), ("distribution", self.Distribution), ("wait_mode", self.WaitMode)):
            object.__setattr__(self, name, _member(kind, getattr(self, name), f"Policy.{name}"))
        for name in ("host_name", "gpu_env_str"):
            words.text(getattr(self, name), f"Policy.{name}")
        object.__setattr__(self, "host_id", words.own(self.host_id))
        if not isinstance(self.host_id, int):
            raise WrongType(f"Policy.host_id: expected a number, got {self.host_id!r}")
        object.__setattr__(self, "refcounted", words.flag(self.refcounted, "Policy.refcounted"))
        for name in ("cpu_affinity", "gpu_affinity"):
            object.__setattr__(self, name, tuple(map(words.own, words.listed(getattr(self, name), f"Policy.{name}"))))
        for cpu in self.cpu_affinity:
            if not isinstance(cpu, int) or isinstance(cpu, bool) or cpu < 0:
                raise WrongRequest(f"Policy.cpu_affinity: {cpu!r} is no CPU's number")
        for gpu in self.gpu_affinity:
            if not isinstance(gpu, (int, str)) or isinstance(gpu, bool) or gpu == "" or (isinstance(gpu, int) and gpu < 0):
                raise WrongRequest(f"Policy.gpu_affinity: {gpu!r} is no GPU's number or name")
        self._check_host()

    def _check_host(self) -> None:
        if self.placement is self.Placement.HOST_NAME and self.host_name not in _own_names():
            raise NeverPossible(
                f"Policy.host_name: {self.host_name!r} is not this host",
                object=os.uname().nodename,
                hint="only this host is known here",
            )
        if self.placement is self.Placement.HOST_ID and self.host_id != 0:
            raise NeverPossible(
                f"Policy.host_id: there is no host {self.host_id}", hint="this host is 0, and only it is known here"
            )

    def __enter__(self) -> Policy:
        _in_force.set((*_in_force.get(), Policy.merge(Policy.thread_policy(), self)))
        return self

    def __exit__(self, *_: object) -> None:
        _in_force.set(_in_force.get()[:-1])

    @classmethod
    def thread_policy(cls) -> Policy:
        """What the ``with`` statements around say, all merged."""
        inside = _in_force.get()
        return inside[-1] if inside else cls()

    @classmethod
    def global_policy(cls) -> Policy:
        """What holds for everything: nothing is said."""
        return cls()

    def get_sdict(self) -> dict[str, Any]:
        """As a dict of plain values, that JSON can hold.

        >>> import tholepin
        >>> tholepin.Policy.from_sdict(tholepin.Policy(gpu_affinity=[3, 1]).get_sdict())
        Policy(gpu_affinity=(3, 1))
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {enum.IntEnum: int, tuple: list}
        return {name: next((to(v) for kind, to in plain.items() if isinstance(v, kind)), v) for name, v in values.items()}

    @classmethod
    def from_sdict(cls, sdict: Mapping[str, Any]) -> Policy:
        """What :meth:`get_sdict` gave."""
        values = words.mapping(sdict, "sdict")
        unknown = values.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise WrongRequest(f"sdict: a Policy has no {', '.join(sorted(unknown))}")
        return cls(**values)

    def __repr__(self) -> str:
        said = {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name) != field.default}
        return f"Policy({', '.join(f'{name}={_written(value)}' for name, value in said.items())})"

    @classmethod
    def merge(cls, low: Policy, high: Policy) -> Policy:
        """``low``, and what ``high`` says otherwise than the defaults: how a template's policy goes over its group's.

        >>> import tholepin
        >>> tholepin.Policy.merge(tholepin.Policy(gpu_affinity=[1]), tholepin.Policy(cpu_affinity=[0])).gpu_affinity
        (1,)
        """
        words.this_one(low, Policy, "low")
        words.this_one(high, Policy, "high")
        said = {field.name: getattr(high, field.name) for field in fields(cls) if getattr(high, field.name) != field.default}
        return cls(**{**{field.name: getattr(low, field.name) for field in fields(cls)}, **said})


_in_force: contextvars.ContextVar[tuple[Policy, ...]] = contextvars.ContextVar("tholepin policies", default=())


def under_those_around(policy: Policy | None) -> Policy | None:
    """A policy, and what it leaves to the ``with`` statements around; None where nobody says anything."""
    return Policy.merge(Policy.thread_policy(), policy or Policy()) if _in_force.get() else policy


def _member(kind: type[enum.IntEnum], value: Any, what: str) -> enum.IntEnum:
    try:
        return kind(value)
    except (ValueError, TypeError):
        raise WrongRequest(f"{what}: expected {', '.join(str(one) for one in kind.__members__)}, got {value!r}") from None


def _written(value: object) -> str:
    return f"{type(value).__qualname__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def _own_names() -> set[str]:
    name = os.uname().nodename
    return {name, name.split(".")[0], "localhost"}

"""``dragon.infrastructure.policy``: what a process gets, in Dragon's words; thole's own is made of it when it is used."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Mapping

import tholepin


class PolicyError(Exception):
    """An affinity that is no list."""


@dataclass
class Policy:
    """What a process gets: its host, its CPUs, its GPUs, these in the order in which it is to number them.

    >>> policy = Policy(gpu_affinity=[3, 1])
    >>> with policy:
    ...     Policy.thread_policy().gpu_affinity
    [3, 1]

    ``with policy:`` puts it below what is started inside. There is one host, so that placement, host_name and host_id only say
    which it must be, and distribution, wait_mode, refcounted and gpu_env_str mean nothing.
    """

    Placement = tholepin.Policy.Placement
    Distribution = tholepin.Policy.Distribution
    WaitMode = tholepin.Policy.WaitMode

    placement: tholepin.Policy.Placement = Placement.DEFAULT
    host_name: str = ""
    host_id: int = -1
    distribution: tholepin.Policy.Distribution = Distribution.DEFAULT
    cpu_affinity: list[int] = field(default_factory=list)
    gpu_env_str: str = ""
    gpu_affinity: list[int] = field(default_factory=list)
    wait_mode: tholepin.Policy.WaitMode = WaitMode.DEFAULT
    refcounted: bool = True

    def __post_init__(self) -> None:
        self.placement = self.Placement(self.placement)
        self.distribution = self.Distribution(self.distribution)
        self.wait_mode = self.WaitMode(self.wait_mode)

    @property
    def sdesc(self) -> dict[str, Any]:
        """What :meth:`get_sdict` gives."""
        return self.get_sdict()

    def get_sdict(self) -> dict[str, Any]:
        """As a dict, which JSON can hold.

        >>> Policy.from_sdict(Policy(gpu_affinity=[3, 1]).get_sdict()).gpu_affinity
        [3, 1]
        """
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_sdict(cls, sdict: Mapping[str, Any]) -> Policy:
        """What :meth:`get_sdict` gave."""
        return Policy(**sdict)

    @classmethod
    def thread_policy(cls) -> Policy:
        """What the ``with`` statements around say, all merged; the innermost says first."""
        return cls.from_sdict(tholepin.Policy.thread_policy().get_sdict())

    def __enter__(self) -> None:
        own(self).__enter__()

    def __exit__(self, *args: object) -> None:
        tholepin.Policy().__exit__(*args)  # the last that was entered

    @classmethod
    def merge(cls, low_policy: Policy, high_policy: Policy) -> Policy:
        """``low_policy``, and what ``high_policy`` says otherwise than the defaults.

        >>> Policy.merge(Policy(gpu_affinity=[1]), Policy(cpu_affinity=[0])).gpu_affinity
        [1]
        """
        default = cls()
        high = {name: value for name, value in high_policy.get_sdict().items() if value != getattr(default, name)}
        return cls(**{**low_policy.get_sdict(), **high})

    @classmethod
    def global_policy(cls) -> Policy:
        """What holds where nobody says otherwise.

        >>> Policy.global_policy().distribution
        <Distribution.ROUNDROBIN: 1>
        """
        return cls.from_sdict(GS_GLOBAL_POLICY_SDICT)


GS_GLOBAL_POLICY_SDICT = {
    "placement": Policy.Placement.ANYWHERE,
    "distribution": Policy.Distribution.ROUNDROBIN,
    "wait_mode": Policy.WaitMode.IDLE,
}


def own(policy: object) -> tholepin.Policy:
    """The same as thole's.

    Raises:
        PolicyError: an affinity is no list.
        NeverPossible: it names another host; a ``ValueError``, as Dragon's.
    """
    if not isinstance(policy, Policy):
        raise PolicyError(f"expected a dragon.infrastructure.policy.Policy, got {policy!r}")
    for name in ("cpu_affinity", "gpu_affinity"):
        if not isinstance(getattr(policy, name), (list, tuple)):
            raise PolicyError(f"Policy.{name}: expected a list, got {getattr(policy, name)!r}")
    return tholepin.Policy(**policy.get_sdict())

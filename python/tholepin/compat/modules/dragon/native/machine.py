"""``dragon.native.machine``: the hosts and what they have. There is one."""

from __future__ import annotations

import os
from typing import cast

from tholepin import system

from ..infrastructure.policy import Policy


def cpu_count() -> int:
    """How many CPUs this process may use.

    >>> cpu_count() == len(os.sched_getaffinity(0))
    True
    """
    return system.System.cpu_count()


class Node:
    """A host, and what this process may use of it: this one.

    >>> node = Node(System().nodes[0])
    >>> node.gpus[:2], node.gpu_vendor, node.gpu_env_str
    ([0, 1], 'Nvidia', 'CUDA_VISIBLE_DEVICES')
    """

    def __init__(self, ident: str | int) -> None:
        self._own = system.Node(ident)

    def __str__(self) -> str:
        return f"name={self.name}, h_uid={self.h_uid}, hostname={self.hostname}, ip={self.ip}"

    @property
    def name(self) -> str:
        """The host's name."""
        return self._own.name

    @property
    def h_uid(self) -> int:
        """Its number among the hosts: 0."""
        return self._own.h_uid

    @property
    def ip(self) -> str:
        """The IPv4 address that other hosts reach it by."""
        return self._own.ip

    @property
    def num_cpus(self) -> int:
        """How many CPUs this process may use."""
        return self._own.num_cpus

    @property
    def num_gpus(self) -> int:
        """How many GPUs this process may claim."""
        return self._own.num_gpus

    @property
    def physical_mem(self) -> int:
        """Bytes of memory."""
        return self._own.physical_mem

    @property
    def gpus(self) -> list[int] | None:
        """The numbers of the GPUs that this process may claim; None where the host has none. The instances of a partitioned
        GPU, which Dragon does not know, are texts: "0:1"."""
        return cast("list[int]", self._own.gpus) if self._own.gpu_vendor else None

    @property
    def gpu_vendor(self) -> str | None:
        """ "Nvidia", "AMD" or "Intel"; None without GPUs."""
        return self._own.gpu_vendor

    @property
    def gpu_env_str(self) -> str | None:
        """The variable that masks the GPUs; None without GPUs."""
        return self._own.gpu_env_str

    @property
    def cpus(self) -> list[int]:
        """The numbers of the CPUs that this process may use."""
        return self._own.cpus

    @property
    def hostname(self) -> str:
        """The host's name in the network."""
        return self._own.hostname

    @property
    def is_primary(self) -> bool:
        """Whether it is the first host: True."""
        return self._own.is_primary


def current() -> Node:
    """The host that this process runs on.

    >>> current().hostname == os.uname().nodename
    True
    """
    return Node(0)


class System:
    """The hosts there are: this one.

    >>> system = System()
    >>> system.nnodes, len(system.gpu_policies())
    (1, 8)
    """

    def __init__(self) -> None:
        self._primary_node = current()

    @property
    def nodes(self) -> list[int]:
        """Their numbers, for :class:`Node`."""
        return [self._primary_node.h_uid]

    @property
    def nnodes(self) -> int:
        """How many there are."""
        return len(self.nodes)

    @property
    def primary_node(self) -> Node:
        """The first."""
        return self._primary_node

    @property
    def restarted(self) -> bool:
        """Whether the program was started again after a failure, as whoever did that says."""
        return bool(os.environ.get("DRAGON_RESILIENT_RESTART", False))

    @staticmethod
    def cpu_count() -> int:
        """How many CPUs this process may use.

        >>> System.cpu_count() == cpu_count()
        True
        """
        return cpu_count()

    def hostname_policies(self) -> list[Policy]:
        """A policy for each host.

        >>> System().hostname_policies()[0].host_name == os.uname().nodename
        True
        """
        return [Policy(placement=Policy.Placement.HOST_NAME, host_name=self._primary_node.hostname)]

    def gpu_policies(self) -> list[Policy]:
        """A policy for each GPU that this process may claim, free or not.

        >>> System().gpu_policies()[3].gpu_affinity
        [3]
        """
        name = self._primary_node.hostname
        return [
            Policy(placement=Policy.Placement.HOST_NAME, host_name=name, gpu_affinity=[gpu])
            for gpu in self._primary_node.gpus or ()
        ]

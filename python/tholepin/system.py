"""What this host has: System and Node, in the words that Dragon's users know."""

from __future__ import annotations

import os
from typing import Union

from . import _native
from .errors import WrongRequest
from .policy import Policy

_VENDORS = {"nvidia": "Nvidia", "amd": "AMD", "intel": "Intel"}
_VARIABLES = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "ROCR_VISIBLE_DEVICES", "intel": "ZE_AFFINITY_MASK"}


class Node:
    """A host, and what this process may use of it: this one.

    >>> import tholepin
    >>> node = tholepin.Node()
    >>> node.num_gpus, node.gpu_vendor, node.gpu_env_str
    (8, 'Nvidia', 'CUDA_VISIBLE_DEVICES')

    Attributes:
        name, hostname: the host's name.
        h_uid: 0, its number among the hosts.
        num_cpus, cpus: how many CPUs this process may use, and their numbers.
        ip: the IPv4 address that other hosts reach it by; 127.0.0.1 without a network.
        num_gpus, gpus: how many GPUs this process may claim, and their indices; "0:1" for an instance of a partitioned one.
        gpu_vendor: "Nvidia", "AMD", "Intel"; None without GPUs.
        gpu_env_str: the variable that masks them; None without GPUs.
        physical_mem: bytes of memory.
        is_primary: True.
    """

    def __init__(self, ident: str | int = 0) -> None:
        self.name = self.hostname = os.uname().nodename
        if ident not in (0, self.name, self.name.split(".")[0], "localhost"):
            raise WrongRequest(f"ident: there is no host {ident!r}", hint=f"only this host is known here: {self.name}, 0")
        self.h_uid = 0
        self.is_primary = True
        self.cpus = sorted(os.sched_getaffinity(0))
        self.num_cpus = len(self.cpus)
        self.physical_mem = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        seen = _native.call_json("thole_snapshot", _native.machine())
        names: list[str] = [unit["unit"] for unit in seen["units"] if unit["visible"]]
        self.gpus: list[Union[int, str]] = [int(name) if name.isdigit() else name for name in names]
        self.num_gpus = len(self.gpus)
        vendor = seen["gpus"][0]["vendor"] if seen["gpus"] else None
        self.gpu_vendor = _VENDORS.get(vendor, "Unknown Vendor") if vendor else None
        self.gpu_env_str = _VARIABLES.get(vendor) if vendor else None

    @property
    def ip(self) -> str:
        """Its IPv4 address."""
        import socket

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
            try:
                # nobody's address; nothing is sent, the kernel says which of ours it would use
                towards.connect(("192.0.2.1", 9))
                address: str = towards.getsockname()[0]
            except OSError:
                address = "127.0.0.1"
        return address

    def __repr__(self) -> str:
        return f"<tholepin.Node {self.name}: {self.num_cpus} CPUs, {self.num_gpus} GPUs>"


class System:
    """The hosts there are: this one.

    >>> import tholepin
    >>> system = tholepin.System()
    >>> len(system.gpu_policies()), system.nnodes
    (8, 1)

    Attributes:
        nodes: their numbers, for ``Node``: [0].
        nnodes: 1.
        primary_node: this host.
        restarted: False.
    """

    def __init__(self) -> None:
        self.nodes = [0]
        self.nnodes = 1
        self.primary_node = Node()
        self.restarted = False

    @staticmethod
    def cpu_count() -> int:
        """How many CPUs this process may use.

        >>> import tholepin
        >>> tholepin.System.cpu_count() == len(os.sched_getaffinity(0))
        True
        """
        return len(os.sched_getaffinity(0))

    def hostname_policies(self) -> list[Policy]:
        """A policy for each host.

        >>> import tholepin
        >>> tholepin.System().hostname_policies()[0].placement.name
        'HOST_NAME'
        """
        return [Policy(placement=Policy.Placement.HOST_NAME, host_name=self.primary_node.hostname)]

    def gpu_policies(self) -> list[Policy]:
        """A policy for each GPU that this process may claim, free or not.

        >>> import tholepin
        >>> [policy.gpu_affinity for policy in tholepin.System().gpu_policies()][:2]
        [(0,), (1,)]
        """
        name = self.primary_node.hostname
        return [
            Policy(placement=Policy.Placement.HOST_NAME, host_name=name, gpu_affinity=[gpu]) for gpu in self.primary_node.gpus
        ]

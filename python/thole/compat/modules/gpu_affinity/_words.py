"""The words of gpu_affinity's parameters, and its error."""

import enum


class GPUAffinityError(Exception):
    """This machine cannot give what was asked for."""


class _Word(enum.Enum):
    def __str__(self) -> str:
        return str(self.value)


class Mode(_Word):
    """Which of the near cores a process gets."""

    ALL = "all"
    SINGLE = "single"
    SINGLE_UNIQUE = "single_unique"
    UNIQUE_INTERLEAVED = "unique_interleaved"
    UNIQUE_CONTIGUOUS = "unique_contiguous"


class Scope(_Word):
    """Near is what is on the GPU's NUMA node, or in its socket."""

    NODE = "node"
    SOCKET = "socket"


class Multithreading(_Word):
    """All threads of a core, or one."""

    ALL_LOGICAL = "all_logical"
    SINGLE_LOGICAL = "single_logical"

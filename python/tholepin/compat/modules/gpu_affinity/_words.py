"""The words of gpu_affinity's parameters, and its error."""

import enum


class GPUAffinityError(Exception):
    """This machine cannot give what was asked for.

    >>> from gpu_affinity.gpu_affinity import check_affinities
    >>> try:
    ...     check_affinities([[0, 1], [1, 2]])
    ... except GPUAffinityError as problem:
    ...     print(problem)
    Sets of cores should be either identical or disjoint, but got [0, 1] and [1, 2].
    """


class _Word(enum.Enum):
    def __str__(self) -> str:
        return str(self.value)


class Mode(_Word):
    """Which of the near cores a process gets.

    >>> print(Mode.UNIQUE_CONTIGUOUS, Mode("single") is Mode.SINGLE)
    unique_contiguous True
    """

    ALL = "all"
    SINGLE = "single"
    SINGLE_UNIQUE = "single_unique"
    UNIQUE_INTERLEAVED = "unique_interleaved"
    UNIQUE_CONTIGUOUS = "unique_contiguous"


class Scope(_Word):
    """Near is what is on the GPU's NUMA node, or in its socket.

    >>> [str(scope) for scope in Scope]
    ['node', 'socket']
    """

    NODE = "node"
    SOCKET = "socket"


class Multithreading(_Word):
    """All threads of a core, or one.

    >>> Multithreading.ALL_LOGICAL.value
    'all_logical'
    """

    ALL_LOGICAL = "all_logical"
    SINGLE_LOGICAL = "single_logical"

"""The steps of the original's assignment as functions of their own, for programs that call them: of lists and tuples only.

A core is a tuple of its CPUs; a group is a tuple of cores, the first of them near a GPU.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

from ._words import GPUAffinityError, Multithreading, Scope

Cores = tuple[int, ...]


def build_thread_siblings_dict(siblings_list: Iterable[Cores]) -> dict[int, Cores]:
    """The core of each CPU.

    >>> build_thread_siblings_dict([(0, 2)])
    {0: (0, 2), 2: (0, 2)}
    """
    return {cpu: core for core in siblings_list for cpu in core}


def group_list_by_key(the_list: Iterable[int], key: Callable[[int], Any]) -> list[Cores]:
    """The elements that have the same key together, in the order of the keys.

    >>> group_list_by_key([0, 1, 2, 3], key=lambda cpu: cpu % 2)
    [(0, 2), (1, 3)]
    """
    return [tuple(group) for _, group in itertools.groupby(sorted(the_list, key=key), key=key)]


def check_affinities(affinities: Sequence[Sequence[int]]) -> None:
    """Raises GPUAffinityError unless every two of these lists are the same or have nothing in common.

    >>> check_affinities([[0, 1], [0, 1], [2, 3]])
    """
    if not affinities:
        raise GPUAffinityError(f"List of all affinities is empty: {affinities}")
    for i, j in itertools.combinations(affinities, 2):
        if set(i) != set(j) and not set(i).isdisjoint(j):
            raise GPUAffinityError(f"Sets of cores should be either identical or disjoint, but got {i} and {j}.")


def group_by_node(socket_affinities: Sequence[Any], node_affinities: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Each GPU's near cores, each the head of a group; the socket's other cores are dealt round to the groups.

    >>> group_by_node([((0,), (1,), (2,))], [((1,),)])
    [(((1,), (0,), (2,)),)]
    """
    near: dict[Any, set[Any]] = {}
    for socket, node in zip(socket_affinities, node_affinities):
        near.setdefault(socket, set()).update(node)
    groups: dict[Any, list[Any]] = {}
    for socket, heads in near.items():
        in_order = sorted(heads)
        for head in in_order:
            groups.setdefault(head, []).append(head)
        for head, other in zip(itertools.cycle(in_order), sorted(set(socket) - heads)):
            groups[head].append(other)
    return [tuple(tuple(groups[core]) for core in node) for node in node_affinities]


def ungroup_by_nodes(affinities: Sequence[Any], scope: Scope) -> list[Any]:
    """The cores of the groups: their heads, or all of them layer by layer as far as the shortest group goes.

    >>> ungroup_by_nodes([[((0,), (1,)), ((2,), (3,))]], Scope.SOCKET)
    [[(0,), (2,), (1,), (3,)]]
    """
    if scope == Scope.SOCKET:
        return [list(itertools.chain(*zip(*groups))) for groups in affinities]
    return [[group[0] for group in groups] for groups in affinities]


def check_core_count(
    affinities: Sequence[Any], min_physical_cores: int = 1, max_physical_cores: Optional[int] = None
) -> list[Any]:
    """The lists cut to `max_physical_cores`; GPUAffinityError where one is shorter than `min_physical_cores`.

    >>> check_core_count([[(0,), (1,)]], max_physical_cores=1)
    [[(0,)]]
    """
    for gpu_id, cores in enumerate(affinities):
        if len(cores) < min_physical_cores:
            raise GPUAffinityError(
                f"Number of available physical cores for GPU {gpu_id} is less the predefinied minimum, "
                f"min_physical_cores={min_physical_cores}, available physical cores: {cores} (count={len(cores)})"
            )
    return [cores[:max_physical_cores] for cores in affinities]


def ungroup_by_siblings(affinities: Sequence[Any], multithreading: Multithreading) -> list[list[int]]:
    """The CPUs of the cores: all, or the first of each.

    >>> ungroup_by_siblings([[(0, 2), (1, 3)]], Multithreading.SINGLE_LOGICAL)
    [[0, 1]]
    """
    if multithreading == Multithreading.ALL_LOGICAL:
        return [list(itertools.chain(*cores)) for cores in affinities]
    if multithreading == Multithreading.SINGLE_LOGICAL:
        return [[core[0] for core in cores] for cores in affinities]
    raise GPUAffinityError("Unknown multithreading mode")


def ungroup_all_and_check_count(
    affinities: Sequence[Any],
    scope: Scope,
    multithreading: Multithreading,
    min_physical_cores: int = 1,
    max_physical_cores: Optional[int] = None,
) -> list[list[int]]:
    """From groups to CPUs: the three steps above in turn.

    >>> ungroup_all_and_check_count([[((0, 1),), ((2, 3),)]], Scope.NODE, Multithreading.ALL_LOGICAL)
    [[0, 1, 2, 3]]
    """
    cores = check_core_count(ungroup_by_nodes(affinities, scope), min_physical_cores, max_physical_cores)
    return ungroup_by_siblings(cores, multithreading)

"""``dragon.native.pool``: tholepin.Pool under Dragon's parameters."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Sequence, TypeVar

import tholepin
from tholepin._chunks import RemoteTraceback
from tholepin.results import AsyncResult, Callback, MapResult

from .._claims import ProgramShares
from ..infrastructure.policy import Policy, own
from .machine import System

__all__ = ["ApplyResult", "AsyncResult", "MapResult", "Pool", "RemoteTraceback"]

ApplyResult = AsyncResult
Result = TypeVar("Result")


class Pool(tholepin.Pool):
    """Workers that compute functions, each with what its policy says, from its start.

    >>> pool = Pool(policy=System().gpu_policies()[:2], processes_per_policy=2)
    >>> pool.map_async(abs, [-1, -2, -3]).get()
    [1, 2, 3]
    >>> pool.close()
    >>> pool.join()

    The GPUs that the policies name are claimed here, all or none, and free again when the pool has ended; how long that may
    wait ``thole compat --wait`` says. It is a :class:`tholepin.Pool`, and has what that has besides.
    """

    _make_shares = ProgramShares

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        *,
        policy: Policy | Sequence[Policy] | None = None,
        processes_per_policy: int | None = None,
    ) -> None:
        several = isinstance(policy, (list, tuple))
        if processes is not None and processes_per_policy is not None:
            raise RuntimeError("cannot provide processes_per_policy and a total number of processes")
        if processes is not None and several:
            raise RuntimeError(
                "cannot provide a list of policies and a total number of processes. must provide the number of "
                "processes_per_policy"
            )
        if processes is None and processes_per_policy is None and not several:
            processes = System().nnodes
        policies: Any = policy
        if isinstance(policy, (list, tuple)):
            policies = [own(one) for one in policy]
        elif policy is not None:
            policies = own(policy)
        super().__init__(
            processes,
            initializer,
            initargs,
            maxtasksperchild,
            policy=policies,
            processes_per_policy=processes_per_policy,
        )

    def apply_async(
        self,
        func: Callable[..., Result],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] | None = {},
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult[Result]:
        """Calls ``func(*args, **kwds)`` in a worker; its result is in what this returns."""
        return super().apply_async(func, args, kwds, callback, error_callback)

    def map_async(  # type: ignore[override]  # Dragon has no progress
        self,
        func: Callable[[Any], Result],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult[list[Result]]:
        """Calls ``func`` for each, by all workers; the list of results is in what this returns."""
        return super().map_async(func, iterable, chunksize, callback, error_callback)

    def close(self) -> None:
        """Takes no more work; the workers end when all is done. ValueError where the pool is closed already."""
        self._check_open()
        super().close()

    def join(self, patience: float | None = None) -> None:
        """Sleeps until all workers have ended and the GPUs are free; call close() or terminate() before. After ``patience``
        seconds the workers are ended, as by :meth:`terminate`."""
        super().join(patience=patience)

    def terminate(self, patience: float = 60) -> None:
        """Ends the workers now: SIGTERM, and ``patience`` seconds later SIGKILL. What is not done fails."""
        super().terminate(patience)

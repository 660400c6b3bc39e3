"""``dragon.native.barrier``: a place where processes wait for each other."""

from __future__ import annotations

import base64
import pickle
import threading
from typing import Any, Callable, cast

from .._shared import POOL, Handle


class BrokenBarrierError(threading.BrokenBarrierError):
    """Not all have come: one has given up, or somebody has called :meth:`Barrier.abort` or :meth:`Barrier.reset`."""


class Barrier(Handle):
    """A place where ``parties`` processes or threads wait until all have come; it can be an argument of a process.

    >>> Barrier(parties=1).wait()
    0

    ``action`` is called when all have come, before they go on, in the process that made the barrier.
    """

    def __init__(
        self, parties: int = 2, action: Callable[[], object] | None = None, timeout: float | None = None, m_uid: int = POOL
    ) -> None:
        if not isinstance(parties, int) or parties < 1:
            raise ValueError(f"parties: expected a number of 1 or more, got {parties!r}")
        if action is not None and not callable(action):
            raise ValueError(f"action: expected a function, got {action!r}")
        _check(timeout)
        self._parties, self._timeout = parties, timeout
        super().__init__(threading.Barrier(parties, cast(Any, action)))

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_parties": self._parties, "_timeout": self._timeout}

    def wait(self, timeout: float | None = None) -> int:
        """Sleeps until all have come; which of them this one is, from 0 on. BrokenBarrierError where they have not in
        ``timeout`` seconds; the barrier's own, if not given."""
        _check(timeout)
        try:
            return int(self._call("wait", self._timeout if timeout is None else timeout))
        except threading.BrokenBarrierError:
            raise BrokenBarrierError("not all have come to the barrier") from None

    def reset(self) -> None:
        """Who waits gets a BrokenBarrierError; then it is as new."""
        self._call("reset")

    def abort(self) -> None:
        """Who waits or will wait gets a BrokenBarrierError."""
        self._call("abort")

    @property
    def parties(self) -> int:
        """How many it waits for."""
        return self._parties

    @property
    def n_waiting(self) -> int:
        """How many have come."""
        return int(self._call("__getattribute__", "n_waiting"))

    @property
    def broken(self) -> bool:
        """Whether waiting is in vain."""
        return bool(self._call("__getattribute__", "broken"))

    def serialize(self) -> str:
        """A text that :meth:`attach` makes the barrier of, in any process."""
        return base64.b64encode(pickle.dumps(self)).decode()

    @classmethod
    def attach(cls, serialized: str, *, action: Callable[[], object] | None = None, timeout: float | None = None) -> Barrier:
        """The barrier of such a text; its action stays what it was made with."""
        found: Barrier = pickle.loads(base64.b64decode(serialized))
        found._timeout = timeout
        return found


def _check(timeout: float | None) -> None:
    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout: expected 0 or more seconds, got {timeout!r}")

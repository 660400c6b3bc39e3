"""Processes that are to begin, and wait because their GPUs cannot be shown to them now.

A GPU that goes by number only, and is not in the driver's list, has no number: the old one is another GPU's, which somebody
else may have claimed. So what is to begin with it waits, and the driver is asked again with growing pauses.
"""

from __future__ import annotations

import logging
import time
from typing import Callable

from . import _shares
from ._aside import Aside

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # as thole's own, with a driver that is late


class Absent:
    """Those of one pool or group, whose thread alone uses it."""

    def __init__(self, shares: Callable[[], _shares.Shares | None]) -> None:
        self._shares = shares
        self._waiting: list[_Start] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def due(self) -> float | None:
        """When to ask again, by time.monotonic()."""
        return min((one.due for one in self._waiting), default=None)

    def begin(self, share: _shares.Share, start: Callable[[], None]) -> None:
        """Calls ``start`` once the share shows its GPUs as they are named now: here, or in :meth:`go_on`."""
        self._try(_Start(share, start))

    def go_on(self) -> None:
        """Asks again for those that are due."""
        now = time.monotonic()
        due = [one for one in self._waiting if one.due <= now]
        self._waiting = [one for one in self._waiting if one.due > now]
        while due:
            one = due.pop(0)
            try:
                self._try(one)
            except BaseException:
                self._waiting += due
                raise

    def give_up(self) -> None:
        """None of them is to begin any more."""
        self._waiting.clear()

    def _try(self, one: _Start) -> None:
        shares = self._shares()
        problem = None if shares is None else shares.renew([one.share])
        if problem is None:
            one.start()
            return
        assert shares is not None
        if one.pauses == 1:  # what is over in a moment is not worth a word
            try:
                shares.tell_of_wait(one.share, problem)
            except Exception:  # a hook's
                with Aside():
                    logging.getLogger("tholepin").exception("on_wait, of a process that waits for its GPUs")
        one.due = time.monotonic() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**one.pauses)
        one.pauses += 1
        self._waiting.append(one)


class _Start:
    def __init__(self, share: _shares.Share, start: Callable[[], None]) -> None:
        self.share = share
        self.start = start
        self.pauses = 0
        self.due = 0.0

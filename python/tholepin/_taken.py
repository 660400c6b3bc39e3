"""Root takes GPUs back (``thole init --take-back``) from under a pool: it begins nothing more there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._shares import Shares
    from .errors import Error

_BETWEEN_LOOKS = 0.25  # seconds; one takes some ten microseconds


class TakenWatch:
    """Looks from time to time whether a GPU of these shares was taken back, while something is to begin or has begun."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._due = 0.0
        self._problem: Error | None = None  # what is taken back stays so

    def due(self, busy: bool) -> float | None:
        """When to look next."""
        return self._due if busy else None

    def look(self, busy: bool) -> Error | None:
        """What keeps anything more from beginning, as far as was looked."""
        if busy and time.monotonic() >= self._due:
            self._due = time.monotonic() + _BETWEEN_LOOKS
            self._problem = self._problem or self._shares.taken_back()
        return self._problem

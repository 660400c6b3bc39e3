"""One claim for all of a program that name the same GPUs: below Dragon its pools, groups and processes share them.

A GPU that the program has claimed already, for something that has not ended, is not claimed again: who names it too shares that
claim, which ends with the last of them. What is not claimed yet is claimed at once, all or none.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Sequence

import tholepin
from tholepin import errors
from tholepin._shares import Shares

if TYPE_CHECKING:
    from tholepin._waiting import Patience
    from tholepin.claims import Claim


class _Common:
    """A claim, and how many have it."""

    def __init__(self, claim: Claim, keys: set[str]) -> None:
        self.claim = claim
        self.keys = keys
        self.users = 1


_commons: list[_Common] = []
_looking = threading.RLock()
_claiming = threading.RLock()  # one after the other, so that the second finds what the first has claimed
os.register_at_fork(after_in_child=_commons.clear)  # they are the parent's


class ProgramShares(Shares):
    """Shares of GPUs that others of this program may have, too."""

    def __init__(self) -> None:
        super().__init__()
        self._used: list[_Common] = []

    def claims_of(self, ranks: Sequence[Sequence[str]], patience: Patience) -> Sequence[Claim]:
        """The claim of the GPUs of each of these processes."""
        if self._not_there(ranks):
            with _claiming:
                if rest := self._not_there(ranks):
                    wanted = {key for rank in rest for key in rank}
                    claim = self.claim({"gpus": len(wanted), "on": sorted(wanted)}, patience)
                    with _looking:
                        self._used.append(_Common(claim, wanted))
                        _commons.append(self._used[-1])
        self._claims = [one.claim for one in self._used]
        return [next(one.claim for one in self._used if one.keys.issuperset(rank)) for rank in ranks]

    def _not_there(self, ranks: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """Those of which nothing is claimed yet; of the others the claims are ours, too, from here on."""
        rest = []
        with _looking:
            for rank in ranks:
                known = [one for one in _commons if one.keys.intersection(rank)]
                if not known:
                    rest.append(rank)
                elif not known[0].keys.issuperset(rank):
                    raise errors.NeverPossible(
                        f"Policy.gpu_affinity: of {len(rank)} GPUs this program has claimed some before, and not together with "
                        "the others",
                        object=", ".join(rank),
                        hint="start what names them all first, or end what has some of them",
                    )
                elif known[0] not in self._used:
                    known[0].users += 1
                    self._used.append(known[0])
        return rest

    def release(self) -> None:
        """Lets go of the claims; those that nobody else has end. A second time does nothing."""
        with _looking:
            used, self._used = self._used, []
            for one in used:
                one.users -= 1
                if not one.users:
                    _commons.remove(one)
            kept = {id(one.claim) for one in used if one.users}
        self._claims = [claim for claim in self._claims if id(claim) not in kept]
        super().release()


class ProgramProcess(tholepin.Process):
    """A process on such shares."""

    _make_shares = ProgramShares

"""What this process holds: claims of the library, and their variables in ``os.environ``.

How this works. An owner comes before what it owns: a Holding is made empty, known to whoever ends it, and only then the
library puts its claim into it, in one step for signal handlers (``_native.call_into``). So an exception that a handler raises,
at whatever instruction, loses nothing.

A Holding lasts while somebody has a ticket for it: a Claim, or several that ask for what the process has already. ``settle``
brings locks and variables in line with the tickets. It can be left at any instruction, and done again.

A claim in the making is within the one around it, as one that is made: that one does not end under the library's call. Nobody
waits for GPUs with the lock, so who releases waits for nobody.
"""

from __future__ import annotations

import os
from typing import Any

from . import _changes, _native

# All of them, the oldest first; and those whose variables the process has, the newest last.
held: list[Holding] = []
entered: list[Holding] = []


class Holding(_native.Owner):
    """A claim of the library.

    Attributes:
        of_process: whether :func:`tholepin.release` ends it: no pool's.
        handles: the claim, once it is there.
        memory_mib: what it has of GPUs that it shares; None: they are its own, or another claim's share.
        tickets: of those who have it; None for all together whose objects are gone.
        id, env, unset: its name, and the variables that it sets and removes.
        entered: whether the process has had its variables; from then on it lasts although nobody keeps the object.
        quiet: nothing is said of it on stderr.
        told_of_forkserver: whether its owner knows already who does not see its variables.
    """

    def __init__(self, of_process: bool) -> None:
        self.of_process = of_process
        self.handles: list[int] = []
        self.memory_mib: int | None = None
        self.tickets: set[int | None] = set()
        self.id = ""
        self.env: dict[str, str] = {}
        self.keys: list[str] = []
        self.unset: list[str] = []
        self.entered = False
        self.quiet = self.told_of_forkserver = False
        self._lost = 0  # of its tickets, those for which None stands
        self._around = ""  # the claim that it is made in
        self._machine: _native.Machine | None = None  # which must stay open as long
        self._before: dict[str, str | None] = {}

    def begin(self, machine: _native.Machine | None) -> _native.Machine:
        """Before the library is asked for it: the machine to ask, by default the one that the environment means."""
        try:
            with _changes.lock:
                asked = self._machine = machine or _native.machine()
                self._around = _native.variable("THOLE_CLAIM") or ""
                held.append(self)
        finally:
            _changes.work_off()
        return asked

    def lose(self) -> None:
        """The object of one who has it is gone: it lasts all the same."""
        self._lost += 1
        self.tickets.add(None)

    def found(self) -> None:
        """One such object was not gone yet, and lets go."""
        self._lost -= 1
        if self._lost <= 0:
            self.tickets.discard(None)

    def fail(self) -> None:
        """The library has refused it."""
        try:
            with _changes.lock:
                if self in held:
                    held.remove(self)
        finally:
            settle()

    def told(self) -> dict[str, Any]:
        """What the library tells of it."""
        told: dict[str, Any] = _native.decoded(_native.libthole.thole_claim_json(self.handles[0]).decode())[0]
        self.env, self.unset = told["environment"]["set"], told["environment"]["unset"]
        self.keys = [gpu["key"] for gpu in told["gpus"]]
        self.id = told["id"]  # last: release() ends what has a name
        return told

    def end_if_nobody_has_it(self) -> None:
        """After a call in another thread than its owner's: that may have given up meanwhile."""
        if not self.tickets:
            _native.end_in(self.handles, "thole_claim_release")

    def call_as_around(self) -> None:
        """A share of all that the share around it has is that one: it is called like it, as a claim of all of a claim is."""
        with _changes.lock:
            around = next((other for other in held if other.id == self._around and other.is_all_that(self)), None)
            if around is not None:
                self.env = {**self.env, "THOLE_CLAIM": around.id}
                self.id = around.id

    def is_all_that(self, other: Holding) -> bool:
        """Whether the other one, which came out of this one, has the whole of this share."""
        same = bool(self.handles) and self.memory_mib is not None and self.memory_mib == other.memory_mib
        return same and self.keys == other.keys

    def enter(self) -> None:
        """Gives the process its variables."""
        try:
            with _changes.lock:
                if self.tickets:
                    self.entered = True
                    self._set_variables()
                    self._keep_no_second_lock()
                    _merge_lost()
        finally:
            settle()

    def _keep_no_second_lock(self) -> None:
        """A claim of all that another one has is called like it, and the lock of that one stays as long as this lasts."""
        if any(other is not self and other.id == self.id and other.handles for other in held):
            held[:] = [*(other for other in held if other is not self), self]  # what is within the other one comes after it
            _native.end_in(self.handles, "thole_claim_release")
            self._machine = None

    def _set_variables(self) -> None:
        entered.append(self)
        for name, value in self.env.items():
            self._before[name] = _native.variable(name)
            os.environ[name] = value
        for name in self.unset:
            before = _native.variable(name)
            if before is not None:
                self._before[name] = before
                del os.environ[name]

    def leave(self) -> None:
        """Takes its variables back, but those that somebody has changed since."""
        try:
            with _changes.lock:
                if self in entered:
                    self._take_variables_back()
        finally:
            _changes.work_off()

    def _take_variables_back(self) -> None:
        place = next(index for index in reversed(range(len(entered))) if entered[index] is self)
        since = entered[place + 1 :]
        for name in list(self._before):
            before = self._before[name]
            later = next((holding for holding in since if name in holding._before), None)
            now = _native.variable(name) if later is None else later._before[name]
            if now in (self.env.get(name), before):
                if later is not None:
                    later._before[name] = before
                else:
                    _restore(name, before)
            del self._before[name]
        del entered[place]

    def _merge_into(self, later: Holding) -> None:
        """Leaves what is to be restored to a later one that lasts as long."""
        since = entered[entered.index(self) + 1 :]
        for name in list(self._before):
            if not any(name in holding._before for holding in since):  # this one has removed it
                later._before[name] = self._before[name]
                del self._before[name]
        self._take_variables_back()
        self.tickets.clear()

    def is_around(self, other: Holding) -> bool:
        """Whether the other one came out of this one. A claim of all that another has is called like it."""
        return bool(self.id) and other is not self and f"{other.id or other._around}/".startswith(f"{self.id}/")

    def is_shown_as(self, other: Holding) -> bool:
        """Whether this is the same claim, and the process is shown it already as the other one would be."""
        same = self.tickets and (self.id, self.env, self.unset) == (other.id, other.env, other.unset)
        return bool(same) and all(_native.variable(name) == value for name, value in self.env.items()) and not any(
            _native.variable(name) is not None for name in self.unset
        )


def _restore(name: str, value: str | None) -> None:
    # Also where os.environ says so already: a change may have been left amid its two steps.
    if value is not None:
        os.environ[name] = value
    else:
        os.environ.pop(name, None)
        os.unsetenv(name)


def newest() -> Holding | None:
    """The one whose variables the process has."""
    return entered[-1] if entered else None


def _merge_lost() -> None:
    """Of claims of the same name that nobody has an object of, one is kept: they end together, and may be without number."""
    kept: list[Holding] = []
    for holding in reversed(entered[:]):
        if holding.tickets == {None}:
            later = (other for other in kept if other.id == holding.id and other.env.keys() >= holding.env.keys())
            into = None if holding.handles else next(later, None)
            if into is None:
                kept.append(holding)
            else:
                holding._merge_into(into)


def settle() -> None:
    """Ends what nobody has a ticket for any more, and takes its variables back."""
    _changes.do(_bring_in_line)


def _bring_in_line() -> None:
    for holding in reversed(entered[:]):
        if not holding.tickets:
            holding._take_variables_back()
    kept: list[Holding] = []
    around: set[str] = set()  # what is not to end yet: later ones are within it
    for holding in reversed(held):
        if not holding.tickets and (not holding.handles or holding.id not in around):
            _native.end_in(holding.handles, "thole_claim_release")
            continue
        kept.append(holding)
        name = holding.id or holding._around
        while name and name not in around:
            around.add(name)
            name = name.rpartition("/")[0]
    if len(kept) != len(held):
        held[:] = reversed(kept)


def _after_fork() -> None:
    # They are the parent's; the child has a copy of their locks, and their variables.
    held.clear()
    entered.clear()


os.register_at_fork(after_in_child=_after_fork)

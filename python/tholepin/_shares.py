"""From policies to what each process gets: one claim for all of them, held by this process, and its share for each.

One claim, because GPUs are had all or none: two pools that take one after the other would wait for each other for ever.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence, Union

from . import _native, _waiting, words
from ._aside import Aside
from .errors import DriverError, Error, NeverPossible, NoneFree, WrongRequest
from .policy import Policy

if TYPE_CHECKING:
    from .claims import Claim

# One policy, several, a number of GPUs, or "free": every GPU that is free now; a policy for each GPU in both cases.
Policies = Union[Policy, Sequence[Policy]]
Gpus = Union[int, str]


_A_MOMENT = 0.5  # seconds; what was seen so long ago will do, as it does for the program's decisions


class Share:
    """What one process gets.

    Attributes:
        change: variables to set, and to remove (None).
        binding: to which CPUs and memory, for the library.
        gpus: the keys of its GPUs: UUIDs, or what stands for them.
        by_names: the change that shows them by names that are never another GPU's; None where one has no such name.
        claim: the one that they are of; None where it has none, and where they are those of a claim around this process.
        is_around: they are those.
    """

    def __init__(
        self,
        change: Mapping[str, str | None],
        binding: Mapping[str, Any] | None,
        gpus: Sequence[str] = (),
        by_names: Mapping[str, str | None] | None = None,
        claim: Claim | None = None,
    ) -> None:
        self.change = change
        self.binding = binding
        self.gpus = gpus
        self.by_names = by_names
        self.claim = claim
        self.is_around = False


class _TakenBack(Exception):
    """Nothing begins there any more, by whatever name."""

    def __init__(self, why: str) -> None:
        self.problem = DriverError(why, hint="end what runs there, and claim another GPU")


class Shares:
    """The shares of several processes, and the claims that they share out: none, until one of the functions below makes them.
    Whoever calls those releases them, also where they raise."""

    def __init__(self) -> None:
        self.each: Sequence[Share] = ()
        self._claims: Sequence[Claim] = ()
        self._shown_at = 0.0
        self._patience: weakref.ref[_waiting.Patience] | None = None
        self._quiet: bool | None = None
        self._makers: tuple[weakref.ref[Any], ...] = ()

    def claim(self, request: dict[str, Any], patience: _waiting.Patience) -> Claim:
        """Claims what is to be shared out, when its turn has come."""
        from . import claims

        claim = claims.Claim()
        self._claims = (claim,)
        claims.obtain(claim, request, patience)
        self._shown_at = time.monotonic()
        return claim

    def claims_of(self, ranks: Sequence[Sequence[str]], patience: _waiting.Patience) -> Sequence[Claim]:
        """The claim of the GPUs of each of these processes: one for all."""
        wanted = sorted({key for rank in ranks for key in rank})
        return [self.claim({"gpus": len(wanted), "on": wanted}, patience)] * len(ranks)

    def renew(self, shares: Sequence[Share]) -> Error | None:
        """For processes that begin later than the claim: a GPU that has left the driver's list since, or come back, gives
        numbers to others. So the driver is asked by a fresh probe, and where it does not list them all, names show them.

        Returns:
            What keeps them from being shown to a process now: root has taken one back, or one that is not listed, or not told,
            has nothing but a number.
        """
        several = [share for share in shares if share.gpus]
        if not several:
            return None
        now: list[Mapping[str, str | None]]
        try:
            now = self._shown_anew(several)
            self._shown_at = time.monotonic()
        except _TakenBack as taken:
            return taken.problem
        except Error as problem:
            named = [share.by_names for share in several if share.by_names is not None]
            if len(named) < len(several):
                return problem
            now = named
        for share, change in zip(several, now):
            share.change = {**share.change, **change}
        return None

    def _shown_anew(self, shares: Sequence[Share]) -> list[Mapping[str, str | None]]:
        told_own = _by_claim([(share.claim, share.gpus) for share in shares if not share.is_around], None, anew=True)
        around = [share.gpus for share in shares if share.is_around]
        try:
            told_around = iter(_shared_out(None, around, None, anew=True) if around else ())
        except WrongRequest:  # another claim is around by now, or somebody has made that up
            told_around = iter([None] * len(around))
        return [_change(next(told_around if share.is_around else told_own)) for share in shares]

    def taken_back(self) -> Error | None:
        """What keeps anything more from being begun there: root has taken a GPU back."""
        those: list[Claim | None] = [*self._claims]
        if any(share.is_around for share in self.each):
            those.append(None)
        try:
            for claim in those:
                _shared_out(claim, (), None, anew=True)
        except _TakenBack as taken:
            return taken.problem
        return None

    def renew_unless_just_shown(self) -> Error | None:
        """The same of all of them, where what was seen of the driver is no longer of now."""
        return None if time.monotonic() - self._shown_at < _A_MOMENT else self.renew(self.each)

    def waits_as(self, patience: _waiting.Patience) -> None:
        """Of a wait it is told as this one's maker wants it; he keeps it, for a callback may know who is to be forgotten."""
        self._patience, self._quiet = weakref.ref(patience), patience.quiet

    def tell_of_wait(self, share: Share, problem: Error) -> None:
        """Says that a process waits to begin."""
        patience = None if self._patience is None else self._patience()
        if patience is None:
            patience = _waiting.Patience(quiet=self._quiet)
        why = f"{problem.object}: {problem.message}" if problem.object else problem.message
        patience.tell(_native.encoded({"gpus": len(share.gpus)}), {"why": ["to start a process again", why]})

    def are_those_around(self) -> None:
        """Who has none of its own sees what this process sees, and that may run inside of a claim: a number of that may be
        another GPU's by now.

        Raises:
            DriverError: what keeps them from being shown to anybody now.
        """
        those = [share for share in self.each if not share.gpus]
        told = _shown_around() if those else None
        if told is None:
            return
        for share in those:
            share.gpus, share.by_names = told
            share.is_around = True
        if (problem := self.renew(those[:1])) is not None:
            raise problem
        for share in those[1:]:
            share.change = {**share.change, **those[0].change}

    def stay(self) -> None:
        """They last until who made them says otherwise: what that thread, or its task, waits for meanwhile, they are not."""
        if self._claims:
            self._makers = tuple(map(weakref.ref, _caller() or who()))
            _staying.add(self)

    def end_by_themselves(self) -> None:
        """The processes have been told to end, or will."""
        _staying.discard(self)

    def release(self) -> None:
        """Ends the claims; a second time does nothing."""
        _staying.discard(self)
        for claim in self._claims:
            claim.release()


_staying: weakref.WeakSet[Shares] = weakref.WeakSet()


_working_for = threading.local()


def who() -> tuple[object, ...]:
    """Who calls: a thread, and the task of its loop, if it runs one."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = None if asyncio is None else asyncio.current_task()
    except RuntimeError:  # no loop runs here
        task = None
    return (threading.current_thread(),) if task is None else (threading.current_thread(), task)


def work_for(caller: tuple[object, ...]) -> None:
    """This thread works for a task of another one, whose loop goes on meanwhile."""
    _working_for.caller = caller


def _caller() -> tuple[object, ...] | None:
    caller: tuple[object, ...] | None = getattr(_working_for, "caller", None)
    return caller


def of_who_waits() -> list[str]:
    """The claims of pools that who waits here has made and not yet ended: nobody would end them meanwhile. A thread that waits
    holds up its tasks; a task, no other."""
    if not _staying:
        return []
    caller = _caller()
    waits = threading.current_thread() if caller is None else caller[-1]
    staying = [shares for shares in list(_staying) if any(maker() is waits for maker in shares._makers)]
    return [claim.id for shares in staying for claim in shares._claims]


def _units() -> list[dict[str, Any]]:
    seen = _native.call_json("thole_snapshot", _native.machine())
    for unit in seen["units"]:
        unit["pci"] = seen["gpus"][unit["gpu"]].get("pci")
    units: list[dict[str, Any]] = seen["units"]
    return units


def _free(shares: Shares, patience: _waiting.Patience) -> Claim:
    """As many as are free now; one, where it must be waited for. Tried, not looked up: what is looked up is out of date."""
    for number in range(sum(unit["visible"] for unit in _units()), 0, -1):
        try:
            return shares.claim({"gpus": number}, patience.at_once())
        except (NoneFree, NeverPossible):
            continue
        except Error as problem:
            if problem.code not in (64, 69) or number == 1:
                raise
    if patience.milliseconds == 0:
        raise NoneFree("no GPU is free", hint='wait="10m" waits for one')
    return shares.claim({"gpus": 1}, patience)


def _unit_names() -> dict[str, set[str]]:
    """Every whole name of what can be claimed -> the keys of what it names: of several, where an address is that of parts."""
    names: dict[str, set[str]] = {}
    for unit in _units():
        for name in {unit["unit"], unit["key"], unit["pci"]} - {None}:
            names.setdefault(name.lower(), set()).add(unit["key"])
    return names


def _key(name: int | str, names: Mapping[str, set[str]]) -> str:
    word = str(name).lower()
    found = names.get(word) or {
        key for known, keys in names.items() if word and known.startswith(word) and not known.isdigit() for key in keys
    }
    if len(found) == 1:
        return next(iter(found))
    so = "several GPUs are called so" if word in names else "several GPUs' names begin so"
    why = so if found else "there is no such GPU"
    raise NeverPossible(f"Policy.gpu_affinity: {name!r}: {why}", hint="see them: thole status")


def _shown_around() -> tuple[Sequence[str], Mapping[str, str | None] | None] | None:
    """The keys of the GPUs of a claim around this process that its variables show, and variables that do so by names that are
    never another GPU's, where there are such. None where there is no claim, or somebody else has set a list since."""
    shown = _native.call_json("thole_claim_around", _native.machine())
    return None if shown is None else (shown["gpus"], shown["by_names"])


def _shared_out(
    claim: Claim | None, ranks: Sequence[Sequence[str]], bind: words.Binding | None, anew: bool = False
) -> list[Any]:
    request: dict[str, Any] = {"ranks": ranks}
    if anew:
        request["anew"] = True
    if bind:
        request["bind"] = words.binding(bind)
    handle = None if claim is None else claim._holdings[0].handles[0]
    answer = _native.call_json("thole_claim_ranks", _native.machine(), handle, _native.encoded(request))
    if why := answer.get("taken_back"):
        raise _TakenBack(why)
    return answer["ranks"] or [None] * len(ranks)  # None: no claim is around this process any more


def _by_claim(
    ranks: Sequence[tuple[Claim | None, Sequence[str]]], bind: words.Binding | None, anew: bool = False
) -> Iterator[Any]:
    """The same of processes whose GPUs are of several claims, in their order."""
    told: dict[int, Iterator[Any]] = {}
    for claim in {id(claim): claim for claim, _ in ranks}.values():
        told[id(claim)] = iter(_shared_out(claim, [rank for one, rank in ranks if one is claim], bind, anew))
    return iter([next(told[id(claim)]) for claim, _ in ranks])


def _change(told: Mapping[str, Any] | None) -> dict[str, str | None]:
    return {} if told is None else {**told["set"], **dict.fromkeys(told["unset"])}  # None: the claim is around no more


def _share(
    policy: Policy, gpus: Sequence[str] = (), told: Mapping[str, Any] | None = None, claim: Claim | None = None
) -> Share:
    change: dict[str, str | None] = {}
    binding: dict[str, Any] = {}
    if told is not None:
        change.update(_change(told))
        binding = {name: told[name] for name in ("cpus", "memory", "memory_nodes")}
    if policy.cpu_affinity:
        binding["cpus"] = words.cpu_list(policy.cpu_affinity)
        allowed = os.sched_getaffinity(0)
        if not allowed.intersection(policy.cpu_affinity):
            raise NeverPossible(
                f"Policy.cpu_affinity: none of CPUs {binding['cpus']} may be used here",
                hint=f"allowed are {words.cpu_list(allowed)}",
            )
    by_names = told["by_names"] if told is not None else None
    return Share(change, binding or None, gpus, None if by_names is None else _change(by_names), claim)


def warn_of_no_claim() -> None:
    """Says once for each pool that its workers see every GPU, where there are some and nothing shows this process its own."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if os.environ.get("THOLE_CLAIM") or (shown is not None and shown.strip() in ("", "-1")):
        return
    try:
        # a driver is not asked: that may take seconds, and who has no GPU in mind would wait for it
        found = bool(_units()) if os.environ.get("THOLE_MACHINE") else _has_device_nodes()
    except (Error, OSError):
        return
    if found:
        import logging

        with Aside():
            logging.getLogger("tholepin").warning(
                'this pool claims no GPU: gpus="free", gpus=N or policies with gpu_affinity give each worker its own; now each '
                "sees every GPU"
            )


def _has_device_nodes() -> bool:
    return os.path.exists("/dev/kfd") or any(name[6:].isdigit() for name in os.listdir("/dev") if name.startswith("nvidia"))


def for_policies(
    shares: Shares, policies: Sequence[Policy], patience: _waiting.Patience, bind: words.Binding | None = None
) -> None:
    """The share of each of these processes. GPUs that several policies name are claimed once and shared among them."""
    shares.waits_as(patience)
    if not any(policy.gpu_affinity for policy in policies):
        shares.each = [_share(policy) for policy in policies]
        shares.are_those_around()
        return
    names = _unit_names()
    ranks = [[_key(name, names) for name in policy.gpu_affinity] for policy in policies]
    some = [rank for rank in ranks if rank]
    claimed = list(zip(shares.claims_of(some, patience), some))
    told, claims = _by_claim(claimed, bind), iter(claim for claim, _ in claimed)
    shares.each = [
        _share(policy, rank, next(told), next(claims)) if rank else _share(policy) for policy, rank in zip(policies, ranks)
    ]
    shares.are_those_around()


def for_gpus(
    shares: Shares, gpus: Gpus, each: int, patience: _waiting.Patience, bind: words.Binding | None = None
) -> None:
    """``each`` shares for every one of this many GPUs, or of all that are free."""
    shares.waits_as(patience)
    gpus = words.own(gpus)
    if isinstance(gpus, str) and gpus == "free":
        claim = _free(shares, patience)
    elif isinstance(gpus, int) and not isinstance(gpus, bool) and gpus > 0:
        claim = shares.claim({"gpus": gpus}, patience)
    else:
        raise WrongRequest(f'gpus: expected a number of GPUs, 1 or more, or "free", got {gpus!r}')
    ranks = [[key] for key in claim.uuids for _ in range(each)]
    shares.each = [_share(Policy(), rank, told, claim) for rank, told in zip(ranks, _shared_out(claim, ranks, bind))]


def for_request(
    shares: Shares, request: dict[str, Any], patience: _waiting.Patience, bind: words.Binding | None = None
) -> None:
    """One share with all GPUs of a claim; ``request`` as in thole.h."""
    shares.waits_as(patience)
    claim = shares.claim(request, patience)
    shares.each = [_share(Policy(), claim.uuids, _shared_out(claim, [claim.uuids], bind)[0], claim)]

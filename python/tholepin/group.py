"""Many processes as one: ProcessGroup, as Dragon's users know it."""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from typing import Any, Callable, Iterator, Mapping

from . import _epoll, _leaving, _shares, _start, _waiting, process, words
from ._absent import Absent
from ._bell import Bell, new_epoll
from ._sleepers import Sleepers
from .errors import Error, NeverPossible, WorkerDied, WorkerNotStarted
from .policy import Policy, under_those_around
from .process import ProcessTemplate

IDLE, RUNNING, ERROR = "IDLE", "RUNNING", "ERROR"
PATIENCE = 5.0
_LONGEST_POLL_S = 1e6  # epoll counts milliseconds in 32 bits
_UNKNOWN = (
    "whether processes of a ProcessGroup have succeeded is not known, their exit status is None: this program ignores SIGCHLD, "
    "or waits for every child"
)
_FIRST_STEPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class _Slot:
    """A place in the group: its template, its share of the GPUs, and the process that has it now."""

    def __init__(self, template: ProcessTemplate, share: _shares.Share) -> None:
        self.template = template
        self.share = share
        self.started: process.Started | None = None
        self.pipes: tuple[int, Mapping[int, Any]] | None = None  # of the last that was started; what it wrote outlives it


class ProcessGroup:
    """Processes that are started, watched and ended together, each with its GPUs and CPUs from its first instruction.

    >>> import os
    >>> import tholepin
    >>> with tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[1])) as group:
    ...     group.add_process(nproc=2, template=tholepin.ProcessTemplate(os.getpid))
    ...     group.add_process(nproc=1, template=tholepin.ProcessTemplate("true"))
    ...     group.init()                       # claims the GPUs of all policies at once, or waits for them
    ...     group.start()
    ...     group.join(timeout=60)
    ...     len(group.exit_status), group.state
    (3, 'IDLE')

    The policy of a template goes over the group's (``Policy.merge``). The GPUs are claimed in :meth:`init` and free again
    after :meth:`close`. Each process has a process group of its own: signals reach its children too, and what is left of it
    when it has ended is killed. When this process ends, in whatever way, the kernel kills them all. Processes read nothing
    from the terminal.

    Args:
        restart: a process that ends, however, is started again in its place, until :meth:`stop_restart`.
        ignore_error_on_exit: an exit status other than 0 is only recorded; else :meth:`join` raises WorkerDied at the first
            one.
        pmi: must be None: the ranks of an MPI program are its own launcher's to start (``thole run mpirun …``).
        walltime: seconds (or "1h") from the start after which the group is stopped.
        policy: for processes whose template has none, or leaves something open.
        critical: Dragon's, and without meaning there, too.
        name: shown by ``repr``.
        patience: of the stop at the end of the walltime: seconds between SIGINT, SIGTERM and SIGKILL.
        wait: how long init() waits for the GPUs at most; for ever, if not given.
        cancel, on_wait, quiet: of that wait, as :func:`tholepin.claim` has them.
        bind: how to bind, as for a Pool.
    """

    def __init__(
        self,
        restart: bool = False,
        ignore_error_on_exit: bool = False,
        pmi: object = None,
        walltime: words.Duration | None = None,
        policy: Policy | None = None,
        critical: bool = False,
        name: str | None = None,
        *,
        patience: float = PATIENCE,
        wait: words.Duration | None = None,
        bind: words.Binding | None = None,
        cancel: _waiting.Cancel | None = None,
        on_wait: _waiting.OnWait | None = None,
        quiet: bool | None = None,
    ) -> None:
        if pmi is not None:
            raise NeverPossible(f"ProcessGroup.pmi: {pmi!r}: no ranks of MPI are started here", hint="thole run mpirun …")
        words.one_of(policy, Policy, "policy")
        if name is not None:
            words.text(name, "name")
        if bind is not None:
            words.binding(bind)
        words.flag(critical, "critical")
        self.name = name
        self._restart = words.flag(restart, "restart")
        self._ignore_errors = words.flag(ignore_error_on_exit, "ignore_error_on_exit")
        self._walltime = None if walltime is None else words.seconds(walltime, "walltime")
        self._policy = under_those_around(policy) or Policy()
        self._patience = words.patience(patience)
        self._waiting = _waiting.Patience(wait, cancel, on_wait, quiet)
        self._bind = bind
        self._templates: list[tuple[int, ProcessTemplate]] = []
        self._shares: _shares.Shares | None = None
        self._slots: list[_Slot] = []
        self._closing = self._closed = False
        self._sleepers = Sleepers()
        self._watched_by: _Watch | None = None
        self._exits: list[tuple[int, int | None]] = []
        self._failed: list[tuple[int, int | None]] = []
        self._restarting = self._restart

    _make_shares = _shares.Shares

    # ---- Before the start ----

    def add_process(self, nproc: int, template: ProcessTemplate) -> None:
        """Adds ``nproc`` processes of this template; before :meth:`init`."""
        self._check(
            self._shares is None and not self._closed, "add_process: the group is made already; add processes before init()"
        )
        nproc = words.count(words.whole(nproc, "nproc"), "nproc")
        words.this_one(template, ProcessTemplate, "template")
        self._templates.append((nproc, template))

    def init(self) -> None:
        """Claims the GPUs that the policies name, all or none, and decides which CPUs each process gets.

        Raises:
            NoneFree, WaitTimeout, NeverPossible, DriverError: from the claim.
        """
        self._check(self._shares is None and not self._closed, "init: the group is made already")
        templates = [template for nproc, template in self._templates for _ in range(nproc)]
        policies = [Policy.merge(self._policy, template.policy or Policy()) for template in templates]
        shares = self._make_shares()
        try:
            _shares.for_policies(shares, policies, self._waiting, self._bind)
            self._slots = [_Slot(template, share) for template, share in zip(templates, shares.each)]
            self._shares = shares
        except BaseException:
            self._slots, self._shares = [], None
            shares.release()
            raise

    def start(self) -> None:
        """Starts all processes. If one cannot be started, none is left running, and what it was is raised."""
        self._check(
            self._shares is not None and not self._closed, "start: init() the group first, and do not start a closed one"
        )
        self._check(self._watch is None, "start: the group runs already; join() or stop() it first")
        self._failed = []
        self._restarting = self._restart
        try:
            self._watched_by = _Watch(self, None if self._walltime is None else time.monotonic() + self._walltime)
            self._watched_by.begin()
        except BaseException:
            if self._watched_by is not None:
                self._watched_by.give_up()
            raise

    # ---- While it runs ----

    @property
    def state(self) -> str:
        """ "IDLE" before the start and after the end, "RUNNING", or "ERROR": a process has failed (see
        ignore_error_on_exit)."""
        if self._failed and not self._ignore_errors:
            return ERROR
        return IDLE if self._watch is None else RUNNING

    @property
    def in_error_state(self) -> bool:
        """Whether a process has failed."""
        return self.state == ERROR

    @property
    def puids(self) -> list[int]:
        """The process ids of those that run."""
        running = [slot.started.child.pid for slot in self._slots if slot.started is not None]
        return running

    @property
    def exit_status(self) -> list[tuple[int, int | None]]:
        """(process id, exit status) of all that have ended, restarted ones among them; a signal is its number negative. None
        where it is not known: this program ignores SIGCHLD, or waits for every child. That is no failure."""
        return list(self._exits)

    inactive_puids = exit_status

    def pipes(self) -> dict[int, Mapping[int, Any]]:
        """Our ends of the pipes: process id -> {0, 1 or 2: file}, for templates with PIPE. Of each place in the group the
        process that was started last, also when it has ended: what it wrote can be read until the place is filled again or
        :meth:`close`."""
        return dict(slot.pipes for slot in self._slots if slot.pipes is not None)

    def join(self, timeout: float | None = None) -> None:
        """Sleeps until all processes have ended.

        Raises:
            TimeoutError: they have not in ``timeout`` seconds; the group runs on. 0 only looks.
            WorkerDied: one has failed; the others may still run.
        """
        timeout = words.timeout(timeout)
        over = self._sleepers.until(lambda: self._watch is None or self.in_error_state, timeout)
        if self.in_error_state:
            raise self._failure()
        if not over:
            raise TimeoutError(f"the group still runs: {len(self.puids)} processes")
        if any(status is None for _, status in self._exits):
            _waiting.warn([_UNKNOWN], self._waiting.quiet)

    def send_signal(self, sig: int, hide_stderr: bool = False) -> None:
        """Sends a signal to every process and its children. ``hide_stderr`` is Dragon's: what they say of it is shown here."""
        sig = words.signal_number(sig, "sig")
        self._running("send_signal").signal_all(sig)

    def stop_restart(self) -> None:
        """From now on what ends is not started again."""
        self._check(not self._closed, "stop_restart: the group is closed")
        self._restarting = False
        watch = self._watch
        if watch is not None:
            watch.look_again()

    def terminate(self, hide_stderr: bool = False) -> None:
        """Sends SIGTERM to all, and starts none again. Wait for them with :meth:`join`."""
        self._running("terminate").end_by(signal.SIGTERM)

    def kill(self, hide_stderr: bool = False) -> None:
        """Sends SIGKILL to all, and starts none again. Wait for them with :meth:`join`."""
        self._running("kill").end_by(signal.SIGKILL)

    def stop(self, patience: float = PATIENCE) -> None:
        """Ends all and waits for it: SIGINT, ``patience`` seconds later SIGTERM, after as many again SIGKILL."""
        patience = words.patience(patience)
        self._check(not self._closed, "stop: the group is closed")
        watch = self._watch
        if watch is not None:
            watch.stop(patience)
            self._sleepers.until(lambda: self._watch is None)

    def close(self, patience: float = PATIENCE) -> None:
        """Stops what runs and gives the GPUs back; a second time does nothing. After it nothing can be started."""
        patience = words.patience(patience)
        self._begin_close(patience)
        self._sleepers.until(lambda: self._watch is None)
        self._give_back()

    def __enter__(self) -> ProcessGroup:
        _leaving.entered(self)
        return self

    __exit__ = _leaving.Exit(lambda group, *_: group.close(), lambda group: group._begin_close(PATIENCE))

    def __repr__(self) -> str:
        return f"<tholepin.ProcessGroup {self.name or ''}: {self.state}, {len(self.puids)} processes run>"

    # ---- Inside ----

    @property
    def _watch(self) -> _Watch | None:
        """Who watches what runs; nobody in a forked child, whose parent has the thread."""
        watch = self._watched_by
        return watch if watch is not None and watch.pid == os.getpid() else None

    def _check(self, holds: bool, message: str) -> None:
        if not holds:
            raise Error(f"ProcessGroup.{message}", code=64)

    def _running(self, what: str) -> _Watch:
        watch = self._watch
        if watch is None or self._closed:
            raise Error(f"ProcessGroup.{what}: the group does not run", code=64)
        return watch

    def _failure(self) -> WorkerDied:
        pid, status = self._failed[0]
        codes = [status for _, status in self._failed]
        error = WorkerDied(
            f"processes of the group ended with exit status {', '.join(map(str, codes))}", pid=pid, exit_status=status
        )
        return error

    def _ended(self, slot: _Slot, stopping: bool) -> bool:
        """Records an end; whether the slot is to be filled again."""
        assert slot.started is not None
        end = (slot.started.child.pid, slot.started.child.exit_status)
        self._exits.append(end)
        slot.started = None
        if end[1] not in (0, None) and not stopping and not self._restarting:
            self._failed.append(end)
        self._sleepers.wake()
        return self._restarting and not stopping

    def _over(self) -> None:
        self._watched_by = None
        self._sleepers.wake()
        if self._closing:
            self._give_back()

    def _begin_close(self, patience: float) -> None:
        """What is left to do at the end of what runs its watch does, where nobody waits for that any more."""
        self._closing = True
        watch = self._watch
        if watch is None:
            self._give_back()
        else:
            watch.stop(patience)

    def _give_back(self) -> None:
        self._closed = True
        for slot in self._slots:
            slot.pipes = None
        if self._shares is not None:
            self._shares.release()


class _Watch:
    """The thread that watches a group from its start to its end. It sleeps in epoll on pidfds, a bell, and the next
    deadline."""

    def __init__(self, group: ProcessGroup, walltime_ends: float | None) -> None:
        self.pid = os.getpid()
        self._group = group
        self._walltime_ends = walltime_ends
        self._slots: dict[int, _Slot] = {}
        self._absent = Absent(lambda: group._shares)
        self._orders: deque[Callable[[], None]] = deque()
        self._stopping = False
        self._steps: Iterator[int] = iter(())
        self._next_step: float | None = None
        self._step_patience = group._patience
        self._handover = _start.Handover()
        self._epoll = new_epoll()
        self._bell = Bell(self._epoll)

    def begin(self) -> None:
        """Starts the processes, and the thread that watches them. Not by the constructor: the group must know of us before we
        tell it that all is over."""
        shares = self._group._shares
        problem = None if shares is None else shares.renew_unless_just_shown()
        if problem is not None:
            raise problem
        for slot in self._group._slots:
            self._start(slot)
        _start.start_thread("the group's thread", self._run, "thole-group")

    def give_up(self) -> None:
        """After a start that has failed: no process is left."""
        if self._handover.taken():
            self._end()
        else:
            self.end_by(signal.SIGKILL)

    def _start(self, slot: _Slot) -> None:
        started = process.Started()
        try:
            process.start(started, slot.template, slot.share)
            slot.started = started
            slot.pipes = started.child.pid, started.pipes
            self._slots[started.child.fd] = slot
            self._epoll.register(started.child.fd, select.EPOLLIN)
        except BaseException:
            started.child.discard()
            slot.started = None
            raise

    def _kill_started(self) -> None:
        for slot in self._group._slots:
            if slot.started is not None:
                slot.started.child.discard()
                slot.started = None

    # ---- For other threads ----

    def signal_all(self, number: int) -> None:
        self._tell(lambda: self._signal_all(number))

    def end_by(self, number: int) -> None:
        def order() -> None:
            self._stopping = True
            self._signal_all(number)

        self._tell(order)

    def stop(self, patience: float) -> None:
        self._tell(lambda: self._begin_stop(patience))

    def look_again(self) -> None:
        """At what is to go on."""
        self._bell.ring()

    def _tell(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        self._bell.ring()

    # ---- The thread ----

    def _run(self, begun: Callable[[], None]) -> None:
        if not self._handover.taken():
            return
        try:
            begun()
            while self._slots or self._absent:
                self._turn()
        finally:
            self._end()

    def _end(self) -> None:
        self._kill_started()
        self._absent.give_up()
        self._slots.clear()
        self._close()
        self._group._over()

    def _turn(self) -> None:
        steps = (self._walltime_ends, self._next_step, self._absent.due)
        deadline = min((one for one in steps if one is not None), default=None)
        timeout = None if deadline is None else min(_LONGEST_POLL_S, max(0.0, deadline - time.monotonic()))
        for fd, _ in _epoll.events(self._epoll, timeout):
            if fd == self._bell.fd:
                self._bell.clear()
            else:
                self._bury(fd)
        while self._orders:
            self._orders.popleft()()
        now = time.monotonic()
        if self._walltime_ends is not None and now >= self._walltime_ends:
            self._walltime_ends = None
            self._begin_stop(self._group._patience)
        if self._next_step is not None and now >= self._next_step:
            self._step()
        if self._stopping or not self._group._restarting:
            self._absent.give_up()
        self._absent.go_on()

    def _bury(self, fd: int) -> None:
        slot = self._slots.pop(fd)
        self._epoll.unregister(fd)
        assert slot.started is not None
        slot.started.child.reap()
        if self._group._ended(slot, self._stopping):
            self._absent.begin(slot.share, lambda: self._start_again(slot))

    def _start_again(self, slot: _Slot) -> None:
        try:
            self._start(slot)
        except (Error, OSError) as problem:
            code = problem.code if isinstance(problem, Error) else WorkerNotStarted.default_code
            self._group._failed.append((0, code))
            self._group._sleepers.wake()

    def _begin_stop(self, patience: float) -> None:
        self._stopping = True
        self._group._restarting = False
        self._steps = iter(_FIRST_STEPS)
        self._step_patience = patience
        self._step()

    def _step(self) -> None:
        number = next(self._steps, None)
        self._next_step = None
        if number is not None:
            self._signal_all(number)
            if number != signal.SIGKILL:
                self._signal_all(signal.SIGCONT)  # a stopped one must run to hear it
            self._next_step = time.monotonic() + self._step_patience

    def _signal_all(self, number: int) -> None:
        for slot in list(self._slots.values()):
            if slot.started is not None:
                slot.started.child.send_signal(number, group=True)

    def _close(self) -> None:
        self._epoll.close()

"""The workers of a pool and the thread that keeps them busy.

How this works. One thread per pool owns everything here: it alone starts workers, sends, receives, notices deaths and calls
back. Other threads put what they want into ``_inbox`` and wake it. It sleeps in epoll on the workers' sockets and pidfds; the
only timed sleeps are the patience of a termination, and the pauses between looks for a GPU that a worker is to begin with, or,
while there are tasks, whether root has taken one back.

Each worker has up to ``ahead`` chunks: one that it computes, the others unread in its socket, whose reading end is open here
too. When another worker runs dry these are taken back, packet by packet; the kernel gives each to exactly one reader. When a
worker dies, what was unread goes back to the front, and the one chunk that it had read and not answered is the one it died of:
that one is tried again, up to a limit.
"""

from __future__ import annotations

import _pickle
import os
import select
import signal
import socket
import threading
import time
from collections import deque
from typing import Any, Callable, Sequence

from . import _epoll, _pickling, _start, _wire
from ._absent import Absent
from ._bell import Bell, new_epoll
from ._chunks import Chunk, failure, how, with_cause
from ._shares import Share, Shares
from ._sleepers import Sleepers
from ._taken import TakenWatch
from ._workplace import FULL, Worker, has_many_descriptors
from .errors import Error, WorkerDied

AHEAD = 16
_LOOKS = 64  # packets of one worker before the others have their turn


class Crew:
    """Workers, one for each share, and what they are to do: none, before :meth:`begin`.

    Args:
        tasks_per_worker: after this many chunks a worker is replaced; None: never.
        retries: how often a chunk is tried again whose worker has died.
        ahead: how many chunks a worker has at most, the one that it computes among them.
    """

    def __init__(
        self, tasks_per_worker: int | None, retries: int, ahead: int = AHEAD, shares: Shares | None = None
    ) -> None:
        self._ahead = ahead
        self._shares = shares or Shares()
        self._absent = Absent(lambda: self._shares)
        self._taken = TakenWatch(self._shares)
        self._tasks_per_worker = tasks_per_worker
        self._retries = retries
        self._pid = os.getpid()
        self._first: list[tuple[bytes | _wire.Part, bytes | _wire.Part]] = []
        self._inbox: deque[Sequence[Chunk] | Callable[[], None]] = deque()
        self._pending: deque[Chunk] = deque()
        self._chunks: dict[int, Chunk] = {}
        self._workers: list[Worker] = []
        self._by_fd: dict[int, Worker] = {}  # both the socket's and the pidfd
        self._numbers = 0
        self._deaths_before_ready = 0
        self._bell: Bell | None = None  # until the end: who rings has it until he has rung, and then its descriptors are closed
        self._sleeping = False
        self._closed = False  # by others; the thread knows it when it has read that
        self._closing = False
        self._kill_at: float | None = None
        self.broken: BaseException | None = None
        self._room = memoryview(bytearray(_wire.ROOM))
        self._ready_count = 0
        self.size = 0
        self._finished = False
        self._sleepers = Sleepers()
        self._handover = _start.Handover()
        self._begun = False
        self._thread: threading.Thread | None = None

    def begin(
        self, share_out: Callable[[Shares], None], initializer: Callable[..., object] | None, initargs: Sequence[Any]
    ) -> None:
        """Makes the shares and starts the workers. Where that fails, nothing is left of it: neither workers nor their claim.

        Args:
            share_out: puts the shares into what it is given.
            initializer: called with ``initargs`` in each worker before it is ready; None: nothing.
        """
        try:
            share_out(self._shares)
            self._start(initializer, initargs)
            if self._finished and self.broken is None:  # it was ended before it began: the program ends
                raise Error("the pool was terminated")
            self._begun = True
        except BaseException:
            self.terminate(0.0)
            self.join()
            self._shares.release()
            raise

    def _start(self, initializer: Callable[..., object] | None, initargs: Sequence[Any]) -> None:
        self._shares.stay()
        self.size = len(self._shares.each)
        try:
            work = b"" if initializer is None else _pickling.dumped((initializer, tuple(initargs)))
            self._first = [(_start.setup_part(), b""), (b"", work)]
            self._epoll = new_epoll()
            self._bell = Bell(self._epoll)
            self._thread = _start.start_thread("the pool's thread", self._run, "thole-pool")
        except OSError as problem:
            if isinstance(problem, Error):
                raise
            raise _start.not_started("workers", problem) from problem

    # ---- For other threads ----

    def submit(self, chunks: Sequence[Chunk]) -> None:
        """Hands over what is to be done. Raises Error when the pool is broken."""
        if self.broken is not None:
            raise self._broken_error()
        self._check_ours()
        self._inbox.append(chunks)
        self._wake()
        if self._finished:  # the thread may have ended without having seen them
            self._fail_inbox()

    def close(self) -> None:
        """No more is coming: workers end when all is done."""
        self._shares.end_by_themselves()
        self._closed = True
        self._sleepers.wake()
        if self._begun:
            self._tell(self._close)
        else:
            self.terminate(0.0)

    def terminate(self, patience: float) -> None:
        """Ends the workers at once: SIGTERM, and ``patience`` seconds later SIGKILL. What is not done fails."""
        self._shares.end_by_themselves()
        if self._pid == os.getpid() and self._handover.taken():  # the thread has not begun, and will not
            self._end()
        else:
            self._tell(lambda: self._terminate(patience))

    def cancel_pending(self, cancelled: Callable[[Chunk], object]) -> None:
        """Takes back what no worker has, and tells of it."""

        def take_back() -> None:
            waiting, self._pending = self._pending, deque()
            for chunk in waiting:
                cancelled(chunk)

        self._tell(take_back)

    def join(self, timeout: float | None = None) -> bool:
        """Sleeps until the workers are gone and the claim is released; False when ``timeout`` seconds have passed first."""
        if self._pid != os.getpid() or threading.current_thread() is self._thread:
            return True
        return self._sleepers.until(lambda: self._finished, timeout)

    def wait_until_ready(self, timeout: float | None, closed: Exception) -> bool:
        """Sleeps until every worker is ready. Raises what has made that impossible: ``closed``, where it is closed."""
        self._check_ours()
        up = self._sleepers.until(
            lambda: self._closed or self._ready_count >= self.size or self.broken is not None, timeout
        )
        if self.broken is not None:
            raise self._broken_error()
        if self._closed:  # workers that are not ready yet may never be
            raise closed
        return up

    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [worker.child.pid for worker in list(self._workers)]

    def _check_ours(self) -> None:
        if self._pid != os.getpid():
            raise Error("this pool belongs to the process that forked this one", code=64, hint="make a pool of your own")

    def _tell(self, order: Callable[[], None]) -> None:
        if self._pid == os.getpid() and not self._finished:
            self._inbox.append(order)
            self._wake()

    def _wake(self) -> None:
        # It says that it goes to sleep before it looks into the inbox for the last time; we put in before we look at that. Only
        # the thread says that it is awake: who says so for it may be interrupted before he rings.
        bell = self._bell
        if self._sleeping and bell is not None:
            bell.ring()

    def _broken_error(self) -> BaseException:
        assert self.broken is not None
        return self.broken

    # ---- The thread ----

    def _run(self, begun: Callable[[], None]) -> None:
        if not self._handover.taken():
            return
        try:
            begun()
            for share in self._shares.each:
                self._start_worker(share)
        except BaseException as problem:
            self._break(problem)
        while not (self._closing and not self._workers and not self._absent and not self._inbox):
            was_broken = self.broken is not None
            try:
                self._turn()
            except BaseException as problem:  # a bug, or no memory: nobody may wait for ever
                self._break(problem)
                if was_broken:  # it cannot be ended in turns either
                    break
        self._leave_none()
        self._epoll.close()
        self._end()

    def _turn(self) -> None:
        self._sleeping = True
        steps = (self._kill_at, self._absent.due, self._taken.due(bool(self._chunks or self._pending)))
        next_step = min((at for at in steps if at is not None), default=None)
        timeout = None if next_step is None else max(0.0, next_step - time.monotonic())
        if self._inbox:
            timeout = 0
        events = _epoll.events(self._epoll, timeout)
        self._sleeping = False
        ended = []
        bell = self._bell
        for fd, _ in events:
            if bell is not None and fd == bell.fd:
                bell.clear()
            elif fd in self._by_fd:
                worker = self._by_fd[fd]
                if fd == worker.child.fd:
                    ended.append(worker)
                else:
                    self._hear(worker)
        for worker in ended:
            self._bury(worker)
        while self._inbox:
            item = self._inbox.popleft()
            if callable(item):
                item()
            else:
                self._pending.extend(item)
        if self.broken is not None:
            self._fail_all(self.broken)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = None
            self._signal_all(signal.SIGKILL)
        self._feed()
        if self._absent:
            self._absent.go_on()

    def _leave_none(self) -> None:
        for worker in self._workers:  # none, where turns do their work
            worker.child.send_signal(signal.SIGKILL, group=True)
            worker.child.wait(5)
            worker.close()
        self._workers.clear()

    def _end(self) -> None:
        self._fail_all(self.broken or Error("the pool was closed before this was done"))
        self._shares.release()
        self._bell = None  # who joins finds its descriptors closed
        self._finished = True
        self._fail_inbox()
        self._sleepers.wake()

    def _fail_inbox(self) -> None:
        while self._inbox:
            try:
                item = self._inbox.popleft()
            except IndexError:
                return
            for chunk in () if callable(item) else item:
                chunk.lost(self.broken or Error("the pool was closed before this was done"))

    # ---- Workers ----

    def _start_worker(self, share: Share) -> None:
        try:
            worker = Worker(share)
        except (OSError, Error) as problem:
            raise _start.not_started(f"worker {self._shares.each.index(share) + 1} of {self.size}", problem) from problem
        for code, body in self._first:
            _wire.send(worker.near, 0, 0, 0, code, body)
        self._workers.append(worker)
        for fd in (worker.near.fileno(), worker.child.fd):
            self._by_fd[fd] = worker
            self._epoll.register(fd, select.EPOLLIN)

    def _forget(self, worker: Worker) -> None:
        for fd in (worker.near.fileno(), worker.child.fd):
            self._epoll.unregister(fd)
            del self._by_fd[fd]
        self._workers.remove(worker)

    def _hear(self, worker: Worker) -> None:
        for _ in range(_LOOKS):
            try:
                packet = _wire.receive(worker.near, self._room, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if packet is None:
                return
            self._heard(worker, packet)

    def _heard(self, worker: Worker, packet: _wire.Packet) -> None:
        if packet.kind == _wire.READY:
            worker.ready = True
            self._deaths_before_ready = 0
            self._ready_count += 1
            self._sleepers.wake()
            return
        if packet.kind == _wire.UNREADY:
            self._break(failure("the pool's initializer raised an exception", packet))
            return
        chunk = worker.chunks.pop(packet.number, None)
        self._chunks.pop(packet.number, None)
        if chunk is None:  # nobody waits for it: the pool is terminated, or the task has forked and both answer
            return
        if packet.kind == _wire.UNBEGUN and worker.refusal is not None:
            chunk.lost(worker.refusal)
            return
        try:
            value = packet.load(_pickle.loads)
        except BaseException as problem:
            chunk.done(False, problem)
            return
        if packet.kind == _wire.RESULT:
            chunk.done(True, value)
        else:
            chunk.done(False, with_cause(*value))

    def _bury(self, worker: Worker) -> None:
        self._hear(worker)  # what it has answered is done, whatever came after
        while worker.chunks:
            before = len(worker.chunks)
            self._hear(worker)
            if len(worker.chunks) == before:
                break
        unread = worker.unread(self._room)
        self._forget(worker)
        pid = worker.child.pid
        worker.child.reap()
        worker.close()
        if worker.ready:
            self._ready_count -= 1
        for chunk in worker.chunks.values():
            self._blame(chunk, pid, worker.child.exit_status)
        self._pending.extendleft(reversed(unread))
        if self._closing and (self.broken is not None or not (self._pending or self._chunks)):
            return
        if not worker.ready and not worker.stopping:
            self._deaths_before_ready += 1
            if self._deaths_before_ready > self._retries:
                status = worker.child.exit_status
                self._break(WorkerDied(f"workers end before they are ready ({how(status)})", pid=pid, exit_status=status))
                return
        if self.broken is None:
            try:
                self._absent.begin(worker.share, lambda: self._start_worker(worker.share))
            except BaseException as problem:
                self._break(problem)

    def _blame(self, chunk: Chunk, pid: int, status: int | None) -> None:
        chunk.tries += 1
        if chunk.tries <= self._retries and self.broken is None:
            self._pending.appendleft(chunk)
            return
        self._chunks.pop(chunk.number, None)
        times = "" if chunk.tries == 1 else f", {chunk.tries} times"
        chunk.done(False, WorkerDied(f"worker {pid} died at this task ({how(status)}){times}", pid=pid, exit_status=status))

    def _break(self, problem: BaseException) -> None:
        if self.broken is None:
            self.broken = problem
        self._closing = True
        self._absent.give_up()
        self._fail_all(problem)
        self._signal_all(signal.SIGKILL)
        self._sleepers.wake()

    def _fail_all(self, problem: BaseException) -> None:
        waiting = [*self._chunks.values(), *(chunk for chunk in self._pending if not chunk.number)]
        self._chunks.clear()
        self._pending.clear()
        for worker in self._workers:
            worker.chunks.clear()
        for chunk in waiting:
            chunk.lost(problem)

    def _signal_all(self, number: int) -> None:
        for worker in self._workers:
            worker.stopping = True
            worker.child.send_signal(number, group=True)

    def _close(self) -> None:
        self._closing = True

    def _terminate(self, patience: float) -> None:
        self._closing = True
        if self.broken is None:
            self.broken = Error("the pool was terminated")
        self._absent.give_up()
        for worker in self._workers:  # one that outlives the signal answers, and would go on
            worker.stop(self._room)
        self._fail_all(self.broken)
        self._signal_all(signal.SIGTERM)
        self._signal_all(signal.SIGCONT)  # a stopped one must run to hear it
        self._kill_at = time.monotonic() + patience

    # ---- Work ----

    def _feed(self) -> None:
        pending = self._pending
        if (problem := self._taken.look(bool(pending or self._chunks))) is not None:
            self._fail_unbegun(problem)
        idle = []
        for worker in self._workers:
            if worker.ready and not worker.stopping and not worker.chunks:
                if pending:
                    self._give(worker)
                else:
                    idle.append(worker)
        if pending:
            ahead = min(self._ahead, 1 + len(pending) // len(self._workers)) if self._workers else 0
            for worker in self._workers:
                while pending and worker.ready and not worker.stopping and len(worker.chunks) < ahead:
                    if not self._give(worker):
                        break
        elif idle:
            self._balance(idle)
        if self._closing or self._tasks_per_worker is not None:
            self._send_home()

    def _fail_unbegun(self, problem: BaseException) -> None:
        for worker in self._workers:
            if worker.ready:  # else what it is to become so by lies there
                self._pending.extend(worker.unread(self._room))
                worker.begin_no_more(problem)
        while self._pending:
            chunk = self._pending.popleft()
            self._chunks.pop(chunk.number, None)
            chunk.lost(problem)

    def _balance(self, idle: list[Worker]) -> None:
        for worker in self._workers:
            while idle and len(worker.chunks) > 1:
                chunk = worker.take_back(self._room)
                if chunk is None:
                    break
                self._pending.append(chunk)
                self._give(idle.pop())

    def _may_take(self, worker: Worker) -> bool:
        return self._tasks_per_worker is None or worker.taken < self._tasks_per_worker

    def _give(self, worker: Worker) -> bool:
        """The next chunk to this worker; False where it has no room for one."""
        if not self._may_take(worker):
            return False
        chunk = self._pending.popleft()
        if not chunk.wanted():
            self._chunks.pop(chunk.number, None)
            return True
        try:
            body = chunk.packed()
        except BaseException as problem:
            return self._failed_to_give(chunk, problem)
        if worker.chunks and isinstance(body, _wire.Part) and body.fd >= 0 and has_many_descriptors():
            self._pending.appendleft(chunk)
            return False
        if not chunk.number:
            self._numbers += 1
            chunk.number = self._numbers
            self._chunks[chunk.number] = chunk
        function = chunk.function
        try:
            _wire.send(worker.near, chunk.kind, chunk.number, function.number, function.code, body, socket.MSG_DONTWAIT)
        except OSError as problem:
            return self._failed_to_give(chunk, problem)
        worker.taken += 1
        worker.chunks[chunk.number] = chunk
        return True

    def _failed_to_give(self, chunk: Chunk, problem: BaseException) -> bool:
        """Puts a chunk back that could not be sent where there will be room: in the socket, or for descriptors when an answer
        has come. False then. Else the chunk has failed."""
        if isinstance(problem, BlockingIOError) or (
            getattr(problem, "errno", None) in FULL and any(worker.chunks for worker in self._workers)
        ):
            self._pending.appendleft(chunk)
            return False
        self._chunks.pop(chunk.number, None)
        chunk.done(False, problem)
        return True

    def _send_home(self) -> None:
        """Stops workers that have nothing left to do here: after their number of tasks, or because the pool closes."""
        done = self._closing and not self._pending and not self._chunks
        if done:
            self._absent.give_up()
        for worker in self._workers:
            if worker.stopping or worker.chunks or not worker.ready:
                continue
            if done or not self._may_take(worker):
                worker.stopping = True
                _wire.send(worker.near, _wire.STOP, 0, 0, b"", b"")

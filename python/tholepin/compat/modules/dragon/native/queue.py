"""``dragon.native.queue``: a queue that several processes put things into and take them out of."""

from __future__ import annotations

import base64
import pickle
import queue
from typing import Any

from tholepin import _pickling

from .._shared import Handle

_SIZE = 100


class QueueError(Exception):
    """The queue is not made for this."""


class _Items(queue.Queue):  # type: ignore[type-arg]  # Python 3.8's own is not generic
    """The pickled things themselves, in the process that made the queue."""

    def poll(self, timeout: float | None) -> bool:
        with self.not_empty:
            there = bool(self.not_empty.wait_for(self._qsize, timeout))
            self.not_empty.notify()  # who was woken in vain wakes the next
            return there

    def not_get(self, item: bytes) -> None:
        """Who was to get it has ended."""
        with self.not_empty:
            self.queue.appendleft(item)
            self.not_empty.notify()

    def all_done(self, timeout: float | None) -> bool:
        with self.all_tasks_done:
            return bool(self.all_tasks_done.wait_for(lambda: not self.unfinished_tasks, timeout))


class Queue(Handle):
    """First in, first out; it can be an argument of a process, or go through another Queue.

    >>> queue = Queue()
    >>> queue.put({"rate": 0.1})
    >>> queue.size(), queue.get(timeout=60)
    (1, {'rate': 0.1})

    What is in it lies in the process that made it, and is gone when that ends. ``policy``, ``block_size``, ``buffered`` and
    ``pool`` mean nothing on one host; what names a channel is refused.
    """

    def __init__(
        self,
        maxsize: int = _SIZE,
        *,
        pool: object = None,
        block_size: int = 65536,
        joinable: bool = False,
        buffered: bool = True,
        policy: object = None,
        num_streams: int = 0,
        main_channel: object = None,
        mgr_channel: object = None,
        sem_channel: object = None,
        strm_channels: object = None,
        pickler: Any = None,
    ) -> None:
        channels = {
            "num_streams": num_streams,
            "main_channel": main_channel,
            "mgr_channel": mgr_channel,
            "sem_channel": sem_channel,
            "strm_channels": strm_channels,
        }
        for name, given in channels.items():
            _no_channel(name, given)
        super().__init__(_Items(maxsize or _SIZE))
        self._maxsize, self._joinable, self._pickler, self._closed = maxsize or _SIZE, joinable, pickler, False

    def __getstate__(self) -> dict[str, Any]:
        self._check()
        own = {name: getattr(self, name) for name in ("_maxsize", "_joinable", "_pickler", "_closed")}
        return {**super().__getstate__(), **own}

    def put(
        self,
        obj: object,
        block: bool = True,
        timeout: float | None = None,
        *,
        stream_channel: object = None,
        flush: bool = False,
    ) -> None:
        """Puts a thing into it; ``queue.Full`` where there is no room in ``timeout`` seconds, or now where ``block`` is
        False."""
        self._check()
        _no_channel("stream_channel", stream_channel)
        self._call("put", (self._pickler.dumps if self._pickler else _pickling.whole)(obj), block, _seconds(timeout))

    def put_nowait(self, obj: object, *, stream_channel: object = None, flush: bool = False) -> None:
        """``put(obj, False)``."""
        Queue.put(self, obj, False, stream_channel=stream_channel, flush=flush)

    def get(self, block: bool = True, timeout: float | None = None, *, stream_channel: object = None) -> Any:
        """The next thing; ``queue.Empty`` where there is none in ``timeout`` seconds, or now where ``block`` is False."""
        self._check()
        _no_channel("stream_channel", stream_channel)
        return (self._pickler or pickle).loads(self._call("get", block, _seconds(timeout)))

    def get_nowait(self, *, stream_channel: object = None) -> Any:
        """``get(False)``."""
        return self.get(False, stream_channel=stream_channel)

    def poll(self, timeout: float | None = 0) -> bool:
        """Whether there is something, in ``timeout`` seconds at the latest."""
        self._check()
        return bool(self._call("poll", _seconds(timeout)))

    def empty(self) -> bool:
        """Whether there is nothing in it. A moment later this may be wrong."""
        return not self.poll()

    def full(self) -> bool:
        """Whether there is no room in it."""
        return self.size() >= self._maxsize

    def size(self) -> int:
        """How many things are in it."""
        self._check()
        return int(self._call("qsize"))

    def task_done(self, timeout: float | None = None) -> None:
        """What was taken is done, for :meth:`join`; of a queue that is joinable."""
        self._check_joinable()
        self._call("task_done")

    def join(self, *args: object, timeout: float | None = None, **kwargs: object) -> None:
        """Sleeps until all that was put is done; of a queue that is joinable.

        Raises:
            TimeoutError: that is not so in ``timeout`` seconds.
        """
        self._check_joinable()
        if not self._call("all_done", _seconds(timeout)):
            raise TimeoutError("not all that was put into the queue is done")

    def close(self) -> None:
        """This handle is not used any more; the others are."""
        self._closed = True

    def destroy(self) -> None:
        """Ends it for all processes; call this in the one that made it."""
        self._closed = True
        super().destroy()

    @property
    def closed(self) -> bool:
        """Whether this handle is closed."""
        return self._closed

    @property
    def node(self) -> int:
        """The number of its host: 0."""
        return 0

    def serialize(self) -> str:
        """A text that :meth:`attach` makes the queue of, in any process."""
        return base64.b64encode(pickle.dumps(self)).decode()

    @classmethod
    def attach(cls, serialized_bytes: str, *, mpool: object = None, pickler: Any = None) -> Queue:
        """The queue of such a text."""
        found: Queue = pickle.loads(base64.b64decode(serialized_bytes))
        found._pickler = pickler
        return found

    def _check(self) -> None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")

    def _check_joinable(self) -> None:
        if not self._joinable:
            raise QueueError("Queue is not joinable; make it with joinable=True.")
        self._check()


def _no_channel(name: str, given: object) -> None:
    if given:
        raise ValueError(f"Queue.{name}: channels are not in thole's drop-in; leave it out, or use dragonhpc")


def _seconds(timeout: float | None) -> float | None:
    return None if timeout is None else max(0.0, timeout)

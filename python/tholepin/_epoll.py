"""Sleeping until a descriptor is readable, also in a program that gevent or eventlet has patched.

They put greenlets in the place of threads, and of what blocks something that lets the others run; epoll they take out of the
module, for which they have nothing. A greenlet that slept in the kernel would keep those from running that are to wake it.
"""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def epoll() -> select.epoll:
    """The kernel's, in any case."""
    made: select.epoll = (select if hasattr(select, "epoll") else _as_built()).epoll()
    return made


def _as_built() -> Any:
    """A second copy of the module, which nobody has patched."""
    from importlib import util

    spec = util.find_spec("select")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def events(epoll: select.epoll, timeout: float | None) -> list[tuple[int, int]]:
    """Sleeps until there are some, at most so many seconds."""
    if not hasattr(select, "epoll"):
        select.select([epoll], [], [], timeout)
        timeout = 0
    return epoll.poll(timeout)


def is_readable(fd: int, timeout: float | None) -> bool:
    """Sleeps until it is, at most so many seconds."""
    timeout = None if timeout is None else max(0.0, timeout)
    if not hasattr(select, "poll"):  # eventlet's
        return bool(select.select([fd], [], [], timeout)[0])
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(None if timeout is None else timeout * 1000))

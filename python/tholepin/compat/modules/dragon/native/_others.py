"""Processes that are known by their number only: members of groups, and strangers of this host."""

from __future__ import annotations

import os
import signal
import weakref
from typing import TYPE_CHECKING, Any, Dict

from tholepin import _epoll

if TYPE_CHECKING:
    from .process_group import ProcessGroup

groups: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()


class Other:
    """A process that somebody else has started; the interface of tholepin.Process. How it ended only its starter knows."""

    returncode: int | None = None

    def __init__(self, puid: int) -> None:
        self.puid = puid
        self.name = str(puid)
        self._fd = os.pidfd_open(puid)
        weakref.finalize(self, os.close, self._fd)

    @property
    def is_alive(self) -> bool:
        return not _epoll.is_readable(self._fd, 0)

    def join(self, timeout: float | None = None) -> int | None:
        _epoll.is_readable(self._fd, timeout)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        signal.pidfd_send_signal(self._fd, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def connections(self) -> Dict[int, Any]:
        return {}


class Member:
    """A process of a group, also when it has ended."""

    def __init__(self, group: ProcessGroup, puid: int) -> None:
        self._group = group
        self.puid = puid
        self.name = str(puid)

    @property
    def is_alive(self) -> bool:
        return self.puid in self._group.puids

    @property
    def returncode(self) -> int | None:
        return dict(self._group.exit_status).get(self.puid)

    def join(self, timeout: float | None = None) -> int | None:
        if self.is_alive:
            Other(self.puid).join(timeout)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        Other(self.puid).send_signal(sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def connections(self) -> Dict[int, Any]:
        return self._group.connections(self.puid)


def found(puid: int) -> Member | Other | None:
    """The process of that number; None where there is none, and none was."""
    for group in list(groups):
        if puid in group.puids or puid in dict(group.exit_status):
            return Member(group, puid)
    try:
        return Other(puid)
    except OSError:
        return None


def children(puid: int) -> list[int]:
    """The processes that this one has started and that are there."""
    try:
        threads = os.listdir(f"/proc/{puid}/task")
    except OSError:
        return []
    numbers: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{puid}/task/{thread}/children", "rb") as file:
                numbers += map(int, file.read().split())
        except OSError:  # the thread has ended
            continue
    return sorted(numbers)


def parent(puid: int) -> int:
    """Who has started it."""
    with open(f"/proc/{puid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])

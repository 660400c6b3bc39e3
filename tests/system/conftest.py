"""No test leaves a process behind, however it ends: commands survive the `thole run` that a test kills, and holders are made
to."""
import ctypes
import os
import signal

import pytest

from run_tools import eventually, processes, state_of

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans become our children instead of pid 1's, so that they can be found


def descendants():
    """All processes below this one, parents before children."""
    parents = {pid: parent for pid, _, parent, _ in processes()}
    found = [os.getpid()]
    for above in found:
        found += [pid for pid, parent in parents.items() if parent == above and pid not in found]
    return found[1:]


def reaped(pid):
    """Has it gone? An orphan is ours to wait for; any other is waited for by its parent, who is gone or about to be."""
    if state_of(pid) == "Z":
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
    return state_of(pid) is None


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = set(descendants())
    yield
    left = [pid for pid in descendants() if pid not in before]
    while left:  # what was forked meanwhile is found in the next round
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for pid in reversed(left):
            eventually(lambda pid=pid: reaped(pid), f"process {pid} ends")
        left = [pid for pid in descendants() if pid not in before]

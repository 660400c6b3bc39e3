"""`pause` stops every process of a task, and `continue` lets them go on."""
import os
import pathlib
import sys

import pytest

from queue_tools import Queue
from run_tools import eventually


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


def process_states(group):
    """The states of a process group's members, by number; a zombie is none."""
    states = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent, pgrp = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(pgrp) == group and state not in "ZX":
            states[int(pid)] = (state, int(parent))
    return states


def is_stopped(group):
    """Nothing of the group can go on: all are stopped, or wait in vfork() (D) for a child that is. An empty group says
    nothing."""
    states = process_states(group)
    waits = {parent for state, parent in states.values() if state == "T"}
    return bool(states) and all(state == "T" or (state == "D" and pid in waits) for pid, (state, _) in states.items())


def started(queue, *command):
    """A job whose command writes its pid first, and that pid, which is its process group's too."""
    number = queue.submit("-g0", *command)
    pid = queue.work / "pid"
    eventually(lambda: pid.exists() and pid.read_text().strip(), "it runs")
    return number, int(pid.read_text())


def test_pause_stops_a_running_job_and_continue_lets_it_go_on(queue):
    with queue.gate() as gate:
        number, pid = started(queue, "sh", "-c", f"echo $$ > pid; cat {gate}")
        queue("pause", number)
        eventually(lambda: is_stopped(pid), lambda: f"it is stopped: {process_states(pid)}")
        assert queue.job(number)["state"] == "paused"
        assert "nothing is held" in queue.run("resume", number).stderr      # resume undoes hold, and nothing else
        queue("continue", number)
        eventually(lambda: not is_stopped(pid), "it goes on")
        queue("cancel", number)
        queue.run("wait", number)


def test_wait_says_once_what_is_kept_back(queue):
    """The one that waits may be the one who has to let it go."""
    with queue.gate() as gate:
        running, _ = started(queue, "sh", "-c", f"echo $$ > pid; cat {gate}")
        queue("pause", running)
        held = [queue.submit("-g0", "--hold", "true") for _ in range(5)]
        first = queue.submit("-g0", "--after", held[0], "true")
        waited = queue.refused("wait", "--timeout", "0.1s", status=124)
        assert f"waits for jobs {held[0]}, {held[1]}, {held[2]} and 2 more, which are held: thole resume {held[0]}" in waited
        assert f"waits for job {running}, which is paused: thole continue {running}\n" in waited
        assert "drained" not in waited
        assert "held" not in queue.refused("wait", "--timeout", "0.1s", running, status=124)
        queue("drain")
        waited = queue.refused("wait", "--timeout", "0.1s", first, status=124)
        assert "drained: nothing starts until thole drain --off" in waited and "held" not in waited
        queue("drain", "--off")
        queue("cancel", "all")
        assert "waits for" not in queue.run("wait").stderr


FORKS_ON_AND_ON = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
with open("pid", "w") as file:
    file.write(str(os.getpid()))
for _ in range(300):
    if os.fork() == 0:
        signal.pause()
signal.pause()
"""


def test_pause_stops_what_forks_while_it_is_looked_for(queue):
    number, pid = started(queue, sys.executable, "-c", FORKS_ON_AND_ON)
    for _ in range(5):
        queue("pause", number)
        eventually(lambda: is_stopped(pid), lambda: f"it is stopped: {process_states(pid)}")
        queue("continue", number)
        eventually(lambda: not is_stopped(pid), "it goes on")
    queue("cancel", number)
    queue.run("wait", number)

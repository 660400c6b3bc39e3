"""A runner in another pid namespace than the task that a dead lane has left: it does not see it, and leaves it alone."""
import os
import pathlib
import subprocess
import sys

import pytest

from queue_inside import queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, eventually, gone, state_of

ELSEWHERE = ["unshare", "-m", "-p", "-f", "--kill-child"]

# As subprocess.Popen of Python does: the lane's lock is closed in it.
WITHOUT_THE_LOCK = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.closerange(3, 4096)
with open("begun", "a") as begun:
    begun.write(os.environ["THOLE_RUN"])
signal.pause()
"""


@pytest.mark.parametrize("proc", [["--mount-proc"], []], ids=["its own proc", "the proc of another"])
def test_what_is_not_seen_from_there_is_neither_lost_nor_run_twice(queue, proc):
    if subprocess.run([*ELSEWHERE, "--mount-proc", "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces of one's own can be made here")
    begun = pathlib.Path(queue.folder / "begun")
    job = queue.submit("-g", "0", "--retry", "1,lost", "--", sys.executable, "-c", WITHOUT_THE_LOCK)
    eventually(lambda: begun.exists() and begun.read_text() == "1", "it runs")
    [task] = queue.commands()
    killed = [queue.runner(), *queue.lanes()]
    queue.kill(killed)
    eventually(lambda: all(map(gone, killed)), "they are gone")
    with subprocess.Popen([*ELSEWHERE, *proc, "sh", "-c", f"{THOLE} jobs; exec sleep 600"], env=queue.environment,
                          cwd=queue.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as there:
        eventually(lambda: "not seen from here" in queue.runner_log(), lambda: f"it is said: {queue.runner_log()}")
        assert queue.states(job) == {"running": 1} and begun.read_text() == "1"
        there.kill()
    queue.call("jobs")
    os.kill(task, 0)
    assert queue.states(job) == {"running": 1} and begun.read_text() == "1"
    queue.kill([task])
    eventually(lambda: begun.read_text() == "12", lambda: f"whoever sees that it is gone begins it again: {queue.runner_log()}")


AHEAD = ["unshare", "-T", "--boottime", "100000", "--monotonic", "100000", "-f"]


def test_a_limit_is_not_over_for_a_runner_of_a_time_namespace(queue):
    if subprocess.run([*AHEAD, "true"], capture_output=True).returncode != 0:
        pytest.skip("no time namespaces can be made here")
    job = queue.submit("-g", "0", "--time", "10h", "--", sys.executable, "-c", WITHOUT_THE_LOCK)
    eventually(lambda: (queue.folder / "begun").exists(), "it runs")
    [task] = queue.commands()
    killed = [queue.runner(), *queue.lanes()]
    queue.kill(killed)
    eventually(lambda: all(map(gone, killed)), "they are gone")
    subprocess.run([*AHEAD, THOLE, "pause", str(job)], env=queue.environment, cwd=queue.folder, check=True, timeout=60)
    eventually(lambda: state_of(task) == "T", lambda: f"it stands: {queue.states(job)} {queue.runner_log()}")

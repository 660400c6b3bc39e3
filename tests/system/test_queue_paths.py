"""A queue's directory has several paths: by links above it, by mounts. Its tasks are found by whoever came by another one."""
import sys

import pytest

from queue_inside import Queue
from run_tools import eventually, gone

# As torchrun's workers are: in a session of its own, and without the lane's lock.
WORKER = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.closerange(3, 4096)
with open("begun", "a") as begun:
    begun.write(os.environ["THOLE_RUN"])
signal.pause()
"""

LAUNCHER = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {WORKER!r}], start_new_session=True).wait()
"""


@pytest.fixture
def linked(tmp_path):
    """A queue, and the same one by a path with a link above it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    made = Queue(tmp_path / "real")
    yield made, {"THOLE_QUEUE_DIR": str(tmp_path / "link" / "queue")}
    made.end_everything()


def left_running(queue, *words):
    """The number of a job of which only the worker lives."""
    job = queue.submit("-g", "0", "--patience", "100ms", *words, "--", sys.executable, "-c", LAUNCHER)
    eventually(lambda: (queue.folder / "begun").exists() and len(queue.commands()) == 2, "it runs")
    killed = [*queue.lanes(), queue.runner()]   # a lane would start another runner
    queue.kill(killed)
    eventually(lambda: all(map(gone, killed)), "they are gone")
    return job


def test_what_lives_is_not_lost_where_the_queue_is_reached_by_another_path(linked):
    queue, by_link = linked
    job = left_running(queue, "--retry", "1,lost")
    [launcher] = [pid for pid in queue.commands() if b"Popen" in open(f"/proc/{pid}/cmdline", "rb").read()]
    queue.kill([launcher])
    eventually(lambda: gone(launcher), "its command has ended")
    queue.call("jobs", **by_link)
    eventually(queue.runner, "a runner sits")
    queue.until_ended(queue.submit("-g", "0", "--", "true", **by_link))   # it has looked
    assert queue.states(job) == {"running": 1}
    assert (queue.folder / "begun").read_text() == "1"
    queue.kill(queue.commands())
    eventually(lambda: (queue.folder / "begun").read_text() == "12",
               lambda: f"it begins again once it is gone: {queue.runner_log()}")


@pytest.mark.parametrize("how", ["cancel", "--time"])
def test_what_is_asked_of_a_task_by_another_path_reaches_all_of_it(linked, how):
    queue, by_link = linked
    job = left_running(queue, *(["--time", "1s"] if how == "--time" else []))
    living = queue.commands()
    if how == "cancel":
        queue.call("cancel", job, **by_link)
    queue.call("wait", "--timeout", "60s", job, check=False, **by_link)
    assert all(map(gone, living))
    state, *_, reason = queue.tasks(job)[0]
    assert (state == "cancelled") if how == "cancel" else (state == "lost" and "time limit" in reason)

"""What a lane has noted of an end counts wherever the queue's file lies by then, and whichever thole goes on with it."""
import contextlib
import fcntl
import os
import shutil
import sqlite3

import pytest

from queue_inside import queue_of_two_gpus as queue  # noqa: F401 (queue: a fixture)
from run_tools import eventually, gone, open_gate


@contextlib.contextmanager
def not_to_be_written(queue):
    with open(queue.directory / "turnstile", "r+") as turnstile:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        yield


def a_task_at_a_gate(queue, *words):
    """Its job, the gate that it waits at, and the number of its lane."""
    gate = queue.folder / "gate"
    os.mkfifo(gate)
    job = queue.submit(*words, "--", "sh", "-c", f"echo began; cat {gate}; echo ended")
    eventually(lambda: queue.states(job) == {"running": 1} and len(queue.commands()) == 2, "it runs")
    return job, gate, queue.rows("SELECT lane FROM task WHERE job = ?", job)[0][0]


def move_by_copying(directory):
    """Other numbers of files (and, on another disk, of the device)."""
    for name in ("queue.db", "queue.db-wal"):
        if (directory / name).exists():
            shutil.copy2(directory / name, directory / "moved")
            os.rename(directory / "moved", directory / name)


@pytest.mark.parametrize("retry", [(), ("--retry", "2,lost")])
def test_an_end_that_a_lane_has_noted_counts_where_the_file_has_moved(queue, retry):
    job, gate, lane = a_task_at_a_gate(queue, *retry)
    with not_to_be_written(queue):
        open_gate(gate)
        eventually(lambda: queue.noted_end(lane) == 0, "the lane knows the end")
        queue.kill([*queue.lanes(), queue.runner()])
        eventually(lambda: not queue.lanes() and not queue.runner(), "they are gone")
    move_by_copying(queue.directory)
    queue.call("wait", job)
    assert queue.tasks(job) == {0: ("done", 0, None, 1, None)}
    assert queue.log(job).count("\nbegan\n") == 1


def set_version(queue, version):
    db = sqlite3.connect(queue.directory / "queue.db", timeout=60)
    before = db.execute("PRAGMA user_version").fetchone()[0]
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    return before


def test_who_is_older_than_the_file_leaves_the_ends_to_the_newer_and_keeps_no_gpu(queue):
    job, gate, lane = a_task_at_a_gate(queue)
    behind = queue.submit("--after", job, "--", "true")
    lanes, runner = queue.lanes(), queue.runner()
    ours = set_version(queue, 99)
    assert "of a newer thole" in queue.call("jobs", check=False).stderr
    open_gate(gate)
    for pid in [*lanes, runner]:
        eventually(lambda: gone(pid), lambda: f"{pid} ends: {queue.who_lives()}\n{queue.runner_log()}")
    assert queue.noted_end(lane) == 0
    assert queue.call("run", "-q", "-g", "2", "--no-wait", "true").returncode == 0     # the claims are given back
    set_version(queue, ours)
    queue.call("wait", behind)
    assert queue.tasks(job) == {0: ("done", 0, None, 1, None)}
    assert queue.states(behind) == {"done": 1}

"""A queue's directory that was copied while it worked or not: tasks of both have the same marks, and each is the business of
its own queue."""
import os
import shutil
import subprocess
import sys

import pytest

from queue_inside import Queue, queue  # noqa: F401 (queue: a fixture)
from run_tools import eventually, gone, open_gate, state_of

# As subprocess.Popen of Python does: the lane's lock is closed in it.
WITHOUT_THE_LOCK = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.closerange(3, 4096)
with open("begun", "a") as begun:
    begun.write(f"{os.getpid()}\\n")
open(sys.argv[1]).read()
"""


@pytest.fixture
def copy(queue):
    """Makes a copy of the queue."""
    made = Queue(queue.folder)
    made.directory = queue.folder / "copy"
    made.environment["THOLE_QUEUE_DIR"] = str(made.directory)

    def make():
        subprocess.run(["cp", "-a", queue.directory, made.directory], check=True)
        return made

    yield make
    if made.directory.exists():
        made.end_everything()


def begun(queue):
    path = queue.folder / "begun"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def running(queue, *words):
    """A job, and its process, which ends well once the gate is open."""
    os.mkfifo(queue.folder / "gate")
    job = queue.submit("-g", "0", "--patience", "100ms", *words, "--", sys.executable, "-c", WITHOUT_THE_LOCK, "gate")
    eventually(lambda: len(begun(queue)) == 1, "it runs")
    return job, begun(queue)[0]


def kill_its_workers(queue):
    killed = [queue.runner(), *queue.lanes()]      # a lane would start another runner
    queue.kill(killed)
    eventually(lambda: all(map(gone, killed)), "they are gone")


def is_told(copy):
    eventually(lambda: "of which this one is a copy" in copy.runner_log(), copy.runner_log)


def test_a_copy_of_a_working_queue_neither_ends_nor_continues_what_runs_in_the_original(queue, copy):
    job, task = running(queue)
    of_copy = copy()
    queue.call("pause", job)
    eventually(lambda: state_of(task) == "T", "it stands")
    of_copy.call("jobs")
    is_told(of_copy)
    assert state_of(task) == "T"
    queue.call("continue", job)
    cancelled = " ".join(of_copy.call("cancel", job).stderr.split())
    assert f"in {queue.directory}, of which this one is a copy" in cancelled and "left alone" in cancelled
    assert f"{queue.directory}" in of_copy.call("why", "job", job).stdout.replace("\n    ", "")
    waited = of_copy.call("wait", "--timeout", "100ms", job, check=False)
    assert "of which this one is a copy" in " ".join(waited.stderr.split()), waited.stderr
    of_copy.call("cancel", "--force", f"{job}.0")
    of_copy.until_ended(job)
    assert of_copy.states(job) == {"cancelled": 1} and not gone(task)
    open_gate(queue.folder / "gate")
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}


@pytest.mark.parametrize("how", ["cancel", "--time"])
def test_what_a_copy_ends_of_its_own_is_not_the_run_of_the_original(queue, copy, how):
    """Both have begun the same task: what the copy's killed lane has left is its own."""
    queue.call("drain")
    os.mkfifo(queue.folder / "gate")
    job = queue.submit("-g", "0", "--patience", "100ms", "--", sys.executable, "-c", WITHOUT_THE_LOCK, "gate")
    eventually(lambda: queue.runner() is None, "nothing is to be done")
    of_copy = copy()
    queue.call("drain", "--off")
    eventually(lambda: len(begun(queue)) == 1, "it runs")
    if how == "--time":
        of_copy.call("edit", job, "--time", "1s")
    of_copy.call("drain", "--off")
    eventually(lambda: len(begun(queue)) == 2, "it runs in the copy, too")
    first, second = begun(queue)
    kill_its_workers(of_copy)
    if how == "cancel":
        of_copy.call("cancel", job)
    of_copy.call("wait", job, check=False)
    assert gone(second) and not gone(first), of_copy.runner_log()
    assert of_copy.states(job) == {"cancelled" if how == "cancel" else "lost": 1}
    said = f"its lane died; {'cancelled' if how == 'cancel' else 'lost'}"
    eventually(lambda: said in of_copy.runner_log(), "it says what it has become")   # after it is known
    open_gate(queue.folder / "gate")
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}


def test_what_runs_is_that_of_a_copy_whose_original_was_removed(queue, copy):
    """Moved to another disk."""
    job, task = running(queue)
    kill_its_workers(queue)
    of_copy = copy()
    shutil.rmtree(queue.directory)
    of_copy.call("cancel", job)
    of_copy.until_ended(job)
    assert gone(task) and of_copy.states(job) == {"cancelled": 1}


def test_a_copy_in_the_place_of_its_original_goes_on_with_what_runs(queue, copy):
    """From a backup."""
    job, task = running(queue)
    kill_its_workers(queue)
    of_copy = copy()
    shutil.rmtree(queue.directory)
    of_copy.directory.rename(queue.directory)
    queue.call("cancel", job)
    queue.until_ended(job)
    assert gone(task) and queue.states(job) == {"cancelled": 1}


def test_a_queue_that_was_moved_and_another_one_made_in_its_place_goes_on_with_what_runs(queue, copy):
    job, task = running(queue)
    kill_its_workers(queue)
    moved = Queue(queue.folder)
    moved.directory = queue.folder / "moved"
    moved.environment["THOLE_QUEUE_DIR"] = str(moved.directory)
    queue.directory.rename(moved.directory)
    other = queue.submit("-g", "0", "--", "true")
    queue.until_ended(other)
    moved.call("cancel", job)
    moved.until_ended(job)
    assert gone(task) and moved.states(job) == {"cancelled": 1}


def test_why_names_no_process_of_another_queue(queue):
    """Jobs of all queues are numbered from 1."""
    other = Queue(queue.folder / "other")
    try:
        (job, task), (same, another) = running(queue), running(other)
        assert job == same
        kill_its_workers(queue)
        said = " ".join(queue.call("why", "job", job).stdout.split())
        assert f"process {task} " in said and f"process {another} " not in said
    finally:
        other.end_everything()

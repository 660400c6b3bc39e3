"""A queue's directory that was copied while it worked or not: runs of both have the same marks, and each is the business of
its own queue."""
import os
import shutil
import subprocess
import sys

import pytest

from queue_inside import Queue, queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, eventually, gone, open_gate, state_of

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

    def make(whole=True):
        if whole:
            subprocess.run(["cp", "-a", queue.directory, made.directory], check=True)
        return made

    yield make
    if made.directory.exists():
        made.end_everything()


def begun(queue):
    path = queue.folder / "begun"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def running(queue, *within):
    """A job, and its process, which ends well once the gate is open. `within`: before its command."""
    os.mkfifo(queue.folder / "gate")
    job = queue.submit("-g", "0", "--patience", "100ms", "--", *within, sys.executable, "-c", WITHOUT_THE_LOCK, "gate")
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
    said = f"its lane cannot be reached; {'cancelled' if how == 'cancel' else 'lost'}"
    eventually(lambda: said in of_copy.runner_log(), "it says what it has become")   # after it is known
    open_gate(queue.folder / "gate")
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}


@pytest.mark.parametrize("place", ["of its own", "of the original"])
def test_what_runs_is_left_alone_also_by_a_copy_whose_original_was_removed(queue, copy, place):
    """Moved to another disk, or from a backup."""
    job, task = running(queue)
    kill_its_workers(queue)
    left = copy()
    shutil.rmtree(queue.directory)
    if place == "of the original":
        left.directory.rename(queue.directory)
        left = queue
    said = " ".join(left.call("cancel", job).stderr.split())
    assert "of which this one is a copy" in said and f"kill {task}" in said and "left alone" in said, said
    assert not gone(task) and left.states(job) == {"running": 1}
    queue.kill([task])
    eventually(lambda: gone(task), "as it was told")
    left.call("wait", job, check=False)
    assert left.states(job) == {"cancelled": 1}


# A root of its own, or a mount over the queue's directory, as bwrap, apptainer and podman make.
SANDBOXES = {"mount": "mount -t tmpfs none {queue}; exec \"$@\"",
             "chroot": "mkdir root && mount --rbind / root && mount -t tmpfs none root{queue} && "
                       "exec chroot root sh -c 'cd {folder}; exec \"$@\"' - \"$@\""}


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_what_runs_in_the_original_where_its_directory_is_hidden_is_not_the_copy_s(queue, copy, sandbox):
    need_mounts()
    script = SANDBOXES[sandbox].format(queue=queue.directory, folder=queue.folder)
    job, task = running(queue, "unshare", "-m", "sh", "-c", script, "-")
    of_copy = copy()
    of_copy.call("jobs")
    is_told(of_copy)
    of_copy.call("cancel", job)
    of_copy.call("cancel", "--force", f"{job}.0")
    of_copy.until_ended(job)
    assert of_copy.states(job) == {"cancelled": 1} and not gone(task)
    open_gate(queue.folder / "gate")
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}


def need_mounts():
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces of one's own can be made here")


@pytest.mark.parametrize("how", ["cancel", "--time", "wait"])
def test_two_copies_at_the_same_path_in_mount_namespaces_of_their_own_leave_each_other_alone(queue, copy, how):
    """As containers of one image do, with volumes of their own."""
    need_mounts()
    queue.call("drain")
    os.mkfifo(queue.folder / "gate")
    job = queue.submit("-g", "0", "--patience", "100ms", "--", sys.executable, "-c", WITHOUT_THE_LOCK, "gate")
    eventually(lambda: queue.runner() is None, "nothing is to be done")
    of_copy = copy()
    (queue.folder / "volume").mkdir()

    def starts(which, *words):
        inside = f'mount --bind {which.directory} {queue.folder}/volume && {THOLE} "$@"'
        subprocess.run(["unshare", "-m", "sh", "-c", inside, "-", *words], check=True, stdin=subprocess.DEVNULL,
                       env=dict(which.environment, THOLE_QUEUE_DIR=f"{queue.folder}/volume"), cwd=queue.folder)
    try:
        starts(queue, "drain", "--off")
        eventually(lambda: len(begun(queue)) == 1, "it runs")
        if how == "--time":
            starts(of_copy, "edit", str(job), "--time", "1s")
        starts(of_copy, "drain", "--off")
        eventually(lambda: len(begun(queue)) == 2, "it runs in the copy, too")
        first, second = begun(queue)
        kill_its_workers(of_copy)
        if how == "cancel":
            of_copy.call("cancel", job)
        if how == "wait":
            queue.kill([second])
        of_copy.call("wait", job, check=False)
        assert gone(second) and not gone(first), of_copy.runner_log()
        assert of_copy.states(job) == {"cancelled" if how == "cancel" else "lost": 1}
        open_gate(queue.folder / "gate")
        queue.until_ended(job)
        assert queue.states(job) == {"done": 1}
    finally:
        queue.kill(begun(queue))                     # they name another directory than ours


@pytest.mark.parametrize("first", ["queue.db", "lanes"])
def test_what_ran_while_it_was_copied_does_not_begin_again_in_the_copy(queue, copy, first):
    """cp -a copies one file after the other: the store is of another moment than what the lane has noted."""
    for index in range(2):
        os.mkfifo(queue.folder / f"gate-{index}")
    job = queue.submit("-g", "1", "--at-most", "1", "--array", "0-1", "--", "sh", "-c",
                       "echo {index} $THOLE_QUEUE_DIR >> runs; cat gate-{index}")
    runs = queue.folder / "runs"

    def have_begun(number):
        return runs.exists() and runs.read_text().count("\n") == number

    of_copy = copy(False)
    of_copy.directory.mkdir(mode=0o700)
    eventually(lambda: have_begun(1), "the first one runs")
    names = sorted(os.listdir(queue.directory), key=lambda name: not name.startswith(first))
    at = sum(name.startswith(first) for name in names)
    subprocess.run(["cp", "-a", *names[:at], of_copy.directory], check=True, cwd=queue.directory)
    open_gate(queue.folder / "gate-0")
    eventually(lambda: have_begun(2), "the second one runs in the same lane")
    subprocess.run(["cp", "-a", *names[at:], of_copy.directory], check=True, cwd=queue.directory)
    of_copy.call("jobs")
    if first == "lanes":
        is_told(of_copy)                             # of the second one
    open_gate(queue.folder / "gate-1")
    queue.until_ended(job)
    of_copy.call("wait", job, check=False)
    assert of_copy.tasks(job)[0 if first == "queue.db" else 1][0] == "lost", of_copy.runner_log()
    of_its_own = [line.split()[0] for line in runs.read_text().splitlines() if line.endswith(f" {of_copy.directory}")]
    assert of_its_own == (["1"] if first == "queue.db" else []), "what waited in its store runs there, too"


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

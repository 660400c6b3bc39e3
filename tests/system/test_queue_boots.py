"""Another boot of the machine, and what only looks like one: a container with a boot id of its own."""
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys

import pytest

from other_boots import booted_since
from queue_inside import queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, eventually, gone

# As systemd-nspawn and LXC do: a file is mounted over the kernel's.
CONTAINER = ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c",
             'mount --bind boot_id /proc/sys/kernel/random/boot_id || exit 99; eval "$0"']

# As subprocess.Popen of Python does: the lane's lock is closed in it.
WITHOUT_THE_LOCK = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.closerange(3, 4096)
with open("begun", "a") as begun:
    begun.write(os.environ["THOLE_RUN"] + "\\n")
signal.pause()
"""


@pytest.fixture
def container(queue):
    """Starts a command for the shell in a container that has a boot id of its own, as a new one has."""
    started = []
    (queue.folder / "boot_id").write_text("f2583a1b-f868-46b6-9ba7-0940f07d4aac\n")

    def run(command):
        started.append(subprocess.Popen([*CONTAINER, command], env=queue.environment, cwd=queue.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        return started[-1]

    if run("true").wait() != 0:
        pytest.skip("no namespaces of one's own can be made here")
    yield run
    for one in started:
        one.kill()
        one.wait()


def kill_and_wait(queue, pids):
    """All at once: a lane that sees its runner gone would start another one."""
    queue.kill(pids, signal.SIGSTOP)
    queue.kill(pids)
    eventually(lambda: all(map(gone, pids)), "they are gone")


def begun(queue):
    path = pathlib.Path(queue.folder / "begun")
    return path.read_text().split() if path.exists() else []


def many_short_ones(queue):
    """A job of which some have begun."""
    job = queue.submit("-g", "1", "--array", "0-3999", "--", "sh", "-c", 'echo "$THOLE_TASK_INDEX" >> begun')
    eventually(lambda: len(begun(queue)) > 300, lambda: f"it works: {queue.states(job)} {queue.runner_log()}")
    return job


def as_a_slow_disk_leaves_it(queue):
    """More of job 1 stands as about to begin than has begun: by itself that is so only where a kill meets a taken batch."""
    db = sqlite3.connect(queue.directory / "queue.db", timeout=60)
    with db:
        assert db.execute("UPDATE begun SET upto = (SELECT max(idx) FROM task WHERE job = 1) + 50 WHERE job = 1").rowcount == 1
    db.close()


def until_nobody_works(queue):
    eventually(lambda: not queue.lanes() and queue.runner() is None, queue.who_lives)


def test_what_never_began_before_an_orderly_end_is_not_lost_by_a_boot(queue):
    job = many_short_ones(queue)
    queue.call("drain")
    until_nobody_works(queue)
    done = queue.states(job)["done"]
    assert done == len(begun(queue)) < 4000
    before = booted_since(queue.directory)
    queue.call("hold", job)
    queue.call("drain", "--off")
    eventually(lambda: queue.rows("SELECT boot FROM queue") != [(before,)] and queue.runner() is None, queue.who_lives)
    assert queue.states(job) == {"done": done, "queued": 4000 - done}, queue.runner_log()


def test_a_container_with_a_boot_id_of_its_own_calls_nothing_lost_that_lives_outside(queue, container):
    job = queue.submit("-g", "0", "--retry", "1,lost", "--", sys.executable, "-c", WITHOUT_THE_LOCK)
    eventually(lambda: begun(queue) == ["1"], "it runs")
    [task] = queue.commands()
    kill_and_wait(queue, [queue.runner(), *queue.lanes()])
    there = container(f"{THOLE} jobs; exec sleep 600")
    eventually(lambda: "not seen from here" in queue.runner_log(), lambda: f"it is said: {queue.runner_log()}")
    assert queue.states(job) == {"running": 1} and begun(queue) == ["1"]
    there.kill()
    eventually(lambda: queue.runner() is None, "the container's runner is gone")
    queue.call("jobs")
    os.kill(task, 0)
    assert queue.states(job) == {"running": 1} and begun(queue) == ["1"]
    queue.kill([task])
    eventually(lambda: begun(queue) == ["1", "2"], lambda: f"it is begun again by who sees: {queue.runner_log()}")


def test_what_a_container_has_left_is_seen_from_outside(queue, container):
    there = container(f"{THOLE} submit -q -g 0 --retry 1,lost -- {sys.executable} -c '{WITHOUT_THE_LOCK}'; exec sleep 600")
    eventually(lambda: begun(queue) == ["1"], "it runs")
    [task] = queue.commands()
    named = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if of_queue(queue, pid)]
    kill_and_wait(queue, named)
    queue.call("jobs")
    eventually(queue.runner, "somebody looks")
    queue.call("why", "job", "1")
    os.kill(task, 0)
    assert queue.states(1) == {"running": 1} and begun(queue) == ["1"], queue.runner_log()
    queue.kill([task])
    eventually(lambda: begun(queue) == ["1", "2"], lambda: f"it is begun again once it is gone: {queue.runner_log()}")
    there.kill()


def of_queue(queue, pid):
    """Whether it is the runner or a lane, whatever its number in there."""
    try:
        name = pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        return name in ("thole-runner", "thole-lane") and str(queue.directory) in " ".join(
            os.readlink(path) for path in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_what_may_have_begun_outside_is_not_lost_in_a_container_and_goes_on_outside(queue, container):
    job = many_short_ones(queue)
    kill_and_wait(queue, [queue.runner(), *queue.lanes()])
    as_a_slow_disk_leaves_it(queue)
    with container(f"{THOLE} wait --timeout 60s {job}") as there:
        eventually(lambda: "may have begun" in queue.runner_log(), lambda: f"it is said: {queue.runner_log()}")
        assert "lost" not in queue.states(job), queue.runner_log()
        left = lambda: {"queued", "running"} & set(queue.states(job))   # noqa: E731
        eventually(lambda: left() <= {"running"} and not queue.lanes(),
                   lambda: f"the others go on: {queue.states(job)} {queue.runner_log()}", 120)
        there.kill()
    eventually(lambda: queue.runner() is None, "the container's runner is gone")
    queue.call("jobs")
    eventually(lambda: not left(), lambda: f"all has ended: {queue.states(job)} {queue.runner_log()}", 60)
    # Lost may be what a killed lane had taken, a few for each: not the hundreds before the mark.
    assert queue.states(job).get("lost", 0) <= 16, f"{queue.states(job)} {queue.runner_log()}"
    assert len(begun(queue)) == len(set(begun(queue))), "one began twice"


@pytest.mark.parametrize("at_most", [4, None])
def test_what_may_have_begun_is_named_and_given_up_by_the_command_that_is_said(queue, container, at_most):
    """Also while other tasks of the job run; those that plainly wait go on waiting."""
    words = f"--at-most {at_most}" if at_most else ""
    command = "sh -c 'echo $THOLE_TASK_INDEX >> begun'"
    there = container(f"{THOLE} submit -q -g 0 {words} --array 0-19999 -- {command}; exec sleep 600")
    eventually(lambda: len(begun(queue)) > 300, queue.runner_log)
    there.kill()
    eventually(lambda: queue.runner() is None and not queue.lanes(), "the container is gone")
    as_a_slow_disk_leaves_it(queue)
    queue.call("jobs")
    eventually(lambda: "may have begun" in queue.runner_log(), queue.runner_log)
    untold = queue.rows("SELECT count(*) FROM task WHERE state = 2 AND lane = 4294967294")[0][0]
    [hint] = re.findall(r"may have begun.* thole (cancel --force \S+)$", queue.runner_log(), re.MULTILINE)
    if at_most:
        eventually(lambda: not queue.lanes(), "nothing begins")
        before = len(begun(queue))
        said = " ".join(queue.call("jobs").stdout.split())
        assert f"4 at once; {untold} " in said and "ends about" not in said
    why = " ".join(queue.call("why", "job", "1").stdout.split())
    assert f"{untold} of its tasks may have begun elsewhere" in why and f"thole {hint}" in why.replace("- ", "-")
    queue.call(*hint.split())
    eventually(lambda: queue.states(1).get("cancelled") == untold, lambda: f"{queue.states(1)} {queue.runner_log()}")
    if at_most:
        eventually(lambda: len(begun(queue)) > before, "it goes on")
    assert queue.states(1)["cancelled"] == untold
    queue.call("cancel", "1")


def test_a_boot_makes_lost_what_had_begun(queue):
    job = queue.submit("-g", "0", "--retry", "1,lost", "--", sys.executable, "-c", WITHOUT_THE_LOCK)
    eventually(lambda: begun(queue) == ["1"], "it runs")
    kill_and_wait(queue, [queue.runner(), *queue.lanes(), *queue.commands()])
    booted_since(queue.directory)
    queue.call("jobs")
    eventually(lambda: begun(queue) == ["1", "2"], lambda: f"it is begun again: {queue.states(job)} {queue.runner_log()}")
    assert "its lane cannot be reached; queued" in queue.runner_log()

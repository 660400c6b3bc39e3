"""The files by which the processes of a queue find each other, removed under them: what runs is not lost, what is queued
starts, and orders arrive. (The store's own files: test_queue_set_aside.py; logs: test_queue_edges.py.)"""
import os
import shutil
import signal

import pytest

from queue_inside import Queue, name_of
from run_tools import eventually, gone, open_gate


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path)
    yield made
    made.end_everything()
    for pid in made.commands():
        made.kill([pid])


def gate(queue, name="gate"):
    path = queue.folder / name
    os.mkfifo(path)
    return path


def waiting(queue, path, *words):
    """A job that waits at the gate; returns its number when it does."""
    job = queue.submit(*words, "--", "cat", str(path))
    eventually(lambda: "cat" in map(name_of, queue.commands()), lambda: f"it waits\n{queue.runner_log()}")
    return job


def remove(queue, what):
    for path in queue.directory.glob(what):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def all_lanes():
    """Pids of every process called thole-lane: without their files queue.lanes() does not see them."""
    return {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and name_of(pid) == "thole-lane"}


def runners(queue):
    mark = f"THOLE_QUEUE_DIR={queue.directory}\0".encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if name_of(pid) == "thole-runner" and mark in open(f"/proc/{pid}/environ", "rb").read():
                found.append(int(pid))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("what", ["lanes", "lanes/*", "wake", "runner", "watch", "turnstile", "[wr]*"])
def test_what_is_submitted_afterwards_starts_and_what_runs_is_kept(queue, what):
    first = waiting(queue, gate(queue), "-g", "1")
    runner = queue.runner()
    remove(queue, what)
    second = queue.submit("-g", "1", "--", "true")
    queue.until_ended(second)
    assert queue.states(second) == {"done": 1}
    eventually(lambda: len(runners(queue)) == 1 and queue.runner() == runners(queue)[0],
               lambda: f"one runner, that can be told: {runners(queue)}, {queue.who_lives()}")
    if what in ("wake", "runner"):
        assert queue.runner() == runner, "it has its files again"
    open_gate(queue.folder / "gate")
    queue.until_ended(first)
    assert queue.states(first) == {"done": 1}, queue.runner_log()


@pytest.mark.parametrize("what", ["lanes", "lanes/*.mail"])
def test_a_task_can_be_cancelled_though_its_lane_s_files_are_gone(queue, what):
    job = waiting(queue, gate(queue), "-g", "1")
    remove(queue, what)
    queue.call("cancel", str(job))
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 1}


@pytest.mark.parametrize("how", ["removed", "moved"])
def test_the_end_of_a_task_is_kept_when_the_runner_dies_too(queue, how):
    """The next runner finds no trace of the lane among the files, and must not take its task for lost."""
    job = waiting(queue, gate(queue), "-g", "1")
    lanes = all_lanes()
    runner = queue.runner()
    queue.kill([runner])
    eventually(lambda: gone(runner), "the runner is gone")
    if how == "removed":
        remove(queue, "lanes")
    else:
        (queue.directory / "lanes").rename(queue.directory / "away")
    other = queue.submit("-g", "1", "--", "true")   # starts the next runner
    queue.until_ended(other)
    # The command ends while its lane is kept from noting that: a moment, made long.
    stopped = [pid for pid in lanes & all_lanes() if f"{queue.directory}/" in " ".join(links_of(pid))]
    assert len(stopped) == 1, stopped
    [command] = [pid for pid in queue.commands() if name_of(pid) == "cat"]
    queue.kill(stopped, signal.SIGSTOP)
    open_gate(queue.folder / "gate")
    eventually(lambda: gone(command), "the command has ended")
    third = queue.submit("-g", "1", "--", "true")   # the runner has looked since
    queue.until_ended(third)
    assert queue.states(job) == {"running": 1}, queue.runner_log()
    queue.kill(stopped, signal.SIGCONT)
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}, queue.runner_log()


def links_of(pid):
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            continue
    return links


def test_a_lane_without_files_begins_nothing_more(queue):
    """What it would note could not be found: another lane takes the rest, and each task runs once."""
    seen = queue.folder / "seen"
    waits = gate(queue)
    job = queue.submit("-g", "4", "--array", "0-3", "--", "sh", "-c",
                       f"echo {{index}} >> {seen}; [ {{index}} != 0 ] || cat {waits}")
    eventually(lambda: "cat" in map(name_of, queue.commands()), "the first waits")
    lane = queue.working_lane()
    remove(queue, "lanes")
    open_gate(waits)
    queue.until_ended(job)
    assert queue.states(job) == {"done": 4}, queue.runner_log()
    assert sorted(seen.read_text().split()) == ["0", "1", "2", "3"]
    assert gone(lane) and "removed this lane's files" in queue.runner_log()


def test_a_task_does_not_wait_for_one_of_a_queue_that_had_the_same_directory(queue):
    waiting(queue, gate(queue), "-g", "1")
    old = queue.commands()
    queue.directory.rename(queue.folder / "before")
    job = queue.submit("-g", "0", "--", "sleep", "1000")
    new = eventually(lambda: [pid for pid in queue.commands() if pid not in old and name_of(pid) == "sleep"], "it runs")
    queue.kill([*queue.lanes(), *new])
    queue.until_ended(job)
    assert queue.states(job) == {"failed": 1} and all(name_of(pid) == "cat" for pid in old)
    queue.kill(old)

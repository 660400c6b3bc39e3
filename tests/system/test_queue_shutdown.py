"""The machine goes down in an orderly way: every process is told to end (SIGTERM; those of a session SIGHUP, too), in an order
that nobody knows, and what is left is killed. What ran is lost, not failed: it runs again where that was asked for."""
import os
import signal

import pytest

from other_boots import booted_since
from queue_inside import name_of, queue  # noqa: F401 (queue: a fixture)
from run_tools import eventually, gone, open_gate

GPUS = 4   # of the machine
TASKS = 7
NOBODY = 0


def until_all_run(queue, name):
    def all_run():
        pids = queue.commands()
        return pids if [name_of(pid) for pid in pids] == [name] * GPUS else None
    return eventually(all_run, lambda: f"{GPUS} run: {queue.who_lives()}\n{queue.runner_log()}")


def until_everything_is_ended(queue, order):
    """As init does it: whoever is there is told, again until nobody is who has not been."""
    told = {NOBODY}
    def all_have_ended():
        groups = [set(who()) - told for who in order]     # looked for before: between the signals nothing takes time
        for pids in groups:
            queue.kill(pids, signal.SIGTERM)
            queue.kill(pids, signal.SIGHUP)
            told.update(pids)
        return all(gone(pid) for pid in told - {NOBODY}) and not [pid for who in order for pid in who() if pid != NOBODY]
    eventually(all_have_ended, lambda: f"all end: {queue.who_lives()}\n{queue.runner_log()}")


def until_gone(pids):
    eventually(lambda: all(map(gone, pids)), lambda: f"{[pid for pid in pids if not gone(pid)]} end")


@pytest.mark.parametrize("first", ["the tasks", "the lanes", "the runner"])
def test_what_runs_when_the_machine_goes_down_is_lost_and_nothing_more_begins(queue, tmp_path, first):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = queue.submit("--array", f"0-{TASKS - 1}", "-g", "1", "--retry", "1,lost", "--", "sh", "-c",
                       f"echo $THOLE_TASK_INDEX >> {tmp_path}/begun; exec cat {gate}")
    until_all_run(queue, "cat")
    tasks, lanes, runner = queue.commands, queue.lanes, lambda: [queue.runner() or NOBODY]
    orders = {"the tasks": [tasks, lanes, runner], "the lanes": [lanes, tasks, runner], "the runner": [runner, tasks, lanes]}
    until_everything_is_ended(queue, orders[first])
    assert len((tmp_path / "begun").read_text().split()) == GPUS, "nothing began after that"
    assert queue.states(job) == {"queued": TASKS}
    assert "the machine, or somebody, ends its lane" in queue.runner_log()
    booted_since(queue.directory)
    queue.call("jobs")
    open_gate(gate)
    queue.until_ended(job)
    assert queue.states(job) == {"done": TASKS}


def test_without_retry_what_ran_when_the_machine_went_down_stays_lost_and_why_is_said(queue):
    job = queue.submit("-g", "1", "--", "sleep", "1000")
    pids = [*queue.until_asleep(), *queue.lanes(), queue.runner()]
    queue.kill(pids, signal.SIGTERM)
    until_gone(pids)
    assert queue.tasks(job)[0][:3] == ("lost", None, None)
    assert "the machine, or somebody, ended its lane" in queue.call("why", "job", job).stdout


def test_what_does_not_heed_term_and_is_killed_before_its_lane_is_lost(queue):
    job = queue.submit("-g", "1", "--", "sh", "-c", "trap '' TERM; exec sleep 1000")
    tasks, lanes, runner = queue.until_asleep(), queue.lanes(), [queue.runner()]
    queue.kill([*lanes, *tasks, *runner], signal.SIGTERM)
    until_gone(runner)
    queue.kill(tasks)
    until_gone(lanes)
    assert queue.states(job) == {"lost": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_task_that_alone_is_killed_has_failed(queue, number):
    job = queue.submit("-g", "1", "--retry", "1,lost", "--", "sleep", "1000")
    queue.kill(queue.until_asleep(), number)
    queue.until_ended(job)
    assert queue.tasks(job)[0][:3] == ("failed", None, number)


def test_the_end_of_a_lanes_terminal_is_nothing_to_it(queue):
    job = queue.submit("-g", "1", "--", "sh", "-c", "trap '' HUP; exec sleep 1000")
    tasks, lanes = queue.until_asleep(), queue.lanes()
    queue.kill([*lanes, *tasks], signal.SIGHUP)
    queue.call("cancel", job)
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 1}

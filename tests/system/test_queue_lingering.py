"""What a task's command leaves behind where it may: by `--linger` it is waited for, and obeys all the same; and what is paused
stops and goes on as a whole."""
import os
import signal
import sys
import time

import pytest

from queue_inside import queue, shell  # noqa: F401 (queue: a fixture)
from run_tools import eventually, gone, state_of, text_of


def test_with_linger_what_is_left_behind_may_end_by_itself(queue, tmp_path):
    job = queue.submit("-g", "0", "--linger", *shell("setsid sh -c 'until [ -e go ]; do sleep 0.02; done; echo late' & exit 4"))
    eventually(lambda: queue.states(job).get("running"), "it runs")
    (tmp_path / "go").touch()
    queue.until_ended(job)
    assert queue.tasks(job)[0][:2] == ("failed", 4) and "late" in queue.log(job)


LINGERS = ("setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 600' & "
           "while [ ! -e left ]; do sleep 0.02; done; exit 4")


@pytest.mark.parametrize("how", ["cancel", "time limit"])
def test_what_lingers_is_ended_as_a_command_is(queue, tmp_path, how):
    limit = ["--time", "2s"] if how == "time limit" else []
    job = queue.submit("-g", "1", "--linger", "--patience", "1s", *limit, *shell(LINGERS))
    left = int(text_of(tmp_path / "left"))
    eventually(lambda: queue.commands() == [left], "the command has ended")
    if how == "cancel":
        queue.call("cancel", job)
    queue.until_ended(job)
    assert gone(left)
    assert queue.states(job) == ({"cancelled": 1} if how == "cancel" else {"failed": 1})


LEAVES_A_DAEMON = """
import os, sys, time
if os.environ["THOLE_TASK_INDEX"] == "0":
    open(sys.argv[1], "r").read()
elif os.fork() == 0:
    os.setsid()
    time.sleep(0.001)
    if os.fork() == 0:
        os.open(sys.argv[2], os.O_WRONLY)
        time.sleep(600)
    os._exit(0)
"""


def test_a_daemon_that_a_task_leaves_beside_others_ends_with_it(queue, tmp_path):
    """It becomes the lane's child while that looks for what the task has left, by the end of its parent."""
    go, alive = tmp_path / "go", tmp_path / "alive"
    os.mkfifo(go)
    os.mkfifo(alive)
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)   # at its end once no daemon has it open
    job = queue.submit("-g", "1", "--per-gpu", "2", "--array", "0-20", "--patience", "1s", "--",
                       sys.executable, "-c", LEAVES_A_DAEMON, go, alive)
    eventually(lambda: queue.states(job).get("failed") == 20 or queue.states(job).get("done") == 20, "all but one have ended")
    assert queue.states(job) == {"running": 1, **{state: 20 for state in queue.states(job) if state != "running"}}
    assert os.read(reader, 1) == b"", "a daemon is left"
    with open(go, "w"):
        pass
    queue.until_ended(job)


def test_what_has_left_the_group_stops_and_goes_on_each_time(queue, tmp_path):
    job = queue.submit("-g", "1", *shell("setsid sh -c 'echo $$ > worker.new; mv worker.new worker; exec sleep 600' & wait"))
    worker = int(text_of(tmp_path / "worker"))
    for _ in range(3):
        queue.call("pause", job)
        eventually(lambda: state_of(worker) == "T", "it stands")
        queue.call("continue", job)
        eventually(lambda: state_of(worker) == "S", "it goes on")
    queue.call("cancel", job)
    queue.until_ended(job)
    assert gone(worker)


def test_what_a_paused_command_leaves_behind_goes_on_when_that_is_killed(queue, tmp_path):
    job = queue.submit("-g", "1", "--linger", *shell("setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 600' & "
                                                     "echo $$ > main.new; mv main.new main; exec sleep 600"))
    main, left = (int(text_of(tmp_path / name)) for name in ("main", "left"))
    queue.call("pause", job)
    eventually(lambda: state_of(main) == state_of(left) == "T", "all of it stands")
    os.kill(main, signal.SIGKILL)
    eventually(lambda: state_of(left) == "S", "the rest goes on")
    queue.call("cancel", job)
    queue.until_ended(job)
    assert gone(left)


def test_what_lingers_is_paused_and_its_limit_stands_still(queue, tmp_path):
    job = queue.submit("-g", "0", "--linger", "--time", "2s", *shell(LINGERS))
    left = int(text_of(tmp_path / "left"))
    eventually(lambda: queue.commands() == [left], "the command has ended")
    queue.call("pause", job)
    eventually(lambda: state_of(left) == "T", "it stands")
    end = time.monotonic() + 3
    eventually(lambda: time.monotonic() > end, "longer than its limit")
    assert state_of(left) == "T" and queue.states(job) == {"running": 1}
    queue.call("continue", job)
    queue.until_ended(job)
    assert gone(left) and queue.states(job) == {"failed": 1}


def test_what_is_being_ended_is_not_shown_as_paused(queue, tmp_path):
    deaf = "trap 'echo > told' INT; echo > up; while :; do sleep 0.05; done"
    job = queue.submit("-g", "0", "--patience", "60s", *shell(deaf))
    eventually((tmp_path / "up").exists, "it runs")
    queue.call("cancel", job)
    eventually((tmp_path / "told").exists, "it is being ended")
    queue.call("pause", job)
    eventually(lambda: queue.rows("SELECT flags & 1 FROM task WHERE job = ?", job) == [(0,)], "which goes on")
    queue.kill(queue.commands())
    queue.until_ended(job)


# Each runner that is killed is followed by one that the lane starts; what its command leaves in that moment is the lane's, too.
def test_what_is_left_while_the_lane_starts_a_runner_is_ended(queue, tmp_path):
    job = queue.submit("-g", "1", *shell("touch runs; while [ ! -e enough ]; do (sleep 600 &); sleep 0.003; done"))
    eventually((tmp_path / "runs").exists, "it runs")
    for _ in range(3):                           # a lane rests longer before each
        before = queue.runner()
        os.kill(before, signal.SIGKILL)
        eventually(lambda: queue.runner() not in (None, before), "the next runner sits")
    (tmp_path / "enough").touch()
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1} and not queue.commands()

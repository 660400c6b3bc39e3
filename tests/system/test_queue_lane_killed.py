"""What becomes of a task whose lane was killed: its status, what it leaves, cancel, pause and its limit."""
import os
import pathlib
import signal
import time

import pytest

from queue_inside import only_task, queue, shell  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, Started, eventually, gone, is_locked, open_gate, state_of, text_of


def kill_lanes_with_their_runner(queue):
    """Then nobody is left whom the kernel would tell how their commands end."""
    lanes = queue.lanes()
    queue.kill([queue.runner()])
    queue.kill(lanes)
    eventually(lambda: not set(lanes) & set(queue.lanes()), "the lanes are dead")
    queue.call("jobs")                             # starts a runner, if no lane has


@pytest.mark.parametrize("script, ends", [("exit 7", ("failed", 7, None)), ("exit 0", ("done", 0, None)),
                                          ("kill -SEGV $$", ("failed", None, signal.SIGSEGV))],
                         ids=["failed", "done", "signal"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_whose_lane_was_killed_keeps_its_status(queue, when, script, ends):
    """While its runner lives, to whom the kernel gives it, also where it has ended before."""
    os.mkfifo(queue.folder / "gate")
    job = queue.submit("-g", "1", *shell(f"echo $$ > pid.new; mv pid.new pid; cat gate; {script}"))
    eventually((queue.folder / "pid").exists, "it runs")
    lanes = queue.lanes()
    if when == "after":
        for lane in lanes:
            os.kill(lane, signal.SIGSTOP)          # it does not see the end
        open_gate(queue.folder / "gate")
        eventually(lambda: state_of(int((queue.folder / "pid").read_text())) == "Z", "it has ended")
    queue.kill(lanes)
    if when == "before":
        eventually(lambda: not queue.lanes(), "the lane is dead")
        open_gate(queue.folder / "gate")
    assert only_task(queue, job)[:3] == ends


def test_what_a_task_has_left_is_ended_when_its_lane_was_killed_and_its_status_is_kept(queue, tmp_path):
    os.mkfifo(queue.folder / "gate")
    rest = "trap 'echo > heard; exit' TERM; echo > left; while :; do sleep 0.05; done"
    job = queue.submit("-g", "1", "--patience", "60s", *shell(f'sh -c "{rest}" & cat gate; exit 3'))
    eventually((queue.folder / "left").exists, "it runs")
    lanes = queue.lanes()
    for lane in lanes:
        os.kill(lane, signal.SIGSTOP)              # it does not see the end of the command
    open_gate(queue.folder / "gate")
    queue.kill(lanes)
    assert only_task(queue, job)[:3] == ("failed", 3, None)
    assert (queue.folder / "heard").exists(), "TERM"


def test_a_job_whose_lane_was_killed_with_its_runner_is_lost_once_nothing_of_it_lives(queue, tmp_path):
    job = queue.submit("-g", "1", *shell("sleep 600 & exec sleep 600"))
    command, child = queue.until_asleep(2)
    kill_lanes_with_their_runner(queue)
    queue.kill([command])
    eventually(lambda: gone(command), "the command has ended")
    assert queue.states(job) == {"running": 1}, "its child lives"
    queue.kill([child])
    state, code, number, _, reason = only_task(queue, job)
    assert (state, code, number) == ("lost", None, None) and "no record" in reason


def test_lanes_that_die_before_their_claim_are_not_started_again_without_end(queue):
    os.mkfifo(queue.folder / "gate")
    queue.submit("-g", "4", *shell(f"cat {queue.folder}/gate"))
    eventually(lambda: queue.states(1) == {"running": 1}, "it has all GPUs")
    [holder] = queue.lanes()
    waiting = queue.submit("-g", "1", "--", "true")
    dead = set()

    def kill_waiters():
        waiters = set(queue.lanes()) - {holder}
        queue.kill(waiters)
        dead.update(waiters)
        return len(dead)

    eventually(lambda: kill_waiters() >= 3, "two more are started at once")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        kill_waiters()
    assert len(dead) <= 6, "after 1 s, 2 s, 4 s …"
    assert queue.states(waiting) == {"queued": 1}
    open_gate(queue.folder / "gate")
    queue.until_ended(waiting)
    assert queue.states(waiting) == {"done": 1}


def test_a_lost_task_runs_again_only_where_that_was_asked_for(queue, tmp_path):
    job = queue.submit("-g", "1", "--retry", "1,lost", *shell("echo x >> tries; test $(wc -l < tries) = 2 || exec sleep 600"))
    tried = queue.until_asleep()
    kill_lanes_with_their_runner(queue)
    queue.kill(tried)
    assert only_task(queue, job)[:2] == ("done", 0)


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("tasks", [[], ["--array", "0-1%1"]], ids=["alone", "of an array"])
def test_who_follows_a_task_that_is_lost_and_runs_again_sees_each_run_once(queue, late, tasks):
    script = "echo x >> tries; tries=$(wc -l < tries); echo try $tries; test $tries = 1 && exec sleep 600; true"
    job = queue.submit("-g", "1", "--retry", "1,lost", *tasks, *shell(script))
    tried = queue.until_asleep()
    with Started([THOLE, "logs", "-f", f"{job}.0"], env=queue.environment, cwd=queue.folder) as follower:
        follower.until("try 1")
        if late:
            follower.kill(signal.SIGSTOP)
        kill_lanes_with_their_runner(queue)
        queue.kill(tried)
        queue.until_ended(job)
        follower.kill(signal.SIGCONT)
        shown = follower.process.stdout.read().decode()
        assert follower.wait() == 0
    assert len([line for line in shown.splitlines() if line.startswith("try")]) == 1, shown


def test_cancel_reaches_a_task_whose_lane_was_killed(queue, tmp_path):
    job = queue.submit("-g", "1", "--", "sleep", "600")
    queue.until_asleep()
    queue.kill(queue.lanes())
    eventually(lambda: not queue.lanes(), "the lane is dead")
    released = queue.call("release", "0", check=False)
    assert released.returncode == 69 and f"\n  thole cancel {job}  # sleep 600\n" in released.stderr, released.stderr
    queue.call("cancel", job)
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 1} and not queue.commands()


def test_pause_and_continue_reach_a_task_whose_lane_was_killed(queue):
    job = queue.submit("-g", "0", "--", "sh", "-c", "trap '' HUP; exec sleep 600")
    [pid] = queue.until_asleep()
    queue.call("pause", job)
    eventually(lambda: state_of(pid) == "T", "its lane stops it")
    queue.kill(queue.lanes())
    eventually(lambda: not queue.lanes(), "the lane is dead, and the kernel has let the task go on")
    eventually(lambda: state_of(pid) == "T", lambda: f"the runner stops it again\n{queue.runner_log()}")
    queue.call("continue", job)
    eventually(lambda: state_of(pid) == "S", "it goes on")
    queue.call("pause", job)
    eventually(lambda: state_of(pid) == "T", "it is stopped without its lane")
    queue.call("cancel", job)
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 1} and not queue.commands()


def test_a_limit_holds_after_the_lane_was_killed(queue):
    """The runner counts on."""
    job = queue.submit("-g", "0", "--time", "8s", "--", "sleep", "600")
    queue.until_asleep()
    queue.kill(queue.lanes())
    state, code, number, _, reason = only_task(queue, job)
    assert (state, code, number, reason) == ("failed", None, signal.SIGINT, "time limit")


def test_a_limit_that_a_dead_lane_has_left_ends_what_does_not_listen(queue):
    job = queue.submit("-g", "0", "--time", "8s", "--patience", "0.1s",
                       *shell("trap '' INT TERM; sleep 600 & wait; sleep 600"))
    eventually(lambda: len(queue.commands()) == 2, "it runs")
    queue.kill(queue.lanes())
    assert "time limit" in only_task(queue, job)[-1] and not queue.commands()


def test_a_limit_stands_still_while_a_task_without_a_lane_is_paused(queue):
    job = queue.submit("-g", "0", "--time", "7s", "--", "sh", "-c", "trap '' HUP; exec sleep 600")
    [pid] = queue.until_asleep()
    queue.call("pause", job)
    eventually(lambda: state_of(pid) == "T", "its lane stops it")
    paused_at = time.monotonic()
    [lane], runner = queue.lanes(), queue.runner()
    queue.kill([lane])
    eventually(lambda: gone(lane), "the lane is dead, and the kernel has let the task go on")
    eventually(lambda: state_of(pid) == "T", lambda: f"the runner stops it again\n{queue.runner_log()}")
    queue.kill([runner])
    eventually(lambda: gone(runner), "it is gone")
    queue.call("jobs")                             # the next one counts on
    while time.monotonic() < paused_at + 8:        # longer than its limit
        time.sleep(0.1)
    assert queue.states(job) == {"running": 1} and state_of(pid) == "T"
    queue.call("continue", job)
    eventually(lambda: state_of(pid) in (None, "S"), "it goes on")
    assert "time limit" in only_task(queue, job)[-1]


# A program that saves its work at INT, and ends well.
SAVES = "trap 'echo > told; sleep 0.3; exit 0' INT; echo > begun; while :; do sleep 0.02; done"


@pytest.mark.parametrize("per_gpu", [[], ["--per-gpu", "2"]], ids=["alone", "per-gpu"])
@pytest.mark.parametrize("when", ["lane killed before", "lane killed meanwhile", "runner too"])
def test_who_is_cancelled_is_not_done_whatever_it_makes_of_that(queue, tmp_path, when, per_gpu):
    job = queue.submit("-g", "1", "--patience", "20s", *per_gpu, *shell(SAVES))
    after = queue.submit("-g", "0", "--after", job, "--", "true")
    eventually((tmp_path / "begun").exists, "it runs")
    lane = queue.working_lane()
    if when == "lane killed before":
        queue.kill([lane])
        eventually(lambda: not queue.lanes(), "the lane is dead")
    queue.call("cancel", job)
    if when != "lane killed before":
        eventually((tmp_path / "told").exists, "it has heard")
        if when == "runner too":
            queue.kill([queue.runner()])
        queue.kill([lane])
        queue.call("jobs")
    queue.until_ended(job)
    queue.until_ended(after)
    assert queue.states(job) == {"cancelled": 1} and queue.states(after) == {"skipped": 1}, queue.runner_log()


def test_who_had_succeeded_is_done_though_what_it_left_was_cancelled(queue, tmp_path):
    """As with a lane that lives."""
    left = "setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 600' &"
    job = queue.submit("-g", "1", "--linger", *shell(f"{left} until [ -e left ]; do sleep 0.02; done"))
    left = int(text_of(tmp_path / "left"))
    command = queue.commands()
    eventually(lambda: all(gone(pid) for pid in command if pid != left), "its command has ended")
    queue.kill([queue.working_lane()])
    eventually(lambda: not queue.lanes(), "the lane is dead")
    queue.call("cancel", job)
    queue.until_ended(job)
    assert gone(left) and queue.states(job) == {"done": 1}, queue.runner_log()


@pytest.mark.parametrize("retry", [[], ["--retry", "2"]], ids=["once", "retry"])
def test_who_had_succeeded_is_done_though_what_lingered_came_to_its_limit(queue, tmp_path, retry):
    left = "setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 600' &"
    job = queue.submit("-g", "1", "--linger", "--time", "6s", "--patience", "1s", *retry,
                       *shell(f"echo run >> runs; {left} until [ -e left ] && [ -e go ]; do sleep 0.02; done"))
    left = int(text_of(tmp_path / "left"))
    queue.kill([queue.working_lane()])
    eventually(lambda: not queue.lanes(), "the lane is dead")
    (tmp_path / "go").touch()
    queue.until_ended(job)
    assert gone(left) and queue.states(job) == {"done": 1}, queue.runner_log()
    assert (tmp_path / "runs").read_text() == "run\n"


def test_who_had_ended_before_it_was_told_anything_is_done(queue, tmp_path):
    """`cancel` comes while nobody has seen the end yet."""
    job = queue.submit("-g", "1", *shell("echo $$ > pid.new; mv pid.new pid; until [ -e go ]; do sleep 0.02; done"))
    pid = int(text_of(tmp_path / "pid"))
    queue.kill([queue.working_lane()])
    eventually(lambda: not queue.lanes(), "the lane is dead")
    runner = eventually(queue.runner, "a runner lives")
    os.kill(runner, signal.SIGSTOP)
    (tmp_path / "go").touch()
    eventually(lambda: state_of(pid) == "Z", "it has ended")
    canceller = Started([THOLE, "cancel", str(job)], env=queue.environment, cwd=queue.folder)
    eventually(lambda: queue.rows("SELECT 1 FROM task WHERE job = ? AND flags & 2 <> 0", job), "it is asked for")
    os.kill(runner, signal.SIGCONT)
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}, queue.runner_log()

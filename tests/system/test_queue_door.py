"""The claim of a job has a door as that of `run` has: release, extend and `run --in` reach whoever runs on it."""
import datetime
import json

import pytest

from queue_inside import Queue
from run_tools import THOLE, eventually


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path, machine="2xA100")
    yield made
    made.end_everything()


def claims(queue):
    return {claim["unit"]: claim for claim in json.loads(queue.call("status", "--json").stdout)["claims"]}


def seconds_left(claim):
    until = datetime.datetime.fromisoformat(claim["until"].replace("Z", "+00:00"))
    return (until - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def test_who_gives_it_back_cancels_what_runs_and_the_rest_goes_on_in_line(queue):
    job = queue.submit("-g", "2", "--array", "0-1", "--", "sleep", "600")
    queue.until_asleep()
    released = queue.call("release", "0")
    assert "released" in released.stderr and f"thole cancel {job}" in released.stderr, released.stderr
    assert queue.tasks(job)[0][0] == "cancelled", queue.tasks(job)
    eventually(lambda: queue.tasks(job).get(1, ("",))[0] == "running", lambda: f"the next task\n{queue.runner_log()}")
    assert "its claim is given back" in queue.runner_log()
    again = queue.call("release", "0")
    assert "thole cancel" not in again.stderr, again.stderr
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 2}
    assert claims(queue) == {}


def test_of_two_jobs_that_one_is_named_whose_gpu_it_is(queue):
    """Lanes that are started later have the earlier ones' files open."""
    jobs = [queue.submit("-g", "1", "--on", str(gpu), "--array", "0-1", "--", "sleep", "600") for gpu in (0, 1)]
    eventually(lambda: len(queue.commands()) == 2, "both run")
    released = queue.call("release", "1").stderr
    assert f"thole cancel {jobs[1]}" in released and f"thole cancel {jobs[0]}" not in released, released
    for job in jobs:
        queue.call("cancel", job)
    for job in jobs:
        queue.until_ended(job)


def test_from_within_it_too(queue):
    """The claim of the shell that it is typed in."""
    job = queue.submit("-g", "1", "--time", "1m", "--", "sh", "-c", '"$0" extend 3h; "$0" release; sleep 600', THOLE)
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 1} and "ends" in queue.log(job), queue.log(job)


def test_it_is_paused_and_given_back(queue):
    job = queue.submit("-g", "1", "--on", "0", "--", "sleep", "600")
    queue.until_asleep()
    queue.call("pause", job)
    queue.call("release", "0")
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 1} and not queue.commands()


def test_a_new_end_is_the_limit_of_what_runs_and_what_others_reckon_with(queue):
    job = queue.submit("-g", "1", "--on", "0", "--time", "2s", "--array", "0-1", "--", "sleep", "5")
    queue.until_asleep()
    queue.call("extend", "0", "1h")
    assert 3500 < seconds_left(claims(queue)["0"]) <= 3600
    queue.until_ended(job)
    tasks = queue.tasks(job)
    assert tasks[0][0] == "done" and tasks[1][0] == "failed" and tasks[1][4] == "time limit", tasks


def test_one_without_a_limit_gets_one(queue):
    job = queue.submit("-g", "1", "--on", "0", "--", "sleep", "600")
    queue.until_asleep()
    queue.call("extend", "0", "1s")
    queue.until_ended(job)
    assert queue.tasks(job)[0][0] == "failed", queue.tasks(job)


def test_it_outlives_its_lane_s_death(queue):
    """The runner looks after the task then, and its limit."""
    job = queue.submit("-g", "1", "--on", "0", "--time", "3s", "--", "sleep", "8")
    queue.until_asleep()
    queue.call("extend", "0", "1h")
    queue.kill(queue.lanes())
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}, (queue.tasks(job), queue.runner_log())


def test_it_outlives_that_while_the_task_is_paused(queue):
    job = queue.submit("-g", "1", "--on", "0", "--time", "2s", "--", "nohup", "sleep", "6")   # the kernel sends HUP
    queue.until_asleep()
    queue.call("extend", "0", "1h")
    queue.call("pause", job)
    eventually(lambda: queue.rows("SELECT flags FROM task WHERE job = ?", job)[0][0] & 1, "it is paused")
    queue.kill(queue.lanes())
    eventually(lambda: not queue.lanes(), "the lane has ended")
    queue.call("continue", job)
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}, (queue.tasks(job), queue.runner_log())


def test_others_join_it(queue):
    queue.submit("-g", "1", "--on", "1", "--", "sleep", "600")
    queue.until_asleep()
    joined = queue.call("run", "--in", "1", "--", "printenv", "CUDA_VISIBLE_DEVICES", "THOLE_CLAIM")
    assert joined.stdout.split() == ["1", claims(queue)["1"]["id"]]

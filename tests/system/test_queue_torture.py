"""kill -9 of the runner, of lanes, of commands, of everything, at random moments: no acknowledged job is lost, none runs twice.

A short form by default; THOLE_TORTURE_KILLS=2000 (or more) makes the long one.
"""
import collections
import os
import random
import time

import pytest

from queue_inside import ENDED, Queue
from run_tools import children, eventually

KILLS = int(os.environ.get("THOLE_TORTURE_KILLS", "40"))
SEED = int(os.environ.get("THOLE_TORTURE_SEED", str(random.randrange(10**9))))

# Each start and each end is one line; the status says which task it was.
COMMAND = """printf 'start %s.%s\\n' "$THOLE_JOB" "$THOLE_TASK_INDEX" >> journal
sleep 0.0$((THOLE_TASK_INDEX % 7))
printf 'end %s.%s\\n' "$THOLE_JOB" "$THOLE_TASK_INDEX" >> journal
exit $((THOLE_TASK_INDEX % 3))"""


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path)
    (tmp_path / "journal").touch()
    yield made
    made.end_everything()


def journal(queue):
    """Task -> how often it has started, and ended."""
    starts, ends = collections.Counter(), collections.Counter()
    for line in (queue.folder / "journal").read_text().splitlines():
        what, task = line.split(" ")
        (starts if what == "start" else ends)[task] += 1
    return starts, ends


def open_tasks(queue):
    return queue.rows("SELECT coalesce(sum(queued + running), 0) FROM job WHERE ended IS NULL")[0][0]


def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(queue):
    chance = random.Random(SEED)
    print(f"THOLE_TORTURE_SEED={SEED} THOLE_TORTURE_KILLS={KILLS}")
    jobs, kills, shot_lanes, shot_commands = {}, 0, 0, 0
    while kills < KILLS:
        nobody = queue.runner() is None and not queue.lanes()   # then somebody must come back and start them
        little = queue.unended_or_none() < 3
        if little or nobody:
            tasks = chance.choice([1, 1, 5, 40]) if little else 1
            words = ["--array", f"0-{tasks - 1}"] if tasks > 1 else []
            jobs[queue.submit("-g", chance.choice([0, 1, 1, 2]), *words, "--", "sh", "-c", COMMAND)] = tasks
        time.sleep(chance.random() * 0.05)   # the moment of a kill is chance, not something waited for
        victim = chance.choice(["runner", "runner", "lane", "command", "everything"])
        runner = [pid for pid in [queue.runner()] if pid]
        lanes, commands = queue.lanes(), queue.commands()
        if victim == "runner":
            kills += queue.kill(runner)
        elif victim == "lane" and lanes:
            shot_lanes += queue.kill([chance.choice(lanes)])
            kills += 1
        elif victim == "command" and commands:
            shot_commands += queue.kill([chance.choice(commands)])
            kills += 1
        elif victim == "everything":
            kills += queue.kill(runner) + queue.kill(lanes) + queue.kill(commands)
            shot_lanes += len(lanes)
            shot_commands += len(commands)
    jobs[queue.submit("-g", "0", "--", "true")] = 1   # somebody comes back and the runner with him
    while queue.unended() > 0:   # how long that takes is the machine's affair, but some task must end
        left = open_tasks(queue)
        eventually(lambda: open_tasks(queue) < left or queue.unended() == 0,
                   lambda: f"another of {left} tasks ends: {queue.who_lives()}\n{queue.runner_log()}", 120)

    starts, ends = journal(queue)
    known = collections.Counter()
    for job, tasks in jobs.items():
        states = queue.states(job)
        assert sum(states.values()) == tasks and set(states) <= ENDED, (job, states)
        known += states
        for index, (state, code, number, runs, reason) in queue.tasks(job).items():
            name = f"{job}.{index}"
            if code is not None and state in ("done", "failed") and number is None and reason is None and name in starts:
                assert code == index % 3, (name, state, code)
                assert ends[name] == 1, (name, state, "has a status and did not end")
    twice = {task: number for task, number in starts.items() if number > 1}
    assert not twice, f"run twice: {twice}"
    assert known["lost"] <= shot_lanes * 2 and known["done"] > 0
    print(f"{kills} kills, {dict(known)}")


def test_tasks_of_killed_lanes_keep_their_status_while_their_runner_lives(queue):
    """At whatever moment the lane dies: their commands are left to the runner, which is told how they end."""
    chance = random.Random(SEED)
    print(f"THOLE_TORTURE_SEED={SEED} THOLE_TORTURE_KILLS={KILLS}")
    gate = queue.submit("-g", "0", "--hold", "--", "true")   # so that the runner has something to stay for
    jobs, kills = {}, 0
    while kills < KILLS:
        if queue.unended_or_none() < 4:
            tasks = chance.choice([1, 5, 40])
            words = ["--array", f"0-{tasks - 1}"] if tasks > 1 else []
            jobs[queue.submit("-g", chance.choice([0, 1, 1]), *words, "--", "sh", "-c", COMMAND)] = tasks
        time.sleep(chance.random() * 0.03)   # the moment of a kill is chance, not something waited for
        working = [lane for lane in queue.lanes() if children(lane)]   # who dies in the line again and again has to pause
        if working:
            kills += queue.kill([chance.choice(working)])
    for job in jobs:
        queue.until_ended(job, 600)
    starts, ends = journal(queue)
    for job, tasks in jobs.items():
        found = queue.tasks(job)
        assert len(found) == tasks
        for index, (state, code, number, runs, reason) in found.items():
            assert (state, code, number) == ("failed" if index % 3 else "done", index % 3, None), (job, index, state, reason)
            assert starts[f"{job}.{index}"] == ends[f"{job}.{index}"] == 1
    queue.call("cancel", gate)

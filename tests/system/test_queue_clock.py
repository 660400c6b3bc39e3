"""Somebody sets the clock: what waits for a time of day waits for the new one, and limits and patience go by the steady clock.

The clock is moved for thole alone, by a preloaded library (fake_clock.cpp): the runner is started with it here, since it takes
no LD_PRELOAD from who submits; its lanes are forks of it.
"""
import json
import os
import subprocess
import time

import pytest

from queue_inside import Queue, shell
from run_tools import BUILD, THOLE, eventually

HOUR, DAY = 3600, 86400


class ClockedQueue(Queue):
    def __init__(self, folder):
        super().__init__(folder)
        self.shift = self.folder / "shift"
        self.set_clock(0)
        self.environment.update(FAKE_CLOCK=str(self.shift), LD_PRELOAD=str(BUILD / "fake_clock.so"),
                                ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
        self.submit("-g", "0", "--begin", "1000d", "--", "true")   # makes the queue, and keeps a runner at work
        self.kill([eventually(self.runner, "the runner that this has started")])
        eventually(lambda: self.runner() is None, "the runner without our clock is gone")
        subprocess.run([THOLE, "__runner"], env=self.environment, check=True, capture_output=True, timeout=60)
        ours = str(BUILD / "fake_clock.so")
        eventually(lambda: self.runner() and ours in open(f"/proc/{self.runner()}/maps").read(), "the runner has our clock")

    def set_clock(self, seconds):
        self.shift.write_text(f"{seconds}\n")

    def runner_log(self):
        """Also whether the runner is the one that has our clock, and watches it."""
        runner = self.runner()
        if not runner:
            return super().runner_log() + "no runner"
        has_clock = str(BUILD / "fake_clock.so") in open(f"/proc/{runner}/maps").read()
        threads = len(os.listdir(f"/proc/{runner}/task"))
        return super().runner_log() + f"runner {runner}: our clock {has_clock}, threads {threads}"

    def job(self, number):
        [job] = json.loads(self.call("--json", "jobs", number).stdout)["jobs"]
        return job


@pytest.fixture
def queue(tmp_path):
    if not (BUILD / "fake_clock.so").exists():
        pytest.skip(f"no fake_clock.so in {BUILD}")
    made = ClockedQueue(tmp_path)
    yield made
    made.end_everything()


def test_a_begin_that_a_jump_has_passed_is_now(queue):
    job = queue.submit("-g", "0", "--begin", "1h", "--", "true")
    assert queue.states(job) == {"queued": 1}
    queue.set_clock(2 * HOUR)
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}


def test_a_begin_stays_a_time_of_day_when_the_clock_goes_back(queue):
    soon = queue.submit("-g", "0", "--begin", "3s", "--", "true")
    queue.set_clock(-DAY)
    other = queue.submit("-g", "0", "--", "true")   # the runner lives and works
    queue.until_ended(other)
    time.sleep(4)                                   # the three seconds that count no more
    assert queue.states(soon) == {"queued": 1}
    queue.set_clock(10)
    queue.until_ended(soon)


def test_a_pause_before_a_further_run_ends_by_the_new_clock(queue, tmp_path):
    job = queue.submit("-g", "0", "--retry", "1", "--retry-pause", "1h", *shell("echo x >> tries; test $(wc -l < tries) = 2"))
    eventually((tmp_path / "tries").exists, "its first run has begun")
    eventually(lambda: queue.states(job) == {"queued": 1}, "it waits for its second run")
    queue.set_clock(2 * HOUR)
    queue.until_ended(job)
    assert queue.tasks(job)[0][:4] == ("done", 0, None, 2)


@pytest.mark.parametrize("jump", [30 * DAY, -30 * DAY])
def test_a_limit_is_of_time_that_passes(queue, tmp_path, jump):
    long = queue.submit("-g", "1", "--time", "1h", *shell("echo x > long; until [ -e go ]; do sleep 0.05; done"))
    short = queue.submit("-g", "1", "--time", "3s", "--patience", "1s", *shell("echo x > short; exec sleep 600"))
    eventually(lambda: (tmp_path / "long").exists() and (tmp_path / "short").exists(), "both run")
    begun = time.monotonic()
    queue.set_clock(jump)
    queue.until_ended(short)
    assert queue.tasks(short)[0][4] == "time limit" and time.monotonic() - begun < 15
    assert queue.states(long) == {"running": 1}
    (tmp_path / "go").touch()
    queue.until_ended(long)
    assert queue.states(long) == {"done": 1}


def test_a_task_that_ends_before_it_began_has_taken_no_time(queue, tmp_path):
    job = queue.submit("-g", "0", *shell("echo x > begun; until [ -e go ]; do sleep 0.05; done"))
    eventually(lambda: (tmp_path / "begun").exists(), "it runs")
    queue.set_clock(-DAY)
    (tmp_path / "go").touch()
    queue.until_ended(job)
    told = queue.job(job)
    assert told["ended"] < told["started"] and told["state"] == "done"
    assert "after 0.000 s" in queue.log(job).splitlines()[-1], queue.log(job)
    assert queue.rows("SELECT busy_ms FROM job WHERE id = ?", job) == [(0,)]
    assert "-" not in queue.call("jobs", job).stdout.splitlines()[1].split()[4:5]

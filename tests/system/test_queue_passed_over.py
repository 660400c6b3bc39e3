"""A job that others need not wait for in the machine's line holds up none of its user's queue either, and keeps its place."""
import json
import os
import subprocess

import pytest

from queue_tools import Queue
from run_tools import eventually


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path, "8xA100")


def in_line(queue):
    """The wishes of those who wait, in their order."""
    return [waiting["wants"]["gpus"] for waiting in queue.json("status")["queue"]]


@pytest.mark.parametrize("wish", [["--leave", "7"], ["--leave", "6", "-g", "2"], ["--leave", "7", "--priority", "5"],
                                  ["--leave", "7", "--per-gpu", "3", "--array", "0-5"]],
                         ids=["one", "two GPUs", "a higher priority", "several at once"])
def test_a_job_that_leaves_gpus_to_others_holds_up_no_later_one(queue, wish):
    claim = queue("-q", "claim", "--on", "0").strip()
    leaves = queue.submit(*wish, "true")
    after = queue.submit("true")
    assert queue.run("wait", "--timeout", "20s", after).returncode == 0, queue("jobs", "-a")
    other = queue.submit("-g", "8", "true")
    eventually(lambda: len(in_line(queue)) == 2, lambda: f"both wait: {in_line(queue)}")
    assert queue.job(leaves)["state"] == "queued"
    queue("release", claim)
    assert queue.run("wait", "--timeout", "20s", leaves, other).returncode == 0
    begun = [queue.json("jobs", f"{job}.0", "--tasks")["tasks"][0]["started"] for job in (leaves, other)]
    assert begun == sorted(begun), "it keeps its place, and goes first when it can"


def test_of_jobs_that_come_at_once_the_one_that_leaves_gpus_has_the_first_look(queue):
    """It would start at once: the later one, which would keep it from that, is not in line before it."""
    queue.drain()
    leaves = queue.submit("--leave", "7", "true")
    with queue.gate() as gate:
        after = queue.submit("cat", str(gate))
        queue("drain", "--off")
        queue.reaches(after, "running")
        assert queue.run("wait", "--timeout", "20s", leaves).returncode == 0, queue("jobs", "-a")


def test_several_that_leave_gpus_to_others_do_not_hold_up_each_other(queue):
    claim = queue("-q", "claim", "-g", "2").strip()
    waiting = [queue.submit("--leave", "7", "true"), queue.submit("--leave", "5", "-g", "2", "true")]
    assert queue.run("wait", "--timeout", "20s", queue.submit("--leave", "5", "true")).returncode == 0, queue("jobs", "-a")
    assert [queue.job(job)["state"] for job in waiting] == ["queued"] * 2
    queue("release", claim)
    assert queue.run("wait", "--timeout", "20s", *waiting).returncode == 0


def test_a_job_whose_gpus_a_stranger_uses_holds_up_no_later_one(tmp_path):
    machine = tmp_path / "machine.json"
    queue = Queue(tmp_path, str(machine))
    plain = json.loads(queue("capture", env={"THOLE_MACHINE": "2xA100"}))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as stranger:
        plain["gpus"][0]["use"] = {"memory_used_mib": 900, "utilization_percent": 0, "processes": [
            {"pid": stranger.pid, "user": "anna", "kind": "compute", "memory_mib": 900, "watch": True}]}
        machine.write_text(json.dumps(plain))
        wide = queue.submit("-g", "2", "true")
        after = queue.submit("true")
        assert queue.run("wait", "--timeout", "20s", after).returncode == 0, queue("jobs", "-a")
        assert queue.job(wide)["state"] == "queued"
        stranger.stdin.close()
    assert queue.run("wait", "--timeout", "20s", wide).returncode == 0, queue("jobs", "-a")


def test_a_runner_that_takes_over_knows_who_is_passed_over(queue):
    claim = queue("-q", "claim", "--on", "0").strip()
    leaves = queue.submit("--leave", "7", "true")
    eventually(lambda: in_line(queue) == [1], "it is in line")
    runner = int((queue.directory / "runner").read_text())
    os.kill(runner, 9)
    assert queue.run("wait", "--timeout", "20s", queue.submit("true")).returncode == 0, queue("jobs", "-a")
    assert in_line(queue) == [1]
    queue("release", claim)
    assert queue.run("wait", "--timeout", "20s", leaves).returncode == 0

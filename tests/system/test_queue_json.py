"""What the queue's commands print with --json is what docs/schema describes: each field, in each state a job can be in."""
import json
import pathlib
import sys

import pytest

from queue_tools import Queue
from run_tools import eventually

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from schema_check import load, problems  # noqa: E402


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path)
    made.env["THOLE_CPU_TASKS"] = "16"   # tasks without GPUs at once, however small the machine
    yield made
    made.run("cancel", "all")
    made.run("wait", "all")


def checked(text, name):
    """The JSON of a command, after it was found to be as its schema says."""
    schema = load(ROOT / "docs/schema" / f"{name}-1.json")
    told = json.loads(text)
    assert not list(problems(told, schema, schema)), text
    return told


def test_a_submission(queue):
    queue.drain()
    would = checked(queue("--json", "submit", "--dry-run", "--grid", "a=0..20", "-n", "sweep", "echo", "{a}"), "submission")
    assert len(would["jobs"][0]["first_commands"]) == 10
    checked(queue("--json", "submit", "--dry-run", "-g", "0", "true"), "submission")
    checked(queue("--json", "submit", "--if-absent", "-n", "once", "true"), "submitted")
    again = checked(queue("--json", "submit", "--if-absent", "-n", "once", "true"), "submitted")
    assert again["jobs"][0]["existed"] is True


def test_no_queue_yet(queue):
    assert checked(queue("--json", "jobs"), "jobs")["jobs"] == []


def test_jobs_in_every_state_and_with_every_reason_to_wait(queue):
    with queue.gate() as gate:
        running = queue.submit("-g", "4", "--time", "1h", "cat", gate)
        queue.reaches(running, "running")
        paused = queue.submit("-g", "0", "sleep", "600")
        queue.reaches(paused, "running")
        checked(queue("--json", "pause", paused), "altered")
        queue.submit("-g", "1", "--time", "1h", "--tag", "night", "-n", "waits", "true")   # in line
        queue.submit("-g", "4", "true")                                                # behind it
        held = queue.submit("-g", "0", "--hold", "true")
        queue.submit("-g", "0", "--begin", "2h", "true")
        queue.submit("-g", "0", "--after", held, "true")
        bounded = queue.submit("-g", "0", "--at-most", "1", "--array", "0-3", "sleep", "600")
        failed = queue.submit("-g", "0", "sh", "-c", "exit 3")
        killed = queue.submit("-g", "0", "sh", "-c", "kill -9 $$")
        skipped = queue.submit("-g", "0", "--after", f"{failed}", "true")
        again = queue.submit("-g", "0", "--retry", "1", "--retry-pause", "1h", "false")
        done = queue.submit("-g", "0", "true")
        for number, state in (
            (failed, "failed"),
            (killed, "failed"),
            (skipped, "skipped"),
            (done, "done"),
            (bounded, "running"),
        ):
            queue.reaches(number, state)
        eventually(
            lambda: queue.job(again)["waits"] and queue.job(again)["waits"]["kind"] == "retry", "it waits for its second run"
        )
        told = checked(queue("--json", "jobs", "--all"), "jobs")
        states = {job["state"] for job in told["jobs"]}
        assert {"running", "paused", "queued", "held", "failed", "skipped", "done"} <= states, states
        kinds = {job["waits"]["kind"] for job in told["jobs"] if job["waits"]}
        assert {"line", "jobs", "held", "begin", "dependency", "at-most", "retry"} <= kinds, kinds
        tasks = checked(queue("--json", "jobs", "--tasks", "all"), "tasks")["tasks"]
        assert {"running", "done", "failed", "queued"} <= {task["state"] for task in tasks}
        logs = checked(queue("--json", "logs", "--path", "all"), "logs")["logs"]
        assert logs and all(pathlib.Path(one["path"]).is_file() for one in logs)
        assert {(one["job"], one["task"]) for one in logs} <= {(task["job"], task["task"]) for task in tasks}
        checked(queue("--json", "drain"), "drained")
        assert "drain" in {job["waits"]["kind"] for job in checked(queue("--json", "jobs"), "jobs")["jobs"] if job["waits"]}


def test_what_changes_jobs(queue):
    checked(queue("--json", "drain"), "drained")
    number = queue.submit("-g", "0", "--array", "0-3", "sleep", "600")
    for words in (["hold", number], ["resume", number], ["edit", number, "--priority", "3"]):
        checked(queue("--json", *words), "altered")
    assert checked(queue("--json", "drain", "--off"), "drained")["draining"] is False
    queue.reaches(number, "running")
    for words in (["pause", number], ["continue", number], ["cancel", number]):
        checked(queue("--json", *words), "altered")
    ended = queue.run("--json", "wait", number)
    assert checked(ended.stdout, "waited")["jobs"][0]["state"] == "cancelled"
    checked(queue("--json", "retry", number), "altered")


def test_a_simulation(queue, tmp_path):
    (tmp_path / "trace.csv").write_text("arrival_s,duration_s,num_gpus\n0,10,1\n1,10,4\n")
    checked(queue("--json", "simulate", tmp_path / "trace.csv", "--gpus", "4"), "simulation")
    (tmp_path / "narrow.csv").write_text("arrival_s,duration_s,num_gpus\n0,10,1\n")
    checked(queue("--json", "simulate", tmp_path / "narrow.csv", "--gpus", "4"), "simulation")   # no wide job: nulls

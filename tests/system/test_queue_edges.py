"""The queue's commands at their edges: lists without names, output that goes nowhere, days that there are not."""
import pathlib
import re
import shutil
import subprocess

import pytest

from queue_tools import Queue
from run_tools import THOLE


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


def test_tasks_without_a_name_are_those_of_all_jobs_listed(queue):
    for _ in range(3):
        queue.submit("-g", "0", "true")
    queue.submit("-g", "0", "--array", "0-4", "true")
    assert queue.run("wait").returncode == 0
    for words in ([], ["-a"]):
        tasks = queue.json("jobs", *words, "--tasks")["tasks"]
        assert [(task["job"], task["task"]) for task in tasks] == [(1, 0), (2, 0), (3, 0), *((4, index) for index in range(5))]
    assert len(queue.json("jobs", "last", "--tasks")["tasks"]) == 5


def test_a_number_that_cannot_be_printed_is_said(queue):
    queue.drain()
    with open("/dev/full", "w") as full:
        done = subprocess.run([THOLE, "submit", "true"], stdout=full, stderr=subprocess.PIPE, text=True, env=queue.env,
                              cwd=queue.work)
    assert done.returncode == 125
    assert "submitted as job 1, but that cannot be written" in done.stderr
    assert queue.job(1)["state"] == "queued"


@pytest.mark.parametrize("day", ["2027-02-30 10:00", "2027-04-31", "2027-02-29T08:00"])
def test_a_day_that_there_is_not_is_refused(queue, day):
    assert "a day that there is" in queue.refused("submit", "--begin", day, "true")


def test_a_begin_that_has_passed_is_said(queue):
    queue.drain()
    done = queue.run("submit", "--begin", "2020-01-01 00:00", "true")
    assert done.returncode == 0 and "has passed" in done.stderr, done.stderr


def test_a_removed_directory_of_logs_is_made_again(queue):
    with queue.gate() as gate:
        first = queue.submit("-g", "0", "cat", str(gate))
        queue.reaches(first, "running")
        shutil.rmtree(queue.directory / "logs")
        other = queue.submit("-g", "0", "echo", "here it is")   # the same runner's
        assert queue.run("wait", other).returncode == 0
        assert "here it is" in queue("logs", other)
    assert queue.run("wait", first).returncode == 0


def test_what_is_missing_of_a_job_that_has_ended_is_not_to_come(queue):
    queue.drain()
    number = queue.submit("true")
    queue("cancel", number)
    said = queue.run("logs", number).stderr
    assert "has no output: cancelled" in said, said


def test_many_jobs_are_explained_in_order(queue):
    queue.drain()
    for _ in range(3):
        queue.submit("true")
    why = queue.json("why", "job", "all")["jobs"]
    assert [job["job"] for job in why] == [1, 2, 3] and all(job["why"] for job in why)


def test_a_joblog_that_is_none_is_refused_and_left_alone(queue):
    file = queue.work / "notes.txt"
    file.write_text("my notes\n")
    said = queue.refused("map", "-g", "0", "--joblog", str(file), "--resume", "echo", ":::", "a")
    assert "this is no log of tasks" in said and file.read_text() == "my notes\n"


@pytest.mark.parametrize("how", ["--resume", "--resume-failed"])
def test_a_joblog_without_end_is_refused(queue, how):
    said = queue.refused("map", "-g", "0", "--joblog", "/dev/full", how, "echo", ":::", "a")
    assert "/dev/full" in said and "this is no log of tasks" in said, said


@pytest.mark.parametrize("place, parts", [("{.}", ["d/a.tar", "b", "/c.d/e"]), ("{/}", ["a.tar.gz", "b", "e"]),
                                          ("{//}", ["d", ".", "/c.d"]), ("{/.}", ["a.tar", "b", "e"]),
                                          ("{1/}", ["a.tar.gz", "b", "e"]),
                                          ("{{.}}{}", ["{.}d/a.tar.gz", "{.}b", "{.}/c.d/e"])])
def test_parts_of_an_item_are_gnu_parallels(queue, place, parts):
    done = queue("map", "-g", "0", "-k", "echo", place, ":::", "d/a.tar.gz", "b", "/c.d/e")
    assert done.splitlines() == parts


def numbers(cpus):
    spans = [[int(end) for end in piece.split("-")] for piece in cpus.split(",")]
    return {cpu for span in spans for cpu in range(span[0], span[-1] + 1)}


@pytest.mark.parametrize("gpu", [0, 2])
def test_a_log_names_the_cpus_that_its_task_has(tmp_path, gpu):
    """Of a machine that is simulated the plan's CPUs need not be here: then fewer are asked for, or none."""
    queue = Queue(tmp_path, "dgx-a100")
    job = queue.submit("--on", gpu, "grep", "Cpus_allowed_list", "/proc/self/status")
    queue("wait", job)
    log = pathlib.Path(queue("logs", "--path", job).strip()).read_text()
    named = re.search("; CPUs: (.*)$", log, re.M)
    has = re.search(r"^Cpus_allowed_list:\s*(\S+)$", log, re.M)[1]
    assert named is None or numbers(named[1]) == numbers(has), log
    queue("drain")


def test_a_job_that_was_held_when_it_was_cancelled_runs_after_retry(queue):
    submitted = queue.submit("-g", "0", "--hold", "true")
    held = queue.submit("-g", "0", "--array", "0-1", "--hold", "echo", "{index}")
    queue("cancel", f"{submitted},{held}")
    for job, tasks in ((submitted, "1 task"), (held, "2 tasks")):
        assert queue.run("retry", job).stderr == f"thole: job {job}: {tasks} queued again\n"
        assert queue.run("wait", job).returncode == 0


def test_retry_says_that_the_job_is_still_held(queue):
    queue.drain()
    job = queue.submit("-g", "0", "--array", "0-1", "true", "{index}")
    queue("hold", job)
    queue("cancel", f"{job}.0")
    assert f"job {job}: 1 task queued again, and held like the rest of it: thole resume {job}" in queue.run("retry", job).stderr
    assert queue.job(job)["state"] == "held"


@pytest.mark.parametrize("after", ["none", "{failed}:any", "{later}"])
def test_a_skipped_job_runs_after_it_was_given_something_else_to_wait_for(queue, after):
    failed = queue.submit("-g", "0", "false")
    skipped = queue.submit("-g", "0", "--after", failed, "true")
    later = queue.submit("-g", "0", "true")
    queue.run("wait")
    assert queue.job(skipped)["state"] == "skipped"
    for message in (queue.refused("retry", skipped), queue.refused("retry", f"{skipped}.0")):
        assert f"thole retry {failed} first, or thole edit {skipped} --after" in message
    assert f"job {skipped} has ended" in queue.refused("edit", skipped, "--priority", "3")
    changed = queue.run("edit", skipped, "--after", after.format(failed=failed, later=later))
    assert changed.stderr == f"thole: job {skipped} changed; to run it: thole retry {skipped}\n"
    assert queue.job(skipped)["state"] == "skipped"
    queue("retry", skipped)
    assert queue.run("wait", skipped).returncode == 0

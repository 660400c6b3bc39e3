"""A job's stdin is empty: who gave it something is told, and who has it for something else is not."""
import os
import subprocess

import pytest

from queue_tools import Queue
from run_tools import THOLE

LOST = "does not reach the job"


@pytest.fixture
def queue(tmp_path):
    queue = Queue(tmp_path)
    queue.drain()
    return queue


@pytest.mark.parametrize("command", [["sh"], ["/bin/bash"], ["sh", "-s", "x"], ["python3", "-"], ["perl", "/dev/stdin"]])
def test_a_command_that_would_read_its_script_from_stdin_is_refused(queue, command):
    for script in ("echo hello\n", ""):
        message = queue.refused("submit", *command, input=script)
        assert "would read its script from stdin, which is empty for a job" in message and "save the script" in message
    (queue.work / "jobs.toml").write_text(f"[[job]]\ncommand = {command}\n")
    assert "jobs.toml:1: " in queue.refused("submit", "--file", "jobs.toml")
    assert queue("jobs") == "no jobs\n"


def test_an_interpreter_with_a_script_or_a_word_for_one_is_submitted(queue):
    (queue.work / "x.sh").write_text("#THOLE --name of-x\n")
    for command in (["bash", "x.sh"], ["sh", "-c", "true"], ["python3", "-m", "json"], ["bash", "-lc", "true"]):
        queue.submit(*command)
    assert queue.job(1)["name"] == "of-x"
    queue("submit", "--each-line", "-", "sh", input="x.sh\n")


def test_a_script_without_a_command_is_told_where_it_belongs(queue):
    assert "save it, and thole submit ./SCRIPT" in queue.refused("submit", input="#!/bin/sh\necho hello\n")
    assert "such as: thole submit" in queue.refused("submit", input="")


def test_what_is_piped_to_a_job_is_warned_of(queue):
    assert LOST in queue.run("submit", "cat", input="data\n").stderr
    (queue.work / "data").write_text("data\n")
    with open(queue.work / "data") as data:
        done = subprocess.run([THOLE, "submit", "cat"], stdin=data, capture_output=True, text=True, env=queue.env)
        assert LOST in done.stderr and done.returncode == 0
    assert len(queue.json("jobs")["jobs"]) == 2


def test_what_is_read_or_not_there_is_not(queue):
    assert LOST not in queue.run("submit", "true", input="").stderr
    assert LOST not in queue.run("submit", "--each-line", "-", "echo", input="a\nb\n").stderr
    assert LOST not in queue.run("submit", "--each-line", "/dev/stdin", "echo", input="a\nb\n").stderr
    reader, writer = os.pipe()   # open, and nobody writes
    try:
        done = subprocess.run([THOLE, "submit", "true"], stdin=reader, capture_output=True, text=True, env=queue.env)
    finally:
        os.close(reader), os.close(writer)
    assert done.returncode == 0 and LOST not in done.stderr


@pytest.mark.parametrize("loop", [f"while read x; do '{THOLE}' submit echo $x; done < list",
                                  f"cat list | while read x; do '{THOLE}' submit echo $x; done",
                                  f"while read x; do '{THOLE}' submit echo $x; done"])
def test_a_list_that_a_loop_reads_is_not_the_jobs(queue, loop):
    (queue.work / "list").write_text("a\nb\nc\n")
    done = subprocess.run(["bash", "-c", loop], input="a\nb\nc\n", capture_output=True, text=True, env=queue.env,
                          cwd=queue.work)
    assert done.stdout == "1\n2\n3\n" and LOST not in done.stderr

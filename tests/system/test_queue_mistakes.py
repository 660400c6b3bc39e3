"""Bad input to the queue's commands: exit 64, the object and the fix named, and nothing submitted."""
import os
import pathlib
import subprocess
import tempfile

import pytest

from queue_tools import Queue
from run_tools import THOLE


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


@pytest.mark.parametrize("words, says, hint", [
    ([], "COMMAND or --file missing", "thole submit"),
    (["--grid", "seed=0..4", "--", "train", "{sed}"], "{sed}", "{seed}"),
    (["--grid", "seed=0..4", "--", "awk", "{print}"], "{print}", "{{print}}"),
    (["--grid", "seed", "--", "true"], "expected NAME=VALUES", "seed=0..4"),
    (["--grid", "2x=1", "--", "true"], "no name of a variable", "letter"),
    (["--grid", "lr=0.1..0.5", "--", "true"], "counts whole numbers", "lr=0.1"),
    (["--grid", "a=1", "--grid", "a=2", "--", "true"], "given twice", "a="),
    (["--array", "9-1", "true"], "9 comes after 1", "0-99"),
    (["--grid", "a=0..99999", "--grid", "b=0..99999", "true"], "more than", "several jobs"),
    (["--csv", "/nonexistent.csv", "true"], "/nonexistent.csv", ""),
    (["--csv", "-", "true"], "no rows", ""),
    (["--each-line", "-", "true"], "no lines", ""),
    (["--after", "7", "true"], "no job 7", ""),
    (["--after", "7:okay", "true"], "ok, any or fail", "ok"),
    (["--begin", "whenever", "true"], '"whenever"', "22:00"),
    (["--priority", "high", "true"], '"high"', "number"),
    (["--retry", "3,sometimes", "true"], '"sometimes"', "fail"),
    (["--retry", "exit:0", "true"], "exit:75", ""),
    (["--name", "12", "true"], "cannot be the name", "no number"),
    (["--name", "x" * 260, "true"], "a name of 260 characters", "at most 200"),
    (["--tag", "sweep,all", "true"], '"all" cannot be the tag', "no number"),
    (["--tag", "12", "true"], '"12" cannot be the tag', "no number"),
    (["--env", "COLOUR", "true"], "NAME=VALUE", ""),
    (["--env", "CUDA_VISIBLE_DEVICES=3", "true"], "--env CUDA_VISIBLE_DEVICES", "--on"),
    (["--directory", "/nonexistent", "true"], "/nonexistent", ""),
    (["-g", "9", "true"], "9 GPUs asked for", "4"),
    (["--on", "12", "true"], "12", "0 to 3"),
    (["--model", "H100", "true"], "H100", "A100"),
    (["--gird", "a=1", "true"], '"--gird"', "--grid"),
    (["--wait", "1h", "true"], '"--wait"', ""),
])
def test_a_mistake_in_a_submission(queue, words, says, hint):
    message = queue.refused("submit", *words, input="")
    assert says in message and hint in message, message
    assert queue("jobs") == "no jobs\n"


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "no jobs"),
        ("[[job]]\nname = 'a'\n", "command is missing"),
        ('[[job]]\ncommand = ["echo", "x\\u0000y"]\n', ":2: command holds a zero byte"),
        ('[[job]]\ncommand = "echo {v}"\ngrid.v = ["a", "x\\u0000y"]\n', ":3: grid.v holds a zero byte"),
        ("[[job]]\ncomand = ['true']\n", "jobs.toml:2: unknown key"),
        ("[[job]]\ncommand = ['true']\ngpus = 'many'\n", "jobs.toml:1: --gpus"),
        ("[[job]]\ncommand = ['true']\nhold = 1\n", "hold is true or false"),
        (
            "[[job]]\nname='a'\nafter=['b']\ncommand=['true']\n[[job]]\nname='b'\nafter=['a']\ncommand=['true']\n",
            "a waits for b, which waits for a",
        ),
        ("[[job]]\nname='a'\nafter=['a']\ncommand=['true']\n", "a waits for a"),
        ("[[job]]\nname='a'\ncommand=['true']\n[[job]]\nname='a'\ncommand=['true']\n", "two jobs named a"),
        ("[[job]]\ncommand = ['echo', '{x}']\ngrid.y = [1]\n", "{x}"),
        ("job = 3\n", "expected tables: [[job]]"),
        ("[[job]\n", "jobs.toml:1:"),
    ],
)
def test_a_mistake_in_a_job_file(queue, text, says):
    (queue.work / "jobs.toml").write_text(text)
    message = queue.refused("submit", "--file", "jobs.toml")
    assert says in message, message
    assert queue("jobs") == "no jobs\n"


def test_a_mistake_in_a_directive_names_its_line(queue):
    script = queue.work / "x.sh"
    for text, says in [("#!/bin/sh\n#THOLE --gpu 2\n", "x.sh:2: submit: unknown option"),
                       ("#!/bin/sh\n#THOLE true\n", 'x.sh:2: "true" is no option'),
                       ("#!/bin/sh\necho\n#THOLE -g 2\n", "x.sh:3: a #THOLE line after the first command"),
                       ("#!/bin/sh\n#THOLE --name 'a\n", "x.sh:2: a quote is not closed"),
                       *((f"#!/bin/sh\n#THOLE -g 1\n#THOLE -g 2 {words}\n", f"x.sh:3: {words.split()[0]} is about one call")
                         for words in ("--dry-run", "--help", "--version", "--json", "--quiet", "--verbose", "--no-color",
                                       "--machine 2xA100", "--state-dir /x", "--queue-dir /x", "--file jobs.toml"))]:
        script.write_text(text)
        script.chmod(0o755)
        message = queue.refused("submit", "./x.sh")
        assert says in message, message
    assert queue("jobs") == "no jobs\n"


@pytest.mark.parametrize("verb", ["jobs", "logs", "wait", "cancel", "retry", "hold", "resume", "pause", "continue"])
def test_a_job_that_is_none(queue, verb):
    queue.drain()
    queue.submit("-n", "training", "true")
    assert "no job 7" in queue.refused(verb, "7") and "the newest is 1" in queue.refused(verb, "7")
    message = queue.refused(verb, "trainign")
    assert "did you mean training?" in message
    assert "5 comes after 3" in queue.refused(verb, "5-3")
    assert "no task 1.4" in queue.refused(verb, "1.4")


def test_a_dependency_cycle_is_named(queue):
    queue.drain()
    queue.submit("true")
    queue.submit("--after", "1", "true")
    queue.submit("--after", "2", "true")
    message = queue.refused("edit", "1", "--after", "3")
    assert "1 waits for 3, which waits for 2, which waits for 1" in message
    assert queue.job(1)["after"] == []


def test_what_has_started_cannot_be_edited(queue):
    with queue.gate() as gate:
        number = queue.submit("-g0", "cat", gate)
        queue.reaches(number, "running")
        assert f"job {number} has started" in queue.refused("edit", number, "--priority", "3")
        queue("cancel", number)
        queue.run("wait", number)
    assert f"job {number} has ended" in queue.refused("edit", number, "--priority", "3")


def test_an_edit_must_say_something_that_can_be(queue):
    queue.drain()
    queue.submit("true")
    assert "nothing to change" in queue.refused("edit", "1")
    assert "soon" in queue.refused("edit", "1", "--begin", "soon")
    assert "--at-most" in queue.refused("edit", "1", "--at-most", "0")
    assert "whole jobs" in queue.refused("edit", "1.0", "--priority", "1")
    message = queue.refused("edit", "1", "-t", "7")
    assert "minutes or hours?" in message and "7 seconds" not in message


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody whom modes bind")
@pytest.mark.parametrize("words", [[], ["--directory", "."], ["--directory", "below"], ["--snapshot"]], ids=" ".join)
def test_a_directory_that_cannot_be_entered_is_said_at_once(words):
    with tempfile.TemporaryDirectory() as place:   # where another user comes to
        os.chown(place, 65534, 65534)
        closed = pathlib.Path(place) / "closed"
        (closed / "below").mkdir(parents=True)
        env = {**os.environ, "HOME": place, "THOLE_MACHINE": "2xA100", "THOLE_STATE_DIR": f"{place}/state",
               "THOLE_QUEUE_DIR": f"{place}/queue"}
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
        submit = ["sh", "-c", 'cd closed && chmod 000 . && exec "$@"', "sh", *become, THOLE, "submit", *words, "true"]
        done = subprocess.run(submit, cwd=place, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        assert done.returncode == 69 and "closed" in done.stderr and "Permission denied" in done.stderr, done
        assert not (pathlib.Path(place) / "queue/queue.db").exists()


def test_a_directory_that_is_gone_is_said_at_once(queue):
    done = subprocess.run(["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh", THOLE, "submit", "true"],
                          cwd=queue.work, env=queue.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 69 and "working directory cannot be used" in done.stderr


def test_a_state_that_is_another_one_to_us(queue):
    assert "--state running" in queue.refused("jobs", "--state", "queued,paused")


def test_a_mask_that_leaves_nothing_is_refused(queue):
    message = queue.refused("submit", "true", env={"CUDA_VISIBLE_DEVICES": ""})
    assert "CUDA_VISIBLE_DEVICES leaves none" in message and "unset" in message

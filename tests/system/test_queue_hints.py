"""What the queue's commands say that leads on: of what has gone wrong unseen, and of the verb that was meant."""
import os
import re
import shlex
import subprocess

import pytest

from queue_tools import Queue
from run_tools import THOLE, eventually


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


def told(done):
    assert done.returncode in (0, 64, 69), done
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("command, status", [("exit 3", "3"), ("no-such-mailer me", "127"), ("if", "2")])
def test_a_command_of_notify_that_fails_is_told(queue, command, status):
    job = queue.submit("-q", "-g", "0", "--notify", command, "true")
    queue("wait", job)
    said = f"its --notify command failed: exit status {status}"
    eventually(lambda: said in told(queue.run("why", "job", job)), "why says so")
    well = queue.submit("-q", "-g", "0", "--notify", "echo told > told", "true")
    queue("wait", well)
    eventually(lambda: (queue.work / "told").exists(), "it was run")
    assert "--notify" not in told(queue.run("why", "job", well))


def test_the_last_lines_of_a_log_are_lines_of_their_own(queue):
    open_line, whole = queue.submit("-q", "-g", "0", "printf", "abc"), queue.submit("-q", "-g", "0", "echo", "abc")
    queue("wait", open_line, whole)
    for job in (open_line, whole):
        *_, before, last = queue("logs", job).splitlines()
        assert (before, last[:8]) == ("abc", "# ended "), (before, last)


def test_who_releases_a_job_is_led_to_the_verb_that_helps(queue):
    with queue.gate() as gate:
        runs = queue.submit("-q", "-g", "1", "-n", "train", "cat", gate.name)
        queue.reaches(runs, "running")
        held = queue.submit("-q", "-g", "1", "-n", "later", "--hold", "true")
        assert f"thole cancel {runs}" in told(queue.run("release", "train"))
        for word in ("later", held):
            assert f"job {held} (later) of your queue is held: thole resume {held}" in told(queue.run("release", word))
        queue("pause", runs)
        said = told(queue.run("release", "train"))
        assert f"job {runs} (train) of your queue is paused, and keeps its GPUs: thole continue {runs}, or thole cancel" in said
        queue("continue", runs)
    queue("resume", held)
    queue("wait", runs, held)
    for word in ("train", "later"):
        assert "of your queue" not in told(queue.run("release", word))


def test_a_job_without_a_name_is_named_by_its_number_alone(queue):
    job = queue.submit("-q", "-g", "0", "--hold", "true")
    assert f"job {job} of your queue is held: thole resume {job}" in told(queue.run("release", "@"))


def test_who_means_another_verb_is_led_to_it(queue):
    with queue.gate() as gate:
        runs = queue.submit("-q", "-g", "1", "cat", gate.name)
        queue.reaches(runs, "running")
        held = queue.submit("-q", "--hold", "-g", "1", "true")
        assert "nothing is paused; what is held is let go by: thole resume" in told(queue.run("continue", held))
        edited = told(queue.run("edit", runs, "-t", "1h"))
        assert f"thole pause {runs} stops it" in edited and f"thole cancel {runs} ends it" in edited
        queue("pause", runs)
        assert f"nothing is held; what is paused goes on by: thole continue {runs}" in told(queue.run("resume", runs))
        queue("continue", runs)
        queue("resume", held)
    queue("wait", runs, held)


# A job that is its own object would go on without end.

def test_a_job_that_waits_leaves_itself_out(queue):
    number = queue.submit("-g0", "sh", "-c", f"{THOLE} submit -g0 true && {THOLE} wait")
    assert queue.run("wait", number).returncode == 0, queue("logs", number)
    assert queue.job(int(number) + 1)["state"] == "done"


@pytest.mark.parametrize("name", ["$THOLE_JOB", "$THOLE_JOB.$THOLE_TASK_INDEX", "@", "all"])
def test_a_job_that_waits_for_itself_by_name_is_refused(queue, name):
    number = queue.submit("-g0", "sh", "-c", f"{THOLE} wait {name}")
    assert queue.run("wait", number).returncode == 64
    assert "would wait for itself" in queue("logs", number)


def test_another_queue_is_waited_for_whatever_its_jobs_numbers_are(queue, tmp_path):
    (tmp_path / "other").mkdir()
    other = Queue(tmp_path / "other")
    assert other.submit("-g0", "true") == 1
    number = queue.submit("-g0", "env", f"THOLE_QUEUE_DIR={other.directory}", THOLE, "wait", "1")
    assert number == 1 and queue.run("wait", number).returncode == 0, queue("logs", number)


@pytest.mark.parametrize("words", ["", "-f"])
def test_a_job_does_not_write_its_own_log_behind_itself(queue, words):
    number = queue.submit("-g0", "sh", "-c", f"echo hello; {THOLE} logs {words}")
    assert queue.run("wait", number).returncode == 64
    text = queue("logs", number)
    assert text.splitlines().count("hello") == 1 and "is where this writes" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="a host is renamed by root alone")
@pytest.mark.parametrize("words, status", [("wait", 0), ("wait 1", 64), ("cancel all", 64), ("logs 1", 64), ("jobs", 0)])
def test_on_a_renamed_host_the_old_queue_is_named(tmp_path, words, status):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "THOLE_MACHINE": "8xA100",
                   "THOLE_STATE_DIR": str(tmp_path / "state")}
    assert subprocess.run([THOLE, "submit", "-q", "-g", "0", "true"], env=environment, cwd=tmp_path).returncode == 0
    subprocess.run([THOLE, "wait"], env=environment, cwd=tmp_path, check=True)
    renamed = ["unshare", "-u", "sh", "-c", 'hostname elsewhere; exec "$@"', "sh", THOLE, *words.split()]
    done = subprocess.run(renamed, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status and "another queue of yours: " in done.stderr, done
    see_it = re.search("see it by: thole (--queue-dir .* jobs)", done.stderr)[1]
    assert "1" in subprocess.check_output([THOLE, *shlex.split(see_it)], env=environment, text=True)

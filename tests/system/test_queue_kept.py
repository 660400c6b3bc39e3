"""A queue that somebody keeps from being written, or on which nobody can be started: who it is and what became of what was
said, and nobody waits in silence."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from queue_inside import Queue
from run_tools import THOLE, Started, eventually, state_of

STOPPED_WRITER = """
import fcntl, os, signal, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)
print("in", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path)
    made.call("drain")
    yield made
    made.end_everything()


@pytest.fixture
def writer(queue):
    """A process that was stopped in the turnstile."""
    with Started([sys.executable, "-c", STOPPED_WRITER, str(queue.directory / "turnstile")]) as stopped:
        assert stopped.line() == "in"
        eventually(lambda: state_of(stopped.pid) == "T", "it is stopped")
        yield stopped


@pytest.mark.parametrize("words", ["submit -g 0 true", "cancel all", "hold all", "edit 1 --priority 3", "drain --off"])
def test_who_keeps_the_queue_from_being_written_is_named_and_control_c_works(queue, words, request):
    queue.submit("-g", "0", "true")
    writer = request.getfixturevalue("writer")
    waiting = subprocess.Popen([THOLE, *words.split()], env=queue.environment, cwd=queue.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = waiting.stderr.readline() + waiting.stderr.readline()
        assert f"pid {writer.pid}" in said and "stopped" in said and str(queue.directory / "turnstile") in said, said
        assert "kill -CONT" in said
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) in (-signal.SIGINT, 130)
    finally:
        waiting.kill()
        waiting.wait()


def test_doctor_names_who_keeps_the_queue_and_does_not_wait_for_it(queue, writer):
    done = subprocess.run([THOLE, "--json", "doctor"], env=queue.environment, cwd=queue.folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    about = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "queue"]
    assert [check["result"] for check in about] == ["problem"], about
    assert f"pid {writer.pid}" in about[0]["text"] and "stopped" in about[0]["text"] and "kill -CONT" in about[0]["fix"], about
    os.kill(writer.pid, signal.SIGCONT)
    writer.wait()
    done = subprocess.run([THOLE, "--json", "doctor"], env=queue.environment, cwd=queue.folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    about = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "queue"]
    assert "problem" not in [check["result"] for check in about], about


def test_who_waits_goes_on_when_the_writer_does_and_who_only_looks_never_waits(queue, writer):
    assert queue.call("jobs").stderr == ""
    waiting = subprocess.Popen([THOLE, "submit", "-q", "-g", "0", "true"], env=queue.environment, cwd=queue.folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert f"pid {writer.pid}" in waiting.stderr.readline()
    os.kill(writer.pid, signal.SIGCONT)
    out, _ = waiting.communicate(timeout=120)
    assert (waiting.returncode, out) == (0, "1\n")


def test_what_is_stored_where_no_runner_can_be_started_is_said_to_be_and_is_no_failure():
    """A limit of processes, of a user who has no other (root has none)."""
    user = 54_877 if os.geteuid() == 0 else os.geteuid()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        program, own = shutil.copy(THOLE, folder), f"{folder}/own"
        os.mkdir(own, 0o700)
        if os.geteuid() == 0:
            os.chown(own, user, user)
        environment = {"PATH": os.environ["PATH"], "HOME": own, "THOLE_MACHINE": "1xA100", "THOLE_QUEUE_DIR": f"{own}/queue",
                       "THOLE_STATE_DIR": f"{own}/state", "THOLE_PERSONAL_DIR": f"{own}/personal"}
        as_user = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}

        def thole(*words):
            return subprocess.run([program, *words], env=environment, cwd=own, capture_output=True, text=True, timeout=120,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)), **as_user)

        for words in (["submit", "true"], ["edit", "1", "--priority", "5"], ["hold", "1"], ["resume", "1"],
                      ["drain", "--off"], ["cancel", "1"]):
            done = thole(*words)
            said = " ".join(done.stderr.split())
            assert done.returncode == 0, (words, done.stderr)
            assert ("it is stored" in said or "it is queued" in said) and "ulimit -u" in said and "thole jobs" in said, said
        jobs = thole("--json", "jobs", "1")
        assert '"cancelled"' in jobs.stdout, jobs

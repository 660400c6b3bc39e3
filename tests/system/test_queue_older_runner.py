"""A runner of a build from before the record lock lives on while the program is replaced: a flock of `runner` is all it has."""
import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

from queue_inside import queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, eventually, gone

# It hears and does nothing: what is told to it alone is never done.
OLDER = """
import ctypes, fcntl, os, sys, time
directory = sys.argv[1]
ctypes.CDLL(None).prctl(15, b"thole-runner", 0, 0, 0)          # PR_SET_NAME
wake = os.open(directory + "/wake", os.O_RDWR)
lock = os.open(directory + "/runner", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
os.ftruncate(lock, 0)
os.pwrite(lock, f"{os.getpid()}\\n".encode(), 0)
print("sits", flush=True)
time.sleep(600)
"""


@pytest.fixture
def older(queue):
    queue.until_ended(queue.submit("-g", "0", "--", "true"))   # makes the files
    eventually(lambda: queue.runner() is None, "the runner leaves")
    process = subprocess.Popen([sys.executable, "-c", OLDER, str(queue.directory)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "sits\n"
    yield process
    process.kill()
    process.communicate()


def test_a_newer_runner_replaces_one_that_has_the_flock_alone(queue, older):
    job = queue.submit("-g", "0", "--", "true")
    assert older.wait(60) == -9                    # else two would work on one queue
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}


def test_an_older_program_sees_that_a_newer_runner_lives(queue):
    queue.submit("-g", "0", "--", "sleep", "600")
    queue.until_asleep()
    eventually(queue.runner, "it sits")
    with open(queue.directory / "runner", "rb") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_somebody_else_with_the_flock_keeps_no_runner_from_its_seat(queue):
    """A lane that was just forked when its runner was killed; here for good, and under another name."""
    queue.until_ended(queue.submit("-g", "0", "--", "true"))
    eventually(lambda: queue.runner() is None, "the runner leaves")
    with open(queue.directory / "runner", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        queue.until_ended(queue.submit("-g", "0", "--", "true"))


# Somebody has the number there that the older runner has here, and /proc is that of here.
NUMBERED = f"""
echo "$1" > /proc/sys/kernel/ns_last_pid
sleep 600 &
echo "$!"
{THOLE} submit -q -g 0 -- true && {THOLE} wait --timeout 60s > /dev/null 2>&1
kill -0 "$!" && echo lives
"""


def test_nobody_else_is_killed_for_it_in_another_pid_namespace(queue, older):
    if os.geteuid() != 0:
        pytest.skip("needs root, to choose a process id")
    inner = ["unshare", "-m", "-p", "-f", "--kill-child"]
    if subprocess.run([*inner, "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces of one's own can be made here")
    pid = older.pid
    assert pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace") == "thole-runner\n"
    told = subprocess.run([*inner, "sh", "-c", NUMBERED, "sh", str(pid - 1)], env=queue.environment, cwd=queue.folder,
                          capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert told.stdout.split()[0] == str(pid), told.stderr
    assert told.stdout.split()[-1] == "lives", told.stderr
    assert older.poll() is None

"""A process whose first thread has ended while another works is no zombie, though /proc/PID shows it as one."""
import os
import shutil
import sys

import pytest

import claim_box
from claim_box import thole
from run_tools import THOLE, Started, eventually, python, state_of

# Its first thread ends (exit: 60 on x86_64, 93 elsewhere), another one waits for a file that never comes.
WORKS_ON = """
import ctypes, os, platform, threading, time
def work():
    while not os.path.exists("/nosuch/file"): time.sleep(0.05)
threading.Thread(target=work).start()
open(os.environ["here"] + "/pid", "w").write(str(os.getpid()))
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)
"""
LEAVES_IT = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", os.environ["WORKS_ON"]], start_new_session=True, stdin=subprocess.DEVNULL,
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=sys.argv[1] == "close")
while True:
    time.sleep(0.05)
    try: pid = int(open(os.environ["here"] + "/pid").read())
    except (OSError, ValueError): continue
    if open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z": break
"""


@pytest.fixture
def box(tmp_path):
    with claim_box.made(tmp_path, "2xA100", here=str(tmp_path), WORKS_ON=WORKS_ON) as environment:
        yield environment


def has_ended(pid):
    """state_of() sees its first thread alone."""
    return not os.path.exists(f"/proc/{pid}") or len(os.listdir(f"/proc/{pid}/task")) < 2


@pytest.mark.parametrize("descriptors", ["close", "inherit"])
def test_left_behind_it_is_named_and_ended(box, tmp_path, descriptors):
    done = thole(box, "run", "-g", "1", "--", *python(LEAVES_IT), descriptors)
    assert done.returncode == 0, done.stderr
    pid = int((tmp_path / "pid").read_text())
    assert f"{pid} " in done.stderr, done.stderr
    assert has_ended(pid)


def test_a_queue_ends_it_with_its_task(box, tmp_path):
    assert thole(box, "submit", "-q", "-g", "1", "--", *python(LEAVES_IT), "close").returncode == 0
    assert thole(box, "wait", "1").returncode == 0
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_a_claim_for_such_a_process_lasts_as_long_as_it(box, tmp_path):
    with Started(python(WORKS_ON), env=box) as process:
        eventually(lambda: (tmp_path / "pid").exists() and state_of(process.pid) == "Z", "its first thread has ended")
        assert thole(box, "claim", "-q", "-g", "2", "--pid", str(process.pid)).returncode == 0
        assert thole(box, "run", "--no-wait", "-g", "1", "--", "true").returncode == 75
        os.kill(process.pid, 9)
    eventually(lambda: thole(box, "run", "--no-wait", "-g", "2", "--", "true").returncode == 0, "its claim has ended")


def test_it_claims_inside_its_claim(box, tmp_path):
    inside = WORKS_ON.replace('while not os.path.exists("/nosuch/file"): time.sleep(0.05)', "\n    ".join([
        "import subprocess",
        'while open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.05)',
        f'os._exit(subprocess.run(["{THOLE}", "run", "-q", "-g", "1", "--", "true"]).returncode)']))
    done = thole(box, "run", "-q", "--no-supervisor", "-g", "2", "--", sys.executable, "-c", inside)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("lost", ["state", "parent"])
def test_what_is_lost_under_its_claim_gets_no_second_owner(box, tmp_path, lost):
    """Its locks are seen by its descriptors, which are with its living thread."""
    parent = tmp_path / "parent"
    parent.mkdir()
    place = {**box, "THOLE_STATE_DIR": str(parent / "state")}
    with Started([THOLE, "run", "-q", "--no-supervisor", "-g", "2", "--", sys.executable, "-c", WORKS_ON], env=place) as job:
        eventually(lambda: (tmp_path / "pid").exists() and state_of(job.pid) == "Z", "its first thread has ended")
        shutil.rmtree(parent / "state" if lost == "state" else parent)
        parent.mkdir(exist_ok=True)
        done = thole(place, "run", "-q", "--no-wait", "--trust-claims", "-g", "1", "--", "true")
        assert done.returncode == 69, done.stderr
        os.kill(job.pid, 9)
    eventually(lambda: thole(place, "run", "-q", "--no-wait", "-g", "2", "--", "true").returncode == 0, "its claim has ended")

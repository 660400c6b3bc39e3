"""Many `thole run` at the same moment, by two users: never two owners, all finish, in order where order is promised.

Every job proves its ownership by a lock of another kind (a POSIX record lock on a file per UUID), taken without waiting.
"""
# ctest: timeout 600
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from run_tools import THOLE, eventually

USERS = (60001, 60002)

JOB = r"""
import fcntl, json, os, random, select, sys
proof, journal = sys.argv[1], sys.argv[2]
held = []
for gpu in json.loads(os.environ["THOLE_GPUS"]):
    file = open(os.path.join(proof, gpu["uuid"]), "r+")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("TWO OWNERS of", gpu["uuid"], flush=True)
        sys.exit(99)
    held.append(file)
with open(journal, "a") as f:
    f.write(" ".join([sys.argv[3]] + [gpu["uuid"] for gpu in json.loads(os.environ["THOLE_GPUS"])]) + "\n")
select.select([], [], [], random.uniform(0, 0.02))   # the work
"""


def python_for(user):
    """An interpreter that this user can run; root's own may lie in root's home."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        try:
            if subprocess.run([candidate, "-c", ""], user=user, cwd="/", capture_output=True).returncode == 0:
                return candidate
        except OSError:
            pass
    pytest.skip(f"uid {user} has no Python to run")


class Box:
    """An 8-GPU simulated machine whose claims two users share."""

    def __init__(self, folder):
        self.folder = folder
        folder.chmod(0o755)
        self.state = folder / "state"
        self.program = folder / "thole"          # a build folder may be closed to others
        shutil.copy(THOLE, self.program)
        self.program.chmod(0o755)
        self.python = python_for(USERS[0])
        self.proof = folder / "proof"
        self.proof.mkdir()
        self.proof.chmod(0o777)
        self.journal = folder / "journal"
        self.journal.touch()
        self.journal.chmod(0o666)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("THOLE")}
        for gpu in self.status()["gpus"]:
            (self.proof / gpu["uuid"]).touch()
            (self.proof / gpu["uuid"]).chmod(0o666)

    def command(self, *words):
        return [str(self.program), "--machine", "8xA100", "--state-dir", str(self.state), *words]

    def status(self):
        done = subprocess.run(
            self.command("status", "--json"), capture_output=True, text=True, env=self.environment, check=True
        )
        return json.loads(done.stdout)

    def start(self, name, gpus, user, *more):
        return subprocess.Popen(self.command("run", "-q", "-g", str(gpus), *more, "--", self.python, "-c", JOB,
                                             str(self.proof), str(self.journal), name),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment,
                                cwd="/", user=user)

    def lines(self):
        return self.journal.read_text().splitlines()


@pytest.fixture
def box(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("two users need root to become them")
    # Not pytest's own folder: that one is closed to other users.
    with tempfile.TemporaryDirectory(prefix="thole-race-", dir="/tmp") as folder:
        box = Box(pathlib.Path(folder))
        subprocess.run(box.command("run", "-q", "true"), env=box.environment, check=True)   # the state directory, made by root
        yield box


def finish(jobs, seconds=240):
    for job in jobs:
        output, _ = job.communicate(timeout=seconds)
        assert job.returncode == 0, output


def all_free(box):
    return not [claim for claim in box.status()["claims"] if claim["held"]]


@pytest.mark.parametrize("widths", [(1,), (1, 2, 4, 8)], ids=["one GPU each", "gangs of 1, 2, 4, 8"])
def test_sixty_four_at_once_never_share_a_gpu_and_all_finish(box, widths):
    jobs = [box.start(f"job{i}", widths[i % len(widths)], USERS[i % 2]) for i in range(64)]
    finish(jobs)
    lines = box.lines()
    assert len(lines) == 64
    for line in lines:
        name, *uuids = line.split()
        assert len(uuids) == len(set(uuids)) == widths[int(name[3:]) % len(widths)]
    eventually(lambda: all_free(box), "every GPU free within a second of the last end", 1.0)
    assert box.status()["queue"] == []


def test_who_came_first_starts_first(box):
    gate_read, gate_write = os.pipe()
    holder = subprocess.Popen(box.command("run", "-q", "-g", "8", "--", "cat"), stdin=gate_read, env=box.environment)
    os.close(gate_read)
    eventually(lambda: len([claim for claim in box.status()["claims"] if claim["held"]]) == 8, "the holder holds all")
    jobs = []
    for i in range(10):
        jobs.append(box.start(f"{i}", 8, USERS[i % 2]))
        eventually(lambda: len(box.status()["queue"]) == i + 1, f"job {i} waits in line")
    os.close(gate_write)
    finish(jobs)
    assert holder.wait(timeout=20) == 0
    assert [line.split()[0] for line in box.lines()] == [str(i) for i in range(10)]


def test_a_wide_request_is_not_starved_by_narrow_ones(box):
    gate_read, gate_write = os.pipe()
    holder = subprocess.Popen(box.command("run", "-q", "-g", "1", "--", "cat"), stdin=gate_read, env=box.environment)
    os.close(gate_read)
    eventually(lambda: len([claim for claim in box.status()["claims"] if claim["held"]]) == 1, "one GPU is held")
    wide = box.start("wide", 8, USERS[0])
    eventually(lambda: len(box.status()["queue"]) == 1, "the wide one waits")
    narrow = [box.start(f"narrow{i}", 1, USERS[1]) for i in range(16)]
    eventually(lambda: len(box.status()["queue"]) == 17, "the narrow ones wait behind it, although seven GPUs are idle")
    os.close(gate_write)
    finish([wide, *narrow])
    holder.wait(timeout=20)
    assert box.lines()[0].split()[0] == "wide"


def test_a_killed_holder_frees_within_a_second(box):
    holder = subprocess.Popen(box.command("run", "-q", "-g", "8", "--", "cat"), stdin=subprocess.PIPE, env=box.environment,
                              start_new_session=True)
    eventually(lambda: len([claim for claim in box.status()["claims"] if claim["held"]]) == 8, "the holder holds all")
    os.killpg(holder.pid, 9)
    holder.wait(timeout=20)
    eventually(lambda: all_free(box), "free after kill -9 of the supervisor and its job", 1.0)

"""What /proc hides of a command from its own user, who has started it (hidepid=2 and a program that is not readable, `sg`, a
file capability): its ends reach it all the same."""
import json
import os
import shutil
import signal
import subprocess

import pytest

from hostile import SITE_GID, USERS, lab  # noqa: F401
from run_tools import eventually, state_of

SOON = "300ms"                                                      # between the steps of an end
pytestmark = pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)


class Closed:
    """Programs that may be run and not read: with hidepid=2 their processes are shown to root alone."""

    def __init__(self, lab, user="alice"):
        self.lab, self.user = lab, user
        for name in ("sh", "sleep"):
            shutil.copy(f"/bin/{name}", self.path(name))
            os.chmod(self.path(name), 0o711)

    def path(self, name):
        return str(self.lab.folder / f"closed-{name}")

    def pids(self, name="sleep"):
        """Of the living processes of this program."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{entry}/exe") == self.path(name) and state_of(int(entry)) not in ("Z", "X", None):
                    found.append(int(entry))
            except OSError:
                continue
        return found

    def runs(self):
        """Waits for the closed sleep; its pid. It is hidden where it should be."""
        [pid] = eventually(self.pids, "the command runs")
        hidden = self.lab.run(self.user, "test", "-e", f"/proc/{pid}").returncode != 0
        assert hidden == ("hidepid" in self.lab.words)
        return pid

    def is_gone(self):
        eventually(lambda: not self.pids() and not self.pids("sh"), lambda: f"it has been ended: {self.pids()}")

    def thole(self, *words, check=True):
        return self.lab.thole(self.user, *words, check=check).stdout

    def submit(self, *words):
        return self.thole("submit", "-g", "0", *words).strip()

    def job(self, number):
        [job] = json.loads(self.thole("--json", "jobs", number))["jobs"]
        return job

    def reaches(self, number, state):
        eventually(lambda: self.job(number)["state"] == state, lambda: f"job {number} is {state}: {self.job(number)['state']}")

    def nest(self):
        """A closed shell that waits for a closed program: the one that does the work is nobody's child of ours."""
        return [self.path("sh"), "-c", f"{self.path('sleep')} 600; :"]


@pytest.fixture
def closed(lab):  # noqa: F811
    lab.init()
    return Closed(lab)


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
def test_cancel_ends_a_job_that_proc_hides(closed, nested):
    job = closed.submit("--", *(closed.nest() if nested else [closed.path("sleep"), "600"]))
    closed.runs()
    closed.thole("cancel", job)
    closed.is_gone()
    closed.reaches(job, "cancelled")


def test_a_jobs_limit_ends_what_proc_hides_beside_its_command_too(closed):
    job = closed.submit("--time", "1s", "--patience", SOON, "--", "sh", "-c",
                        f"setsid {closed.path('sleep')} 600 & {closed.path('sleep')} 601")
    eventually(lambda: len(closed.pids()) == 2, "both run")
    closed.is_gone()
    closed.reaches(job, "failed")


def test_what_a_job_leaves_behind_is_ended_though_proc_hides_it(closed, lab):  # noqa: F811
    job = closed.submit("--patience", SOON, "--", "sh", "-c", f"setsid {closed.path('sleep')} 600 & echo $!")
    closed.reaches(job, "done")
    closed.is_gone()
    log = closed.thole("logs", job)
    [pid] = filter(str.isdigit, log.splitlines())
    assert f"# left behind: {pid} " in log


def test_what_a_killed_lane_has_left_and_proc_hides_is_said_to_be_waited_for(closed, lab):  # noqa: F811
    """It gets no signal, and no command sends to another that does nothing."""
    gate, both = lab.folder / "gate", f"{closed.path('sleep')} 600 & {closed.path('sleep')} 601"
    job = closed.submit("--patience", SOON, "--", "sh", "-c",
                        f"setsid {closed.path('sh')} -c '{both}' & while [ ! -e {gate} ]; do sleep 0.02; done")
    hidden = eventually(lambda: len(closed.pids()) == 2 and closed.pids(), "both run")
    [lane] = lab.pids("thole-lane")
    os.kill(lane, signal.SIGKILL)
    gate.touch()
    def why():
        return " ".join(closed.thole("why", "job", job).split())
    seen = "none of the processes whose files can be seen"
    eventually(lambda: seen in why(), why)
    done = lab.thole("alice", "cancel", "--force", job)
    assert done.returncode == 64 and "is not over" in done.stderr and seen in done.stderr, done.stderr
    assert "sudo fuser -v" in done.stderr, done.stderr
    cancel = lab.thole("alice", "cancel", job)
    assert "it counts as running until nothing has that lock" in cancel.stderr, cancel.stderr
    assert closed.job(job)["state"] == "running" and closed.pids() == hidden
    for pid in hidden:
        os.kill(pid, signal.SIGKILL)
    closed.reaches(job, "done")


def test_pause_stops_what_proc_hides_and_continue_lets_it_go_on(closed):
    job = closed.submit("--", *closed.nest())
    pid = closed.runs()
    closed.thole("pause", job)
    eventually(lambda: state_of(pid) == "T", "it is stopped")
    closed.thole("continue", job)
    eventually(lambda: state_of(pid) == "S", "it goes on")
    closed.thole("cancel", job)
    closed.is_gone()


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
def test_a_limit_ends_a_command_that_proc_hides(closed, lab, nested):  # noqa: F811
    command = closed.nest() if nested else [closed.path("sleep"), "600"]
    with lab.start("alice", lab.program, "run", "--time", "1s", "-g", "1", "--", *command) as run:
        closed.runs()
        run.wait()
        assert not closed.pids(), "nothing of it is left when thole ends"


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
def test_a_signal_to_thole_leaves_nothing_running_that_proc_hides(closed, lab, nested):  # noqa: F811
    command = closed.nest() if nested else [closed.path("sleep"), "600"]
    with lab.start("alice", lab.program, "run", "-g", "1", "--", *command) as run:
        closed.runs()
        os.kill(run.pid, signal.SIGTERM)
        run.wait()
        assert not closed.pids(), "nothing of it is left when thole ends"


@pytest.mark.parametrize("later", [0, 0.02], ids=["at-once", "later"])
def test_map_ends_what_its_items_leave_behind_though_proc_hides_it(closed, lab, later):  # noqa: F811
    """Also what leaves the process group of its item only when that has ended."""
    leaves = f"(sleep {later}; exec setsid {closed.path('sleep')} 600) & :"
    done = lab.thole("alice", "map", "-g", "1", "--", "sh", "-c", leaves, ":::", "1")
    assert done.returncode == 0, done.stderr
    assert not closed.pids(), done.stderr


def test_a_runner_that_is_started_below_a_command_is_no_part_of_it_though_proc_hides_it(closed, lab):  # noqa: F811
    os.chmod(lab.program, 0o711)
    lab.thole("alice", "run", "-g", "1", "--", lab.program, "submit", "-g", "0", "--", "sleep", "600", check=True)
    assert closed.job("1")["state"] in ("queued", "running")
    closed.reaches("1", "running")
    closed.thole("cancel", "1")


def test_what_the_kernel_does_not_let_us_end_is_said(closed, lab):  # noqa: F811
    """A program that becomes root, as sudo does."""
    as_root = lab.folder / "as-root"
    shutil.copy(shutil.which("setpriv"), as_root)
    os.chmod(as_root, 0o4755)
    with lab.start("alice", lab.program, "run", "-q", "--time", "1s", "-g", "1", "--", as_root, "--reuid=0", "--regid=0",
                   "--clear-groups", closed.path("sleep"), "600") as run:
        [pid] = eventually(closed.pids, "the command runs")
        line = run.process.stderr.readline().decode()
        assert f"process {pid} " in line and "only their own user or root" in line, line
        os.kill(pid, signal.SIGKILL)
        run.wait()


def as_user_in_group(lab, user, gid, *words):  # noqa: F811
    """A command of this user in a shell of `newgrp`: his own process, in another group."""
    enter = lab.command("root", "setpriv", f"--reuid={USERS[user]}", f"--regid={gid}", "--clear-groups", "--", *words)
    return subprocess.run(enter, capture_output=True, text=True, cwd="/", timeout=60, env=lab.environment(user))


def test_a_runner_that_proc_hides_lives(closed, lab):  # noqa: F811
    """That of a user who goes on in a shell of newgrp."""
    first = closed.submit("--", "sleep", "600")
    closed.reaches(first, "running")
    for words in (["submit", "-g", "0", "--", "sleep", "601"], ["jobs"], ["cancel", "all"], ["wait", first]):
        done = as_user_in_group(lab, "alice", SITE_GID, lab.program, *words)
        assert "cannot end" not in done.stderr, (words, done.stderr)
        assert done.returncode == 0 or words[0] == "wait", (words, done.stderr)
    closed.reaches(first, "cancelled")

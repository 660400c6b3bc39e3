"""A task whose lane was killed, and whose processes show their environment to nobody but root: it is not lost while it lives,
and so never runs twice at once; its user can still end it."""
import os
import signal

import pytest

from hostile import interpreter, lab  # noqa: F401
from run_tools import eventually, gone, processes
from test_hostile_hidden import Closed

pytestmark = pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
CLOSES_ITS_FILES = "import os, sys; os.closerange(3, 256); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture
def closed(lab):  # noqa: F811
    lab.init()
    return Closed(lab)


def kill_the_lane(of):
    [lane] = [parent for pid, _, parent, _ in processes() if pid == of]
    os.kill(lane, signal.SIGKILL)
    eventually(lambda: gone(lane), "the lane has ended")


def is_known_as_left(closed, job, pid):
    eventually(lambda: f"process {pid}" in closed.thole("why", "job", job), lambda: closed.thole("why", "job", job))


@pytest.mark.parametrize("first", [CLOSES_ITS_FILES, CLOSES_ITS_FILES.replace("os.closerange(3, 256); ", "")],
                         ids=["without-the-lock", "with-the-lock"])
def test_a_closed_command_is_not_lost_while_it_lives_and_cancel_ends_it(closed, first):
    job = closed.submit("--retry", "1,lost", "--patience", "300ms", "--", interpreter(), "-c", first, closed.path("sleep"),
                        "600")
    pid = closed.runs()
    kill_the_lane(pid)
    is_known_as_left(closed, job, pid)
    closed.thole("submit", "-g", "0", "--", "true")                  # the runner has looked at everything by its end
    closed.reaches("2", "done")
    assert closed.job(job)["state"] == "running" and closed.pids() == [pid]
    closed.thole("cancel", job)
    closed.is_gone()
    closed.reaches(job, "cancelled")


@pytest.mark.parametrize("both", [False, True], ids=["lane killed", "lane and runner killed"])
def test_a_closed_process_of_a_login_that_began_later_keeps_no_task(closed, lab, both):  # noqa: F811
    """As an ssh-agent is."""
    job = closed.submit("--", "sh", "-c", f"echo up; while [ ! -e {lab.folder}/gate ]; do sleep 0.02; done; exit 4")
    eventually(lambda: "up" in closed.thole("logs", job), "it runs")
    with lab.start("alice", "setsid", closed.path("sleep"), "600") as agent:
        closed.runs()
        for pid in lab.pids("thole-lane", *["thole-runner"] * both):
            os.kill(pid, signal.SIGKILL)
        (lab.folder / "gate").touch()
        closed.reaches(job, "lost" if both else "failed")
        agent.kill(signal.SIGKILL)


def test_a_closed_process_that_has_outlived_its_command_is_waited_for(closed, lab):  # noqa: F811
    if "hidepid" in lab.words:
        pytest.skip("nothing tells of such a process")
    code = f"import os; os.closerange(3, 256); os.fork() or os.execv('{closed.path('sleep')}', ['sleep', '600']); os.wait()"
    job = closed.submit("--retry", "1,lost", "--", interpreter(), "-c", code)
    pid = closed.runs()
    [command] = [parent for one, _, parent, _ in processes() if one == pid]
    kill_the_lane(command)
    os.kill(command, signal.SIGKILL)
    is_known_as_left(closed, job, pid)
    closed.thole("submit", "-g", "0", "--", "true")
    closed.reaches("2", "done")
    assert closed.job(job)["state"] == "running" and closed.pids() == [pid]
    closed.thole("hold", job)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: closed.job(job)["state"] != "running", "it is over")

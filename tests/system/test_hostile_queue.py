"""A queue knows what is left of a task by a mark in the environment: what strangers write into theirs is nothing to it."""
import json
import os
import pathlib
import signal

import pytest

from hostile import end, lab  # noqa: F401 (the fixture)
from run_tools import eventually, gone

QUEUE = "/run/queue-of-root"
in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# Carries a mark, in its environment, and has a file open by whose name a lane would be found.
PRETENDER = """
import os, sys
os.mkfifo("/tmp/0.life", 0o600)
life = os.open("/tmp/0.life", os.O_RDWR)
print("up", flush=True)
sys.stdin.read()
"""


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1])


def environment_of(pid):
    return dict(word.split("=", 1) for word in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in word)


class Queue:
    """root's, with one job that runs and a process of mallory's that carries its very mark."""

    def __init__(self, lab):
        self.lab = lab
        pid_file = lab.folder / "task"
        tells_its_pid = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 600"
        self.job = self("submit", "-g", "0", "--", "sh", "-c", tells_its_pid).strip()
        self.task = int(eventually(lambda: pid_file.exists() and pid_file.read_text(), "the task runs"))
        eventually(lambda: pathlib.Path(f"/proc/{self.task}/comm").read_text(errors="replace") == "sleep\n", "it is itself")
        self.lane = parent_of(self.task)
        mark = eventually(lambda: environment_of(self.task).get("THOLE_TASK"), "the kernel shows what it was started with")
        assert mark.startswith(f"{self.job}.0.1") and mark.endswith("@" + QUEUE)
        self.pretender = lab.start_python("mallory", PRETENDER, THOLE_TASK=mark, THOLE_QUEUE_DIR=QUEUE)

    def __call__(self, *words):
        return self.lab.thole("root", *words, check=True, THOLE_QUEUE_DIR=QUEUE).stdout

    def is_in(self, state):
        [job] = json.loads(self("--json", "jobs", self.job))["jobs"]
        return job["state"] == state

    def close(self):
        end(self.pretender)                                         # with status 0: nobody has ended it


@in_one_surrounding
def test_a_strangers_process_keeps_no_dead_job_running(lab):
    queue = Queue(lab)
    os.kill(queue.lane, signal.SIGKILL)
    os.kill(queue.task, signal.SIGKILL)
    eventually(lambda: queue.is_in("failed"), "the job is told as ended though mallory's process goes on")
    queue.close()


@in_one_surrounding
def test_cancel_ends_no_strangers_process(lab):
    queue = Queue(lab)
    os.kill(queue.lane, signal.SIGKILL)
    eventually(lambda: parent_of(queue.task) != queue.lane, "the task has lost its lane")
    queue("cancel", queue.job)
    eventually(lambda: queue.is_in("cancelled") or queue.is_in("lost"), "the job has ended though mallory's process goes on")
    assert gone(queue.task)
    queue.close()


@in_one_surrounding
def test_a_mark_can_be_told_from_no_other(lab):
    queue = Queue(lab)
    words = {environment_of(queue.task)["THOLE_TASK"].split("@")[0].split(".")[3]}
    queue("cancel", queue.job)
    queue.close()
    for _ in range(2):
        queue("submit", "-g", "0", "--", "sh", "-c", f"echo $THOLE_TASK >> {lab.folder}/marks; sleep 600")
    marks = eventually(lambda: (told := lab.folder / "marks").exists() and (lines := told.read_text().split())[1:] and lines,
                       "two tasks more have begun")
    words |= {mark.split("@")[0].split(".")[3] for mark in marks}
    assert len(words) == 3 and all(len(word) == 16 for word in words), words

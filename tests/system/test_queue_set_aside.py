"""The queue's file is set aside or removed while a runner and lanes live: what runs ends well, and the new file is sound."""
import json
import os
import signal
import sqlite3
import subprocess

import pytest

from queue_inside import Queue
from run_tools import THOLE, eventually, gone, open_gate


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path, machine="2xA100")
    yield made
    made.end_everything()


def damage(path, size=20 * 4096):
    with open(path, "r+b") as file:
        file.write(os.urandom(size))


def all_into_the_file(path):
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    db.close()


def claims(queue):
    status = queue.call("--json", "status")
    return len(json.loads(status.stdout)["claims"])


@pytest.mark.parametrize("how", ["moved", "removed", "damaged", "damaged with its log"])
def test_a_file_set_aside_while_tasks_run(queue, how):
    gate = queue.folder / "gate"
    os.mkfifo(gate)
    # Two tasks that run, and many more that are to come.
    old = queue.submit("--array", "0-400%2", "--", "sh", "-c", f"echo began; cat {gate}; echo ended well")
    eventually(lambda: len([pid for pid in queue.commands()]) >= 4, lambda: f"two tasks run\n{queue.runner_log()}")
    queue.submit("--", "true")                    # its lane may stand in line already
    lanes = queue.lanes()
    file = queue.directory / "queue.db"
    if how == "damaged":
        all_into_the_file(file)
    if how.startswith("damaged"):
        damage(file)
        if "log" in how:
            damage(queue.directory / "queue.db-wal")
        said = queue.call("jobs", check=False)
        assert said.returncode == 69, said.stdout
        assert how != "damaged" or f"mv {file} {file}.damaged" in said.stderr, said.stderr
    if how == "removed":
        file.unlink()
    else:
        file.rename(f"{file}.damaged")

    new = queue.submit("-g", "0", "--", "true")   # the two GPUs are taken
    assert new > old, "a number that a living task has"
    queue.until_ended(new)
    assert queue.states(new) == {"done": 1}
    assert claims(queue) == 2                     # what runs has kept its GPUs
    assert set(lanes) & set(queue.lanes())

    behind = queue.submit("--", "true")           # gets them when it has ended, and the 399 others never begin
    open_gate(gate)
    queue.until_ended(behind)
    eventually(lambda: claims(queue) == 0, lambda: f"the claims are given back\n{queue.runner_log()}")
    assert queue.states(behind) == {"done": 1}
    lines = [line for path in (queue.directory / "logs" / str(old)).glob("*.log") for line in path.read_text().splitlines()]
    assert lines.count("began") == lines.count("ended well") == 2, lines
    assert queue.rows("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("kept, long_again",
                         [(None, False), (0, False), (100, False), (5000, False), (0, True), (5000, True)],
                         ids=["removed", "emptied", "cut", "cut between frames", "emptied and long again",
                              "cut and long again"])
def test_a_log_that_is_removed_or_cut_while_tasks_run_is_named_and_the_queue_goes_on(queue, kept, long_again):
    """Long again: who has it open goes on to write where he was, and leaves a hole."""
    gate = queue.folder / "gate"
    os.mkfifo(gate)
    old = queue.submit("-g", "1", "--", "true")
    queue.until_ended(old)
    all_into_the_file(queue.directory / "queue.db")
    queue.submit("-g", "1", "--", "cat", gate)      # stands in the log alone
    eventually(lambda: queue.commands(), lambda: f"it runs\n{queue.runner_log()}")
    runner = queue.runner()
    queue.kill([runner], signal.SIGSTOP)             # it would be the first to notice
    log = queue.directory / "queue.db-wal"
    size = log.stat().st_size
    log.unlink() if kept is None else os.truncate(log, kept)
    if long_again:
        os.truncate(log, size)
    doctor = " ".join(queue.call("doctor", check=False).stdout.split())
    assert "somebody has removed or cut the queue's log" in doctor, doctor
    queue.kill([runner], signal.SIGCONT)
    looked = queue.call("jobs")
    told = " ".join(looked.stderr.split())
    assert "what was only in that is lost" in told or "what was only in that is lost" in queue.runner_log(), told
    new = queue.submit("-g", "1", "--", "true")
    queue.until_ended(new)
    assert queue.states(new) == {"done": 1} and queue.states(old) == {"done": 1}
    assert "somebody has removed" not in queue.call("doctor", check=False).stdout
    open_gate(gate)
    eventually(lambda: not queue.lanes() and not queue.commands(), lambda: f"all end\n{queue.runner_log()}")
    assert claims(queue) == 0


@pytest.mark.parametrize("removed", [("-wal",), ("-wal", "-shm")], ids=["the log", "its index too"])
def test_a_job_after_a_lost_log_has_a_number_that_no_living_lane_asks_for(queue, removed):
    """Else lanes of the lost job took its tasks, and ran their own command in its place."""
    os.mkfifo(queue.folder / "gate")
    old = queue.submit("-g", "1", "--array", "0-7", "--", "sh", "-c", "echo old >> begun; cat gate")
    eventually(lambda: len(queue.commands()) == 4, lambda: f"four run\n{queue.runner_log()}")
    waiting = subprocess.Popen([THOLE, "wait", str(old)], env=queue.environment, stderr=subprocess.PIPE, text=True)
    eventually(lambda: list((queue.directory / "watch").glob("end.*")), "it waits")
    for part in removed:
        (queue.directory / f"queue.db{part}").unlink(missing_ok=True)   # who noticed the first may have put the other away
    new = queue.submit("-g", "0", "--array", "0-3", "--", "sh", "-c", "echo new >> begun")
    assert new > old
    queue.until_ended(new)
    assert queue.states(new) == {"done": 4}
    assert (queue.folder / "begun").read_text().split().count("new") == 4
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 69 and "no longer in the queue" in said, said
    queue.kill(queue.lanes())
    queue.kill(queue.commands())


def test_nor_when_who_noticed_that_was_killed_before_it_could_pass_over_them(queue):
    os.mkfifo(queue.folder / "gate")
    old = queue.submit("-g", "1", "--array", "0-7", "--", "cat", "gate")
    eventually(lambda: len(queue.commands()) == 2, lambda: f"two run\n{queue.runner_log()}")
    queue.kill([queue.runner(), *queue.lanes()], signal.SIGSTOP)
    (queue.directory / "queue.db-wal").unlink()
    (queue.directory / "queue.db-shm").rename(queue.directory / "queue.db-shm.lost")
    assert queue.submit("--hold", "--", "true") > old
    assert not (queue.directory / "queue.db-shm.lost").exists()
    queue.kill([queue.runner(), *queue.lanes()])
    queue.kill(queue.commands())


def test_whoever_waits_for_its_jobs_is_told(queue):
    gate = queue.folder / "gate"
    os.mkfifo(gate)
    job = queue.submit("--", "cat", str(gate))
    eventually(lambda: queue.states(job) == {"running": 1}, "it runs")
    waiting = subprocess.Popen([THOLE, "wait", str(job)], env=queue.environment, stderr=subprocess.PIPE, text=True)
    eventually(lambda: list((queue.directory / "watch").glob("end.*")), "it waits")
    (queue.directory / "queue.db").rename(queue.directory / "queue.db.old")
    open_gate(gate)                                # its lane has nobody to tell, and says so
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 69 and "set aside" in said, said


def test_the_whole_directory_is_removed_and_made_again(queue):
    gate = queue.folder / "gate"
    os.mkfifo(gate)
    queue.submit("--", "cat", str(gate))
    [lane] = eventually(queue.lanes, "a lane")
    runner = queue.runner()
    queue.directory.rename(queue.folder / "old")
    other = queue.submit("--", "true")
    queue.until_ended(other)
    assert queue.states(other) == {"done": 1}
    open_gate(gate)
    eventually(lambda: claims(queue) == 0, "the claim of the old one is given back")
    for pid in (lane, runner):
        eventually(lambda: gone(pid), "it leaves")
    db = sqlite3.connect(queue.folder / "old" / "queue.db")
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()

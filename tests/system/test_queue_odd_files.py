"""Something else under the names by which the processes of a queue find each other: each command says so and ends. And the
claim of a job, which has no keeper that could be asked."""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from queue_inside import Queue
from run_tools import THOLE, eventually, gone


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path)
    made.directory.mkdir(mode=0o700)
    yield made
    made.end_everything()


def put(path, kind):
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/nowhere/at/all")
    else:
        path.write_text("x")


ODD = [("wake", "directory"), ("wake", "link"), ("wake", "file"), ("runner", "directory"), ("runner", "link")]


@pytest.mark.parametrize("name, kind", ODD)
def test_what_is_submitted_is_kept_and_said_not_to_start(queue, name, kind):
    odd = queue.directory / name
    put(odd, kind)
    done = queue.call("submit", "-q", "--", "true")
    assert done.stdout == "1\n" and "nothing can start it now" in done.stderr, done.stderr
    assert str(queue.directory) in done.stderr and ("runner.log" in done.stderr or str(odd) in done.stderr), done.stderr
    looked = queue.call("jobs")
    assert "nothing can be started now" in looked.stderr, looked.stderr
    assert queue.states(1) == {"queued": 1}
    odd.rmdir() if kind == "directory" else odd.unlink()
    assert queue.call("jobs").stderr == ""   # which starts it
    queue.until_ended(1)
    assert queue.states(1) == {"done": 1}, queue.runner_log()


def test_a_proc_that_does_not_tell_the_boot_is_named_and_no_log_that_is_not_there(queue):
    within = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc/sys && exec "$@"', "-"]
    if subprocess.run([*within, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces of one's own can be made here")
    done = subprocess.run([*within, THOLE, "submit", "-q", "-g", "0", "--", "true"], env=queue.environment, cwd=queue.folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.stdout == "1\n" and "boot_id" in done.stderr and "runner.log" not in done.stderr, done.stderr
    queue.call("jobs")
    queue.until_ended(1)
    assert queue.states(1) == {"done": 1}, queue.runner_log()


@pytest.mark.parametrize("name, kind", ODD)
def test_a_wait_ends_at_its_time(queue, name, kind):
    put(queue.directory / name, kind)
    queue.call("submit", "-q", "--", "true")
    done = queue.call("wait", "--timeout", "1s", "@", check=False)
    assert done.returncode == 124 and "nothing can be started now" in done.stderr, (done.returncode, done.stderr)


def problems(queue):
    """Of its files, as doctor has them."""
    checks = json.loads(queue.call("doctor", "--json").stdout)["checks"]
    return [check for check in checks if check["name"] == "queue files"]


def without_processes(queue):
    """Its runner has nothing to do and leaves after a while; until then it makes anew what is taken away."""
    mark, left = f"THOLE_QUEUE_DIR={queue.directory}".encode(), 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                left += queue.kill([int(pid)])
    return left == 0


@pytest.mark.parametrize("name, kind", [*ODD, ("lanes/0", "directory"), ("lanes/0", "link"), ("lanes/0.life", "file"),
                                        ("lanes/0.mail", "directory"), ("lanes", "file"), ("logs", "file")])
def test_the_examination_names_what_lies_there_instead(queue, name, kind):
    queue.call("submit", "-q", "--hold", "-g", "0", "true")
    eventually(lambda: without_processes(queue), "its runner has ended")
    assert problems(queue) == []
    odd = queue.directory / name
    odd.parent.mkdir(mode=0o700, exist_ok=True)
    if odd.is_dir():
        odd.rmdir()
    odd.unlink(missing_ok=True)
    if odd.name.startswith("0."):
        put(odd.with_name("0"), "file")
    put(odd, kind)
    found, = problems(queue)
    assert found["result"] == "problem" and str(odd) in found["text"], found
    subprocess.run(["sh", "-c", found["fix"].partition(": ")[2]], check=True, timeout=60)
    assert problems(queue) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads what has no mode")
@pytest.mark.parametrize("name", ["lanes", "lanes/0"])
def test_the_examination_names_what_cannot_be_read(queue, name):
    queue.call("submit", "-q", "--hold", "-g", "0", "true")
    (queue.directory / "lanes").mkdir(mode=0o700, exist_ok=True)
    put(queue.directory / "lanes" / "0", "file")
    (queue.directory / name).chmod(0)
    found, = problems(queue)
    assert str(queue.directory / name) in found["text"] and "Permission denied" in found["text"], found
    subprocess.run(["sh", "-c", found["fix"].partition(": ")[2]], check=True, timeout=60)
    assert problems(queue) == []


@pytest.mark.parametrize("words", [["release", "0"], ["extend", "0", "1m"], ["run", "--in", "0", "--", "true"]])
def test_a_job_s_claim_without_a_door_is_named_with_the_job(queue, words):
    """Of an earlier build's lane, or where no directory could be made for it: here somebody has removed it."""
    gate, doors = queue.folder / "gate", queue.folder / "doors"
    os.mkfifo(gate)
    queue.environment["THOLE_PERSONAL_DIR"] = str(doors)
    job = queue.submit("-g", "1", "--on", "0", "--", "cat", str(gate))
    eventually(lambda: queue.commands(), lambda: f"it runs\n{queue.runner_log()}")
    [claim] = json.loads(queue.call("status", "--json").stdout)["claims"]
    shutil.rmtree(doors / claim["id"])
    done = queue.call(*words, check=False)
    assert done.returncode == 69, (done.returncode, done.stderr)
    assert f"is job {job}'s of your queue" in done.stderr and f"thole cancel {job}" in done.stderr, done.stderr
    elsewhere = queue.call(*words, check=False, THOLE_QUEUE_DIR=str(queue.folder / "other"))
    assert elsewhere.returncode == 69 and "can be asked" in elsewhere.stderr, elsewhere.stderr
    assert "No such file" not in elsewhere.stderr, elsewhere.stderr
    queue.call("cancel", str(job))
    queue.until_ended(job)


def test_one_lane_that_cannot_be_looked_at_keeps_no_other(queue):
    """Its task is neither lost nor begun again; mended, it is found."""
    first = queue.submit("-g", "0", "--", "sleep", "1000")
    queue.until_asleep()
    runner = queue.runner()
    record = queue.directory / "lanes" / "0"
    aside = record.with_name("0.aside")
    record.rename(aside)
    record.mkdir()
    queue.kill([runner])
    second = queue.submit("-g", "1", "--", "true")
    queue.until_ended(second)
    assert queue.states(second) == {"done": 1} and queue.states(first) == {"running": 1}, queue.runner_log()
    assert f"lane 0: cannot open a lane's record: {record}" in queue.runner_log()
    assert f"move it away: mv {record} {record}.away" in queue.runner_log()
    problem, = problems(queue)
    assert problem["text"] == f"this is no file: {record}" and problem["fix"] == f"move it away: mv {record} {record}.away"
    record.rmdir()
    aside.rename(record)
    queue.call("cancel", first)
    queue.until_ended(first)
    assert queue.states(first) == {"cancelled": 1} and problems(queue) == []


ODD_OF_A_LANE = [("0.life", "file"), ("0", "directory")]


def killed_with_odd_files(queue, name, kind):
    """A job whose lane is dead, and whose lane's files are no more what they were; its process, and what lies there."""
    job = queue.submit("-g", "1", "--", "sleep", "600")
    [sleeper] = queue.until_asleep()
    lanes = queue.lanes()
    odd = queue.directory / "lanes" / name
    odd.rename(queue.folder / "away")
    put(odd, kind)
    assert queue.kill(lanes) == 1
    eventually(lambda: gone(lanes[0]), "the lane is dead")
    return job, sleeper, odd


@pytest.mark.parametrize("name, kind", ODD_OF_A_LANE)
def test_a_dead_lane_that_cannot_be_looked_at_keeps_no_other_job_from_running(queue, name, kind):
    job, sleeper, odd = killed_with_odd_files(queue, name, kind)
    eventually(lambda: str(odd) in queue.runner_log(), "what is wrong, and where")
    other = queue.submit("-g", "1", "--", "true")
    queue.until_ended(other)
    assert queue.states(other) == {"done": 1} and queue.states(job) == {"running": 1}, queue.runner_log()
    odd.rmdir() if kind == "directory" else odd.unlink()
    (queue.folder / "away").rename(odd)
    queue.call("cancel", job)
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 1}, queue.runner_log()
    eventually(lambda: gone(sleeper), "its process has ended, too")


def is_free(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


@pytest.mark.parametrize("name, kind", [("0.life", "file"), ("0.mail", "file"), ("0", "directory")])
def test_a_lane_gets_other_files_where_those_of_a_number_cannot_be_used(queue, name, kind):
    first = queue.submit("-g", "0", "--", "true")
    queue.until_ended(first)
    with open(queue.directory / "lanes" / "0.life", "r+b", buffering=0) as life:
        eventually(lambda: is_free(life), "its lane has ended, too")
    odd = queue.directory / "lanes" / name
    odd.unlink()
    put(odd, kind)

    def is_named():              # a number is given anew once the runner, too, has seen the end of its lane
        other = queue.submit("-g", "0", "--", "true")
        queue.until_ended(other)
        assert queue.states(other) == {"done": 1}, queue.runner_log()
        return str(odd) in queue.runner_log()

    eventually(is_named, "the odd one is named, and jobs run all the same")

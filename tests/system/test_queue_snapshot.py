"""`submit --snapshot`: the job runs the code as it was, and no copy outlives its job, or its submitter who was killed."""
import contextlib
import fcntl
import signal
import subprocess

import pytest

from queue_tools import Queue
from run_tools import THOLE, Started, eventually


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path)
    yield made
    made.run("cancel", "all")


def copies(queue):
    return sorted((queue.directory / "snapshots").iterdir())


@contextlib.contextmanager
def nobody_writes(queue):
    """Submitters get as far as the storing of their jobs, and wait there."""
    with open(queue.directory / "turnstile", "r+") as turnstile:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        yield


def submitter_before_storing(queue):
    submitter = Started(
        [THOLE, "submit", "--snapshot", "-g0", "sh", "run.sh"], env=queue.env, cwd=queue.work, stdin=subprocess.DEVNULL
    )
    submitter.error_until("copied")
    return submitter


def test_the_job_runs_the_code_as_it_was_when_it_was_submitted(queue):
    queue.drain()
    (queue.work / "run.sh").write_text("echo as it was > \"$THOLE_SUBMIT_DIR/out\"\n")
    number = queue.submit("--snapshot", "-g0", "sh", "run.sh")
    (queue.work / "run.sh").write_text("echo edited > \"$THOLE_SUBMIT_DIR/out\"\n")
    queue("drain", "--off")
    assert queue.run("wait", number).returncode == 0
    assert (queue.work / "out").read_text() == "as it was\n"


def test_the_copy_of_a_submitter_who_was_killed_before_his_job_was_stored_goes_with_the_next_submission(queue):
    (queue.work / "run.sh").write_text("true\n")
    queue.submit("--hold", "true")
    with nobody_writes(queue), submitter_before_storing(queue) as submitter:
        [left] = copies(queue)
        submitter.kill(signal.SIGKILL)
        submitter.wait()
    number = queue.submit("--snapshot", "-g0", "sh", "run.sh")
    assert left not in copies(queue) and len(copies(queue)) == 1
    assert queue.run("wait", number).returncode == 0


def test_the_copy_of_a_submitter_who_is_only_slow_is_left_alone(queue):
    (queue.work / "run.sh").write_text("true\n")
    queue.submit("--hold", "true")
    with contextlib.ExitStack() as both:
        with nobody_writes(queue):
            # the second looked for abandoned ones
            submitters = [both.enter_context(submitter_before_storing(queue)) for _ in range(2)]
            assert len(copies(queue)) == 2
        assert [submitter.wait() for submitter in submitters] == [0, 0]
    assert queue.run("wait", "2,3").returncode == 0 and len(copies(queue)) == 2


def test_the_runner_removes_what_killed_submitters_left_when_it_leaves(queue):
    (queue.work / "run.sh").write_text("true\n")
    number = queue.submit("-g0", "true")
    with nobody_writes(queue), submitter_before_storing(queue) as submitter:
        submitter.kill(signal.SIGKILL)
        submitter.wait()
    assert queue.run("wait", number).returncode == 0
    eventually(lambda: not copies(queue), "the copy is gone", 60)


@pytest.mark.parametrize("repository", [False, True], ids=["plain", "git"])
@pytest.mark.parametrize("where", ["home", "named"])
def test_what_thole_keeps_itself_is_not_copied(queue, where, repository):
    """Submitted from the folder in which the queue lies: a home, or one that was named within the code."""
    environment = {name: value for name, value in queue.env.items() if name not in ("THOLE_QUEUE_DIR", "XDG_STATE_HOME")}
    environment["HOME"] = str(queue.work)
    if where == "named":
        environment["THOLE_QUEUE_DIR"] = str(queue.work / "jobs of mine")
    (queue.work / "data").write_bytes(bytes(100_000))
    (queue.work / ".local/share").mkdir(parents=True)
    (queue.work / ".local/share/kept").touch()
    if repository:
        subprocess.run(["git", "init", "-q", queue.work], check=True)
    copied = []
    for _ in range(3):
        done = subprocess.run(
            [THOLE, "submit", "--snapshot", "--hold", "-g0", "true"],
            env=environment,
            cwd=queue.work,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        copied.append(done.stderr.partition("copied ")[2].partition(" files")[0])
    assert copied == ["2"] * 3, "data and kept, each time"
    subprocess.run([THOLE, "cancel", "all"], env=environment, check=True, capture_output=True)

"""What a job keeps of where it was submitted, though the runner was started elsewhere; and what it cannot keep is said."""
import os
import resource
import shutil
import subprocess

import pytest

from queue_tools import Queue
from run_tools import THOLE, eventually

LIMITS = "ulimit -St; ulimit -Sf; ulimit -Sv; ulimit -Sn; ulimit -Sc"


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path)
    yield made
    made.run("cancel", "-q", "all")


def runner_of_somebody(queue, before):
    """A runner that was started with other limits or elsewhere, and is kept by a task; its pid."""
    done = subprocess.run(["bash", "-c", f'{before} "$0" submit -q -g 0 -- sleep 600', THOLE], env=queue.env, cwd=queue.work,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    eventually(lambda: (queue.directory / "runner").read_text(), "the runner has said who it is")
    return int((queue.directory / "runner").read_text())


def test_a_job_has_the_soft_limits_of_where_it_was_submitted(queue):
    runner = runner_of_somebody(queue, "ulimit -St 77; ulimit -Sf 5000; ulimit -Sv 3000000; ulimit -Sn 200; ulimit -Sc 0;")
    for kind in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS):
        soft, hard = resource.prlimit(runner, kind)
        assert soft == hard, kind
    here = subprocess.run(["bash", "-c", LIMITS], capture_output=True, text=True).stdout
    submitted = queue.run("submit", "-g", "0", "--", "bash", "-c", LIMITS)
    assert "started elsewhere" not in submitted.stderr, submitted.stderr
    queue("wait", "-q", 2)
    assert here in queue("logs", 2), queue("logs", 2)
    narrow = subprocess.run(["bash", "-c", 'ulimit -St 66; "$0" submit -q -g 0 -- bash -c "ulimit -St"', THOLE], env=queue.env,
                            cwd=queue.work, capture_output=True, text=True, timeout=60)
    assert narrow.returncode == 0, narrow.stderr
    queue("wait", "-q", 3)
    assert "66" in queue("logs", 3).splitlines()


def test_what_a_job_cannot_have_back_is_said(queue):
    runner = runner_of_somebody(queue, "ulimit -t 77; nice -n 5")
    said = queue.run("submit", "-q", "-g", "0", "--", "true").stderr
    for part in (f"process {runner}", "at most 77 seconds of CPU time (ulimit -t)", "a nice value of", "empty for 5 s"):
        assert part in said, said
    for part in ("fsize", "groups", "privileges", "another view"):
        assert part not in said, said


def test_what_cannot_be_compared_from_a_user_namespace_is_said(queue):
    words = ["unshare", "-U", "-r", "-m"]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespaces here")
    runner = runner_of_somebody(queue, "")
    done = subprocess.run([*words, THOLE, "submit", "-q", "-g", "0", "--", "true"], env=queue.env, cwd=queue.work,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"process {runner}" in done.stderr and "cannot be compared from here" in done.stderr, done.stderr


def test_files_that_the_runner_sees_otherwise_are_refused(queue):
    if os.geteuid() != 0 or not shutil.which("unshare") or subprocess.run(["unshare", "-m", "true"]).returncode != 0:
        pytest.skip("needs root, to make a mount namespace")
    hidden = queue.folder / "data"
    (hidden / "mine").mkdir(parents=True)
    runner_of_somebody(queue, f"exec unshare -m sh -c 'mount -t tmpfs t {hidden}; "
                              f"exec \"$0\" submit -q -g 0 -- sleep 600' \"$0\"; #")
    said = queue.refused("submit", "-q", "-g", "0", "-C", hidden / "mine", "--", "true", status=69)
    assert "sees other files" in said and str(hidden / "mine") in said, said
    assert queue.run("jobs", "2").returncode != 0, "it was not stored"
    seen = queue.run("submit", "-q", "-g", "0", "--", "true")
    assert seen.returncode == 0 and "another view of the files" in seen.stderr, seen.stderr

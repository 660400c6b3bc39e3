"""Whichever single look at the queue's files, or use of them, fails: a command that changes the queue says what it has done."""
import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess

import pytest

from queue_inside import Queue
from run_tools import BUILD, SANITIZED, THOLE, eventually, open_gate, state_of

LOOKS = BUILD / "fake" / "failing_looks.so"
NOTHING_WAS_CHANGED = "nothing was changed"

pytestmark = [
    pytest.mark.skipif(not LOOKS.exists(), reason="no failing_looks in this build"),
    pytest.mark.skipif(SANITIZED, reason="the sanitizer's library has to come first"),
]


@pytest.fixture
def new_queue(tmp_path):
    made = Queue(tmp_path)
    yield made
    made.end_everything()


@pytest.fixture
def queue(new_queue):
    new_queue.call("drain")
    return new_queue


def submit(queue):
    number = jobs(queue)
    return ["submit", "-q", "-g", "0", "--", "true"], lambda: jobs(queue) == number + 1


def cancel(queue):
    job = queue.submit("-g", "0", "--", "true")
    return ["cancel", job], lambda: queue.states(job) == {"cancelled": 1}


def retry(queue):
    job = queue.submit("-g", "0", "--hold", "--", "true")
    queue.call("cancel", job)
    return ["retry", job], lambda: "cancelled" not in queue.states(job)


def edit(queue):
    job = queue.submit("-g", "0", "--", "true")
    return ["edit", job, "--priority", "7"], lambda: queue.rows("SELECT priority FROM job WHERE id = ?", job) == [(7,)]


def jobs(queue):
    return queue.rows("SELECT count(*) FROM job")[0][0]


def failing(why, names):
    return {"LD_PRELOAD": str(LOOKS), "THOLE_FAILING_ERRNO": str(why), "THOLE_FAILING_NAMES": names}


FAILING = {"looks": {}, "files": {"THOLE_FAILING_FILES": "1"}}


@pytest.mark.parametrize("asked", [submit, cancel, retry, edit])
@pytest.mark.parametrize("kind", FAILING)
def test_what_a_command_says_of_a_change_is_what_is_stored(queue, tmp_path, kind, asked):
    counted = tmp_path / "looks"
    preload = {"LD_PRELOAD": str(LOOKS), "THOLE_LOOKS": str(counted), "THOLE_FAILING_ERRNO": str(errno.EIO), **FAILING[kind]}
    words, _ = asked(queue)
    queue.call(*words, THOLE_FAILING_LOOK="0", **preload)
    number = int(counted.read_text())
    assert number > 20
    ends = set()
    for look in range(1, number + 1):
        words, is_stored = asked(queue)
        done = queue.call(*words, check=False, THOLE_FAILING_LOOK=str(look), **preload)
        told = f"{kind} {look} of {number}: {done.returncode} {done.stdout} {done.stderr}"
        if "cannot be told" not in done.stderr:
            assert is_stored() == (done.returncode == 0), told
        assert not (is_stored() and NOTHING_WAS_CHANGED in done.stderr), told
        assert "somebody may have cut it" not in done.stderr and "on no local disk" not in done.stderr, told
        ends.add(done.returncode == 0)
    assert ends == {True, False}, "none of them mattered, or all"


@pytest.mark.parametrize("why", [errno.EIO, errno.ENFILE, errno.EACCES], ids=errno.errorcode.get)
def test_what_the_runner_could_not_be_told_of_a_job_it_is_told_by_whoever_looks(new_queue, tmp_path, why):
    queue, gate = new_queue, tmp_path / "gate"
    os.mkfifo(gate)
    queue.submit("-g", "1", "--", "cat", gate)
    eventually(queue.commands, "it runs")
    done = queue.call("submit", "-q", "-g", "1", "--", "true", **failing(why, "queue/wake"))
    assert "it is queued, but nothing can start it now: " in done.stderr and os.strerror(why) in done.stderr, done.stderr
    queue.call("jobs")
    queue.until_ended(2)
    open_gate(gate)


@pytest.mark.parametrize("why", [errno.EIO, errno.ENFILE], ids=errno.errorcode.get)
def test_what_a_lane_could_not_be_told_it_is_told_by_the_runner(new_queue, why):
    """At once, or where that could not be told either, as somebody looks."""
    queue = new_queue
    job = queue.submit("-g", "1", "--", "sleep", "600")
    [pid] = queue.until_asleep()
    for names, looks in [("lanes/0.mail", False), ("lanes/0", False), ("lanes/0.mail:queue/wake", True)]:
        for verb, is_done in [("pause", lambda: state_of(pid) == "T"), ("continue", lambda: state_of(pid) == "S")]:
            done = queue.call(verb, job, **failing(why, names))
            assert ("it is stored, but nobody can act on it now: " in done.stderr) == looks, f"{names}: {done.stderr}"
            if looks:
                assert not is_done()
                queue.call("jobs")
            eventually(is_done, f"{verb}, {names}")
    assert "nobody can act on it now" in queue.call("cancel", job, **failing(why, "lanes/0.mail:queue/wake")).stderr
    assert queue.states(job) == {"running": 1}
    queue.call("wait", job, "--timeout", "20s", check=False)
    assert queue.states(job) == {"cancelled": 1}


def test_whichever_look_fails_a_log_is_shown_or_the_failure_is(new_queue, tmp_path):
    queue, counted = new_queue, tmp_path / "looks"
    job = queue.submit("-g", "0", "--", "echo", "what it wrote")
    queue.until_ended(job)
    preload = {"LD_PRELOAD": str(LOOKS), "THOLE_LOOKS": str(counted), "THOLE_FAILING_ERRNO": str(errno.EIO)}
    queue.call("logs", job, THOLE_FAILING_LOOK="0", **preload)
    number = int(counted.read_text())
    for look in range(1, number + 1):
        done = queue.call("logs", job, check=False, THOLE_FAILING_LOOK=str(look), **preload)
        told = f"{look} of {number}: {done.returncode} {done.stderr}"
        assert done.returncode == 69 or (done.returncode == 0 and "what it wrote" in done.stdout), told


def test_a_log_that_cannot_be_brought_home_leaves_the_file_of_one_moment(queue, tmp_path):
    """Whichever reading, writing or locking fails meanwhile: it is sound without its log."""
    lines, counted, alone = tmp_path / "lines", tmp_path / "looks", tmp_path / "alone.db"
    lines.write_text("".join(f"item number {i} of a sweep\n" for i in range(6000)))
    words = ["submit", "-q", "-g", "0", "--hold", "--each-line", lines, "--", "true"]
    preload = {"LD_PRELOAD": str(LOOKS), "THOLE_LOOKS": str(counted), "THOLE_FAILING_ERRNO": str(errno.ENOSPC),
               **FAILING["files"]}
    queue.call(*words, THOLE_FAILING_LOOK="0", **preload)
    number = int(counted.read_text())
    only_in_log = set()
    for one in [0, *range(number // 2, number + 1, 5)]:
        done = queue.call(*words, check=False, THOLE_FAILING_LOOK=str(one), **preload)
        shutil.copy(queue.directory / "queue.db", alone)
        with contextlib.closing(sqlite3.connect(alone)) as file:
            told = f"{one} of {number}: {done.returncode} {done.stderr}"
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)], told
            only_in_log.add(jobs(queue) - file.execute("SELECT count(*) FROM job").fetchone()[0])
    assert 0 in only_in_log and len(only_in_log) > 1, "never brought home, or always"


@pytest.mark.parametrize("words", [("cancel", "all"), ("edit", "1", "--priority", "3"), ("drain",)], ids=lambda words: words[0])
def test_a_change_that_cannot_be_told_is_said_to_be_stored(queue, words):
    assert queue.submit("-g", "0", "--", "true") == 1
    with open("/dev/full", "w") as full:
        done = subprocess.run([THOLE, "--json", *words], env=queue.environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 125 and "what was asked is stored, but that cannot be written" in done.stderr, done.stderr


def test_who_waits_is_told_what_keeps_ends_from_being_stored(new_queue):
    """A runner has the hard limits of the shell that started it."""
    queue = new_queue
    small = f"ulimit -f 300; exec {THOLE} submit -q -g 0 --array 0-2500 -- true"
    subprocess.run(["bash", "-c", small], env=queue.environment, cwd=queue.folder, check=True, stdout=subprocess.DEVNULL)
    eventually(lambda: "File too large" in queue.runner_log(), "the log of the queue's file has grown to that")
    waited = queue.call("wait", "--timeout", "1500ms", check=False)
    said = " ".join(waited.stderr.split())
    assert waited.returncode == 124 and said.count("job 1: cannot be stored now, and is tried again: ") == 1, said
    assert "File too large" in said and "ulimit -f" in said, said

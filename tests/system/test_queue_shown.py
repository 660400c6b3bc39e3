"""What the queue shows: logs, why something waits, and the table of jobs, also while it changes."""
import json
import pathlib

import pytest

from queue_tools import Queue
from run_tools import THOLE, Started, eventually


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


def test_logs_follow_until_the_end(queue):
    with queue.gate() as gate:
        number = queue.submit("-g0", "sh", "-c", f"echo begun; cat {gate}; echo over")
        with Started([THOLE, "logs", "-f", str(number)], env=queue.env, cwd=queue.work) as follower:
            follower.until("begun")
            with open(gate, "w") as way:
                way.write("passed\n")
            seen = []
            while follower.process.poll() is None or not seen or seen[-1]:
                seen.append(follower.line())
                if not seen[-1] and follower.process.poll() is not None:
                    break
            assert "passed" in seen and "over" in seen
            assert follower.wait() == 0


def test_logs_show_the_end_and_the_place(queue):
    number = queue.submit("-g0", "sh", "-c", "seq 100")
    queue.run("wait", number)
    path = queue("logs", "--path", number).strip()
    assert "100\n" in open(path).read()
    assert len(queue("logs", "--lines", "5", number).splitlines()) == 5


def test_a_log_is_shown_or_its_place_told(queue):
    queue.submit("-g0", "true")
    done = queue.run("logs", "--path", "--follow")
    assert done.returncode == 64 and "one of the two" in done.stderr, done.stderr


def test_logs_of_what_has_not_started_say_why(queue):
    queue.drain()
    number = queue.submit("true")
    done = queue.run("logs", number)
    assert done.stdout == "" and "has no output yet: the queue is drained" in done.stderr


def test_following_what_ends_before_it_begins_says_how(queue):
    number = queue.submit("--hold", "true")
    queue("cancel", number)
    done = queue.run("logs", "-f", number)
    assert done.returncode == 0 and "has no output: cancelled" in done.stderr


def test_the_newest_job_s_logs_are_the_default(queue):
    queue.submit("-g0", "echo", "old")
    queue.submit("-g0", "echo", "new")
    queue.run("wait")
    assert "new" in queue("logs") and "old" not in queue("logs")


def test_why_of_a_task_is_of_that_task(queue):
    number = queue.submit("-g0", "--array", "0-3", "sh", "-c", "exit $THOLE_TASK_INDEX")
    queue.run("wait", number)
    told = lambda task: queue("why", "job", f"{number}.{task}").splitlines()
    assert told(0)[0] == f"job {number}.0: done" and "it succeeded" in told(0)[1], told(0)
    assert told(2)[0] == f"job {number}.2: failed" and "exit status 2" in told(2)[1] and len(told(2)) == 2, told(2)
    assert len(told("1-2")) == 3 and told("1-2")[0] == f"job {number}.1-2: failed"
    assert queue("why", "job", number).splitlines()[0] == f"job {number}: failed"
    queue.drain()
    waits = queue.submit("-g0", "--array", "0-9", "true")
    assert "it waits: the queue is drained" in queue("why", "job", f"{waits}.7")
    queue("cancel", waits)
    assert "10 tasks were cancelled before they began" in queue("why", "job", waits)
    assert "it was cancelled before it began" in queue("why", "job", f"{waits}.7")


def test_why_explains_a_job(queue):
    queue.drain()
    queue.submit("-n", "train", "-g", "2", "true")
    queue.submit("--after", "train", "true")
    assert "the queue is drained" in queue("why", "job", "1")
    why = queue.json("why", "train")
    assert why["jobs"][0]["job"] == 1 and why["units"] == []
    assert "waits for job 1 (train) to succeed" in queue("why", "job", "2")
    both = queue("why", "1")
    assert "GPU 1: " in both and "job 1 (train): queued" in both
    failed = queue.submit("-g0", "sh", "-c", "exit 3")
    queue("drain", "--off")
    queue.run("wait", failed)
    assert "exit status 3" in queue("why", "job", failed)


def test_each_wait_has_its_reason(queue):
    queue.drain()
    for words in (["true"], ["--hold", "true"], ["--begin", "3h", "true"], ["--after", "1", "true"]):
        queue.submit(*words)
    assert [queue.job(number)["waits"]["kind"] for number in range(1, 5)] == ["drain", "held", "begin", "dependency"]


def test_jobs_behind_others_say_behind_whom(queue):
    with queue.gate() as gate:
        first = queue.submit("-g", "4", "cat", gate)
        queue.reaches(first, "running")
        second, third = queue.submit("-g", "4", "true"), queue.submit("-g", "4", "true")
        eventually(lambda: "next in line" in queue.job(second)["waits"]["why"], "its lane has entered the machine's line")
        assert queue.job(second)["waits"]["kind"] == "line"
        assert queue.job(third)["waits"]["why"] == f"behind {second}"
        queue("cancel", "all")
        queue.run("wait")


def test_jobs_text_fits_eighty_columns(queue):
    queue.drain()
    queue.submit("-n", "a-name-that-is-much-longer-than-the-column-for-names-can-be", "-g", "4", "--hold", "true")
    queue.submit(
        "--grid", "seed=0..199999", "python3", "train.py", "--seed", "{seed}", "--with", "a very long tail of arguments " * 3
    )
    queue.submit("--after", "1,2:any", "--begin", "5h", "true")
    for line in queue("jobs").splitlines():
        assert len(line) <= 80, line


def test_two_hundred_queued_jobs_are_folded(queue):
    queue.drain()
    queue("submit", "--file", "-", input="".join(f"[[job]]\nname = \"n{i}\"\ncommand = [\"true\"]\n" for i in range(200)))
    text = queue("jobs")
    assert "and 180 more queued" in text and "200 queued" in text
    assert len(text.splitlines()) < 30
    assert len(queue("jobs", "--all").splitlines()) > 200
    assert len(queue.json("jobs")["jobs"]) == 200


def test_watching_sleeps_while_nothing_happens(queue):
    queue.drain()
    queue.submit("-g0", "true")
    with Started([THOLE, "jobs", "--watch", "--json"], env=queue.env, cwd=queue.work) as watcher:
        assert json.loads(watcher.line())["tasks"]["queued"] == 1
        stat = lambda: pathlib.Path(f"/proc/{watcher.pid}/status").read_text(errors="replace")
        def switches():
            return [line for line in stat().splitlines() if line.startswith("voluntary_ctxt")]
        def sleeps():   # in poll (7), for long; the pause between frames is short
            call = pathlib.Path(f"/proc/{watcher.pid}/syscall").read_text().split()
            return call[0] == "7" and int(call[3], 16) > 5_000
        def sleeps_on():   # through ten looks; a runner that was just started may have a word with the queue first
            before = switches()
            for _ in range(10):
                queue("jobs")
            return sleeps() and switches() == before
        eventually(sleeps_on, "it sleeps while others look")
        queue("edit", "1", "--priority", "3")
        eventually(lambda: json.loads(watcher.line())["jobs"][0]["priority"] == 3, "the frame after the change")

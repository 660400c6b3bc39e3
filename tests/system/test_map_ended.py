"""Tasks of `map` that are ended, or leave something: what their status is, and whose output is whose."""
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

from run_tools import Started, children, eventually, gone, open_gate, state_of, text_of
from test_map import box  # noqa: F401 (a fixture)

# A program that saves its work at INT, and ends well.
SAVES = ["sh", "-c", "trap 'exit 0' INT; echo > begun; while :; do sleep 0.02; done"]


def log_of(box):
    return [line.split("\t") for line in (box.folder / "log").read_text().splitlines()[1:]]


@pytest.mark.parametrize("how", ["time limit", "release"])
@pytest.mark.parametrize("halt", ["now,fail=1", "soon,fail=1", "now,done=1", "never"])
def test_who_was_ended_has_failed_whatever_it_makes_of_that(box, halt, how):
    limit = ["--time", "1s"] if how == "time limit" else []
    items = "ab" if halt != "never" else "a"
    with box.start("-j", "1", "--halt", halt, *limit, "--joblog", "log", *SAVES, ":::", *items) as started:
        if how == "release":
            eventually((box.folder / "begun").exists, "it runs")
            assert box.run("release", "0").returncode == 0
        assert started.wait() == 1
    assert [line[6:8] for line in log_of(box)] == [["-1", "15"]]


def test_who_was_released_runs_again_with_resume_failed(box):
    with box.start("-q", "--joblog", "log", *SAVES, ":::", "a") as started:
        eventually((box.folder / "begun").exists, "it runs")
        assert box.run("release", "0").returncode == 0
        assert started.wait() == 1
    assert box.out("-q", "--resume-failed", "--joblog", "log", "echo", ":::", "again") == "again\n"


@pytest.mark.parametrize("words", [[], ["-k"], ["-g", "0"], ["--json"]], ids=" ".join)
def test_what_a_task_has_left_writes_into_no_others_output(box, words):
    """It has the descriptors of its own task."""
    os.mkfifo(box.folder / "gate")
    goes_on = "echo > left; cat gate > /dev/null; echo of the first; echo > said"
    left = f"setsid sh -c '{goes_on}' & until [ -e left ]; do sleep 0.02; done"
    second = "[ {} = 2 ] && echo > gate; until [ -e said ]; do sleep 0.02; done"
    task = f"if [ {{}} = 1 ]; then {left}; else {second}; fi; echo {{}}"
    out = box.out("-q", "-j", "1", *words, "--joblog", "log", "sh", "-c", task, ":::", "1", "2", "3")
    if words == ["--json"]:
        lines = [json.loads(line) for line in out.splitlines()]
        out = "".join(line["stdout"] for line in lines if "stdout" in line)
    assert sorted(out.splitlines()) == ["1", "2", "3"]
    assert [line[5] for line in log_of(box)] == ["2", "2", "2"]


@pytest.mark.parametrize("ends", ["exit 1", "kill -9 $$"])
def test_the_rest_of_a_line_is_shown_before_the_next_try(box, ends):
    task = f"[ -e tried ] && exec echo second; echo > tried; printf first; printf error >&2; {ends}"
    done = box.map("-q", "-j", "1", "--line-buffer", "--retries", "2", "sh", "-c", task, ":::", "a")
    assert (done.returncode, done.stdout, done.stderr) == (0, "first\nsecond\n", "error\n")


def test_a_log_whose_reader_has_gone_is_told(box):
    reading, writing = os.pipe()
    log, task = f"/proc/self/fd/{writing}", "echo > begun; cat gate"
    with box.start("-q", "--joblog", log, "sh", "-c", task, ":::", "a", pass_fds=(writing,)) as started:
        os.mkfifo(box.folder / "gate")
        os.close(writing)
        eventually((box.folder / "begun").exists, "it runs")
        os.close(reading)
        (box.folder / "gate").write_text("")
        assert started.wait() == 69
        assert b"cannot write the log of tasks" in started.process.stderr.read()
    assert box.held() == 0


@pytest.mark.parametrize("words", [[], ["--line-buffer"], ["-k"], ["-u"]], ids=" ".join)
def test_what_the_commands_group_still_writes_is_shown_whole(box, words):
    """A shell's `exec > >(tee log)`: tee ends after the command."""
    task = "( cat fifo; for i in 1 2 3; do echo late $i || exit 1; done; echo saved > saved ) & echo early; echo $$ > pid"
    os.mkfifo(box.folder / "fifo")
    with box.start("-q", "-g", "0", *words, "sh", "-c", task, ":::", "a") as started:
        command = int(text_of(box.folder / "pid"))
        eventually(lambda: gone(command), "the command has ended")
        (box.folder / "fifo").write_text("")
        assert started.process.stdout.read() == b"early\nlate 1\nlate 2\nlate 3\n"
        assert started.wait() == 0
    assert (box.folder / "saved").exists()


def test_who_has_left_the_group_is_not_ended_by_its_output(box):
    left = "setsid sh -c 'echo > left; cat fifo; yes | head -c 200000; echo more; echo saved > saved'"
    os.mkfifo(box.folder / "fifo")
    task = f"{left} & until [ -e left ]; do sleep 0.02; done; echo a; echo $$ > pid"
    with box.start("-q", "-g", "0", "--line-buffer", "sh", "-c", task, ":::", "a") as started:
        assert started.line() == "a"
        command = int(text_of(box.folder / "pid"))
        eventually(lambda: gone(command), "the command has ended")
        (box.folder / "fifo").write_text("")
        eventually((box.folder / "saved").exists, "it goes on")
        assert started.wait() == 0 and started.process.stdout.read() == b""


def test_as_many_tasks_as_one_likes_may_leave_something_that_writes(box):
    """Each of them has a pipe of its own."""
    task = "setsid sh -c 'read line < fifo' & echo {}"
    os.mkfifo(box.folder / "fifo")
    words = ["prlimit", "--nofile=64", *box.words, "map", "-q", "-g", "0", "-j", "4", "--line-buffer", "sh", "-c", task, ":::"]
    with Started([*words, *map(str, range(100))], env=box.environment, cwd=box.folder) as started:
        assert sorted(int(started.line()) for _ in range(100)) == list(range(100))
        open_gate(box.folder / "fifo")
        assert started.wait() == 0


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("words", [[], ["--line-buffer"], ["-k"]], ids=" ".join)
def test_a_task_that_has_ended_in_its_time_is_not_told_that_this_is_over(box, words, status):
    """However late map hears of both: it may have been stopped, or have written for long to a slow disk."""
    os.mkfifo(box.folder / "gate")
    task = f"echo begun >> begun; cat gate; echo fine; exit {status}"
    limit = ["--time", "2s", "--retries", "2" if status == 0 else "1"]
    with box.start("-q", "-j", "2", *words, *limit, "--joblog", "log", "sh", "-c", task, ":::", *"ab") as started:
        begun = box.folder / "begun"
        eventually(lambda: begun.exists() and len(begun.read_text().split()) == 2, "all run")
        os.kill(started.pid, signal.SIGSTOP)
        eventually(lambda: state_of(started.pid) == "T", "it stands still")
        over = time.monotonic() + 2
        open_gate(box.folder / "gate")
        eventually(lambda: all(gone(pid) for pid in children(started.pid)), "its tasks have ended")
        eventually(lambda: time.monotonic() > over, "their time is over")
        os.kill(started.pid, signal.SIGCONT)
        assert started.wait() == (0 if status == 0 else 2)
    assert [line[6:8] for line in log_of(box)] == [[str(status), "0"]] * 2
    assert len(begun.read_text().split()) == 2


@contextlib.contextmanager
def all_end_while_it_stands(box, words, task, signals=(), items="1234"):
    """`task` has ended with every item, and map, which stands still, has not heard of it; `signals` were sent before."""
    os.mkfifo(box.folder / "gate")
    begun = box.folder / "begun"
    with box.start("-j", len(items), *words, "--joblog", "log", "sh", "-c", f"echo {{}} >> begun; cat gate; {task}", ":::",
                   *items) as started:
        eventually(lambda: begun.exists() and len(begun.read_text().split()) == len(items), "all run")
        os.kill(started.pid, signal.SIGSTOP)
        eventually(lambda: state_of(started.pid) == "T", "it stands still")
        commands = children(started.pid)
        for number in signals:
            os.kill(started.pid, number)
        open_gate(box.folder / "gate")
        eventually(lambda: all(state_of(pid) == "Z" for pid in commands), "its tasks have ended")
        yield started
        os.kill(started.pid, signal.SIGCONT)
        out, err = started.process.communicate(timeout=60)
    assert sorted(out.decode().split()) == ["out" + item for item in items]
    assert "cut short" not in err.decode()
    assert sorted(line[0] for line in log_of(box)) == [*items]
    begun.unlink()
    box.out("-q", "--resume", "--joblog", "log", "sh", "-c", "echo {} >> begun", ":::", *items)
    assert not begun.exists(), "nothing runs a second time"


@pytest.mark.parametrize("halt", ["now,fail=1", "now,success=1", "now,done=1"])
@pytest.mark.parametrize("words", [[], ["-k"], ["--line-buffer"], ["--retries", "2"]], ids=" ".join)
def test_who_had_ended_before_all_were_to_end_was_not_cut_short(box, halt, words):
    task = f"echo out{{}}; exit $(({{}} {'==' if 'fail' in halt else '>'} 4))"
    with all_end_while_it_stands(box, ["-g", "0", *words, "--halt", halt], task) as started:
        pass
    assert started.process.returncode == (1 if "fail" in halt else 0)


@pytest.mark.parametrize("left", ["", "sleep 600 & "], ids=["", "but for what it left"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_who_had_ended_before_it_was_asked_was_not_interrupted(box, left, when):
    """Also where the signal came first: it has not reached the task."""
    signals = [signal.SIGINT] if when == "before" else []
    with all_end_while_it_stands(box, ["-g", "0"], f"{left}echo out{{}}", signals) as started:
        if when == "after":
            os.kill(started.pid, signal.SIGINT)
    assert started.process.returncode == -signal.SIGINT


def test_who_had_ended_before_its_lane_was_released_was_not_released(box):
    with all_end_while_it_stands(box, [], "echo out{}", items="12") as started:
        releases = [box.start(str(gpu), verb="release") for gpu in range(2)]
        eventually(lambda: all(state_of(release.pid) == "S" for release in releases), "they wait for an answer")
    assert started.process.returncode == 0
    assert [line[6:8] for line in log_of(box)] == [["0", "0"]] * 2
    for release in releases:
        release.wait()


@pytest.mark.parametrize("signals", ["TERM TERM", "TERM HUP", "HUP TERM", "INT INT"])
def test_one_asking_told_twice_is_not_the_user_once_more(box, signals):
    """As timeout(1) tells it, to its child and to its group, or a terminal that closes."""
    os.mkfifo(box.folder / "gate")
    task = "trap 'echo > told; cat gate; echo > saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    with box.start("-g", "0", "-u", "sh", "-c", task, "sh", ":::", "1") as started:
        assert started.line() == "ready"
        first, second = (getattr(signal, f"SIG{name}") for name in signals.split())
        os.kill(started.pid, first)
        os.kill(started.pid, second)
        eventually((box.folder / "told").exists, "the task saves its work")
        open_gate(box.folder / "gate")
        assert started.wait() in (-first, -second)
    assert (box.folder / "saved").exists()


@pytest.mark.parametrize("more", [[], ["-k"], ["--line-buffer"], ["--json"]], ids=" ".join)
def test_who_had_ended_when_we_failed_stands_in_the_log_and_leaves_nobody_behind(box, more):
    os.mkfifo(box.folder / "gate")
    task = "cat gate; sleep 600 & echo $! >> left; echo out"
    words = [*box.words, "map", "-g", "0", "-j", "3", *more, "--joblog", "log"]
    words += ["sh", "-c", f"echo >> begun; {task}", "sh", ":::", *"123"]
    with open("/dev/full", "w") as full, subprocess.Popen(words, stdout=full, stderr=subprocess.PIPE, env=box.environment,
                                                          cwd=box.folder, text=True) as started:
        begun = box.folder / "begun"
        eventually(lambda: begun.exists() and begun.read_text() == "\n" * 3, "all run")
        os.kill(started.pid, signal.SIGSTOP)
        eventually(lambda: state_of(started.pid) == "T", "it stands still")
        commands = children(started.pid)
        open_gate(box.folder / "gate")
        eventually(lambda: all(state_of(pid) == "Z" for pid in commands), "its tasks have ended")
        os.kill(started.pid, signal.SIGCONT)
        _, err = started.communicate(timeout=100)
    assert started.returncode == 125 and "cannot write" in err
    assert all(gone(int(pid)) for pid in (box.folder / "left").read_text().split())
    assert sorted(line[0] for line in log_of(box)) == [*"123"]


def test_who_would_be_tried_again_when_nothing_is_begun_any_more_was_cut_short(box):
    task = "case {} in 1) exit 1;; esac; until grep -q ^1 log; do sleep 0.02; done; exit 7"
    words = ["-g", "0", "-j", "2", "--retries", "2", "--halt", "soon,fail=1", "--joblog", "log"]
    done = box.map(*words, "sh", "-c", task, ":::", *"12")
    assert done.returncode == 1 and "1 cut short" in done.stderr, done.stderr

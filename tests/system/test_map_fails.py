"""`thole map` that an error of its own ends: what stands in the log has been shown, so that --resume loses nothing."""
import fcntl
import json
import os
import signal
import subprocess
import termios

import pytest

from run_tools import Started, eventually
from test_map import box  # noqa: F401 (a fixture)

FULL = "cannot write the log of tasks"


def logged(box):
    """The numbers of the tasks that --resume would leave out."""
    return sorted(int(line.split("\t")[0]) for line in (box.folder / "log").read_text().splitlines()[1:])


def small(box, *words, room=4000):
    """A map whose log has this many bytes of room."""
    command = ["prlimit", f"--fsize={room}", *box.words, "map", "-q", "--joblog", "log", *words]
    return Started(command, env=box.environment, cwd=box.folder, stdin=subprocess.DEVNULL)


def test_kept_output_is_shown_when_the_log_is_full(box):
    os.mkfifo(box.folder / "gate")
    items = [str(number) for number in range(1, 100)]
    with small(box, "-k", "-g", "0", "-j", "3", "sh", "-c", "[ {} = 1 ] && exec cat gate; echo {}", ":::", *items) as started:
        shown, told = started.process.communicate(timeout=60)
    assert started.process.returncode == 69 and FULL in told.decode()
    shown = [int(line) for line in shown.split()]
    assert shown == logged(box) and 1 not in shown and len(shown) > 10
    rest = box.out("-q", "--joblog", "log", "--resume", "-g", "0", "echo", ":::", *items)
    assert sorted(shown + [int(line) for line in rest.split()]) == [int(item) for item in items]


def unread(stream):
    waiting = bytearray(4)
    fcntl.ioctl(stream, termios.FIONREAD, waiting)
    return int.from_bytes(waiting, "little")


# More than a pipe holds, before the log is full.
LARGE = ["sh", "-c", "head -c 3900 /dev/zero | tr '\\0' x; echo; echo {}", ":::", *map(str, range(100))]


def ends_unread(box, started):
    eventually(lambda: unread(started.process.stdout) > 30_000, "a pipe is full")
    eventually(lambda: box.held() == 0, "nothing runs any more")


@pytest.mark.parametrize("words", [[], ["-k"], ["--json"]], ids=" ".join)
def test_a_slow_reader_gets_all_that_is_in_the_full_log(box, words):
    with small(box, *words, *LARGE) as started:
        ends_unread(box, started)
        shown, told = started.process.communicate(timeout=60)
    assert started.process.returncode == 69 and FULL in told.decode()
    lines = shown.decode().splitlines()
    if words == ["--json"]:
        objects = [json.loads(line) for line in lines]
        assert FULL in objects.pop()["error"]["message"]
        lines = [line for one in objects for line in one["stdout"].splitlines()]
    numbers = [int(line) + 1 for line in lines if not line.startswith("x")]
    assert sorted(numbers) == logged(box) and len(numbers) > 16


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM, "its reader"])
def test_nobody_has_to_read_what_is_shown_at_last(box, ends):
    with small(box, *LARGE) as started:
        ends_unread(box, started)
        if ends == "its reader":
            started.process.stdout.close()
        else:
            started.process.send_signal(ends)
        assert started.wait() == 69
        assert FULL in started.process.stderr.read().decode()


def test_a_full_stdout_is_told_beside_the_log(box):
    """Both are on the same disk."""
    os.mkfifo(box.folder / "gate")
    task = "[ {} = 0 ] && exec cat gate; echo {}"
    command = ["prlimit", "--fsize=4000", *box.words, "map", "-q", "-k", "-g", "0", "-j", "3", "--joblog", "log"]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*command, "sh", "-c", task, ":::", *map(str, range(100))], stdout=full, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, env=box.environment, cwd=box.folder, timeout=60)
    assert done.returncode == 69, done.stderr
    assert FULL in done.stderr and "cannot write the output of a task" in done.stderr


@pytest.mark.parametrize("words", [[], ["-k"], ["--line-buffer"], ["-j", "1"]], ids=" ".join)
def test_a_bad_item_ends_no_task_that_runs(box, words):
    os.mkfifo(box.folder / "gate")
    task = "echo > begun$1; [ -e tried ] || { echo > tried; cat gate; exit 1; }; echo $1 has ended"
    with box.start(*words, "--retries", "2", "--joblog", "log", "sh", "-c", task, "sh") as started:
        started.process.stdin.write(b"a\n")
        eventually((box.folder / "tried").exists, "it runs")
        started.process.stdin.write(b"b\0c\nlast\n")
        started.error_until("no further items are taken: a line holds a zero byte")
        (box.folder / "gate").write_text("")
        assert started.process.stdout.read() == b"a has ended\n"
        assert started.wait() == 64
        assert "a line holds a zero byte" in started.process.stderr.read().decode()
    assert logged(box) == [1] and not (box.folder / "begunlast").exists()
    assert box.held() == 0


def test_ctrl_c_after_a_bad_item_ends_map_by_it(box):
    os.mkfifo(box.folder / "gate")
    with box.start("-q", "sh", "-c", "echo > begun; cat gate") as started:
        started.process.stdin.write(b"a\n")
        eventually((box.folder / "begun").exists, "it runs")
        started.process.stdin.write(b"b\0c\n")
        started.error_until("no further items are taken")
        started.process.send_signal(signal.SIGINT)
        assert started.wait() in (-signal.SIGINT, 128 + signal.SIGINT)

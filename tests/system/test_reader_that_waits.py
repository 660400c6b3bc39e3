"""Nobody reads what `map` and `run` tell (a pager, Ctrl-S): limits, the door and signals are heard all the same, idle GPUs go
back, nothing grows without end; and once somebody reads it is all there."""
import contextlib
import os
import pathlib
import pty
import resource
import select
import signal
import subprocess
import termios
import tty

import pytest

from run_tools import eventually, state_of
from test_map import Box

MUCH = 3_000_000                                 # more than a pipe takes and more than is kept
WRITES = f"head -c {MUCH} /dev/zero | tr '\\0' x"


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


def waits_for_its_reader(reading):
    """The pipe is full, however much one takes here."""
    writing = os.open(f"/proc/self/fd/{reading}", os.O_WRONLY | os.O_NONBLOCK)
    full = not select.select([], [writing], [], 0)[1]
    os.close(writing)
    return full


@contextlib.contextmanager
def unread(box, verb, *words, **more):
    """A pipe that nobody reads at its stdout."""
    reading, writing = os.pipe()
    process = subprocess.Popen([*box.words, verb, *map(str, words)], stdin=subprocess.DEVNULL, env=box.environment,
                               cwd=box.folder, process_group=0, stdout=writing, **more)
    os.close(writing)
    try:
        yield process, reading
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(reading)


def read_all(reading):
    return b"".join(iter(lambda: os.read(reading, 1 << 20), b""))


# The first item's task writes much and ends, the second's says its number and sleeps.
SLEEPER = f"if [ {{}} = much ]; then {WRITES}; else echo $$ > sleeper; exec sleep 600; fi"


def sleeper_of(box):
    def number():
        with contextlib.suppress(OSError, ValueError):
            return int((box.folder / "sleeper").read_text())
    return eventually(number, "it sleeps")


def test_the_limit_of_a_task_holds_while_nobody_reads(box):
    with unread(box, "map", "-q", "--time", "2s", "sh", "-c", SLEEPER, ":::", "much", "sleeps") as (process, reading):
        sleeper = sleeper_of(box)
        eventually(lambda: waits_for_its_reader(reading), "nobody reads")
        eventually(lambda: not os.path.exists(f"/proc/{sleeper}"), "its limit ends it")
        assert process.poll() is None
        assert len(read_all(reading)) == MUCH
        assert process.wait(60) == 1


def test_it_is_released_while_nobody_reads(box):
    with unread(box, "map", "-q", "sh", "-c", SLEEPER, ":::", "much", "sleeps") as (process, reading):
        sleeper = sleeper_of(box)
        eventually(lambda: waits_for_its_reader(reading), "nobody reads")
        [claim] = eventually(lambda: len(claims := box.status()["claims"]) == 1 and claims, "the one that is idle has gone")
        assert box.run("release", claim["id"]).returncode == 0
        assert not os.path.exists(f"/proc/{sleeper}")
        assert len(read_all(reading)) == MUCH
        assert process.wait(60) == 1


@pytest.mark.parametrize("words", [[], ["--line-buffer"], ["-k"]], ids=["whole", "lines", "in order"])
def test_idle_gpus_go_back_and_nothing_is_lost(box, words):
    """Nothing more is begun while nobody reads: as many as are kept, at most."""
    items = [chr(number) for number in range(ord("a"), ord("z") + 1)]
    with unread(box, "map", "-q", *words, "-j", "1", "sh", "-c", f"echo {{}} >> begun; {WRITES}; echo", ":::",
                *items) as (process, reading):
        eventually(lambda: waits_for_its_reader(reading), "nobody reads")
        if "--line-buffer" not in words:         # there the task waits as it would in a pipeline of a shell
            eventually(lambda: box.held() == 0, "its GPU goes back")
        assert len((box.folder / "begun").read_text().split()) < 20
        assert len(read_all(reading)) == len(items) * (MUCH + 1)
        assert process.wait(60) == 0
    assert (box.folder / "begun").read_text().split() == items


def test_who_writes_without_end_waits_and_map_does_not_grow(box):
    writes = "import os\nline = b'x' * 999 + b'\\n'\nfor _ in range(40000): os.write(1, line)"
    with unread(box, "map", "-q", "--line-buffer", "python3", "-c", writes, ":::", "a", "b") as (process, reading):
        eventually(lambda: waits_for_its_reader(reading), "nobody reads")

        def writers():
            children = pathlib.Path(f"/proc/{process.pid}/task").glob("*/children")
            return [int(child) for one in children for child in one.read_text().split()]

        def written():
            counts = []
            for child in writers():
                with contextlib.suppress(OSError):
                    told = dict(line.split(": ") for line in pathlib.Path(f"/proc/{child}/io").read_text().splitlines())
                    counts.append(int(told["wchar"]))
            return counts

        def stands_still():
            before = written()
            return len(before) == 2 and min(before) > 0 and eventually(written, "counts") == before

        eventually(lambda: all(stands_still() for _ in range(20)), "both wait")
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text(errors="replace")
        peak = next(line for line in status.splitlines() if "VmHWM" in line)
        assert int(peak.split()[1]) < 40_000, peak
        assert sum(written()) < 10_000_000
        assert len(read_all(reading)) == 2 * 40_000_000
        assert process.wait(60) == 0


def test_a_terminal_that_was_stopped_holds_up_nothing(box):
    """Ctrl-S, and Ctrl-Q at the end."""
    master, slave = pty.openpty()
    termios.tcflow(slave, termios.TCOOFF)
    process = subprocess.Popen([*box.words, "map", "--time", "2s", "sh", "-c", "echo begun; echo $$ > sleeper; exec sleep 600",
                                ":::", "a"], stdin=slave, stdout=slave, stderr=slave, env=box.environment, cwd=box.folder,
                               start_new_session=True)
    sleeper = sleeper_of(box)
    eventually(lambda: not os.path.exists(f"/proc/{sleeper}"), "its limit ends it")
    eventually(lambda: box.held() == 0, "its GPU is free")
    assert process.poll() is None
    termios.tcflow(slave, termios.TCOON)
    os.close(slave)
    told = b""
    with contextlib.suppress(OSError):           # EIO: nobody has the other end any more
        while part := os.read(master, 4096):
            told += part
    assert process.wait(60) == 1
    assert b"begun" in told and b"its time is over" in told
    os.close(master)


def told_once_all_is_over(box, process, reading):
    """What it had started has ended and its GPUs are free while nobody reads; then somebody does."""
    sleeper = sleeper_of(box)
    eventually(lambda: not os.path.exists(f"/proc/{sleeper}"), "it is ended")
    eventually(lambda: box.held() == 0, "the GPUs are free")
    assert process.poll() is None
    told = read_all(reading).lstrip(b"f").decode()
    os.close(reading)
    return told


def fill(reading):
    """What is written behind this waits for its reader."""
    again = os.open(f"/proc/self/fd/{reading}", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(again, b"f" * 4096)
    os.close(again)


def test_words_that_nobody_reads_hold_up_no_command(box):
    """Neither its start nor the end of what it leaves behind."""
    reading, writing = os.pipe()
    fill(reading)
    command = "(setsid sh -c 'echo $$ > sleeper; exec sleep 600' &) ; until [ -s sleeper ]; do :; done; exit 7"
    process = subprocess.Popen([*box.words, "run", "-v", "--", "sh", "-c", command], stdin=subprocess.DEVNULL, stderr=writing,
                               env=box.environment, cwd=box.folder, start_new_session=True)
    os.close(writing)
    told = told_once_all_is_over(box, process, reading)
    assert process.wait(60) == 7
    assert told.index("claim ") < told.index("left a process running")


def test_a_map_whose_reader_goes_while_it_waits_is_ended(box):
    with unread(box, "map", "-q", "-j", "1", "sh", "-c", SLEEPER, ":::", "much", "sleeps") as (process, reading):
        eventually(lambda: waits_for_its_reader(reading), "nobody reads")
        os.close(reading)
        try:
            assert process.wait(60) == -signal.SIGPIPE
        finally:
            reading = os.open("/dev/null", os.O_RDONLY)
    assert box.held() == 0


def test_the_second_stream_is_not_held_up_by_the_first(box):
    told, tells = os.pipe()
    says = f"if [ {{}} = much ]; then {WRITES}; else until [ -e more ]; do sleep 0.1; done; echo told >&2; fi"
    with unread(box, "map", "-q", "sh", "-c", says, ":::", "much", "says", stderr=tells) as (process, reading):
        os.close(tells)
        eventually(lambda: waits_for_its_reader(reading), "nobody reads")
        (box.folder / "more").touch()
        assert os.read(told, 100) == b"told\n"
        os.close(told)
        assert len(read_all(reading)) == MUCH
        assert process.wait(60) == 0


def test_ctrl_z_is_heard_while_only_the_reader_is_waited_for(box):
    with unread(box, "map", "-q", "sh", "-c", WRITES, ":::", "a") as (process, reading):
        eventually(lambda: waits_for_its_reader(reading), "nobody reads")
        eventually(lambda: box.held() == 0, "all is over but for that")

        def stands():
            process.send_signal(signal.SIGTSTP)
            return state_of(process.pid) == "T"

        eventually(stands, "it stands still")
        process.send_signal(signal.SIGCONT)
        assert len(read_all(reading)) == MUCH
        assert process.wait(60) == 0


def test_the_other_end_of_a_terminal_is_written_to(box):
    """Its name would open another terminal."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    done = subprocess.run([*box.words, "map", "-q", "echo", ":::", "a", "b"], stdin=subprocess.DEVNULL, stdout=master,
                          env=box.environment, cwd=box.folder, timeout=60, check=True)
    assert done.returncode == 0
    told = b""
    while told.count(b"\n") < 2:
        told += os.read(slave, 100)
    assert sorted(told.split()) == [b"a", b"b"]
    os.close(master)
    os.close(slave)


def test_few_descriptors_are_left_to_the_tasks(box):
    writes = "head -c 100000 /dev/zero | tr '\\0' x"
    with unread(box, "map", "-q", "-g", "0", "-j", "4", "sh", "-c", writes, ":::", *map(str, range(40)),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))) as (process, reading):
        eventually(lambda: waits_for_its_reader(reading), "nobody reads")
        assert len(read_all(reading)) == 40 * 100000
        assert process.wait(60) == 0


@pytest.mark.parametrize("log", ["/dev/stderr", "pipe"])
def test_a_joblog_that_nobody_reads_holds_up_nothing(box, log):
    """Its reader gets all of it in the end."""
    reading, writing = os.pipe()
    fill(reading)
    path = "/dev/stderr" if log == "/dev/stderr" else f"/dev/fd/{writing}"
    process = subprocess.Popen([*box.words, "map", "-q", "--joblog", path, "--time", "2s", "sh", "-c",
                                "if [ {} = a ]; then echo $$ > sleeper; exec sleep 600; fi", ":::", *"abc"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=box.environment, cwd=box.folder,
                               stderr=writing if log == "/dev/stderr" else None, pass_fds=[writing], process_group=0)
    os.close(writing)
    told = told_once_all_is_over(box, process, reading)
    assert process.wait(60) == 1
    assert told.startswith("Seq\t") and len([line for line in told.splitlines() if line[:1].isdigit()]) == 3

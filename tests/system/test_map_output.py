"""`thole map` whose output goes nowhere: it ends, whatever that is, and hears who wants it to end."""
import errno
import fcntl
import os
import signal
import subprocess
import termios

import pytest

from run_tools import BUILD, SANITIZED, Started, eventually, python
from test_map import Box


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


@pytest.mark.parametrize("words", [["-q", "--line-buffer"], ["-k"], ["-q", "-g", "0", "-j", "4"], []], ids=" ".join)
def test_output_that_cannot_be_written_ends_it(box, words):
    for _ in range(6):                             # two tasks have to end in one moment
        with open("/dev/full", "w") as full:
            done = subprocess.run([*box.words, "map", *words, "echo", ":::", *"abcdefgh"], stdout=full, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, text=True, env=box.environment, cwd=box.folder, timeout=60)
        assert done.returncode == 125, done.stderr
        assert "cannot write the output of a task" in done.stderr and "No space left on device" in done.stderr
    assert box.held() == 0


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("words", [[], ["--line-buffer"]], ids=" ".join)
def test_errors_that_cannot_be_written_are_lost_and_every_task_runs(box, words, closed):
    map_words = [*box.words, "map", *words, "sh", "-c", "echo lost >&2; echo {}", ":::", *"abcdefgh"]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *map_words], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          text=True, env=box.environment, cwd=box.folder, timeout=60)
    assert (done.returncode, sorted(done.stdout.split())) == (0, list("abcdefgh"))


def test_a_line_without_an_end_is_shown_in_pieces(box):
    writes = "head -c 3000000 /dev/zero | tr '\\0' x; until [ -e shown ]; do sleep 0.05; done; echo end"
    started = Started([*box.words, "map", "-q", "--line-buffer", "sh", "-c", writes, ":::", "a"], env=box.environment,
                      cwd=box.folder)
    first = b""
    while len(first) < 1_000_000:
        assert (piece := started.process.stdout.read(65536))
        first += piece
    (box.folder / "shown").touch()
    assert first + started.process.communicate(timeout=60)[0] == b"x" * 3_000_000 + b"end\n"


def test_a_line_shown_in_pieces_has_an_end(box):
    task = python("import sys; sys.stdout.write(sys.argv[1] * 1_050_000)")
    done = box.map("-q", "-j", "1", "--line-buffer", *task, ":::", "a", "b")
    assert done.stdout == "a" * 1_050_000 + "\n" + "b" * 1_050_000 + "\n"


def test_a_reader_that_has_gone_ends_it(box):
    for _ in range(6):
        started = Started([*box.words, "map", "-q", "--line-buffer", "sh", "-c", "echo x; echo x", ":::", *"abcdefgh"],
                          env=box.environment, cwd=box.folder)
        started.process.stdout.close()
        assert started.process.wait(timeout=60) in (-signal.SIGPIPE, 128 + signal.SIGPIPE)
    assert box.held() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_reader_that_does_not_read_keeps_it_from_no_signal(box, number):
    reading, writing = os.pipe()
    process = subprocess.Popen([*box.words, "map", "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x", ":::", *"abcd"],
                               stdout=writing, stdin=subprocess.DEVNULL, env=box.environment, cwd=box.folder)
    os.close(writing)
    waiting = bytearray(4)
    eventually(lambda: not fcntl.ioctl(reading, termios.FIONREAD, waiting) and int.from_bytes(waiting, "little") > 60_000,
               "a full pipe")
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    os.close(reading)
    assert box.held() == 0


def with_room(box, size, script):
    """Runs this in a shell with a TMPDIR of this size, MAP standing for the words of `map`."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs root: a file system of its own")
    (box.folder / "tmp").mkdir(exist_ok=True)
    words = " ".join([*box.words, "map"])
    whole = f"mount -t tmpfs -o size={size} t tmp; export TMPDIR=$PWD/tmp; {script.replace('MAP', words)}"
    return subprocess.run(["unshare", "-m", "sh", "-c", whole], capture_output=True, text=True, env=box.environment,
                          cwd=box.folder, timeout=60, stdin=subprocess.DEVNULL)


def test_where_there_is_little_room_output_is_kept_in_memory(box):
    done = with_room(box, "300k", "cat /dev/zero > tmp/full 2> full; MAP seq {} ::: 100000 100001 | wc -l")
    assert done.stdout.split() == ["200001"], done.stderr


def test_output_in_memory_is_appended_to_as_on_a_disk(box):
    script = ("echo a first line of some length; echo appended >> /dev/stdout; echo both | tee -a /dev/stderr; "
              "echo more >> /dev/stderr; echo end; echo end >&2")
    done = with_room(box, "300k", f"MAP -q sh -c '{script}' ::: a")
    assert done.stdout.splitlines() == ["a first line of some length", "appended", "both", "end"]
    assert done.stderr.splitlines() == ["both", "more", "end"]


def test_a_task_that_writes_to_stderr_alone_has_failed_where_the_disk_fills_up(box):
    done = with_room(box, "40m", "MAP -q --joblog log sh -c 'sleep 0.5; seq 10000000 >&2; exit 0' ::: a; cut -f7 log")
    assert "task 1: its output may not be all: the disk of " in done.stderr, done.stderr[-300:]
    assert done.stdout.split() == ["Exitval", "1"]


def test_each_task_whose_output_the_full_disk_has_cut_has_failed(box):
    task = "seq -f %0100.0f 200000 >&2; echo RESULT >&2; exit 0"     # 20 MB each, to a disk of 50
    done = with_room(box, "50m", f"MAP -q -g 0 -j 8 --joblog log sh -c '{task}' ::: 1 2 3 4 5 6 7 8; cut -f7 log")
    # One that has written all of it in the time in which the disk filled up has failed as well: nobody can tell.
    succeeded, told = done.stdout.split().count("0"), done.stderr.count("its output may not be all")
    assert succeeded <= done.stderr.count("RESULT") and succeeded + told == 8, done.stdout


@pytest.mark.parametrize("stream,status", [(1, "1"), (2, "153")])   # the shell's own word, to stderr, ends it by SIGXFSZ
def test_a_task_whose_output_meets_the_limit_of_a_files_size_has_failed(box, stream, status):
    task = ["sh", "-c", f"seq 100000 >&{stream}; exit 0", ":::", "a"]
    done = subprocess.run(["sh", "-c", 'ulimit -Sf 8; "$@"', "sh", *box.words, "map", "-qg0", "--joblog", "log", *task],
                          capture_output=True, text=True, cwd=box.folder, env=box.environment, timeout=60)
    told = " ".join(done.stderr.split())
    assert done.returncode == 1, told
    assert "task 1: its output may not be all: a file may have 4096 bytes here (ulimit -f)" in told, told
    assert (box.folder / "log").read_text().splitlines()[1].split("\t")[6] == status


LOOKS = BUILD / "fake" / "failing_looks.so"


@pytest.mark.skipif(not LOOKS.exists() or SANITIZED, reason="no failing_looks in this build, or a sanitizer has to come first")
@pytest.mark.parametrize("how", [{}, {"THOLE_FAILING_IN_PARTS": "1"}], ids=["at once", "in parts"])
@pytest.mark.parametrize("size", [30, 8_000, 20_000])
@pytest.mark.parametrize("words", [[], ["-k"], ["--json"]], ids=" ".join)
def test_no_file_that_cannot_be_read_or_written_costs_output_in_silence(box, words, size, how):
    counted = box.folder / "looks"
    preload = {"LD_PRELOAD": str(LOOKS), "THOLE_LOOKS": str(counted), "THOLE_FAILING_FILES": "1",
               "THOLE_FAILING_ERRNO": str(errno.EIO), **how}
    own, words = (words, []) if words == ["--json"] else ([], words)
    task = ["sh", "-c", '[ $1 = b ] || until [ -e b ]; do sleep 0.01; done; seq $2; touch $1', "-"]

    def run(look):
        (box.folder / "b").unlink(missing_ok=True)
        return subprocess.run([*box.words, *own, "map", *words, "-g", "0", "-j", "2", *task, "{}", str(size), ":::", "a", "b"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=box.folder, timeout=60,
                              env={**box.environment, **preload, "THOLE_FAILING_LOOK": str(look)})

    run(0)
    number = int(counted.read_text())
    assert number > 0
    for look in range(1, number + 1):
        done = run(look)
        assert done.returncode == 0 or done.stderr, look
        if done.returncode == 0:
            assert done.stdout.count(str(size)) >= 2, (look, done.stdout[-300:])


# The first time the disk fills up while it runs, and nobody tells seq's own end.
FILLS = "[ -e second ] || cat /dev/zero > tmp/full 2> /dev/null; seq 100000; ROOM exit 0"


@pytest.mark.parametrize("fills", [FILLS.replace("ROOM ", ""),
                                   FILLS.replace("ROOM", "[ -e second ] || sleep 0.5; rm -f tmp/full;")],
                         ids=["it stays full", "for half a second"])
@pytest.mark.parametrize("words", ["", "-k"])
def test_a_task_in_whose_time_the_disk_of_its_output_fills_up_has_failed(box, words, fills):
    done = with_room(box, "48m", f"MAP -q {words} --joblog log sh -c '{fills}' ::: a; echo status $?; "
                                 "rm -f tmp/full; touch second; "
                                 f"MAP -q {words} --joblog log --resume-failed sh -c '{fills}' ::: a | wc -l")
    assert "task 1: its output may not be all: the disk of " in done.stderr, done.stderr
    assert done.stdout.endswith("\n100000\n") and "status 1\n" in done.stdout, done.stdout[-200:]

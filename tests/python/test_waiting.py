# ctest: timeout 300
"""Who waits says so: on stderr, to the logger, to a callback."""
import json
import logging
import os
import signal
import subprocess
import sys
import threading

import pytest

import tholepin
from tholepin import _native

ALL = 8
STARTS = {
    "claim": lambda **more: tholepin.claim(1, **more).release(),
    "pool": lambda **more: tholepin.Pool(gpus=1, **more).__exit__(None, None, None),
    "executor": lambda **more: tholepin.Executor(gpus=1, **more).shutdown(),
    "group": lambda **more: group(**more),
    "on_gpu": lambda **more: tholepin.on_gpu(1, **more)(abs)(-1),
}


def group(**more):
    made = tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[0]), **more)
    made.add_process(1, tholepin.ProcessTemplate("true"))
    made.init()
    made.close()


@pytest.fixture
def other():
    """Another process that has all GPUs until its stdin says something."""
    program = f"import tholepin; tholepin.claim({ALL}); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.communicate()


def let_go(process):
    """What on_wait is to do: the wait ends because it was told of, and only then."""
    told = []

    def on_wait(reason):
        told.append(reason)
        process.stdin.write(b"\n")
        process.stdin.flush()

    return told, on_wait


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_wait_is_told_once_in_the_words_of_thole_run(other, start, capfd):
    told, on_wait = let_go(other)
    start(on_wait=on_wait)
    said = capfd.readouterr().err
    assert said.startswith("thole: waiting, next in line\n  GPU") and said.count("waiting") == 1
    assert all(len(line) <= 80 for line in said.splitlines())
    [reason] = told
    assert reason["gpus"] == 1 and reason["position"] == 1 and reason["why"][0] == "next in line" and "0" in reason["why"][1]


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_a_quiet_wait_writes_nothing_and_calls_back(other, how, capfd, monkeypatch):
    told, on_wait = let_go(other)
    if how == "variable":
        monkeypatch.setenv("THOLE_QUIET", "1")
    tholepin.claim(1, on_wait=on_wait, **({"quiet": True} if how == "argument" else {})).release()
    assert capfd.readouterr().err == "" and len(told) == 1


def test_a_log_that_shows_it_is_enough(other, capfd, caplog):
    told, on_wait = let_go(other)
    with caplog.at_level(logging.INFO, "tholepin"):
        tholepin.claim(1, on_wait=on_wait).release()
    [record] = [record for record in caplog.records if record.name == "tholepin"]
    assert record.levelno == logging.INFO and record.getMessage().startswith("waiting, next in line; GPU")
    assert capfd.readouterr().err == "" and told


def test_what_need_not_wait_says_nothing(capfd):
    tholepin.claim(1, on_wait=lambda reason: pytest.fail("it is free")).release()
    assert capfd.readouterr().err == ""


def test_an_error_in_the_callback_leaves_the_line(other):
    def on_wait(reason):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tholepin.claim(1, on_wait=on_wait)
    assert tholepin.status()["queue"] == []
    with pytest.raises(tholepin.Error, match="^on_wait: "):
        tholepin.claim(1, on_wait="no function")


def test_a_wait_in_a_thread_is_told_too(other, capfd):
    told, on_wait = let_go(other)
    thread = threading.Thread(target=lambda: tholepin.claim(1, on_wait=on_wait).release())
    thread.start()
    thread.join()
    assert told and capfd.readouterr().err.startswith("thole: waiting, next in line")


class Stream:
    """In the place of sys.stderr."""

    def __init__(self, write):
        self.write = write


def refuse(text):
    raise RuntimeError(text)


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("stream", [Stream(len), Stream(refuse), 5], ids=["no flush", "refuses", "none"])
def test_who_waits_goes_on_whatever_stands_in_the_place_of_stderr(other, start, stream, monkeypatch):
    told, on_wait = let_go(other)
    monkeypatch.setattr(sys, "stderr", stream)
    start(on_wait=on_wait)
    assert told


def test_so_does_who_has_a_log_that_cannot_be_written(other, monkeypatch):
    told, on_wait = let_go(other)
    monkeypatch.setattr(sys, "stderr", Stream(refuse))  # to which logging says what it could not write
    log, shown = logging.getLogger("tholepin"), logging.StreamHandler()
    log.addHandler(shown)
    log.setLevel(logging.INFO)
    try:
        tholepin.claim(1, on_wait=on_wait).release()
    finally:
        log.removeHandler(shown)
        log.setLevel(logging.NOTSET)
    assert told


def test_what_a_signal_handler_raises_while_something_is_said_ends_the_wait(other, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(lambda text: signal.raise_signal(signal.SIGALRM)))
    before = signal.signal(signal.SIGALRM, lambda number, frame: refuse("enough"))
    try:
        with pytest.raises(RuntimeError, match="enough"):
            tholepin.claim(1)
    finally:
        signal.signal(signal.SIGALRM, before)


WAITS = """
import sys, tholepin
if sys.argv[1] == "closed": sys.stderr.close()
if sys.argv[1] == "progress":
    with tholepin.Pool(gpus=1) as pool: print(sum(pool.imap(abs, range(100), progress=True)))
else: print(len(tholepin.claim(1, wait=60).indices))
"""


@pytest.mark.parametrize("how", ["full", "nobody reads", "closed", "progress"])
def test_who_waits_goes_on_where_nobody_reads_of_it(other, how, tmp_path):
    """Nor is what was computed lost; and the program ends with its own status."""
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "w") as full:
        program = subprocess.Popen([sys.executable, "-c", WAITS, how], stdout=subprocess.PIPE, text=True,
                                   stderr=writing if how == "nobody reads" else full)
        os.close(writing)
        while not json.loads(subprocess.check_output([_native.program(), "status", "--json"]))["queue"]:
            assert program.poll() is None
        other.stdin.write(b"\n")
        other.stdin.flush()
        assert program.communicate(timeout=100)[0] == ("4950\n" if how == "progress" else "1\n")
    assert program.returncode == 0

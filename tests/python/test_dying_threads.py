"""A thread that dies before its first word, as it does where memory is short, is waited for by nobody: who has started it says
so, and gives back what it had claimed."""
import _thread
import asyncio
import errno
import signal
import sys
import threading

import pytest
from claim_tools import claims, eventually

import tholepin
from tholepin import _start, _waiting


def without_memory(*_):
    raise MemoryError


def at_its_begin(monkeypatch):
    start = _thread.start_new_thread
    monkeypatch.setattr(_thread, "start_new_thread", lambda run, words: start(without_memory, ()))


def at_its_begin_and_python_keeps_the_function(monkeypatch):
    """As CPython 3.11 and 3.12 do with one whose frame there is no memory for."""
    start, kept = _thread.start_new_thread, []

    def begin(run, words):
        kept.append(getattr(run, "func", run))
        return start(without_memory, ())

    monkeypatch.setattr(_thread, "start_new_thread", begin)


def in_what_python_does_first(monkeypatch):
    monkeypatch.setattr(threading.Thread, "_bootstrap_inner", without_memory)


def before_its_work(monkeypatch):
    monkeypatch.setattr(threading.Thread, "run", without_memory)


def pool():
    tholepin.Pool(gpus=1)


def executor():
    tholepin.Executor(gpus=1)


def process():
    tholepin.Process("sleep", ["1000"], policy=tholepin.Policy(gpu_affinity=[0])).start()


def group():
    made = tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[0]))
    made.add_process(2, tholepin.ProcessTemplate("sleep", ["1000"]))
    made.init()
    try:
        made.start()
    finally:
        made.close()


def in_a_loop():
    asyncio.run(tholepin.aclaim(1))


@pytest.fixture(autouse=True)
def who_waits_for_ever_fails(monkeypatch):
    def fail(*_):
        raise AssertionError("it waits for a thread that has died")

    monkeypatch.setattr(sys, "unraisablehook", lambda told: None)
    monkeypatch.setattr(threading, "excepthook", lambda told: None)
    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("work", [pool, executor, process, group, in_a_loop])
@pytest.mark.parametrize("death", [at_its_begin, at_its_begin_and_python_keeps_the_function, in_what_python_does_first,
                                   before_its_work])
def test_a_thread_that_dies_at_its_start_is_a_want_and_leaves_no_claim(monkeypatch, work, death):
    with monkeypatch.context() as short:
        death(short)
        with pytest.raises(tholepin.WorkerNotStarted, match="cannot start .* thread") as caught:
            work()
    assert caught.value.errno == errno.ENOMEM and "ulimit -v" in caught.value.hint
    eventually(lambda: claims() == [])


def test_a_thread_that_dies_before_it_waits_in_line_is_a_want(monkeypatch, everything_taken):
    at_its_begin(monkeypatch)
    with pytest.raises(tholepin.WorkerNotStarted, match="cannot start a thread that waits") as caught:
        tholepin.claim(1, wait=100)
    assert caught.value.errno == errno.ENOMEM
    assert tholepin.status()["queue"] == []


def test_one_that_has_begun_and_ended_since_the_last_look_has_not_died(monkeypatch):
    monkeypatch.setattr(_start, "_LOOK_S", 0)
    monkeypatch.setattr(_waiting, "MOMENT", 0)
    for _ in range(300):
        _start.start_thread("a thread", lambda begun: begun(), "short")
    for _ in range(20):
        tholepin.claim(1).release()

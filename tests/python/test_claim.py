# ctest: timeout 600
"""tholepin.claim: what it gives, what it refuses, and when it ends."""
import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from claim_tools import claims, eventually

import tholepin

ALL = 8


def test_a_claim_says_what_it_has_and_shows_only_that():
    with tholepin.claim(2, pick="first") as claim:
        assert claim.indices == [0, 1]
        assert claim.uuids == [gpu.uuid for gpu in tholepin.gpus()][:2]
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1" == claim.env["CUDA_VISIBLE_DEVICES"]
        assert {entry["id"] for entry in claims()} == {claim.id}
        assert "GPU 0, 1" in repr(claim)
        assert claim.cpus == frozenset([*range(64), *range(128, 192)])
    assert claim.released and claims() == []


def test_the_environment_is_as_before_when_the_claim_has_ended(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")
    before = dict(os.environ)
    with tholepin.claim(1) as claim:
        assert claim.indices == [3]  # what is visible narrows
        os.environ["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST"  # somebody's own word is left alone
    assert dict(os.environ) == {**before, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    monkeypatch.delenv("CUDA_DEVICE_ORDER")


def test_a_claim_nobody_keeps_lasts_as_long_as_the_process():
    tholepin.claim(1)
    import gc

    gc.collect()
    assert len(claims()) == 1


@pytest.mark.parametrize(("name", "value", "indices"), [("THOLE_PICK", "last", [7]), ("SLURM_STEP_GPUS", "5", [5])])
def test_what_the_environment_says_now_counts(monkeypatch, name, value, indices):
    tholepin.claim(1).release()  # with the machine as it was opened before
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("SOMETHING_ELSE", "changes too")
    with tholepin.claim(1) as claim:
        assert claim.indices == indices


def test_claims_whose_object_was_replaced_are_ended_together():
    claim = tholepin.claim(1)
    claim = tholepin.claim(1)  # a notebook's cell run again
    claim.release()
    assert len(claims()) == 1, "the first one, which has no name any more"
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    tholepin.release()
    assert claims() == [] and before is not None and "CUDA_VISIBLE_DEVICES" not in os.environ
    tholepin.release()  # there is nothing to end


def test_release_is_once():
    claim = tholepin.claim(1)
    claim.release()
    other = tholepin.claim(1)
    claim.release()
    assert len(claims()) == 1
    other.release()


def test_an_error_in_the_block_ends_the_claim():
    with pytest.raises(ZeroDivisionError), tholepin.claim(1):
        1 / 0
    assert claims() == []


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        ({"gpus": ALL + 1}, tholepin.NeverPossible, 64),
        ({"model": "H100"}, tholepin.NeverPossible, 64),
        ({"memory": "200G"}, tholepin.NeverPossible, 64),
        ({"pick": "best"}, tholepin.Error, 64),
        ({"on": 99}, tholepin.Error, 64),
        ({"memory": "much"}, tholepin.Error, 64),
        ({"wait": "soon"}, tholepin.Error, 64),
        ({"wait": -1}, tholepin.Error, 64),
    ],
)
def test_a_request_that_makes_no_sense_here_is_refused_at_once(words, kind, code):
    with pytest.raises(tholepin.Error) as caught:
        tholepin.claim(**words)
    assert isinstance(caught.value, kind) and caught.value.code == code
    assert isinstance(caught.value, tholepin.NeverPossible) == (kind is tholepin.NeverPossible) and isinstance(
        caught.value, ValueError
    )
    assert caught.value.message and claims() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"gpus": "2"}, "gpus: expected a whole number, got '2'"),
        ({"gpus": True}, "gpus: expected a whole number, got True"),
        ({"gpus": 1.0}, "gpus: expected a whole number, got 1.0"),
        ({"gpus": -1}, "gpus: expected 0 or more, got -1"),
        ({"on": 1.5}, "on: expected GPUs by their numbers or names, got 1.5"),
        ({"on": [0, None]}, "on: expected GPUs by their numbers or names, got [0, None]"),
        ({"not_on": True}, "not_on: expected GPUs by their numbers or names, got True"),
        ({"order": ["0", ""]}, "order: expected GPUs by their numbers or names, got ''"),
        ({"model": 100}, "model: expected a text, got 100"),
        ({"memory": 1.5}, "memory: expected MiB, or a text such as \"20G\", \"512MiB\", got 1.5"),
        ({"wait": "soon"}, "wait: expected seconds, or a text such as \"90s\", \"30m\", \"1h30m\", got 'soon'"),
        ({"wait": float("nan")}, "wait: expected no negative time, got nan"),
        ({"share": "no"}, "share: expected True or False, got 'no'"),
        ({"share_with": "all"}, "share_with: expected user or any, got 'all'"),
        ({"beside": 1}, "beside: expected none, mine or any, got 1"),
        ({"max_load": "50%"}, "max_load: expected percent, 0 to 100, got '50%'"),
        ({"max_memory": 101}, "max_memory: expected percent, 0 to 100, got 101"),
        ({"pick": "best"}, "pick: expected pack, first, last, random, load or memory, got 'best'"),
        ({"shape": ["pairwise"]}, "shape: expected collective, pairwise or independent, got ['pairwise']"),
        ({"trust_claims": 2}, "trust_claims: expected True or False, got 2"),
        ({"ids": ""}, "ids: expected auto, uuid or index, got ''"),
        ({"command": ["train.py"]}, "command: expected a text, got ['train.py']"),
    ],
)
def test_a_wrong_argument_is_refused_in_its_own_words(words, message):
    with pytest.raises(ValueError) as caught:
        tholepin.claim(**words)
    assert isinstance(caught.value, tholepin.Error) and caught.value.message == message and caught.value.code == 64


def test_what_the_command_line_takes_is_taken():
    with tholepin.claim(2, on="0,1", wait=float("inf")) as claim:
        assert claim.indices == [0, 1]
    with tholepin.claim(1, not_on="0, 1", pick="first") as claim:
        assert claim.indices == [2]


def test_words_that_choose_choose():
    with tholepin.claim(on=[1, "2"], order=2) as claim:
        assert claim.indices == [2]
    with tholepin.claim(2, not_on=[0, 1], pick="first", ids="uuid") as claim:
        assert claim.indices == [2, 3] and os.environ["CUDA_VISIBLE_DEVICES"].startswith("GPU-")
    with tholepin.claim(share=True, memory="10G", command="a test") as claim:
        assert [(entry["shared"], entry["memory_mib"], entry["command"]) for entry in claims()] == [(True, 10240, "a test")]
    with tholepin.claim(0) as claim:
        assert claim.gpus == [] and os.environ["CUDA_VISIBLE_DEVICES"] == ""


def waiting():
    return len(tholepin.status()["queue"])


def test_no_wait_and_a_wait_that_runs_out(everything_taken):
    with pytest.raises(tholepin.NoneFree) as caught:
        tholepin.claim(wait=0)
    assert caught.value.code == 75
    with pytest.raises(tholepin.WaitTimeout) as caught:
        tholepin.claim(wait=0.05)
    assert caught.value.code == 124 and "not free after 0.05s" in str(caught.value) and waiting() == 0


def test_a_wait_in_the_main_thread_lets_other_threads_work_and_gets_its_turn(everything_taken):
    helper = threading.Thread(target=lambda: (eventually(waiting), everything_taken()))
    helper.start()
    with tholepin.claim(ALL, wait="200s") as claim:
        assert len(claim.gpus) == ALL
    helper.join()


def test_a_wait_in_another_thread_gets_its_turn(everything_taken):
    got = []
    waiter = threading.Thread(target=lambda: got.append(tholepin.claim(1, wait=200)))
    waiter.start()
    eventually(waiting)
    everything_taken()
    waiter.join()
    assert got[0].gpus


def interrupt_when_waiting(number, told=None):
    def send():
        if told:  # the try that comes before a wait is in line, too, for a moment
            assert told.wait(200)
        eventually(waiting)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_control_c_leaves_the_line_without_a_trace(everything_taken):
    thread = interrupt_when_waiting(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        tholepin.claim(1)
    thread.join()
    assert waiting() == 0


def test_a_handler_that_returns_does_not_cost_the_place_in_line(everything_taken):
    seen = []

    def handler(number, frame):
        seen.append(waiting())
        everything_taken()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        told = threading.Event()
        thread = interrupt_when_waiting(signal.SIGUSR1, told)
        with tholepin.claim(1, wait=200, on_wait=lambda why: told.set()):
            pass
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [1]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_claim_is_not_copied(copied):
    from tholepin import _native, _start

    with tholepin.claim(1) as claim:
        with pytest.raises(
            TypeError, match="cannot be copied or pickled: it belongs to this process; another one .* claim.env"
        ):
            copied(claim)
    child = _start.Child()
    _start.start(child, ["true"])
    for owner in (_native.machine(), child):  # whatever else closes what it has
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(owner)
    assert child.wait(200)


def test_a_released_claim_is_no_block():
    claim = tholepin.claim(1)
    claim.release()
    with pytest.raises(tholepin.Error, match="has been released") as raised:
        with claim:
            pytest.fail("entered")
    assert raised.value.object == claim.id


def test_control_c_before_the_waiting_thread_has_begun_leaves_the_line(everything_taken, monkeypatch):
    """It was started, and gets no CPU for longer than anybody would guess."""
    import _thread

    real, asked, interrupted, began = _thread.start_new_thread, threading.Event(), threading.Event(), threading.Event()

    def interrupt():
        asked.wait()  # to start it; and when that has returned:
        eventually(lambda: sys._current_frames()[threading.main_thread().ident].f_code.co_name == "_wait")
        os.kill(os.getpid(), signal.SIGINT)
        interrupted.set()

    def slow(function, arguments):
        def begins_late():
            interrupted.wait()
            time.sleep(1.5)  # what is tested: no time is enough to say that it was not started
            began.set()
            function(*arguments)

        started = real(begins_late, ())
        asked.set()
        return started

    with monkeypatch.context() as patched:
        patched.setattr(_thread, "start_new_thread", slow)
        real(interrupt, ())
        with pytest.raises(KeyboardInterrupt):
            tholepin.claim(1)
    assert began.is_set() and waiting() == 0

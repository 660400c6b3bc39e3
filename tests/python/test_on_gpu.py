# ctest: timeout 900
"""tholepin.on_gpu: a function in a process that owns GPUs, from a module, a script and a notebook's cell."""
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import tholepin


@tholepin.on_gpu(2, pick="first")
def seen(word, *, end=""):
    """What the process has."""
    return word, os.environ["CUDA_VISIBLE_DEVICES"], os.getpid(), end


@tholepin.on_gpu(1)
def failing():
    raise LookupError("in there")


@tholepin.on_gpu(1)
def dying():
    os.kill(os.getpid(), signal.SIGKILL)


@tholepin.on_gpu(1)
def inner():
    return tholepin.claim(1).indices, len(tholepin.status()["claims"])


def test_the_function_runs_in_a_process_of_its_own_on_its_gpus():
    word, devices, pid, end = seen("a", end="b")
    assert (word, devices, end) == ("a", "0,1", "b") and pid != os.getpid()
    assert seen("a")[2] != pid
    assert "CUDA_VISIBLE_DEVICES" not in os.environ and tholepin.status()["claims"] == []


def test_it_is_still_the_function():
    assert seen.__name__ == "seen" and seen.__doc__ == "What the process has." and seen.__wrapped__ is not seen


def test_what_it_raises_is_raised_here_and_the_claim_is_over():
    with pytest.raises(LookupError, match="in there") as caught:
        failing()
    assert "failing" in str(caught.value.__cause__)
    with pytest.raises(tholepin.WorkerDied):
        dying()
    assert tholepin.status()["claims"] == []


def test_a_claim_in_there_is_within_it():
    assert inner() == ([0], 1)


def test_a_request_that_cannot_be_met_is_refused_when_it_is_called():
    too_many = tholepin.on_gpu(9)(len)
    with pytest.raises(tholepin.NeverPossible):
        too_many("abc")
    with tholepin.claim(8, pick="first"), pytest.raises(tholepin.NeverPossible):
        too_many("abc")


def test_mistakes_in_the_decorator_are_told_at_once():
    with pytest.raises(TypeError, match="gpu_count"):
        tholepin.on_gpu(1, gpu_count=2)
    with pytest.raises(tholepin.Error, match="parentheses"):
        tholepin.on_gpu(len)


def test_a_script_without_a_main_guard_may_use_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""\
        import os, tholepin

        @tholepin.on_gpu(1, pick="last")
        def device(offset):
            return int(os.environ["CUDA_VISIBLE_DEVICES"]) + offset

        print(device(100))
    """))
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("107\n", "")

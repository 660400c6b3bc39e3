# ctest: timeout 600
"""tholepin.submit, jobs, wait: the queue as functions. (What the queue itself does is tested with the program,
tests/system.)"""
import os
import signal
import sys
import threading

import pytest

import tholepin


def test_a_job_runs_in_its_turn_with_what_it_was_given(tmp_path):
    show = "import os; open('out', 'w').write(os.environ['WORD'] + os.environ['CUDA_VISIBLE_DEVICES'])"
    job = tholepin.submit(
        [sys.executable, "-c", show], gpus=1, on=[2], name="one", tag=["a", "b"], directory=tmp_path, env={"WORD": "x y "}
    )
    assert [done["state"] for done in tholepin.wait(job)] == ["done"]
    assert (tmp_path / "out").read_text() == "x y 2"
    (seen,) = tholepin.jobs("one")
    assert (seen["job"], seen["tags"], seen["gpus"]) == (job, ["a", "b"], 1)


def test_a_grid_is_a_task_for_each_combination():
    job = tholepin.submit(
        ["true", "{lr}", "{name}"], gpus=0, grid={"lr": [0.1, 0.01], "name": ["a", "b", "c"]}, at_most=2, hold=True
    )
    assert tholepin.jobs(job, state="held")[0]["tasks"] == 6


def test_after_others_and_again():
    first = tholepin.submit(["false"], gpus=0, retry=[1, "fail"])
    then = tholepin.submit(["true"], gpus=0, after=[f"{first}:fail"])
    never = tholepin.submit(["true"], gpus=0, after=first)
    assert {done["job"]: done["state"] for done in tholepin.wait(first, then, never)} == {
        first: "failed",
        then: "done",
        never: "skipped",
    }


def test_what_a_job_cannot_be_is_said_at_once():
    with pytest.raises(tholepin.Error) as caught:
        tholepin.submit("python train.py")
    assert "list" in str(caught.value)
    with pytest.raises(tholepin.Error) as caught:
        tholepin.submit(["true"], gpus=9)
    assert caught.value.code == 64
    with pytest.raises(tholepin.Error) as caught:
        tholepin.submit(["true"], gpu=1)
    assert 'there is no argument "gpu"' in str(caught.value)
    with pytest.raises(tholepin.Error):
        tholepin.jobs(4711)


def test_a_wait_ends_when_its_time_is_over():
    job = tholepin.submit(["sleep", "60"], gpus=0)
    with pytest.raises(tholepin.WaitTimeout):
        tholepin.wait(job, timeout="1s")
    quick = tholepin.submit(["true"], gpus=0)
    assert [done["job"] for done in tholepin.wait(job, quick, any=True) if done["state"] == "done"] == [quick]


def test_control_c_ends_the_wait_and_not_the_job(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    job = tholepin.submit(["sh", "-c", "echo > fifo; sleep 60"], gpus=0, directory=tmp_path)

    def interrupt_when_it_runs():
        (tmp_path / "fifo").read_text()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_it_runs)
    with pytest.raises(KeyboardInterrupt):
        thread.start()  # here: the job may run already
        tholepin.wait(job)
    thread.join()
    assert tholepin.jobs(job)[0]["state"] == "running"

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


class One:
    """As numpy's whole numbers are: no int, but one by its index."""

    def __index__(self):
        return 1


class Half:
    def __float__(self):
        return 0.5


def test_numbers_of_other_libraries_are_numbers():
    one, half = One(), Half()
    job = tholepin.submit(["true", one], gpus=one, priority=one, on=[one], grid={"a": [one, half]}, time=half, hold=True)
    assert job == 1 and tholepin.jobs(one)[0]["tasks"] == 2
    assert tholepin.why(one)["units"] and tholepin.plan(one, on=[one]).gpus == [1]
    with tholepin.claim(one, on=one, max_load=half, wait=one) as claim:
        assert claim.indices == [1]
    with tholepin.Pool(one) as pool:
        assert pool.map(abs, [-1, -2], chunksize=one) == [1, 2]


def test_a_value_of_a_list_is_one_value():
    job = tholepin.submit(["true"], gpus=0, hold=True, grid={"a": ["x,y", "z"], "b": ["1..3", 'q"', ""]})
    assert tholepin.jobs(job)[0]["tasks"] == 6


@pytest.mark.parametrize("wrong", [
    {"time": 10**400}, {"name": "\ud800"}, {"notify": "\ud800"}, {"env": {"A=B": "1"}}, {"dry_run": True}, {"help": True},
])
def test_what_no_job_can_have_is_a_wrong_request(wrong):
    with pytest.raises(tholepin.Error) as caught:
        tholepin.submit(["true"], gpus=0, hold=True, **wrong)
    assert caught.value.code == 64


def test_words_that_no_one_can_say_and_times_without_end():
    for call in (tholepin.why, tholepin.jobs, tholepin.wait):
        with pytest.raises(tholepin.Error):
            call("\ud800")
    with pytest.raises(tholepin.Error):
        tholepin.why(help=True)
    tholepin.claim(1, wait=10**400).release()
    tholepin.ProcessGroup(walltime=10**400)


def test_the_words_of_the_caller_are_told_as_they_are():
    with pytest.raises(tholepin.Error) as caught:
        tholepin.why("--help")
    assert "--help" in str(caught.value)


@pytest.mark.parametrize("wanted", [{"gpus": 99}, {"memory": "9T"}, {"model": "H1000"}, {"leave": 99}], ids=str)
def test_what_a_machine_never_gives_is_said_as_such(wanted):
    with pytest.raises(tholepin.NeverPossible):
        tholepin.submit(["true"], **wanted)


def test_a_wait_for_a_task_tells_of_that_task():
    job = tholepin.submit(["sh", "-c", "exit $THOLE_TASK_INDEX"], gpus=0, array="0-1")
    assert [(one["which"], one["state"], one["tasks"], one["done"]) for one in tholepin.wait(f"{job}.0", f"{job}.1")] == [
        (f"{job}.0", "done", 1, 1), (f"{job}.1", "failed", 1, 0)]
    assert [(one["which"], one["state"], one["tasks"], one["done"]) for one in tholepin.wait(job)] == [
        (str(job), "failed", 2, 1)]


def test_a_wait_lasts_as_long_as_it_says():
    job = tholepin.submit(["true"], gpus=0, hold=True)
    with pytest.raises(tholepin.WaitTimeout, match="not over after 0.2s"):
        tholepin.wait(job, timeout=0.2)

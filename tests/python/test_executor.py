# ctest: timeout 600
"""Executor: concurrent.futures on GPUs."""
import concurrent.futures
import fcntl
import os

import pytest

import pool_work as work
import tholepin

LONG = 200  # seconds, that no test takes unless something is wrong


def test_it_is_an_executor():
    with tholepin.Executor(2) as executor:
        assert isinstance(executor, concurrent.futures.Executor)
        assert executor.submit(int, "ff", base=16).result(LONG) == 255
        assert list(executor.map(pow, [2, 3], [3, 2])) == [8, 9]
        assert list(executor.map(work.square, range(10), chunksize=4)) == [x * x for x in range(10)]
        done = concurrent.futures.as_completed([executor.submit(work.square, x) for x in range(5)], LONG)
        assert sorted(future.result() for future in done) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize(
    "wrong", [{"max_workers": 0}, {"max_tasks_per_child": 0}, {"max_tasks_per_child": "2"}, {"retries": -1}]
)
def test_numbers_that_make_no_sense_are_refused_by_their_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        tholepin.Executor(**wrong)


def test_after_shutdown_what_was_submitted_is_done_and_nothing_more_is_taken():
    executor = tholepin.Executor(1)
    futures = [executor.submit(work.square, x) for x in range(10)]
    executor.shutdown()
    assert [future.result(0) for future in futures] == [x * x for x in range(10)]
    with pytest.raises(RuntimeError):
        executor.submit(work.square, 1)


def test_what_no_worker_has_can_be_cancelled(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with tholepin.Executor(1) as executor:
        first = executor.submit(work.meet, str(tmp_path / "fifo"))
        rest = [executor.submit(work.square, x) for x in range(20)]
        with open(tmp_path / "fifo", "wb") as fifo:  # the worker has begun with the first
            assert rest[-1].cancel()
            executor.shutdown(wait=False, cancel_futures=True)
            fifo.write(b"x")
        assert first.result(LONG) == b"x"
    assert rest[-1].cancelled()
    assert all(future.done() for future in rest)


def test_an_exception_comes_with_its_traceback_in_the_worker():
    with tholepin.Executor(1) as executor:
        error = executor.submit(work.fail, 3).exception(LONG)
    assert isinstance(error, ValueError) and "no {x}" in str(error.__cause__)


def test_map_ends_with_a_timeout(tmp_path):
    with tholepin.Executor(1) as executor, open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the block ends: whether the task has been begun by then or not
        with pytest.raises(concurrent.futures.TimeoutError):
            list(executor.map(work.lock, [str(tmp_path / "lock")], timeout=0.05))


def test_an_initializer_that_raises_breaks_the_executor():
    with tholepin.Executor(1, work.refuse) as executor:
        error = executor.submit(work.square, 1).exception(LONG)
        assert isinstance(error, concurrent.futures.process.BrokenProcessPool)
        with pytest.raises(concurrent.futures.process.BrokenProcessPool):
            executor.submit(work.square, 1)


def test_a_worker_that_dies_fails_only_its_own_future():
    with tholepin.Executor(1, retries=0) as executor:
        futures = [executor.submit(work.square, 3), executor.submit(work.end_with, 4), executor.submit(work.square, 4)]
        error = futures[1].exception(LONG)
        assert isinstance(error, tholepin.WorkerDied) and error.exit_status == 4
        assert (futures[0].result(LONG), futures[2].result(LONG)) == (9, 16)


def test_workers_have_their_gpus_and_give_them_back():
    with tholepin.Executor(gpus="free", processes_per_policy=2) as executor:
        assert executor.wait_until_ready(LONG)
        assert {executor.submit(work.where).result(LONG)[0] for _ in range(20)} <= set("01234567")
        with pytest.raises(tholepin.NoneFree):
            tholepin.claim(1, wait=0)
    tholepin.claim(8, wait=0).release()

# ctest: timeout 900
"""Pool: the interface of multiprocessing.Pool, on GPUs, with workers that may die."""
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import types

import pytest

import pool_work as work
import tholepin

LONG = 200  # seconds, that no test takes unless something is wrong


@pytest.fixture
def pool():
    with tholepin.Pool(2) as made:
        yield made


@pytest.mark.parametrize("chunksize", [None, 1, 3, 100])
def test_map_is_the_built_in_map(pool, chunksize):
    assert pool.map(work.square, range(10), chunksize) == [x * x for x in range(10)]
    assert pool.map_async(work.square, iter(range(10)), chunksize).get(LONG) == [x * x for x in range(10)]
    assert pool.starmap(pow, [(2, 3), (3, 2)], chunksize) == [8, 9]
    assert pool.starmap_async(pow, [(2, 3), (3, 2)], chunksize).get(LONG) == [8, 9]
    assert list(pool.imap(work.square, iter(range(10)), chunksize or 1)) == [x * x for x in range(10)]
    assert sorted(pool.imap_unordered(work.square, range(10), chunksize or 1)) == [x * x for x in range(10)]


def test_of_nothing_comes_nothing(pool):
    assert pool.map(work.square, []) == [] == list(pool.imap(work.square, [])) == pool.starmap(pow, ())


def test_apply_takes_arguments_by_place_and_by_name(pool):
    assert pool.apply(int, ("ff",), {"base": 16}) == 255
    assert pool.apply_async(int, ("ff",), {"base": 16}).get(LONG) == 255


def test_results_come_while_the_iterable_still_gives(pool):
    asked, go_on = threading.Event(), threading.Event()

    def slow():
        yield 1
        asked.set()
        assert go_on.wait(LONG)
        yield 2

    results = pool.imap(work.square, slow())
    assert next(results) == 1
    assert asked.wait(LONG)
    go_on.set()
    assert list(results) == [4]


def test_what_an_iterable_raises_is_raised_where_its_item_would_be(pool):
    def broken():
        yield 3
        raise KeyError("here")

    results = pool.imap(work.square, broken())
    assert next(results) == 9
    with pytest.raises(KeyError, match="here"):
        next(results)


def test_an_exception_comes_with_its_traceback_in_the_worker(pool):
    for call in (
        lambda: pool.apply(work.fail, (3,)),
        lambda: pool.map(work.fail, [3]),
        lambda: next(pool.imap(work.fail, [3])),
    ):
        with pytest.raises(ValueError, match="no 3") as raised:
            call()
        assert 'raise ValueError(f"no {x}")' in str(raised.value.__cause__)


@pytest.mark.parametrize("function, said", [(work.fail_pickily, "Picky"), (work.unpicklable, "pickle.*generator")])
def test_what_cannot_be_pickled_is_an_error_that_says_so(pool, function, said):
    with pytest.raises(Exception, match=said):
        pool.apply_async(function, (0,)).get(LONG)
    assert pool.apply(work.square, (3,)) == 9


def test_arguments_that_cannot_be_pickled_fail_alone(pool):
    with pytest.raises(Exception, match="pickle"):
        pool.apply_async(work.square, (threading.Lock(),)).get(LONG)
    assert pool.apply(work.square, (3,)) == 9


def test_callbacks_hear_the_result_or_the_exception(pool):
    heard, done = [], threading.Event()

    def hear(value):
        heard.append(value)
        if len(heard) == 3:
            done.set()

    pool.apply_async(work.square, (2,), callback=hear)
    pool.map_async(work.square, [1, 2], callback=hear)
    pool.apply_async(work.fail, (2,), error_callback=hear)
    assert done.wait(LONG)
    assert 4 in heard and [1, 4] in heard and any(isinstance(one, ValueError) for one in heard)


def test_progress_is_told_chunk_by_chunk(pool):
    told = []
    pool.map(work.square, range(10), 4, progress=lambda done, total: told.append((done, total)))
    assert sorted(told) == told and told[-1] == (10, 10) and len(told) == 3
    told.clear()
    list(pool.imap(work.square, range(3), progress=lambda done, total: told.append((done, total))))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.fixture
def tqdm(monkeypatch):
    """A stand-in for tqdm.auto that notes what is asked of its bars; the real one is tried in
    test_tqdm_itself_draws_the_bar."""
    bars = []

    class Bar:
        def __init__(self, total):
            self.total, self.done, self.closed = total, 0, False
            bars.append(self)

        def update(self, number):
            assert not self.closed
            self.done += number

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    return bars


def test_a_bar_of_tqdm_goes_to_the_end_and_is_closed(pool, tqdm):
    pool.map(work.square, range(10), 4, progress=True)
    pool.starmap(pow, [(2, 3)] * 5, progress=True)
    list(pool.imap(work.square, range(7), 2, progress=True))
    list(pool.imap_unordered(work.square, iter(range(6)), progress=True))  # nobody knows how many there will be
    with pytest.raises(ValueError):
        pool.map(work.fail, range(3), 1, progress=True)
    assert [(bar.total, bar.done, bar.closed) for bar in tqdm] == [
        (10, 10, True),
        (5, 5, True),
        (7, 7, True),
        (None, 6, True),
        (3, 3, True),
    ]


def test_tqdm_itself_draws_the_bar():
    pytest.importorskip("tqdm", reason="tqdm is not installed here")
    code = "import tholepin\nwith tholepin.Pool(1) as pool: pool.map(abs, range(8), 2, progress=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "100%" in done.stderr and "8/8" in done.stderr


def test_without_tqdm_progress_is_a_line(pool, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # cannot be imported
    pool.map(work.square, range(4), 2, progress=True)
    assert capsys.readouterr().err == "\r2/4\r4/4\n"


def test_a_progress_callback_that_raises_does_not_stop_the_work(pool):
    assert pool.map(work.square, range(4), 1, progress=lambda done, total: 1 / 0) == [0, 1, 4, 9]
    assert pool.map(work.square, range(4)) == [0, 1, 4, 9]


def test_a_result_that_is_not_there_in_time_is_a_timeout_of_both_kinds(pool, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    result = pool.apply_async(work.meet, (str(tmp_path / "fifo"),))
    for kind in (TimeoutError, multiprocessing.TimeoutError):
        with pytest.raises(kind):
            result.get(0.05)
    assert not result.ready()
    with pytest.raises(ValueError):
        result.successful()
    (tmp_path / "fifo").write_bytes(b"now")
    assert result.get(LONG) == b"now" and result.successful()


@pytest.mark.parametrize(
    "arguments",
    [
        {"processes": 0},
        {"processes": 2, "processes_per_policy": 2},
        {"processes": 2, "gpus": 1},
        {"policy": []},
        {"policy": tholepin.Policy(), "gpus": 1},
        {"maxtasksperchild": 0},
        {"retries": -1},
        {"retries": None, "maxtasksperchild": 1.5},
    ],
)
def test_arguments_that_do_not_go_together_are_said_so(arguments):
    with pytest.raises(ValueError):
        tholepin.Pool(**arguments)


def test_a_closed_pool_finishes_and_takes_no_more(pool):
    results = [pool.apply_async(work.square, (x,)) for x in range(20)]
    with pytest.raises(ValueError):
        pool.join()
    pool.close()
    with pytest.raises(ValueError):
        pool.apply(work.square, (1,))
    pool.join(LONG)
    assert [result.get(0) for result in results] == [x * x for x in range(20)]


def test_what_a_terminated_pool_has_not_done_fails(pool):
    result = pool.apply_async(work.sleep, (1000,))
    pool.terminate()
    pool.join(LONG)
    with pytest.raises(tholepin.Error, match="terminated"):
        result.get(LONG)


def test_the_initializer_runs_in_every_worker_first():
    with tholepin.Pool(2, work.remember, ("word",)) as pool:
        assert pool.map(work.remembered, range(8), 1) == [["word"]] * 8


def test_an_initializer_that_raises_fails_the_pool_at_once():
    with tholepin.Pool(2, work.refuse) as pool:
        with pytest.raises(tholepin.Error, match="this worker will not start") as raised:
            pool.map(work.square, range(10))
        assert isinstance(raised.value.__cause__, RuntimeError)
        assert "refuse" in str(raised.value.__cause__.__cause__)
        with pytest.raises(tholepin.Error):
            pool.wait_until_ready(LONG)


def test_workers_that_cannot_start_are_not_started_for_ever():
    with tholepin.Pool(2, work.end_with, (7,)) as pool:
        with pytest.raises(tholepin.WorkerDied, match="before they are ready") as raised:
            pool.apply(work.square, (1,))
        assert raised.value.exit_status == 7


def test_a_worker_is_replaced_after_its_number_of_tasks():
    with tholepin.Pool(1, maxtasksperchild=2) as pool:
        pids = pool.map(work.pid_of, range(6), 1)
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 2, 2]


@pytest.mark.parametrize("death, status", [((work.end_with, 3), 3), ((work.kill_self, 0), -signal.SIGKILL)])
def test_a_task_that_always_kills_its_worker_fails_with_how(death, status):
    with tholepin.Pool(2, retries=1) as pool:
        others = [pool.apply_async(work.square, (x,)) for x in range(50)]
        with pytest.raises(tholepin.WorkerDied, match="2 times") as raised:
            pool.apply(death[0], (death[1],))
        assert raised.value.exit_status == status and raised.value.pid > 0
        assert [result.get(LONG) for result in others] == [x * x for x in range(50)]


def test_a_task_whose_worker_died_is_tried_again(tmp_path):
    with tholepin.Pool(1) as pool:
        ahead = pool.map_async(work.square, range(30), 1)
        assert pool.apply(work.die_once, (str(tmp_path / "died"),)) == "again"
        assert ahead.get(LONG) == [x * x for x in range(30)]


def test_tasks_ahead_of_a_worker_that_is_busy_go_to_another(pool, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    pool.wait_until_ready(LONG)
    stuck = pool.apply_async(work.meet, (str(tmp_path / "fifo"),))
    assert pool.map_async(work.square, range(100), 1).get(LONG) == [x * x for x in range(100)]
    assert not stuck.ready()
    (tmp_path / "fifo").write_bytes(b"x")
    stuck.get(LONG)


@pytest.mark.parametrize("size", [10, 40_000, 5_000_000])
def test_buffers_travel_out_of_band_and_are_the_workers_to_write_to(pool, size):
    data = bytearray(os.urandom(size))
    before = bytes(data)
    result = pool.apply(work.flipped, (work.Frame(data),)).data
    assert bytes(data) == before
    assert result[0] == before[0] ^ 0xFF and bytes(result[1:]) == before[1:]
    assert pool.apply(len, (bytes(size),)) == size


def test_the_same_large_function_is_handed_to_every_worker(pool):
    from functools import partial

    assert pool.map(partial(max, bytes(100_000)), [b"a", b"b"], 1) == [b"a", b"b"]


def test_workers_may_have_children(pool):
    assert pool.apply(work.child_says, ("hello",)) == "HELLO"


def test_a_fork_of_ours_cannot_use_the_pool_and_does_not_keep_it(pool):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            pool.apply_async(work.square, (1,))
        except tholepin.Error:
            os.write(write, b"refused")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 100) == b"refused"
    os.close(read), os.close(write)
    assert pool.apply(work.square, (4,)) == 16


# ---- On GPUs ----


def free_gpus():
    """How many can be claimed now."""
    for number in range(8, 0, -1):
        try:
            tholepin.claim(number, wait=0).release()
            return number
        except tholepin.NoneFree:
            continue
    return 0


def test_each_gpu_has_its_workers_and_each_worker_its_gpu():
    with tholepin.Pool(gpus=3, processes_per_policy=2) as pool:
        assert pool.size == 6
        assert pool.wait_until_ready(LONG)
        seen = {one[0] for one in pool.map(work.where, range(200), 1)}
        assert seen <= {"0", "1", "2"} and len(seen) > 1
        assert free_gpus() == 5
    assert free_gpus() == 8


def test_free_means_all_that_are_free():
    with tholepin.Pool(gpus=5) as first, tholepin.Pool(gpus="free") as rest:
        assert (first.size, rest.size) == (5, 3)
        with pytest.raises(tholepin.NoneFree):
            tholepin.Pool(gpus="free", wait=0)
    assert free_gpus() == 8


def test_policies_name_gpus_and_cpus():
    policies = [tholepin.Policy(gpu_affinity=[5], cpu_affinity=[0]), tholepin.Policy(gpu_affinity=[2, 6], cpu_affinity=[0])]
    with tholepin.Pool(policy=policies) as pool:
        assert free_gpus() == 5
        seen = set(pool.map(work.where, range(200), 1))
    assert seen <= {("5", (0,)), ("2,6", (0,))}
    assert free_gpus() == 8


def test_every_gpu_policy_of_the_system_is_a_worker_of_its_own():
    with tholepin.Pool(policy=tholepin.System().gpu_policies()) as pool:
        assert pool.size == 8
        assert free_gpus() == 0


def test_a_claim_in_a_worker_comes_out_of_its_own_gpus():
    with tholepin.Pool(policy=[tholepin.Policy(gpu_affinity=[gpu]) for gpu in (2, 3)]) as pool:
        for _ in range(3):   # each of them, once or more
            assert {tuple(seen) for seen in pool.map(work.mine_and_claimed, range(8), chunksize=1)} <= {("2", 2), ("3", 3)}
            assert set(pool.map(work.claimed_here, [2] * 8, chunksize=1)) == {"NeverPossible"}
    with tholepin.Pool(policy=[tholepin.Policy(gpu_affinity=[4])]) as pool:
        assert pool.apply(work.claimed_here, (1,)) == [4]
        assert pool.apply(work.claimed_here, (2,)) == "NeverPossible"


def test_a_replaced_worker_has_the_same_gpu(tmp_path):
    with tholepin.Pool(policy=[tholepin.Policy(gpu_affinity=[7])]) as pool:
        before = pool.apply(work.where)
        assert pool.apply(work.die_once, (str(tmp_path / "died"),)) == "again"
        assert pool.apply(work.where) == before and before[0] == "7"


def test_a_pool_that_fails_to_start_keeps_no_claim():
    with pytest.raises(tholepin.NeverPossible):
        tholepin.Pool(policy=[tholepin.Policy(gpu_affinity=[0]), tholepin.Policy(gpu_affinity=[99])])
    with tholepin.Pool(gpus=2, initializer=work.refuse) as pool, pytest.raises(tholepin.Error):
        pool.apply(work.square, (1,))
    assert free_gpus() == 8


def test_a_forgotten_pool_gives_its_gpus_back():
    pool = tholepin.Pool(gpus=2)
    crew = pool._crew
    del pool
    assert crew.join(LONG)
    assert free_gpus() == 8


def without_gpus(program, **variables):
    code = f"import tholepin\nif __name__ == '__main__':\n    {program}"
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True,
                          timeout=120)


@pytest.mark.parametrize("kind", ["Pool", "Executor"])
def test_one_that_claims_no_gpu_says_so_where_there_are_some(kind):
    def told(program, **variables):
        done = without_gpus(program, **variables)
        assert done.returncode == 0, done.stderr
        return [line for line in done.stderr.splitlines() if "claims no GPU: gpus=" in line]

    assert len(told(f"with tholepin.{kind}(2): pass")) == 1
    assert told(f"with tholepin.{kind}(2, quiet=True): pass") == []
    assert told(f"with tholepin.{kind}(gpus='free'): pass") == []
    assert told(f"with tholepin.claim(1), tholepin.{kind}(2): pass") == []
    assert told(f"with tholepin.{kind}(2): pass", CUDA_VISIBLE_DEVICES="") == []

"""Tasks and programs that do what is no pool's business: they fork, leave their group, change what all of Python uses."""
import os
import socket
import subprocess
import sys

import pytest
from claim_tools import eventually

import pool_work as work
import tholepin

STATUS = {"exits": 7, "returns": 0, "fails": 1}


@pytest.mark.parametrize("how", STATUS)
@pytest.mark.parametrize("chunk", [1, 6])
def test_a_copy_of_a_worker_ends_with_the_task(how, chunk):
    with tholepin.Pool(gpus=1) as pool:
        assert pool.map(work.fork_and, [how] * 6, chunksize=chunk) == [STATUS[how]] * 6
        assert pool.starmap(work.fork_and, [(how,)] * 6, chunksize=chunk) == [STATUS[how]] * 6
        assert pool.apply(work.fork_and, (how,)) == STATUS[how]
        pool.close()
        pool.join()


@pytest.mark.parametrize("how", STATUS)
def test_so_does_one_of_an_executor_and_of_a_function_on_a_gpu(how):
    with tholepin.Executor(gpus=1) as executor:
        assert list(executor.map(work.fork_and, [how] * 6)) == [STATUS[how]] * 6
    assert tholepin.on_gpu(1)(work.fork_and)(how) == STATUS[how]


@pytest.mark.parametrize("how", STATUS)
def test_a_copy_that_an_initializer_makes_does_no_task(how):
    with tholepin.Pool(gpus=1, initializer=work.fork_and, initargs=(how,)) as pool:
        assert set(pool.map(work.pid_of, range(40), chunksize=1)) == set(pool._crew.pids())


@pytest.mark.parametrize("how", STATUS)
def test_so_does_one_that_is_made_while_something_is_loaded_or_sent(how):
    with tholepin.Pool(gpus=1) as pool:
        given = [work.ForksWhenLoaded(how)] * 6
        assert pool.map_async(work.same, given, chunksize=1).get(60) == [STATUS[how]] * 6
        assert pool.map_async(work.forks_when_sent, [how] * 6, chunksize=1).get(60) == [STATUS[how]] * 6
        pool.close()
        pool.join()


def test_a_bar_that_cannot_be_written_loses_no_result(monkeypatch):
    monkeypatch.setattr(sys, "stderr", work.Refusing())
    with tholepin.Pool(gpus=1) as pool:
        assert pool.map(work.square, range(10), progress=True) == [x * x for x in range(10)]
        assert list(pool.imap(work.square, range(10), progress=True)) == [x * x for x in range(10)]


def test_nor_does_a_callback_whose_error_cannot_be_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", work.Refusing())
    monkeypatch.setattr(sys, "excepthook", lambda *problem: sys.stderr.write("a callback has failed"))
    with tholepin.Pool(gpus=1) as pool:
        assert pool.apply_async(work.square, (2,), callback=work.fail).get(60) == 4
        assert pool.apply(work.square, (3,)) == 9


CALLBACKS = """
import os, sys, pool_work, tholepin
def forks(_):
    if os.fork() == 0:
        if sys.argv[1] == "exits": sys.exit(7)
        if sys.argv[1] == "fails": raise ValueError("in the copy")
    else: statuses.append(os.waitstatus_to_exitcode(os.wait()[1]))
if __name__ == "__main__":
    statuses = []
    with tholepin.Pool(gpus=1) as pool:
        print([pool.apply_async(pool_work.square, (x,), callback=forks).get() for x in range(3)])
    with tholepin.Executor(gpus=1) as pool:
        for x in range(3):
            future = pool.submit(pool_work.square, x)
            future.add_done_callback(forks)
    print(len(statuses))
"""


@pytest.mark.parametrize("how", STATUS)
def test_a_copy_of_the_program_that_a_callback_makes_leaves_its_pool_alone(how, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CALLBACKS)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run([sys.executable, program, how], env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "[0, 1, 4]\n6\n"), done.stderr


def test_a_worker_that_has_gone_into_another_group_is_ended_all_the_same(tmp_path):
    with tholepin.Pool(gpus=1) as pool:
        task = pool.apply_async(work.leave_group_and_sleep, (str(tmp_path / "left"),))
        eventually((tmp_path / "left").exists)
        pool.terminate()
        pool.join()
        assert not task.ready() or not task.successful()


def test_a_default_time_limit_of_sockets_is_none_of_a_pools(monkeypatch):
    """As many programs set it for their downloads; nor what is put in the place of socket.socket."""
    socket.setdefaulttimeout(0.5)
    monkeypatch.setattr(socket, "socket", None)
    try:
        with tholepin.Pool(gpus=1, maxtasksperchild=2) as pool:
            assert pool.map(work.square, range(10), chunksize=1) == [x * x for x in range(10)]
            pool.apply(work.sleep, (1,))
        with tholepin.Executor(gpus=1) as executor:
            assert executor.submit(work.square, 3).result() == 9
        assert tholepin.on_gpu(1)(work.square)(3) == 9
    finally:
        socket.setdefaulttimeout(None)


class Word(str):
    """As click and others put into sys.argv."""


def test_what_is_no_plain_text_in_the_lists_of_sys_keeps_no_worker_from_starting(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", [Word("program"), tmp_path, "x"])
    monkeypatch.setattr(sys, "path", [tmp_path, Word(tmp_path), *sys.path])
    with tholepin.Pool(gpus=1) as pool:
        assert pool.apply(work.lists_of_sys) == (["program", os.fspath(tmp_path), "x"], True)

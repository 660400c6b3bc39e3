# ctest: timeout 300
"""Programs that gevent or eventlet has patched. Here is done what they do to the modules select and os, without them; gevent
itself is in test_ecosystem_packages.py."""
import asyncio
import os
import select

import pytest

import pool_work as work
import tholepin

pytestmark = pytest.mark.usefixtures("all_claims_end")


@pytest.fixture(params=[["epoll"], ["epoll", "poll"]], ids=["gevent", "eventlet"])
def patched(request, monkeypatch):
    for name in request.param:
        monkeypatch.delattr(select, name)


def test_pools_executors_and_decorated_functions_need_no_epoll(patched):
    with tholepin.Pool(gpus=2) as pool:
        assert pool.map(work.square, range(100)) == [x * x for x in range(100)]
        with pytest.raises(tholepin.WorkerDied):
            pool.apply(work.end_with, (3,))
        assert pool.apply(work.square, (3,)) == 9
    with tholepin.Executor(gpus=2) as executor:
        assert list(executor.map(work.square, range(9))) == [x * x for x in range(9)]
    assert tholepin.on_gpu(1)(work.square)(3) == 9


def test_nor_do_processes_and_groups(patched):
    process = tholepin.Process("sleep", ["1000"])
    process.start()
    assert process.join(0.1) is None
    process.kill()
    assert process.join() == -9
    group = tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[0]), walltime=0.2)
    group.add_process(2, tholepin.ProcessTemplate("sleep", ["1000"]))
    group.init()
    group.start()
    group.join()
    assert [status for _, status in group.exit_status] == [-2, -2]


def test_nor_do_coroutines_and_what_ends_a_wait(patched, everything_taken):
    ear, mouth = os.pipe()
    with pytest.raises(tholepin.Error, match="descriptor"):
        tholepin.claim(1, cancel=2**20)
    with pytest.raises(tholepin.Error, match="interrupted"):
        tholepin.claim(1, cancel=ear, on_wait=lambda reason: os.write(mouth, b"!"))
    everything_taken()
    os.close(ear)
    os.close(mouth)

    async def claimed():
        async with tholepin.aclaim(1) as claim:
            return claim.indices

    assert asyncio.run(claimed()) == [0]


def test_what_is_told_of_a_wait_is_not_waited_for(everything_taken, monkeypatch):
    """os.read is eventlet's there: where nothing lies it waits, whatever the descriptor says of blocking."""
    original = os.read

    def read(fd, size):
        assert select.select([fd], [], [], 0)[0], "eventlet's would wait for ever"
        return original(fd, size)

    monkeypatch.setattr(os, "read", read)
    with pytest.raises(tholepin.WaitTimeout):
        tholepin.claim(1, wait=1)

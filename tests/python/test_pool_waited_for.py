# ctest: timeout 600
"""Who waits for the GPUs of a pool: never the thread that made it and alone would end it."""
import asyncio
import os
import threading

import pytest

import pool_work as work
import tholepin


def test_a_thread_does_not_wait_for_its_own_pool():
    """A notebook's cell run again: the old pool has the GPUs until it is ended, and the thread that would end it waits."""
    with tholepin.Pool(gpus="free") as pool:
        for again in (
            lambda: tholepin.Pool(gpus="free"),
            lambda: tholepin.Executor(gpus=1),
            lambda: tholepin.claim(1),
            lambda: tholepin.Process(abs, args=(1,), policy=tholepin.Policy(gpu_affinity=[0])).start(),
        ):
            with pytest.raises(tholepin.Error, match="own pool") as problem:
                again()
            assert "terminate()" in problem.value.hint
        with pytest.raises(tholepin.NoneFree):
            tholepin.claim(1, wait=0)
        assert pool.apply(work.square, (3,)) == 9


def test_a_thread_waits_for_a_pool_of_its_own_that_ends_by_itself(tmp_path):
    os.mkfifo(tmp_path / "gate")
    pool = tholepin.Pool(gpus="free")
    pool.apply_async(open, (tmp_path / "gate",))
    pool.close()
    waiting = threading.Event()

    def let_go():
        waiting.wait()
        open(tmp_path / "gate", "w").close()

    gate = threading.Thread(target=let_go)
    gate.start()
    with tholepin.claim(8, on_wait=lambda _: waiting.set()):
        assert waiting.is_set()
    gate.join()


def test_a_thread_waits_for_the_pool_of_another_thread():
    waiting = threading.Event()
    made = threading.Event()

    def other():
        with tholepin.Pool(gpus="free"):
            made.set()
            waiting.wait()

    thread = threading.Thread(target=other)
    thread.start()
    made.wait()
    with tholepin.Pool(gpus=8, on_wait=lambda _: waiting.set()) as pool:
        done = pool.map(work.square, [2])
    thread.join()
    assert done == [4] and waiting.is_set()


OPEN = [tholepin.Pool, tholepin.Executor]


@pytest.mark.parametrize("kind", OPEN)
def test_a_task_does_not_wait_for_the_pool_that_it_has_opened(kind):
    async def main():
        async with kind.aopen(gpus=8):
            with pytest.raises(tholepin.Error, match="own pool"):
                tholepin.claim(1, wait=200)
            with pytest.raises(tholepin.Error, match="own pool"):
                await tholepin.aclaim(1, wait=200)
            with pytest.raises(tholepin.Error, match="own pool"):
                await kind.aopen(gpus=1, wait=200)

    asyncio.run(main())


def test_neither_does_one_that_has_made_a_pool_without_awaiting_it():
    async def main():
        with tholepin.Pool(gpus=8), pytest.raises(tholepin.Error, match="own pool"):
            await tholepin.aclaim(1, wait=200)

    asyncio.run(main())


def test_a_task_waits_for_the_pool_of_another_task():
    async def main():
        opened, waiting = asyncio.Event(), asyncio.Event()

        async def other():
            async with tholepin.Pool.aopen(gpus=8):
                opened.set()
                await waiting.wait()

        task = asyncio.create_task(other())
        await opened.wait()
        async with tholepin.aclaim(8, on_wait=lambda _: waiting.set()) as claim:
            assert len(claim.gpus) == 8 and waiting.is_set()
        await task

    asyncio.run(main())

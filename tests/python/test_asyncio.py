# ctest: timeout 600
"""Claims, pools and executors in coroutines: who is cancelled leaves the line, and nothing is claimed afterwards."""
import asyncio
import contextlib
import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from claim_tools import eventually

import tholepin

ALL = 8


def queue():
    return len(tholepin.status()["queue"])


def claims():
    return len(tholepin.status()["claims"])


async def until(condition):
    """In a coroutine: the loop goes on."""
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def nothing_comes_later(let_go, variables):
    """All GPUs get free, and nobody of this process takes one."""
    assert queue() == 0 and not [thread for thread in threading.enumerate() if thread.name.startswith("tholepin")]
    let_go()
    assert claims() == 0 and dict(os.environ) == variables
    with tholepin.claim(ALL, wait=0):
        pass


def test_a_claim_is_awaited_or_held_for_a_block():
    async def main():
        claim = await tholepin.aclaim(2, pick="first")
        assert claim.indices == [0, 1] and os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
        claim.release()
        async with tholepin.aclaim(1, on=3) as claim:
            assert claim.indices == [3] and claims() == 1
        assert claim.released and claims() == 0
        with pytest.raises(tholepin.NeverPossible):
            await tholepin.aclaim(ALL + 1)

    asyncio.run(main())


def test_the_loop_goes_on_while_a_claim_waits_and_it_gets_its_turn(everything_taken):
    async def main():
        task = asyncio.ensure_future(tholepin.aclaim(ALL, wait=200).__aenter__())
        await until(queue)
        await asyncio.get_running_loop().run_in_executor(None, everything_taken)
        assert len((await task).gpus) == ALL

    asyncio.run(main())


def test_claims_at_the_same_time_are_the_same_gpus_and_leave_no_variable():
    """The variables are the process's: what one task starts runs on GPUs that are its own."""
    before = dict(os.environ)

    async def main():
        made = await asyncio.gather(*(tholepin.aclaim(2) for _ in range(3)))
        assert len({tuple(claim.indices) for claim in made}) == 1
        assert len({entry["gpu"] for entry in tholepin.status()["claims"]}) == 2
        for claim in made[1:] + made[:1]:
            assert os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, claim.indices))
            claim.release()

    asyncio.run(main())
    assert dict(os.environ) == before and claims() == 0


def test_who_gets_his_turn_when_another_task_has_claimed_gives_it_back():
    """What he gets has to come out of the process's claim, and that has not what he wants."""
    other = subprocess.Popen([sys.executable, "-c", "import tholepin; tholepin.claim(on=0); print(flush=True); input()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()

    async def main():
        waits = asyncio.ensure_future(tholepin.aclaim(on=0).__aenter__())
        await until(queue)
        async with tholepin.aclaim(2, on=[2, 3]) as claim:
            other.communicate(b"\n")
            with pytest.raises(tholepin.NeverPossible):
                await waits
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3" == ",".join(map(str, claim.indices))
            assert {entry["gpu"] for entry in tholepin.status()["claims"]} == {2, 3}

    asyncio.run(main())
    assert claims() == 0


OPENERS = {
    "claim": lambda **more: tholepin.aclaim(1, **more),
    "pool": lambda **more: tholepin.Pool.aopen(gpus=1, **more),
    "executor": lambda **more: tholepin.Executor.aopen(gpus=1, **more),
}


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_a_cancelled_task_has_left_the_line(everything_taken, opener):
    variables = dict(os.environ)

    async def main():
        async def use():
            async with opener():
                pytest.fail("there is none free")

        task = asyncio.ensure_future(use())
        await until(queue)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert queue() == 0

    asyncio.run(main())
    nothing_comes_later(everything_taken, variables)


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_a_time_limit_of_asyncio_leaves_the_line(everything_taken, opener):
    variables = dict(os.environ)

    async def use():
        async with opener():
            pytest.fail("there is none free")

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(use(), 0.5)
        assert queue() == 0

    asyncio.run(main())
    nothing_comes_later(everything_taken, variables)


def test_what_came_at_the_moment_of_the_cancellation_is_given_back(monkeypatch):
    """The thread has the claim already, and the coroutine has not heard of it."""
    from tholepin import claims as module

    real, has_it, may_return = module._make, threading.Event(), threading.Event()

    def slow(*arguments):
        made = real(*arguments)
        has_it.set()
        may_return.wait()
        return made

    monkeypatch.setattr(module, "_make", slow)
    variables = dict(os.environ)

    async def main():
        task = asyncio.ensure_future(tholepin.aclaim(1).__aenter__())
        await until(has_it.is_set)
        assert claims() == 1
        task.cancel()
        may_return.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert claims() == 0 and dict(os.environ) == variables


def test_a_coroutine_that_is_closed_without_its_loop_leaves_the_line(everything_taken):
    loop, variables = asyncio.new_event_loop(), dict(os.environ)

    async def use():
        await tholepin.aclaim(1)

    coroutine = use()
    task = loop.create_task(coroutine)
    loop.run_until_complete(until(queue))
    loop.close()
    coroutine.close()
    task._log_destroy_pending = False
    nothing_comes_later(everything_taken, variables)


def nobody_waits():
    return queue() == 0 and not [thread for thread in threading.enumerate() if thread.name.startswith("tholepin")]


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_who_waits_in_a_loop_that_is_closed_leaves_the_line(everything_taken, opener):
    """Also where somebody keeps the task, which nobody will ever end."""
    loop, variables = asyncio.new_event_loop(), dict(os.environ)

    async def use():
        async with opener():
            pytest.fail("there is none free")

    task = loop.create_task(use())
    loop.run_until_complete(until(queue))
    loop.close()
    eventually(nobody_waits)
    nothing_comes_later(everything_taken, variables)
    task._log_destroy_pending = False


@pytest.mark.parametrize("opener", [
    lambda: tholepin.aclaim(1), lambda: tholepin.Pool.aopen(gpus=1), lambda: tholepin.Executor.aopen(gpus=1)
], ids=["claim", "pool", "executor"])  # fmt: skip
def test_a_block_whose_loop_is_closed_ends_in_silence(monkeypatch, opener):
    noise = []
    monkeypatch.setattr(sys, "unraisablehook", noise.append)
    begun = []

    async def block():
        async with opener():
            begun.append(True)
            await asyncio.sleep(1000)

    loop = asyncio.new_event_loop()
    task = loop.create_task(block())
    loop.run_until_complete(until(lambda: begun))
    assert claims() == 1
    task._log_destroy_pending = False
    loop.close()
    del task, loop
    gc.collect()
    eventually(lambda: claims() == 0)
    assert noise == []


def test_a_background_loop_that_is_stopped_and_closed_leaves_the_line(everything_taken):
    loop, variables = asyncio.new_event_loop(), dict(os.environ)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(tholepin.aclaim(1), loop)
    eventually(queue)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    eventually(nobody_waits)
    nothing_comes_later(everything_taken, variables)


@pytest.mark.parametrize("first", ["the loop", "the claim"])
def test_a_claim_that_nobody_can_be_told_of_is_given_back(monkeypatch, first):
    """It is there, but the loop is closed before the coroutine hears of it."""
    from tholepin import claims as module

    real, has_it, may_return = module._make, threading.Event(), threading.Event()

    def slow(*arguments):
        real(*arguments)
        has_it.set()
        may_return.wait()

    monkeypatch.setattr(module, "_make", slow)
    loop, variables = asyncio.new_event_loop(), dict(os.environ)
    task = loop.create_task(tholepin.aclaim(1))
    loop.run_until_complete(until(has_it.is_set))
    assert claims() == 1
    if first == "the claim":
        may_return.set()
        eventually(nobody_waits)
        assert claims() == 1
    loop.close()
    may_return.set()
    eventually(nobody_waits)
    assert claims() == 0 and dict(os.environ) == variables
    task._log_destroy_pending = False


@pytest.mark.parametrize("opener", [
    lambda: tholepin.aclaim(1), lambda: tholepin.Pool.aopen(gpus=1), lambda: tholepin.Executor.aopen(gpus=1)
])  # fmt: skip
def test_what_was_awaited_is_no_second_claim(opener):
    async def main():
        async def block():
            async with opening:
                raise AssertionError("a second one")

        opening = opener()
        async with opening:
            assert claims() == 1
            for again in (asyncio.wait_for(opening, 200), block()):
                with pytest.raises(RuntimeError, match="awaited already"):
                    await again
            assert claims() == 1

    asyncio.run(main())


def test_a_pool_and_an_executor_in_coroutines():
    async def main():
        async with tholepin.Pool.aopen(gpus=2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2] and claims() == 2
        async with tholepin.Executor.aopen(gpus=1) as executor:
            assert await asyncio.get_running_loop().run_in_executor(executor, abs, -3) == 3
            last = executor.submit(abs, -4)
        assert last.result(0) == 4  # what was submitted was done first
        async with tholepin.Pool(1) as pool:
            assert pool.apply(abs, [-5]) == 5

    asyncio.run(main())
    assert claims() == 0


def test_a_cancelled_executor_ends_its_workers():
    async def main():
        async def use():
            async with tholepin.Executor.aopen(gpus=1) as executor:
                began.set_result(executor.wait_until_ready(200))
                await asyncio.get_running_loop().run_in_executor(executor, time.sleep, 100000)

        began = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(use())
        assert await began
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert claims() == 0

    asyncio.run(main())


def interrupted(program, times):
    """A program that waits in line gets Ctrl-C, until it has ended; returns what it wrote."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        eventually(queue)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            if times > 1:
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    continue
                break
        said, _ = process.communicate(timeout=200)
        return said
    finally:
        process.kill()


def test_control_c_ends_a_program_whose_coroutine_waits(everything_taken):
    said = interrupted("import asyncio, tholepin\nasync def main(): await tholepin.aclaim(1)\nasyncio.run(main())", 1)
    assert "KeyboardInterrupt" in said and queue() == 0


@pytest.mark.parametrize(
    "program",
    [
        "import asyncio, tholepin\nasync def main(): await asyncio.get_running_loop().run_in_executor(None, tholepin.claim, "
        "1)\nasyncio.run(main())",
        "import concurrent.futures, tholepin\nwith concurrent.futures.ThreadPoolExecutor() as e: e.submit(tholepin.claim, "
        "1).result()",
        "import threading, tholepin\nt = threading.Thread(target=tholepin.claim)\nt.start()\nt.join()",
    ],
    ids=["to_thread", "executor", "thread"],
)
def test_control_c_ends_a_program_whose_thread_waits(everything_taken, program):
    """Python's own ways wait for the thread at the first one; the one after that ends the program."""
    assert "KeyboardInterrupt" in interrupted(program, 100) and queue() == 0


def test_a_program_that_comes_to_its_end_waits_for_its_threads_as_ever(everything_taken):
    program = "import threading, tholepin\nthreading.Thread(target=lambda: print(tholepin.claim(1).indices)).start()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    eventually(queue)
    everything_taken()
    assert process.communicate()[0].startswith("[")


def test_a_descriptor_cancels_a_claim_in_any_thread(everything_taken):
    ear, mouth = os.pipe()
    problems = []

    def wait():
        try:
            tholepin.claim(1, cancel=ear)
        except tholepin.Error as problem:
            problems.append(problem.code)

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(queue)
    os.write(mouth, b"!")
    thread.join()
    with pytest.raises(tholepin.Error) as caught, open(ear, "rb") as file:  # readable still; in the main thread
        tholepin.claim(1, cancel=file)
    os.close(mouth)
    assert problems == [130] == [caught.value.code] and queue() == 0


@pytest.mark.parametrize("wrong", ["x", -1, True, 99999, pathlib.Path(__file__)], ids=["text", "-1", "True", "99999", "a file"])
@pytest.mark.parametrize("claim", [
    tholepin.claim, lambda gpus, **how: tholepin.Pool(gpus=gpus, **how), lambda gpus, **how: tholepin.ProcessGroup(**how)
], ids=["claim", "Pool", "ProcessGroup"])  # fmt: skip
def test_what_cannot_cancel_is_refused_also_where_nothing_is_waited_for(claim, wrong):
    with contextlib.ExitStack() as opened:
        if isinstance(wrong, pathlib.Path):
            wrong = opened.enter_context(wrong.open())
        with pytest.raises(ValueError, match="^cancel: ") as caught:
            claim(1, cancel=wrong)
    assert isinstance(caught.value, tholepin.Error) and caught.value.code == 64


def test_a_claim_is_a_coroutine_for_whoever_takes_nothing_else():
    assert asyncio.run(tholepin.aclaim(1)).gpus
    tholepin.release()

    async def main():
        claim = await asyncio.create_task(tholepin.aclaim(1))
        claim.release()
        task = asyncio.create_task(tholepin.aclaim(1))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert claims() == 0

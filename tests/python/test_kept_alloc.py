# ctest: timeout 300
"""While somebody keeps the claims locked, a program is told who, hears what is to end it, and goes on after 5 s."""
import asyncio
import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import tholepin

GOES_ON = 5  # seconds, after which a claim goes on without order
KEEP = "import fcntl, sys; kept = open(sys.argv[1]); fcntl.flock(kept, fcntl.LOCK_EX); print(flush=True); input()"


@pytest.fixture
def kept(simulated_machine):
    """Another process keeps `alloc`; its pid."""
    with contextlib.suppress(tholepin.NoneFree):
        tholepin.claim(1, wait=0).release()  # which makes it
    [alloc] = simulated_machine.rglob("alloc")
    keeper = subprocess.Popen([sys.executable, "-c", KEEP, alloc], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    keeper.stdout.readline()
    yield keeper.pid
    keeper.communicate(b"\n")


def group(**more):
    made = tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[0]), **more)
    made.add_process(1, tholepin.ProcessTemplate("true"))
    made.init()
    made.close()


STARTS = {
    "claim": lambda **more: tholepin.claim(1, **more).release(),
    "claim that does not wait": lambda **more: tholepin.claim(1, wait=0, **more).release(),
    "pool": lambda **more: tholepin.Pool(gpus=1, **more).__exit__(None, None, None),
    "pool of what is free": lambda **more: tholepin.Pool(gpus="free", **more).__exit__(None, None, None),
    "executor": lambda **more: tholepin.Executor(gpus=1, **more).shutdown(),
    "group": group,
}


def ends_after(begin, what):
    took = time.monotonic() - begin
    assert took < GOES_ON, (what, took)


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_who_keeps_it_is_told_and_control_c_is_heard(kept, start, caplog):
    """The callback is what says that it waits, and sends the signal."""
    whys, begin = [], time.monotonic()

    def on_wait(reason):
        whys.append(reason["why"])
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        start(on_wait=on_wait)
    [[why]] = whys
    ends_after(begin, why)
    assert re.search(rf"keeps the claims locked: pid {kept}\b.*/alloc$", why), why
    assert [record.getMessage() for record in caplog.records if record.name == "tholepin"] == [why]


@pytest.mark.parametrize("wait", [None, 0])
def test_control_c_is_heard_before_anything_is_told(kept, wait):
    """In a thread that waits in the library from the moment on at which another is seen to."""
    main, begin = threading.main_thread().ident, time.monotonic()

    def interrupt():
        while sys._current_frames()[main].f_code.co_name != "_wait":
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        tholepin.claim(1, wait=wait)
    ends_after(begin, wait)
    thread.join()


def test_a_process_names_it_in_the_log(kept):
    class Interrupting(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            os.kill(os.getpid(), signal.SIGINT)

    said, log, interrupting = [], logging.getLogger("tholepin"), Interrupting()
    log.addHandler(interrupting)
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            tholepin.Process(target=abs, args=(1,), policy=tholepin.Policy(gpu_affinity=[0])).start()
    finally:
        log.removeHandler(interrupting)
    ends_after(begin, said)
    assert len(said) == 1 and f"keeps the claims locked: pid {kept}" in said[0], said


def test_who_has_given_up_once_does_not_wait_as_long_again(everything_taken, kept):
    took = []
    for _ in range(3):
        begin = time.monotonic()
        with pytest.raises(tholepin.NoneFree):
            tholepin.claim(1, wait=0)
        took.append(time.monotonic() - begin)
    assert took[0] > GOES_ON * 0.8 and max(took[1:]) < took[0] / 2, took


OPENERS = {
    "claim": lambda: tholepin.aclaim(1),
    "claim that does not wait": lambda: tholepin.aclaim(1, wait=0),
    "pool": lambda: tholepin.Pool.aopen(gpus=1),
    "pool of what is free": lambda: tholepin.Pool.aopen(gpus="free"),
    "executor": lambda: tholepin.Executor.aopen(gpus=1),
}


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_a_time_limit_of_asyncio_is_kept(kept, opener):
    async def use():
        async with opener():
            pytest.fail("nobody kept it")

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(use(), 0.5)

    begin = time.monotonic()
    asyncio.run(main())
    ends_after(begin, "wait_for")

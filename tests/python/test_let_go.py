# ctest: timeout 600
"""What is to be let go is let go, also where a signal handler raises meanwhile."""
import asyncio
import contextlib
import importlib
import os
import signal

import pytest
from claim_tools import claims, eventually
from interrupting import at_each_place, interrupt

import tholepin
from tholepin import _holding

pytestmark = [
    pytest.mark.usefixtures("all_claims_end"),
    # what comes in a __del__ is shown there and goes no further
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def nothing_is_held():
    return _holding.held == [] == _holding.entered


def release_and_interrupt():
    tholepin.release()
    raise KeyboardInterrupt


@pytest.mark.parametrize("work", [lambda: tholepin.claim(1), lambda: tholepin.claim(1).release(), tholepin.gpus])
def test_a_release_in_a_handler_that_raises_anywhere_is_not_forgotten(work):
    """As a SIGTERM handler does: tholepin.release(); sys.exit()."""
    work()
    tholepin.release()
    before = dict(os.environ)
    tholepin.claim(1)

    def afterwards(number, raised):
        assert (nothing_is_held() and dict(os.environ) == before) or not raised, number
        tholepin.release()
        tholepin.claim(1)

    assert at_each_place(work, release_and_interrupt, afterwards) > 10
    tholepin.release()


def claim():
    return tholepin.claim(1)


def pool():
    return tholepin.Pool(gpus=1)


def executor():
    return tholepin.Executor(gpus=1)


def group():
    made = tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[0]))
    made.add_process(1, tholepin.ProcessTemplate("sleep", ["1000"]))
    made.init()
    made.start()
    return made


@pytest.mark.parametrize(("make", "step"), [(claim, 1), (pool, 2), (executor, 2), (group, 2)])
def test_an_interrupt_anywhere_at_the_end_of_a_block_leaves_no_claim(make, step):
    made, entered = [make()], []

    def block():
        with made[0]:
            entered.append(True)

    def afterwards(number, raised):
        if not entered:
            with contextlib.suppress(tholepin.Error, ValueError), made[0]:  # it may have ended already
                pass
        if make is claim:
            assert nothing_is_held(), number
        eventually(nothing_is_held)
        made[0] = make()
        entered.clear()

    assert at_each_place(block, interrupt, afterwards, step) > 10
    with made[0]:
        pass


@pytest.mark.parametrize("end", [lambda claim: claim.release(), lambda claim: tholepin.release()])
def test_an_interrupt_anywhere_in_a_release_leaves_no_claim(end):
    made = [tholepin.claim(1)]

    def afterwards(number, raised):
        if number > 1:  # before its first instruction it was not called
            assert nothing_is_held(), number
        tholepin.release()
        made[0] = tholepin.claim(1)

    assert at_each_place(lambda: end(made[0]), interrupt, afterwards) > 5
    tholepin.release()


def test_an_interrupt_that_comes_in_the_last_computation_of_a_block_leaves_no_claim():
    """It is told when that is over: before the first instruction of __exit__."""
    much, handled = b" " * 2**24, signal.signal(signal.SIGALRM, lambda *_: interrupt())
    try:
        with pytest.raises(KeyboardInterrupt):
            with tholepin.claim(1):
                signal.setitimer(signal.ITIMER_REAL, 1e-3)
                much * 16
        assert nothing_is_held()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handled)


@pytest.mark.parametrize(
    "opening", [tholepin.aclaim, lambda _: tholepin.Pool.aopen(gpus=1), lambda _: tholepin.Executor.aopen(gpus=1)]
)
def test_an_interrupt_that_comes_in_the_last_computation_of_an_async_block_leaves_no_claim(opening):
    class Late(Exception):  # asyncio makes a cancellation of Ctrl-C
        pass

    def handler(*_):
        raise Late

    async def main():
        async with opening(1):
            signal.setitimer(signal.ITIMER_REAL, 1e-3)
            much * 16

    much, handled = b" " * 2**24, signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Late):
            asyncio.run(main())
        eventually(nothing_is_held)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handled)


def test_a_look_at_the_end_of_a_block_ends_nothing():
    claim = tholepin.claim(1)
    with contextlib.suppress(AttributeError):
        assert claim.__exit__ and hasattr(claim, "__exit__")
    with claim:
        assert callable(claim.__exit__) and not claim.released
    assert claim.released and claims() == []


def test_the_end_of_a_block_is_found_by_who_enters_by_hand():
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(tholepin.claim(1))
        second = tholepin.claim(1)
        stack.push(second)
        third = tholepin.claim(1).__enter__()
        third.__exit__(None, None, None)
        assert third.released and not first.released and not second.released
    assert first.released and second.released and claims() == []


@pytest.mark.parametrize("where", ["_native.Machine", "_start.Child", "_bell.Bell", "_wire.Part", "claims.Claim"])
def test_what_was_never_made_ends_in_silence(where):
    module, name = where.split(".")
    kind = getattr(importlib.import_module(f"tholepin.{module}"), name)
    kind.__del__(kind.__new__(kind))


def test_a_block_that_the_collector_ends_after_its_claim_ends_the_claim():
    """A coroutine in a cycle: the collector may call the claim's __del__ before it closes the coroutine that has its block."""
    with tholepin.claim(1) as claim:
        claim.__del__()
    assert "THOLE_CLAIM" not in os.environ
    kept = tholepin.claim(1)
    kept.__del__()  # one that nobody lets go lasts
    assert os.environ["THOLE_CLAIM"] == kept.id
    tholepin.release()
    assert "THOLE_CLAIM" not in os.environ

# ctest: timeout 600
"""Signal handlers that come at any moment: what they raise loses nothing, and what they do is done."""
import os
import signal
import threading

import pytest
from claim_tools import claims, eventually
from interrupting import at_each_place, interrupt

import tholepin
from tholepin import _holding, _start
from tholepin.results import AsyncResult

pytestmark = [
    pytest.mark.usefixtures("all_claims_end"),
    # what comes in a __del__ is shown there and goes no further
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LONG = 200


def children():
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent_of(pid) == os.getpid()]


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


def claim_for_a_block():
    with tholepin.claim(1):
        pass


def claim_within_a_claim():
    with tholepin.claim(2), tholepin.claim(1), tholepin.claim(1):
        pass


@pytest.mark.parametrize(("work", "step"), [(claim_for_a_block, 1), (claim_within_a_claim, 9)])
def test_an_interrupt_anywhere_in_a_claim_leaves_nothing_that_release_does_not_end(work, step):
    work()
    before = dict(os.environ)

    def afterwards(number, raised):
        tholepin.release()
        assert dict(os.environ) == before and _holding.held == [] == _holding.entered, number
        if raised and number % 5 == 0:  # a look takes longer than a claim
            assert claims() == [], number

    assert at_each_place(work, interrupt, afterwards, step) > 100


def test_a_handler_that_releases_anywhere_in_a_claim_leaves_no_variable_of_a_claim_that_has_ended():
    claim_for_a_block()
    before, made = dict(os.environ), []

    def afterwards(number, raised):
        [claim] = made
        made.clear()
        if claim.released:
            assert dict(os.environ) == before and claims() == [], number
        else:
            assert claim.env.items() <= os.environ.items(), number
        tholepin.release()
        assert dict(os.environ) == before and _holding.held == [], number

    assert at_each_place(lambda: made.append(tholepin.claim(1)), tholepin.release, afterwards) > 50


def test_a_handler_that_claims_while_its_thread_claims_is_told_so():
    claim_for_a_block()
    told = []

    def handler():
        try:
            tholepin.claim(1, wait=0).release()
        except tholepin.Error as error:
            told.append(error)

    def afterwards(number, raised):
        tholepin.release()
        assert _holding.held == []

    assert at_each_place(lambda: tholepin.claim(1), handler, afterwards) > 50
    assert told and all("a signal handler cannot claim" in error.message and error.code == 64 for error in told)


def pool(made):
    made.append(tholepin.Pool(gpus=1))


def executor(made):
    made.append(tholepin.Executor(gpus=1))


def function_on_a_gpu(made):
    tholepin.on_gpu(1)(abs)(-1)


def process(made):
    made.append(tholepin.Process("sleep", ["1000"], policy=tholepin.Policy(gpu_affinity=[0])))
    made[0].start()


def group(made):
    made.append(tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[0])))
    made[0].add_process(2, tholepin.ProcessTemplate("sleep", ["1000"]))
    made[0].init()
    made[0].start()


def end(made):
    """As whoever handles the exception ends what he has."""
    if isinstance(made, tholepin.Process):
        if made.puid is not None:
            made.kill()
            made.join()
    elif isinstance(made, tholepin.ProcessGroup):
        made.close(0)
    elif isinstance(made, tholepin.Executor):
        made.shutdown()
    else:
        made.terminate(0)
        made.join()


@pytest.mark.parametrize(("work", "step"), [(pool, 3), (executor, 3), (function_on_a_gpu, 5), (process, 3), (group, 5)])
def test_an_interrupt_anywhere_at_the_start_of_processes_leaves_neither_them_nor_their_claim(work, step):
    made = []
    work(made)
    end(made.pop()) if made else None
    before = set(children())

    def afterwards(number, raised):
        while made:
            end(made.pop())
        eventually(lambda: _holding.held == [] and set(children()) <= before)
        assert claims() == [], number

    assert at_each_place(lambda: work(made), interrupt, afterwards, step) > 100


def test_an_interrupt_anywhere_at_the_start_of_a_thread_is_told_as_what_it_is():
    def afterwards(number, raised):
        eventually(lambda: threading.active_count() == before)

    before = threading.active_count()
    places = at_each_place(lambda: _start.start_thread("a thread", lambda begun: begun(), "of the test"), interrupt, afterwards)
    assert places > 5


def test_a_result_comes_after_an_interrupt_anywhere_in_a_wait_for_it():
    def afterwards(number, raised):
        teller = threading.Thread(target=results[0].chunk_done, args=(0, True, number), daemon=True)
        teller.start()
        teller.join(LONG)
        assert results.pop().get(0) == number
        results.append(AsyncResult(None, None))

    results = [AsyncResult(None, None)]
    assert at_each_place(lambda: results[0].wait(1e-3), interrupt, afterwards) > 5


def iterated(pool):
    assert list(pool.imap(abs, [-1, -2])) == [1, 2]


def iterated_as_they_come(pool):
    assert sorted(pool.imap_unordered(abs, [-1, -2])) == [1, 2]


@pytest.mark.parametrize("work", [iterated, iterated_as_they_come])
def test_a_pool_goes_on_after_an_interrupt_anywhere_in_its_calls(work):
    with tholepin.Pool(1) as pool:
        work(pool)

        def afterwards(number, raised):
            assert pool.apply_async(abs, (-2,)).get(LONG) == 2, number

        assert at_each_place(lambda: work(pool), interrupt, afterwards) > 20


def test_an_iterator_loses_and_doubles_nothing_at_an_interrupt_anywhere_while_it_waits():
    with tholepin.Pool(1) as pool:

        def begun():
            return pool.imap_unordered(abs, [-1, -2, -3], chunksize=2)

        def afterwards(number, raised):
            assert sorted(results.pop()) == [1, 2, 3], number
            results.append(begun())

        results = [begun()]
        # Fewer places are on the way where the results are there already.
        assert at_each_place(lambda: results[0]._take_chunk(LONG), interrupt, afterwards) > 8


def test_interrupts_at_random_moments_leave_nothing_that_release_does_not_end():
    """By signals, for what tracing knows nothing of."""
    import random

    armed = False                                        # the kernel may give a signal to another thread, and that be late

    def handler(number, frame):
        if armed:
            raise KeyboardInterrupt

    before, chance, interrupted = dict(os.environ), random.Random(1), 0
    handled = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(300):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 5e-4))
                tholepin.claim(1).release()
                armed = False
            except KeyboardInterrupt:
                armed = False
                interrupted += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            tholepin.release()
            assert dict(os.environ) == before and claims() == []
        assert interrupted > 0
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handled)

"""Who waits for a pool's workers where these will never come is told so."""
import os
import threading

import pytest
from claim_tools import eventually, in_threads

import tholepin
from tholepin import _start

LONG = 200  # seconds, that no test takes unless something is wrong


SHUT = {
    "pool": (lambda: tholepin.Pool(gpus=2), tholepin.Pool.close, ValueError, "the pool is closed"),
    "executor": (
        lambda: tholepin.Executor(gpus=2), lambda executor: executor.shutdown(wait=False), RuntimeError, "is shut down"
    ),
}  # fmt: skip


@pytest.mark.parametrize("make, shut, kind, message", SHUT.values(), ids=SHUT)
def test_who_waits_for_the_workers_of_what_is_closed_is_told_so(make, shut, kind, message):
    made = make()
    shut(made)
    for _ in range(2):
        with pytest.raises(kind, match=message):
            made.wait_until_ready(LONG)
        made._crew.join()


@pytest.mark.parametrize("make, shut, kind, message", SHUT.values(), ids=SHUT)
def test_who_waits_for_workers_while_another_thread_closes_is_told_so(make, shut, kind, message, monkeypatch):
    started = _start.start
    may_start = threading.Event()
    monkeypatch.setattr(_start, "start", lambda *given, **named: may_start.wait() and started(*given, **named))
    made = make()

    def wait():
        with pytest.raises(kind, match=message):
            made.wait_until_ready(LONG)

    thread = threading.Thread(target=in_threads, args=(2, wait))
    thread.start()
    eventually(lambda: len(made._crew._sleepers._gates) == 2)
    shut(made)
    thread.join()
    may_start.set()
    made._crew.join()


def test_a_forked_child_does_not_wait_for_its_parents_workers():
    with tholepin.Pool(gpus=1) as pool:
        child = os.fork()
        if not child:
            try:
                pool.wait_until_ready()
            except tholepin.Error as problem:
                os._exit(problem.code)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 64 << 8

"""Too few processes, too little memory, too few descriptors: the program's own words and its status."""
import _thread
import errno
import subprocess

import pytest

import tholepin

WANTS = {errno.EAGAIN: "ulimit -u", errno.ENOMEM: "ulimit -v", errno.EMFILE: "ulimit -n"}


@pytest.mark.parametrize("number, hint", WANTS.items(), ids=[errno.errorcode[number] for number in WANTS])
@pytest.mark.parametrize("call", [tholepin.jobs, tholepin.topo, lambda: tholepin.submit(["true"]), tholepin.wait])
def test_a_program_that_cannot_be_started_is_a_want(monkeypatch, call, number, hint):
    def refused(*_, **__):
        raise OSError(number, "")
    monkeypatch.setattr(subprocess, "run", refused)
    with pytest.raises(tholepin.WorkerNotStarted, match="cannot start the program thole") as caught:
        call()
    assert caught.value.code == 69 and hint in caught.value.hint


def test_a_thread_that_cannot_be_started_for_a_wait_is_a_want(monkeypatch, everything_taken):
    def refused(*_, **__):
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(_thread, "start_new_thread", refused)
    with pytest.raises(tholepin.WorkerNotStarted, match="cannot start a thread that waits") as caught:
        tholepin.claim(1, wait=5)
    assert caught.value.code == 69 and "ulimit -u" in caught.value.hint

# ctest: timeout 600
"""tholepin.claim: what it gives, what it refuses, and when it ends."""
import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import tholepin

ALL = 8


def claims():
    return tholepin.status()["claims"]


def test_a_claim_says_what_it_has_and_shows_only_that():
    with tholepin.claim(2, pick="first") as claim:
        assert claim.indices == [0, 1]
        assert claim.uuids == [gpu.uuid for gpu in tholepin.gpus()][:2]
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1" == claim.env["CUDA_VISIBLE_DEVICES"]
        assert {entry["id"] for entry in claims()} == {claim.id}
        assert "GPU 0, 1" in repr(claim)
        assert claim.cpus == frozenset([*range(64), *range(128, 192)])
    assert claim.released and claims() == []


def test_the_environment_is_as_before_when_the_claim_has_ended(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")
    before = dict(os.environ)
    with tholepin.claim(1) as claim:
        assert claim.indices == [3]  # what is visible narrows
        os.environ["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST"  # somebody's own word is left alone
    assert dict(os.environ) == {**before, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    monkeypatch.delenv("CUDA_DEVICE_ORDER")


def test_a_claim_nobody_keeps_lasts_as_long_as_the_process():
    tholepin.claim(1)
    import gc

    gc.collect()
    assert len(claims()) == 1


@pytest.mark.parametrize(("name", "value", "indices"), [("THOLE_PICK", "last", [7]), ("SLURM_STEP_GPUS", "5", [5])])
def test_what_the_environment_says_now_counts(monkeypatch, name, value, indices):
    tholepin.claim(1).release()  # with the machine as it was opened before
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("SOMETHING_ELSE", "changes too")
    with tholepin.claim(1) as claim:
        assert claim.indices == indices


def test_claims_whose_object_was_replaced_are_ended_together():
    claim = tholepin.claim(1)
    claim = tholepin.claim(1)  # a notebook's cell run again
    claim.release()
    assert len(claims()) == 1, "the first one, which has no name any more"
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    tholepin.release()
    assert claims() == [] and before is not None and "CUDA_VISIBLE_DEVICES" not in os.environ
    tholepin.release()  # there is nothing to end


def test_release_is_once():
    claim = tholepin.claim(1)
    claim.release()
    other = tholepin.claim(1)
    claim.release()
    assert len(claims()) == 1
    other.release()


def test_an_error_in_the_block_ends_the_claim():
    with pytest.raises(ZeroDivisionError), tholepin.claim(1):
        1 / 0
    assert claims() == []


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        ({"gpus": ALL + 1}, tholepin.NeverPossible, 64),
        ({"model": "H100"}, tholepin.NeverPossible, 64),
        ({"memory": "200G"}, tholepin.NeverPossible, 64),
        ({"pick": "best"}, tholepin.Error, 64),
        ({"on": 99}, tholepin.Error, 64),
        ({"memory": "much"}, tholepin.Error, 64),
        ({"wait": "soon"}, tholepin.Error, 64),
        ({"wait": -1}, tholepin.Error, 64),
    ],
)
def test_a_request_that_makes_no_sense_here_is_refused_at_once(words, kind, code):
    with pytest.raises(tholepin.Error) as caught:
        tholepin.claim(**words)
    assert isinstance(caught.value, kind) and caught.value.code == code
    assert isinstance(caught.value, tholepin.NeverPossible) == (kind is tholepin.NeverPossible) and isinstance(
        caught.value, ValueError
    )
    assert caught.value.message and claims() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"gpus": "2"}, "gpus: expected a whole number, got '2'"),
        ({"gpus": True}, "gpus: expected a whole number, got True"),
        ({"gpus": 1.0}, "gpus: expected a whole number, got 1.0"),
        ({"gpus": -1}, "gpus: expected 0 or more, got -1"),
        ({"on": 1.5}, "on: expected GPUs by their numbers or names, got 1.5"),
        ({"on": [0, None]}, "on: expected GPUs by their numbers or names, got [0, None]"),
        ({"not_on": True}, "not_on: expected GPUs by their numbers or names, got True"),
        ({"order": ["0", ""]}, "order: expected GPUs by their numbers or names, got ''"),
        ({"model": 100}, "model: expected a text, got 100"),
        ({"memory": 1.5}, "memory: expected MiB, or a text such as \"20G\", \"512MiB\", got 1.5"),
        ({"wait": "soon"}, "wait: expected seconds, or a text such as \"90s\", \"30m\", \"1h30m\", got 'soon'"),
        ({"wait": float("nan")}, "wait: expected no negative time, got nan"),
        ({"share": "no"}, "share: expected True or False, got 'no'"),
        ({"share_with": "all"}, "share_with: expected user or any, got 'all'"),
        ({"beside": 1}, "beside: expected none, mine or any, got 1"),
        ({"max_load": "50%"}, "max_load: expected percent, 0 to 100, got '50%'"),
        ({"max_memory": 101}, "max_memory: expected percent, 0 to 100, got 101"),
        ({"pick": "best"}, "pick: expected pack, first, last, random, load or memory, got 'best'"),
        ({"shape": ["pairwise"]}, "shape: expected collective, pairwise or independent, got ['pairwise']"),
        ({"trust_claims": 2}, "trust_claims: expected True or False, got 2"),
        ({"ids": ""}, "ids: expected auto, uuid or index, got ''"),
        ({"command": ["train.py"]}, "command: expected a text, got ['train.py']"),
    ],
)
def test_a_wrong_argument_is_refused_in_its_own_words(words, message):
    with pytest.raises(ValueError) as caught:
        tholepin.claim(**words)
    assert isinstance(caught.value, tholepin.Error) and caught.value.message == message and caught.value.code == 64


def test_what_the_command_line_takes_is_taken():
    with tholepin.claim(2, on="0,1", wait=float("inf")) as claim:
        assert claim.indices == [0, 1]
    with tholepin.claim(1, not_on="0, 1", pick="first") as claim:
        assert claim.indices == [2]


def test_words_that_choose_choose():
    with tholepin.claim(on=[1, "2"], order=2) as claim:
        assert claim.indices == [2]
    with tholepin.claim(2, not_on=[0, 1], pick="first", ids="uuid") as claim:
        assert claim.indices == [2, 3] and os.environ["CUDA_VISIBLE_DEVICES"].startswith("GPU-")
    with tholepin.claim(share=True, memory="10G", command="a test") as claim:
        assert [(entry["shared"], entry["memory_mib"], entry["command"]) for entry in claims()] == [(True, 10240, "a test")]
    with tholepin.claim(0) as claim:
        assert claim.gpus == [] and os.environ["CUDA_VISIBLE_DEVICES"] == ""


def obtained(request, wait=None):
    claim = tholepin.claims.Claim()
    tholepin.claims.obtain(claim, request, tholepin._waiting.Patience(wait))
    return claim


def waiting():
    return len(tholepin.status()["queue"])


def eventually(condition):
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_no_wait_and_a_wait_that_runs_out(everything_taken):
    with pytest.raises(tholepin.NoneFree) as caught:
        tholepin.claim(wait=0)
    assert caught.value.code == 75
    with pytest.raises(tholepin.WaitTimeout) as caught:
        tholepin.claim(wait=0.05)
    assert caught.value.code == 124 and "not free after 0.05s" in str(caught.value) and waiting() == 0


def test_a_wait_in_the_main_thread_lets_other_threads_work_and_gets_its_turn(everything_taken):
    helper = threading.Thread(target=lambda: (eventually(waiting), everything_taken()))
    helper.start()
    with tholepin.claim(ALL, wait="200s") as claim:
        assert len(claim.gpus) == ALL
    helper.join()


def test_a_wait_in_another_thread_gets_its_turn(everything_taken):
    got = []
    waiter = threading.Thread(target=lambda: got.append(tholepin.claim(1, wait=200)))
    waiter.start()
    eventually(waiting)
    everything_taken()
    waiter.join()
    assert got[0].gpus


def interrupt_when_waiting(number, told=None):
    def send():
        if told:  # the try that comes before a wait is in line, too, for a moment
            assert told.wait(200)
        eventually(waiting)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_control_c_leaves_the_line_without_a_trace(everything_taken):
    thread = interrupt_when_waiting(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        tholepin.claim(1)
    thread.join()
    assert waiting() == 0


def test_a_handler_that_returns_does_not_cost_the_place_in_line(everything_taken):
    seen = []

    def handler(number, frame):
        seen.append(waiting())
        everything_taken()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        told = threading.Event()
        thread = interrupt_when_waiting(signal.SIGUSR1, told)
        with tholepin.claim(1, wait=200, on_wait=lambda why: told.set()):
            pass
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [1]


HOLD = "import tholepin; print(tholepin.claim(1).indices[0], flush=True); input()"


def test_an_inner_claim_is_taken_from_the_outer_one():
    with tholepin.claim(2, pick="first"):
        with tholepin.claim(1) as inner:
            assert inner.indices == [0]
            with tholepin.claim(1) as innermost:  # within that one
                assert innermost.indices == [0]
        with tholepin.claim(2) as whole:
            assert whole.indices == [0, 1]
        with pytest.raises(tholepin.NeverPossible):
            tholepin.claim(3)
        children = [
            subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        assert sorted(int(child.stdout.readline()) for child in children) == [0, 1]
        for child in children:
            child.communicate("\n")
    assert claims() == []


def nobody_else_gets(gpu):
    """By another process, which knows nothing of this one's claims."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("THOLE_CLAIM", "CUDA_VISIBLE"))}
    code = f"import sys, tholepin\ntry: tholepin.claim(on={gpu}, wait=0)\nexcept tholepin.NoneFree: sys.exit(75)"
    return subprocess.run([sys.executable, "-c", code], env=environment).returncode == 75


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_first_that_ends_of_two_that_overlap_gives_nothing_of_the_other_away(gpus):
    """As two threads or tasks do. A claim within one of two has a part, or all of it."""
    before = dict(os.environ)
    first = tholepin.claim(2, pick="first")
    second = tholepin.claim(gpus, pick="first")
    first.release()
    assert first.released and not second.released
    shown = ",".join(str(index) for index in second.indices)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == shown == ",".join(map(str, range(gpus)))
    assert nobody_else_gets(0)
    with tholepin.claim(1, wait=0) as third:
        assert third.indices == [0] and nobody_else_gets(0)
    second.release()
    assert dict(os.environ) == before and claims() == [] and not nobody_else_gets(0)


def test_claims_beside_each_other_leave_no_variable_in_whatever_order_they_end():
    """As asyncio.gather makes them: each knew of no other."""
    import itertools

    for order in itertools.permutations(range(3)):
        before = dict(os.environ)
        made = [obtained({"gpus": 1}, 0) for _ in range(3)]
        assert len({claim.indices[0] for claim in made}) == 3
        for claim in made:
            claim._enter()
        left = list(made)
        for number in order:
            made[number].release()
            left.remove(made[number])
            assert os.environ.get("CUDA_VISIBLE_DEVICES") == (left[-1].env["CUDA_VISIBLE_DEVICES"] if left else None)
        assert dict(os.environ) == before and claims() == []


def test_a_pool_within_a_claim_keeps_its_gpus_when_that_ends_first():
    with tholepin.claim(2, pick="first") as claim:
        pool = tholepin.Pool(gpus=1)
    try:
        assert claim.released and nobody_else_gets(0)
    finally:
        pool.terminate()
        pool.join()
    assert claims() == []


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_claim_inside_one_that_a_shell_has_keeps_that_from_others(monkeypatch, gpus):
    """Its keeper is another process, of which this one has inherited nothing."""
    thole = [tholepin._native.program(), "-q"]
    made = subprocess.run([*thole, "claim", "-g", "2", "--on", "0,1"], capture_output=True, text=True, check=True)
    outer = made.stdout.strip()
    monkeypatch.setenv("THOLE_CLAIM", outer)
    with tholepin.claim(gpus):
        assert subprocess.run([*thole, "release", outer], capture_output=True).returncode == 69
        assert nobody_else_gets(0) and nobody_else_gets(1)
    assert claims() == []


def test_a_mask_narrows_within_a_claim_too(monkeypatch):
    with tholepin.claim(4, pick="first"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
        with tholepin.claim(1) as claim:
            assert claim.indices == [3]
        with pytest.raises(tholepin.NeverPossible):
            tholepin.claim(2, wait=0)
        monkeypatch.undo()


def test_a_forked_child_does_not_end_its_parents_claim():
    claim = tholepin.claim(1)
    pid = os.fork()
    if pid == 0:
        claim.release()
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(claims()) == 1
    claim.release()
    assert claims() == []


def test_a_forked_child_keeps_the_gpus_as_long_as_it_lives():
    claim = tholepin.claim(ALL)
    ends, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.read(ends, 1)
        os._exit(0)
    os.close(ends)
    try:
        claim.release()
        assert claim.released and claims() != [], "it may still compute"
        with pytest.raises(tholepin.NoneFree):
            tholepin.claim(1, wait=0)
    finally:
        os.close(end)
        os.waitpid(child, 0)
    tholepin.claim(ALL, wait=200).release()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_child_by_another_start_method_keeps_nothing(method):
    context = multiprocessing.get_context(method)
    go = context.Event()
    claim = tholepin.claim(ALL)
    child = context.Process(target=go.wait)
    child.start()
    try:
        claim.release()
        tholepin.claim(ALL, wait=0).release()
    finally:
        go.set()
        child.join()


def test_a_killed_process_frees_its_claim():
    other = subprocess.Popen([sys.executable, "-c", f"import tholepin; tholepin.claim({ALL}); print(flush=True); input()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()
    other.kill()
    other.wait()
    tholepin.claim(ALL, wait=200).release()


def test_many_threads_never_share_a_gpu():
    owners, problems = {}, []

    def work():
        try:
            for _ in range(20):
                claim = obtained({})
                assert owners.setdefault(claim.uuids[0], claim) is claim
                del owners[claim.uuids[0]]
                claim.release()
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and claims() == []


def test_claims_again_and_again_leave_no_descriptor_open():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    counts = []
    for _ in range(30):
        with tholepin.claim(2):
            tholepin.gpus()  # in an environment that was never seen before
        counts.append(descriptors())
    assert counts[-1] <= counts[10]


def test_what_the_process_has_already_costs_no_descriptor_however_often_it_is_asked_for():
    """As joblib's tasks do, in processes that stay."""
    before, counts = dict(os.environ), []
    for _ in range(50):
        kept = tholepin.claim(1)
        counts.append(len(os.listdir("/proc/self/fd")))
    assert len(set(counts[2:])) == 1, counts
    kept.release()
    assert len(claims()) == 1 and os.environ["CUDA_VISIBLE_DEVICES"] == kept.env["CUDA_VISIBLE_DEVICES"], "the others last"
    tholepin.release()
    assert claims() == [] and dict(os.environ) == before


def test_of_claims_of_the_same_gpus_the_last_that_ends_frees_them():
    before = dict(os.environ)
    same = [tholepin.claim(1) for _ in range(4)]
    for claim in same[1:] + same[:1]:
        assert not claim.released and len(claims()) == 1
        claim.release()
        assert claim.released
    assert claims() == [] and dict(os.environ) == before


def test_a_claim_does_not_end_while_another_thread_waits_within_it():
    outer = tholepin.claim(2, pick="first")
    hold = [sys.executable, "-c", "import tholepin; tholepin.claim(on=0); print(flush=True); input()"]
    other = subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()
    got, told = [], threading.Event()

    def claim():
        got.append(tholepin.claim(on=0, wait=200, on_wait=lambda why: told.set(), quiet=True).indices)

    waiter = threading.Thread(target=claim)
    waiter.start()
    assert told.wait(200)
    outer.release()
    assert nobody_else_gets(1)
    other.communicate(b"\n")
    waiter.join()
    assert got == [[0]]
    tholepin.release()
    assert claims() == []


def test_threads_that_claim_and_release_at_the_same_time_share():
    problems, before = [], dict(os.environ)

    def work():
        try:
            for _ in range(150):
                with tholepin.claim(4, wait=200, quiet=True):
                    pass
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == [] and claims() == [] and dict(os.environ) == before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_claim_is_not_copied(copied):
    from tholepin import _native, _start

    with tholepin.claim(1) as claim:
        with pytest.raises(
            TypeError, match="cannot be copied or pickled: it belongs to this process; another one .* claim.env"
        ):
            copied(claim)
    child = _start.Child()
    _start.start(child, ["true"])
    for owner in (_native.machine(), child):  # whatever else closes what it has
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(owner)
    assert child.wait(200)


def test_a_released_claim_is_no_block():
    claim = tholepin.claim(1)
    claim.release()
    with pytest.raises(tholepin.Error, match="has been released") as raised:
        with claim:
            pytest.fail("entered")
    assert raised.value.object == claim.id


def test_control_c_before_the_waiting_thread_has_begun_leaves_the_line(everything_taken, monkeypatch):
    """It was started, and gets no CPU for longer than anybody would guess."""
    import _thread

    real, asked, interrupted, began = _thread.start_new_thread, threading.Event(), threading.Event(), threading.Event()

    def interrupt():
        asked.wait()  # to start it; and when that has returned:
        eventually(lambda: sys._current_frames()[threading.main_thread().ident].f_code.co_name == "_wait")
        os.kill(os.getpid(), signal.SIGINT)
        interrupted.set()

    def slow(function, arguments):
        def begins_late():
            interrupted.wait()
            time.sleep(1.5)  # what is tested: no time is enough to say that it was not started
            began.set()
            function(*arguments)

        started = real(begins_late, ())
        asked.set()
        return started

    with monkeypatch.context() as patched:
        patched.setattr(_thread, "start_new_thread", slow)
        real(interrupt, ())
        with pytest.raises(KeyboardInterrupt):
            tholepin.claim(1)
    assert began.is_set() and waiting() == 0

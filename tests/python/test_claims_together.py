# ctest: timeout 600
"""Claims of one process beside and within each other: of blocks, threads and forked children, and which of them ends when."""
import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading

import pytest
from claim_tools import claims, eventually, in_threads

import tholepin
from tholepin import _native
from tholepin._waiting import Patience
from tholepin.claims import Claim, obtain

ALL = 8


def obtained(request, wait=None):
    claim = Claim()
    obtain(claim, request, Patience(wait))
    return claim


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
    owners = {}

    def work():
        for _ in range(20):
            claim = obtained({})
            assert owners.setdefault(claim.uuids[0], claim) is claim
            del owners[claim.uuids[0]]
            claim.release()

    in_threads(16, work)
    assert claims() == []


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
    before = dict(os.environ)

    def work():
        for _ in range(150):
            with tholepin.claim(4, wait=200, quiet=True):
                pass

    in_threads(4, work)
    assert claims() == [] and dict(os.environ) == before


FORKSERVER = """
import multiprocessing, os, sys, tholepin
context = multiprocessing.get_context("forkserver")
def tell(pipe):
    pipe.send(os.environ.get("CUDA_VISIBLE_DEVICES"))
def seen():
    ear, mouth = context.Pipe()
    child = context.Process(target=tell, args=(mouth,))
    child.start()
    said = ear.recv()
    child.join()
    return said
def say(what):
    print(what, file=sys.stderr, flush=True)
"""
LOGGED, BEFORE, BETWEEN, AFTER = "WARNING:tholepin:", "was started before with other variables", "begun", "has ended, but"


@pytest.mark.parametrize(
    "program, said",
    [
        ("seen()\nwith tholepin.claim(on=1): assert seen() is None", [BEFORE]),
        ("seen()\nfor _ in range(2):\n with tholepin.claim(on=1, ids='index'), tholepin.claim(on=1): pass", [BEFORE, BEFORE]),
        ("c = tholepin.claim(on=1, ids='index')\nassert seen() == '1'\nsay('begun')\nc.release()", [BETWEEN, AFTER]),
        ("c = tholepin.claim(1)\nseen()\nsay('begun')\ntholepin.release()", [BETWEEN, AFTER]),
        ("c = tholepin.claim(1)\nseen()\nwith tholepin.claim(1, wait=0): pass", []),
        ("seen()\nwith tholepin.claim(1, quiet=True): pass", []),
        ("import asyncio\nseen()\nasync def main():\n async with tholepin.aclaim(1): pass\nasyncio.run(main())", [BEFORE]),
        ("with tholepin.Pool(gpus=1): seen()", []),
        ("import multiprocessing.forkserver as f\nseen()\nf._forkserver._stop()\nwith tholepin.claim(1): pass", []),
        ("seen()\nif not os.fork():\n tholepin.claim(1)\n os._exit(0)\nos.wait()", []),
    ],
)  # fmt: skip
def test_a_forkserver_that_does_not_see_the_claim_is_told_of_once_a_claim(program, said, tmp_path):
    """It keeps the variables of its start: of another claim, or of none."""
    script = tmp_path / "script.py"
    body = "".join(f"    {line}\n" for line in program.splitlines())
    script.write_text(f"{FORKSERVER}if __name__ == '__main__':\n{body}")
    done = subprocess.run([sys.executable, script], stderr=subprocess.PIPE, text=True)
    told = " ".join(done.stderr.split())
    assert done.returncode == 0, told
    found = sorted((match.start(), one) for one in (LOGGED, BEFORE, BETWEEN, AFTER) for match in re.finditer(one, told))
    assert [one for _, one in found] == said, told


EXEC = """
import json, os, subprocess, sys, tholepin
if sys.argv[1:] == ["after"]:
    found = [claim["id"] for claim in tholepin.status()["claims"]]
    with tholepin.claim(1, wait=0) as claim:
        print(json.dumps([os.environ["THOLE_CLAIM"] in found, claim.id in found]))
    sys.exit()
if sys.argv[1:] == ["claim"]:
    tholepin.claim(1)
if sys.argv[1:] == ["claim --pid"]:
    line = [os.environ["THOLE_PROGRAM"], "claim", "-g", "1", "--json", "--pid", str(os.getpid())]
    os.environ.update(json.loads(subprocess.check_output(line))["set"])
os.execv(sys.executable, [sys.executable, __file__, "after"])
"""
PROGRAM = _native.program()


@pytest.mark.parametrize(
    "around, how, lasts",
    [
        ([], "claim", False),
        ([], "claim --pid", True),
        ([PROGRAM, "run", "-q", "-g", "1", "--"], "", True),
        (["sh", "-c", 'eval "$($0 claim --shell 2> /dev/null)"; exec "$@"', PROGRAM], "", True),
    ],
    ids=["claim", "claim --pid", "run", "claim --shell"],
)
def test_which_claims_last_through_exec(around, how, lasts, tmp_path):
    """As docs/python.md says it: one of this process does not, those that the program holds do."""
    script = tmp_path / "script.py"
    script.write_text(EXEC)
    environment = {**os.environ, "THOLE_PROGRAM": PROGRAM}
    said = subprocess.check_output([*around, sys.executable, script, how], env=environment)
    assert json.loads(said) == [lasts, lasts]
    eventually(lambda: not claims())

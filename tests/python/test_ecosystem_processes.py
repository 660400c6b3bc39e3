# ctest: timeout 900
"""Programs of several processes around and inside a claim, as people write them: examples/python with nothing but Python.

PyTorch is too large to be fetched for tests. What torchrun, mpirun and a DataLoader do to processes is done here in their
place: the same variables, the same start methods.
"""
import os
import subprocess
import sys

import pytest

import tholepin
from ecosystem import EXAMPLES, check_one_each, environment, inside, rows, run
from tholepin import _native

# torchrun, as far as ranks see it: their variables, and the end of all when one fails (torch/distributed/run.py).
TORCHRUN = """
import os, subprocess, sys
n = int(sys.argv[1])
ranks = [subprocess.Popen([sys.executable, *sys.argv[2:]], env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r),
         "WORLD_SIZE": str(n), "LOCAL_WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})
         for r in range(n)]
sys.exit(max(rank.wait() for rank in ranks))
"""

# mpirun, as far as ranks see it. They all end together, as ranks do after the last barrier.
MPIRUN = """
import os, subprocess, sys
n = int(sys.argv[1])
ranks = [subprocess.Popen([sys.executable, "-c", "import runpy, sys; runpy.run_path(sys.argv[1]); sys.stdin.read()",
                           *sys.argv[2:]],
         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMPI_COMM_WORLD_RANK": str(r),
         "OMPI_COMM_WORLD_LOCAL_RANK": str(r), "OMPI_COMM_WORLD_SIZE": str(n), "OMPI_COMM_WORLD_LOCAL_SIZE": str(n)})
         for r in range(n)]
for rank in ranks:
    print(rank.stdout.readline(), end="", flush=True)
sys.exit(max(abs(rank.communicate() and rank.returncode) for rank in ranks))
"""


def test_ranks_of_torchrun_in_one_claim_address_its_gpus_by_local_rank(tmp_path):
    text = run(inside(4, [sys.executable, "-c", TORCHRUN, 4, EXAMPLES / "ranks_of_one_claim.py"]), tmp_path)
    ranks = sorted(rows(text))
    assert [line[1] for line in ranks] == ["0", "1", "2", "3"]
    assert [line[4] for line in ranks] == [f"cuda:{i}" for i in range(4)]
    assert len({line[-1] for line in ranks}) == 4


@pytest.mark.parametrize("around", [0, 3])
def test_ranks_that_claim_one_each_get_different_ones(tmp_path, around):
    text = run(inside(around, [sys.executable, "-c", MPIRUN, 3, EXAMPLES / "ranks_that_claim.py"]), tmp_path)
    assert check_one_each((line[-1], line[1]) for line in rows(text)) == 3


def test_one_rank_more_than_the_claim_has_gpus_waits_for_another_s_end(tmp_path):
    """Not refused: it asks for one of two, and that is possible, later."""
    code = MPIRUN.replace("for rank in ranks:", """
import select
poll = select.poll()
by = {rank.stdout.fileno(): rank for rank in ranks}
for fd in by: poll.register(fd, select.POLLIN)
has = []
while by:
    (fd, _), *_ = poll.poll()
    poll.unregister(fd)
    has.append(by.pop(fd))
    print(has[-1].stdout.readline(), end="", flush=True)
    if len(has) == 2:                         # both GPUs have an owner: the first ends, and the third rank is served
        has[0].stdin.close(); has[0].stdin = None; has[0].wait()
for rank in []:""")
    text = run(inside(2, [sys.executable, "-c", code, 3, EXAMPLES / "ranks_that_claim.py"]), tmp_path)
    gpus = [line[-1] for line in rows(text)]
    assert len(gpus) == 3 and len(set(gpus)) == 2


@pytest.mark.parametrize("around", [0, 2])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_data_loader_are_inside_the_script_s_claim(tmp_path, method, around):
    *loaded, claimed = rows(run(inside(around, [sys.executable, EXAMPLES / "data_loader.py", method]), tmp_path))
    assert claimed[0] == "claimed" and len(claimed) == 3
    assert [line[1:] for line in loaded] == [claimed[1:]] * 6


@pytest.mark.parametrize("around", [0, 3])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_own_a_gpu_each(tmp_path, method, around):
    done = rows(run(inside(around, [sys.executable, EXAMPLES / "multiprocessing_workers.py", 3, method]), tmp_path))
    assert [line[0] for line in done] == [str(i) for i in range(12)]
    check_one_each(line[1:] for line in done)


def test_a_forked_child_does_not_end_its_parent_s_claim():
    claim = tholepin.claim(1)
    child = os.fork()
    if child == 0:
        claim.release()
        os._exit(0)
    os.waitpid(child, 0)
    held = _native.call_json("thole_snapshot", _native.machine())["claims"]
    assert [one["id"] for one in held] == [claim.id] and not claim.released


def test_more_than_the_claim_around_has_is_refused_at_once(tmp_path):
    code = "import tholepin\ntry: tholepin.claim(3)\nexcept tholepin.Error as error: print(type(error).__name__, error.code)"
    assert run(inside(2, [sys.executable, "-c", code]), tmp_path).split() == ["NeverPossible", "64"]


@pytest.mark.parametrize("how", ["KILL", "TERM", "INT"])
def test_killing_the_script_at_any_moment_leaves_no_process_and_no_claim(tmp_path, how):
    """Each round kills it a little later, from before the claim to after the work."""
    import random
    import signal

    for _ in range(6):
        script = subprocess.Popen(inside_words(tmp_path), env=environment(), cwd=tmp_path, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            script.wait(random.uniform(0.02, 2.0))
        except subprocess.TimeoutExpired:
            os.kill(script.pid, getattr(signal, "SIG" + how))
            try:
                script.wait(20)
            # Ctrl-C in the midst of multiprocessing's own start or end, which is not our matter
            except subprocess.TimeoutExpired:
                assert how == "INT"
                script.kill()
                script.wait()
    with tholepin.claim(8, wait=200):  # workers of a killed script end as their pipe does, and every claim with them
        pass


def inside_words(tmp_path):
    return [sys.executable, str(EXAMPLES / "multiprocessing_workers.py"), "3", "spawn"]

# ctest: timeout 900
"""What Python begins, and does not, once `thole init --take-back` has taken a GPU of its claim: pools, groups, processes."""
import errno
import os

import pytest

import hostile
from hostile import end, lab  # noqa: F401 (lab: a fixture)
from init_tools import gate_of, in_one_surrounding
from run_tools import eventually


BEGINS_LATER = """
import sys, tholepin
from tholepin import _shares
with tholepin.claim(on=[3]) as claim:
    shares = _shares.Shares()
    share = _shares.Share({}, None, claim.uuids, {}, claim)
    print("up", shares.renew([share]), flush=True)
    sys.stdin.readline()
    print(shares.renew([share]), flush=True)
"""


@in_one_surrounding
def test_no_process_of_a_pool_begins_on_a_gpu_that_was_taken_back(lab):
    """Not by its lasting name either."""
    lab.init()
    with lab.start("alice", hostile.interpreter(), "-c", BEGINS_LATER) as alice:
        assert alice.line() == "up None"
        lab.init("--take-back", "3")
        alice.process.stdin.write(b"\n")
        assert "GPU 3 was taken back by root" in alice.line()


POOL = """
import os, sys, tholepin
def task(number):
    print("began", number, flush=True)
    open(sys.argv[1]).read()
    return number
def failed(error): print(type(error).__name__, error.message, flush=True)
if __name__ == "__main__":
    with tholepin.Pool(gpus=1) as pool:
        first, *rest = [pool.apply_async(task, (number,), error_callback=failed) for number in range(40)]
        print("done", first.get(), flush=True)
"""


@in_one_surrounding
def test_a_pool_begins_no_task_more_on_a_gpu_that_was_taken_back(lab):
    """Nor do those begin that its worker was given ahead."""
    lab.init()
    gate = gate_of(lab)
    program = lab.folder / "pool.py"
    program.write_text(POOL)
    program.chmod(0o644)
    with lab.start("alice", hostile.interpreter(), "-u", str(program), str(gate)) as alice:
        line = alice.line()
        assert line == "began 0", alice.process.stderr.read()
        lab.init("--take-back", str(lab.claims()[0]["gpu"]))
        for _ in range(39):
            line = alice.line()
            assert line.startswith("DriverError GPU ") and "was taken back by root" in line, line
        with open(gate, "w"):
            pass
        assert alice.line() == "done 0"
        assert alice.wait() == 0


CHUNK = """
import sys, time, tholepin
def task(number):
    print("began", number, flush=True)
    if number == 0:
        time.sleep(0.3)                       # longer than what passes before a worker asks
        open(sys.argv[1]).read()
def told(why): print("told", str(why).splitlines()[0], flush=True)
if __name__ == "__main__":
    if sys.argv[2] == "pool":
        with tholepin.Pool(gpus=1) as pool:
            whole = pool.map_async(task, range(40), chunksize=40, error_callback=told)
            pool.apply_async(task, (99,), error_callback=told).wait()
            whole.wait()
    else:
        with tholepin.Executor(gpus=1) as pool:
            whole = pool.map(task, range(40), chunksize=40)
            told(pool.submit(task, 99).exception())
            try: list(whole)
            except Exception as why: told(why)
"""


@pytest.mark.parametrize("kind", ["pool", "executor"])
@in_one_surrounding
def test_nor_does_a_worker_go_on_with_its_chunk(lab, kind):
    lab.init()
    gate = gate_of(lab)
    program = lab.folder / "pool.py"
    program.write_text(CHUNK)
    program.chmod(0o644)
    with lab.start("alice", hostile.interpreter(), "-u", str(program), str(gate), kind) as alice:
        assert alice.line() == "began 0", alice.process.stderr.read()
        lab.init("--take-back", str(lab.claims()[0]["gpu"]))
        ahead = alice.line()
        with open(gate, "w"):
            pass
        for line in (ahead, alice.line()):    # the rest of the chunk begins no more than what was given ahead
            assert line.startswith("told ") and "was taken back by root" in line, line
        assert alice.wait() == 0


ONE_BY_ONE = """
import sys, tholepin
def task(number): return number
if __name__ == "__main__":
    with tholepin.Executor(gpus=1) as pool:
        print("done", pool.submit(task, 0).result(), flush=True)
        sys.stdin.readline()
        refused = False
        while not refused: refused = pool.submit(task, 1).exception() is not None
        print("refused", [pool.submit(task, 2).exception() is None for _ in range(2000)].count(True), flush=True)
"""


@in_one_surrounding
def test_what_a_pool_has_refused_it_goes_on_to_refuse(lab):
    lab.init()
    program = lab.folder / "pool.py"
    program.write_text(ONE_BY_ONE)
    program.chmod(0o644)
    with lab.start("alice", hostile.interpreter(), "-u", str(program)) as alice:
        assert alice.line() == "done 0", alice.process.stderr.read()
        lab.init("--take-back", str(lab.claims()[0]["gpu"]))
        alice.process.stdin.write(b"\n")
        assert alice.line() == "refused 0"
        assert alice.wait() == 0


WITHOUT_GPUS = """
import os, sys, tholepin
def main():
    kind = sys.argv[1]
    if kind == "process":
        process = tholepin.Process(target="/bin/echo", args=["began"])
        process.start()
        process.join()
    elif kind == "group":
        with tholepin.ProcessGroup() as group:
            group.add_process(1, tholepin.ProcessTemplate("/bin/echo", args=["began"]))
            group.init()
            group.start()
            group.join()
    else:
        with tholepin.Pool(processes=1) as pool:
            pool.apply(os.system, ("echo began",))
def tries():
    try: main()
    except tholepin.DriverError as error: print(error.message.partition("GPU-")[0], error.code, flush=True)
    print("end", flush=True)
if __name__ == "__main__":
    own = tholepin.claim(on=[3]) if sys.argv[2:] else None
    tries()
    sys.stdin.readline()
    tries()
"""


AROUND = ["around", "own", "in a user namespace", "in a user namespace, as its root"]


@pytest.mark.parametrize("where", AROUND)
@pytest.mark.parametrize("kind", ["process", "group", "pool"])
@in_one_surrounding
def test_nor_what_has_no_gpus_of_its_own_there(lab, kind, where):
    """In a user namespace nobody can tell whose notes those are: the locks that are inherited tell."""
    lab.init()
    program = lab.folder / "within.py"
    program.write_text(WITHOUT_GPUS)
    program.chmod(0o644)
    own = where == "own"
    around = [] if own else [lab.program, "run", "-q", "--on", "3", "--"]
    if "namespace" in where:
        around += ["unshare", "-U", "-r" if "root" in where else "--map-current-user"]
        if kind == "pool":
            pytest.skip("pools need the claims, which nobody can tell there")
        if lab.run("alice", *around[-3:], "true").returncode != 0:
            pytest.skip("no user namespace for users")
    with lab.start("alice", *around, hostile.interpreter(), "-u", str(program), kind, *(["own"] if own else [])) as alice:
        assert alice.line() == "began", alice.process.stderr.read()
        assert alice.line() == "end"
        lab.init("--take-back", "3")
        bob = lab.hold("bob", "--on", "3")
        alice.process.stdin.write(b"\n")
        assert alice.line() == "GPU  69"
        assert alice.line() == "end"
        end(bob)
        assert alice.wait() == 0


STARTING = """
import tholepin
def task(number): return number
def told(why): print("told", str(why).splitlines()[0], flush=True)
if __name__ == "__main__":
    with tholepin.Pool(gpus=1) as pool:
        print("up", flush=True)
        pool.apply_async(task, (1,), error_callback=told).wait()
    print("ended", flush=True)
"""
SLOW = """
import os, sys
if "tholepin._worker" in " ".join(sys.orig_argv): open(os.environ["GATE"]).read()
"""


def opened_by_a_reader(gate):
    """To write; nothing while nobody reads, or is about to."""
    try:
        return open(os.open(gate, os.O_WRONLY | os.O_NONBLOCK), "wb")
    except OSError as error:
        assert error.errno == errno.ENXIO, error
        return None


@in_one_surrounding
def test_a_worker_that_starts_while_a_gpu_is_taken_back_becomes_ready(lab):
    """What it is to become ready by lies in its socket unread, as tasks do that are taken back from there."""
    lab.init()
    gate, slow = gate_of(lab), lab.folder / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(SLOW)
    (lab.folder / "pool.py").write_text(STARTING)
    lab.run("root", "chmod", "-R", "a+rX", slow, lab.folder / "pool.py", check=True)
    with lab.start("alice", hostile.interpreter(), "-u", str(lab.folder / "pool.py"), GATE=str(gate),
                   PYTHONPATH=f"{slow}:{lab.folder}/python") as alice:
        assert alice.line() == "up", alice.process.stderr.read()
        writer = eventually(lambda: opened_by_a_reader(gate), "its worker starts")
        lab.init("--take-back", str(lab.claims()[0]["gpu"]))
        assert "was taken back by root" in alice.line()
        writer.close()
        assert alice.line() == "ended"
        assert alice.wait() == 0

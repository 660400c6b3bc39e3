# ctest: timeout 900
"""What `thole init --take-back` says, and its exit status. (Whom it takes from: test_hostile_group.py, take_back_test.cpp.)"""
import json
import os

import hostile
from hostile import end, lab  # noqa: F401 (lab: a fixture)
from init_tools import claims_one, in_one_surrounding, key_of
from run_tools import eventually


def gate_of(lab):
    """A FIFO: what reads it waits until somebody has opened it to write, and closed it."""
    gate = lab.folder / "gate"
    os.mkfifo(gate, 0o666)
    gate.chmod(0o666)
    return gate


@in_one_surrounding
def test_a_gpu_that_nobody_holds_is_not_taken_back_and_that_is_said(lab):
    lab.init()
    mallory = lab.hold("mallory", "--on", "1")
    done = lab.thole("root", "init", "--take-back", "0")
    assert done.returncode == 69 and "is not taken back: nobody held it" in done.stderr, done.stderr
    both = lab.thole("root", "init", "--take-back", "0,1")
    assert both.returncode == 69 and both.stderr.count("nobody held it") == 1, both.stderr
    assert "is taken back; " in both.stderr and claims_one(lab, "bob", "-g", "4").returncode == 0
    end(mallory)
    told = lab.thole("root", "init", "--take-back", "0", "--json")
    assert told.returncode == 69 and json.loads(told.stdout)["not_taken_back"] == 1



@in_one_surrounding
def test_what_still_runs_in_a_claim_that_was_taken_back_is_named(lab):
    """By the lock that it has inherited, or by the claim that it was started in."""
    lab.init()
    script = lab.folder / "inside.py"
    script.write_text("import subprocess, sys\n"
                      "with_lock = subprocess.Popen(['sleep', '4711'], env={}, close_fds=False)\n"
                      "without = subprocess.Popen(['sleep', '4712'])\n"
                      "print(with_lock.pid, without.pid, flush=True)\n"
                      "sys.stdin.read(); with_lock.kill(); without.kill(); with_lock.wait(); without.wait()\n")
    os.chmod(script, 0o644)
    alice = lab.start("alice", lab.program, "run", "--on", "0", "--", hostile.interpreter(), script)
    pids = alice.line().split()
    bob = lab.hold("bob", "--on", "1")
    done = lab.init("--take-back", "0")
    [said] = [line for line in done.stderr.replace("\n  ", " ").splitlines() if "may use it still" in line]
    for pid in pids:
        assert f"pid {pid} (sleep) of alice" in said, done.stderr
    assert "bob" not in said, said
    end(alice)
    end(bob)


@in_one_surrounding
def test_who_had_a_gpu_that_was_taken_back_is_told_at_the_end(lab):
    """By what his own descriptor says. The status is the command's own, and whose lock was not replaced is told nothing."""
    lab.init()
    alice, bob = (lab.hold(user, "--on", gpu) for user, gpu in (("alice", "0"), ("bob", "1")))
    assert "is taken back; " in lab.init("--take-back", "0").stderr
    assert claims_one(lab, "bob", "--on", "0").returncode == 0
    assert [started.process.stdin.close() or started.wait() for started in (alice, bob)] == [0, 0]
    told = " ".join(alice.process.stderr.read().decode().split())
    assert told.count("GPU 0 was taken back by root: others may have claimed it since") == 1, told
    assert "taken back" not in bob.process.stderr.read().decode()
    for started in (alice, bob):
        started.__exit__()


@in_one_surrounding
def test_nothing_begins_in_a_claim_on_a_gpu_of_it_that_was_taken_back(lab):
    lab.init()
    claim = lab.thole("alice", "claim", "-g", "2", "--on", "2,3", "--time", "1h", check=True).stdout.strip()
    lab.init("--take-back", "3")
    bob = lab.hold("bob", "--on", "3")
    inside = {"THOLE_CLAIM": claim}
    for words in (["--on", "3"], ["-g", "2"]):
        done = lab.thole("alice", "run", *words, "--no-wait", "--", "true", **inside)
        assert done.returncode == 69 and "GPU 3 was taken back by root" in done.stderr, done.stderr
    done = lab.thole("alice", "run", "--in", claim, "--", "true")
    assert done.returncode == 69 and "was taken back by root" in done.stderr, done.stderr
    told = lab.thole("alice", "why", claim, check=True).stdout
    assert "GPU 3 was taken back by root: others may have claimed it since" in told and "the claim holds" not in told, told
    told = " ".join(lab.thole("alice", "extend", claim, "2h", check=True).stderr.split())
    assert f"{key_of(lab, 3)} was taken back by root" in told and key_of(lab, 2) not in told, told
    assert lab.thole("alice", "run", "--on", "2", "--no-wait", "--", "true", **inside).returncode == 0
    end(bob)
    lab.thole("alice", "release", claim, check=True)


@in_one_surrounding
def test_map_begins_no_task_more_on_a_gpu_that_was_taken_back(lab):
    lab.init()
    gate = gate_of(lab)
    task = f'echo "$0"; [ "$0" = second ] || cat {gate}'
    alice = lab.start("alice", lab.program, "map", "-j", "1", "--on", "3", "sh", "-c", task, ":::", "first", "second")
    with open(gate, "w"):                     # opened: the first task reads
        lab.init("--take-back", "3")
        bob = lab.hold("bob", "--on", "3")
    alice.error_until("GPU 3 was taken back by root")
    eventually(lab.waiters, "it lines up again")
    end(bob)
    assert alice.wait() == 0
    assert alice.process.stdout.read().split() == [b"first", b"second"]
    alice.__exit__()


BEGINS_LATER = """
import sys, tholepin
from tholepin import _shares
with tholepin.claim(on=[3]) as claim:
    shares = _shares.Shares()
    shares._claim = claim
    share = _shares.Share({}, None, claim.uuids, {})
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

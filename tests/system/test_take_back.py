# ctest: timeout 900
"""What `thole init --take-back` says, and its exit status. (Whom it takes from: test_hostile_group.py, take_back_test.cpp.)"""
import json
import os

import hostile
from hostile import end, lab  # noqa: F401 (lab: a fixture)
from init_tools import claims_one, in_one_surrounding

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

"""A process has ended, and a stranger's process has its number: that one is believed to be nobody it is not."""
import os
import pathlib
import signal
import time

import pytest

from hostile import USERS, end, interpreter, lab  # noqa: F401 (lab: a fixture)
from run_tools import eventually

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# A process of this user that has this number; prints "up", or why there is none.
AS_NUMBER = """
import ctypes, os, signal, struct, sys
number, uid = map(int, sys.argv[1:])
wanted = ctypes.c_int(number)
how = struct.pack("11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
libc = ctypes.CDLL(None, use_errno=True)
child = libc.syscall(435, how, len(how))                        # clone3
if child == 0:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.execvp("sh", ["sh", "-c", "echo up; exec cat"])
if child < 0:
    print(os.strerror(ctypes.get_errno()), flush=True)
else:
    os.waitpid(child, 0)
"""


# A live note of this user's: all units are a claim of the process of this number.
FORGED = pathlib.Path(__file__).with_name("forging.py").read_text().split("if __name__")[0] + """
import sys
forge_notes([note("0123456789abcdef", int(sys.argv[1]), 0, 0, 4102444800000, "train", 0)])
"""


def use_again(lab, number, user):
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        pytest.skip("the kernel tells of a lock by its taker's number in the first pid namespace, and this is another")
    process = lab.start("root", interpreter(), "-u", "-c", AS_NUMBER, str(number), str(USERS[user]))
    line = process.line()
    if line != "up":
        process.__exit__()
        pytest.skip(f"no process can have the number {number} here: {line}")
    return process


def left_to_its_command(lab, words=("-g", "2")):
    """A claim of alice's whose supervisor was killed: her command, its number, its id."""
    alice = lab.start("alice", lab.program, "run", *words, "--", "sh", "-c", "echo $THOLE_CLAIM; exec cat")
    claim = alice.line()
    number = lab.claims()[0]["pid"]
    os.kill(number, signal.SIGKILL)
    alice.process.wait()
    return alice, claim, number


def notes(lab):
    return lab.run("root", "ls", "/run/thole/notes", check=True).stdout.split()


@in_one_surrounding
def test_init_leaves_the_note_of_a_claim_whose_takers_number_is_anothers(lab):
    mount = "mkdir /run/thole; mount -t tmpfs -o size=4m,nr_inodes=8k,mode=0755 thole /run/thole"
    lab.run("root", "sh", "-ec", mount, check=True)
    lab.init()
    alice, claim, number = left_to_its_command(lab)
    stranger = use_again(lab, number, "mallory")
    noted = notes(lab)
    lab.run("mallory", "sh", "-c", "head -c 8000000 /dev/zero > /run/thole/notes/61003-00000000")
    lab.init()
    assert notes(lab) == noted
    done = lab.thole("alice", "run", "-q", "-g", "2", "--no-wait", "--", "true", THOLE_CLAIM=claim)
    assert done.returncode == 69 and f"claim {claim}" in done.stderr, done.stderr   # known still, and without a supervisor
    end(stranger)
    alice.__exit__()


@in_one_surrounding
def test_who_has_the_number_of_who_took_a_gpu_is_not_shown_as_its_holder(lab):
    lab.init()
    alice, claim, number = left_to_its_command(lab)
    stranger = use_again(lab, number, "mallory")
    for user in ("alice", "root", "mallory"):                # who can see that the process has no lock; and whose note it is
        seen = lab.claims(user)
        assert {(one["user"], one["verified"], one["id"]) for one in seen} == {("alice", True, claim)}, seen
        assert all(one["pid"] != number for one in seen), "the number is not alice's any more"
    seen = lab.claims("bob")
    assert {(one["user"], one["verified"]) for one in seen} == {("alice or mallory", False)}, seen
    assert all(one["pid"] != number for one in seen)
    done = lab.thole("alice", "release", claim)
    assert done.returncode == 69 and f"kill {number} " not in done.stderr, done.stderr
    end(stranger)
    alice.__exit__()
    eventually(lambda: not lab.claims(), "the claim is over")


@in_one_surrounding
def test_a_note_of_who_has_that_number_takes_no_name_before_root_and_whose_job_it_is(lab):
    lab.init()
    alice, claim, number = left_to_its_command(lab)
    stranger = use_again(lab, number, "mallory")
    forged = lab.start_python("mallory", FORGED, str(number))
    assert {(one["user"], one["verified"]) for one in lab.claims("bob")} == {("alice or mallory", False)}
    seen = lab.claims("alice")
    assert {(one["user"], one["id"], one["verified"], one["pid"]) for one in seen} == {("alice", claim, True, None)}, seen
    seen = lab.claims("root")
    assert {(one["user"], one["id"], one["verified"]) for one in seen} == {("alice", claim, True)}, seen
    assert all(one["pid"] not in (None, number) for one in seen), "root sees who has the lock"
    end(forged)
    end(stranger)
    alice.__exit__()


# All places of all units are this user's, for anybody to share, of 1 MiB; the process is of this number.
FORGED_SHARES = FORGED.rsplit("forge_notes(", 1)[0] + """
forge_notes([note("0123456789abcdef", int(sys.argv[1]), WITH_ANY, 1, int(sys.argv[2]), "x", berth) for berth in range(17)])
"""
LATER = 4102444800000


@in_one_surrounding
def test_a_note_of_who_has_that_number_lets_nobody_in_beside_a_sharer(lab):
    lab.init()
    alice, _, number = left_to_its_command(lab, ("--share", "--memory", "40G", "--on", "1"))
    beside = ["run", "--share", "--share-with", "any", "--memory", "2G", "--on", "1", "--no-wait", "--", "true"]
    assert lab.thole("bob", *beside).returncode == 75
    stranger = use_again(lab, number, "mallory")
    forged = lab.start_python("mallory", FORGED_SHARES, str(number), str(LATER))
    done = lab.thole("bob", *beside)
    assert done.returncode == 75 and "mallory" in done.stderr, done.stderr
    end(forged)
    end(stranger)
    alice.__exit__()


@in_one_surrounding
def test_a_note_of_who_has_that_number_promises_nobody_a_start(lab):
    lab.init()
    alice, _, number = left_to_its_command(lab, ("--on", "1"))
    stranger = use_again(lab, number, "mallory")
    bob = lab.hold_later("bob", "--on", "1,2", gpus=2)
    eventually(lambda: lab.waiters(), "he waits")
    short = ["run", "-q", "--time", "9h", "--on", "2", "--wait", "1s", "--", "true"]
    assert lab.thole("mallory", *short).returncode == 124
    forged = lab.start_python("mallory", FORGED_SHARES, str(number), str(int(time.time() + 36_000) * 1000))
    assert lab.thole("mallory", *short).returncode == 124, "bob is not told that he could start when that one ends"
    end(forged)
    end(stranger)
    alice.__exit__()
    assert bob.line() == "up"
    end(bob)

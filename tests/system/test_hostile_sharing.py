"""Locks of the places for sharers that nobody shares by: who has them stops no sharer, and is named."""
import pytest

from hostile import end, kernel, lab  # noqa: F401 (lab: a fixture)

# Keeps all places that are to be had, through descriptors that only read.
KEEPER = """
import fcntl, glob, os, sys
kept = []
for name in sorted(glob.glob("/run/thole/share.*")):
    kept.append(os.open(name, os.O_RDONLY | os.O_NONBLOCK))
    try:
        fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
print("up")
sys.stdin.read()
"""
SHARE = ("--share", "--share-with", "any", "--memory", "1G")


def one_line(text):
    return " ".join(text.split())


def test_who_keeps_all_places_for_sharers_stops_no_sharer_and_is_named(lab):
    lab.init()
    mallory = lab.start_python("mallory", KEEPER)
    by_name = not ("hidepid" in lab.words and kernel() < (6, 13)) and "container" not in lab.words
    kept = f"pid {mallory.pid}" if by_name else "all places for sharers"
    done = lab.thole("alice", "run", "--no-wait", *SHARE, "--", "true")
    assert done.returncode == 0, done.stderr
    assert "is yours alone" in done.stderr, done.stderr
    assert not by_name or ("of mallory" in done.stderr and kept in done.stderr), done.stderr
    for words in (("status",), ("why", "0"), ("why",), ("doctor",)):
        told = one_line(lab.thole("alice", *words).stdout)
        assert "all places for sharers" in told and kept in told, (words, told)
    assert "all places for sharers" in lab.status("bob")["claims_problem"]

    # One sharer for each GPU, with the whole of it: nobody else is beside him, sharing or not.
    sharers = [lab.hold("alice", *SHARE) for _ in range(4)]
    claims = lab.claims("alice")
    assert sorted(claim["gpu"] for claim in claims) == [0, 1, 2, 3]
    assert {claim["user"] for claim in claims} == {"alice"} and all(claim["verified"] for claim in claims), claims
    for more in ((), SHARE):
        done = lab.thole("bob", "run", "--no-wait", *more, "--", "true")
        assert done.returncode == 75 and "alice" in done.stderr, done.stderr
        assert (kept in one_line(done.stderr)) == bool(more), "who would share is told of who keeps him from it"
    assert kept in one_line(lab.thole("bob", "status").stdout)
    end(sharers.pop())
    assert lab.thole("bob", "run", "--no-wait", "--", "true").returncode == 0

    end(mallory)
    assert lab.status("bob")["claims_problem"] is None
    freed = lab.hold("alice", *SHARE)
    done = lab.thole("bob", "run", "--no-wait", *SHARE, "--", "true")
    assert done.returncode == 0 and "alone" not in done.stderr, done.stderr
    for sharer in (*sharers, freed):
        end(sharer)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_sharer_of_two_gpus_of_which_one_has_no_places_has_that_one_alone(lab):
    lab.init()
    lab.set_gpus(2)
    key = lab.status()["gpus"][1]["uuid"]
    mallory = lab.start_python("mallory", KEEPER.replace("share.*", f"share.*{key}*"))
    alice = lab.start("alice", lab.program, "run", "-g", "2", *SHARE, "--", "sh", "-c",
                      f"{lab.program} run -q -g 2 --no-wait -- echo within $CUDA_VISIBLE_DEVICES; exec cat")
    assert alice.line() == "within 0,1"
    claims = sorted(lab.claims("bob"), key=lambda claim: claim["gpu"])
    assert [(claim["gpu"], claim["shared"], claim["verified"]) for claim in claims] == [(0, True, True), (1, False, True)]
    done = lab.thole("bob", "run", "--no-wait", "--on", "0", *SHARE, "--", "true")
    assert done.returncode == 0, done.stderr
    assert lab.thole("bob", "run", "--no-wait", "--on", "1", *SHARE, "--", "true").returncode == 75
    end(alice)
    end(mallory)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_who_keeps_places_beside_a_sharer_is_named_once(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "0", *SHARE)
    mallory = lab.start_python("mallory", KEEPER)
    for words in (("why", "0"), ("run", "--no-wait", "--on", "0", *SHARE, "--", "true")):
        done = lab.thole("bob", *words)
        told = one_line(done.stdout + done.stderr)
        assert "and mallory (unverified), 15 times" in told and "somebody" not in told, told
    end(mallory)
    end(alice)

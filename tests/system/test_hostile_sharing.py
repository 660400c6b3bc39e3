"""Locks of the places for sharers that nobody shares by: who has them stops no sharer, and is named."""
import pytest

from hostile import end, interpreter, kernel, lab  # noqa: F401 (lab: a fixture)
from run_tools import eventually

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
    kept = f"pid {mallory.pid}" if by_name else "places for sharers are kept"
    done = lab.thole("alice", "run", "--no-wait", *SHARE, "--", "true")
    assert done.returncode == 0, done.stderr
    assert "is yours alone" in done.stderr, done.stderr
    assert not by_name or ("of mallory" in done.stderr and kept in done.stderr), done.stderr
    for words in (("status",), ("why", "0"), ("why",), ("doctor",)):
        told = one_line(lab.thole("alice", *words).stdout)
        assert "places for sharers are kept" in told and kept in told, (words, told)
    assert "places for sharers are kept" in lab.status("bob")["claims_problem"]

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


# Locks bytes of all places of a unit, for reading or writing, where nothing is in the way.
BYTES = """
import fcntl, glob, os, struct, sys
first, kind = int(sys.argv[2]), {"read": fcntl.F_RDLCK, "write": fcntl.F_WRLCK}[sys.argv[1]]
kept = []
for name in sorted(glob.glob("/run/thole/share.*")):
    kept.append(os.open(name, os.O_RDWR | os.O_NONBLOCK))
    try:
        fcntl.fcntl(kept[-1], 37, struct.pack("hhqqi4x", kind, os.SEEK_SET, first, 0, 0))      # F_OFD_SETLK
    except OSError:
        pass
print("up", flush=True)
sys.stdin.read()
"""
BESIDE = ("run", "--no-wait", "--on", "0", *SHARE, "--", "true")


@pytest.mark.parametrize("first", [0, 1, 1_000_000], ids=["for myself", "all of it", "more"])
def test_who_says_more_on_a_sharers_place_lets_nobody_in_and_is_told(lab, first):
    lab.init()
    alice = lab.hold("alice", "--on", "0", *SHARE)
    assert lab.thole("bob", *BESIDE).returncode == 0
    mallory = lab.start_python("mallory", BYTES, "read", first)
    assert lab.thole("bob", *BESIDE).returncode == 75
    for user in ("bob", "root"):
        told = one_line(lab.thole(user, "status").stdout)
        who = "of mallory locks bytes of it" if user == "root" else "somebody locks bytes of it"
        assert "locks that are no sharer's" in told and who in told, (user, told)
        claims = [claim for claim in lab.claims(user) if claim["id"]]
        assert [(claim["user"], claim["verified"], claim["memory_mib"]) for claim in claims] == [("alice", True, None)], claims
        assert "without a known budget" in one_line(lab.thole(user, "why", "0").stdout)
    end(mallory)
    assert lab.thole("bob", *BESIDE).returncode == 0
    assert lab.status("bob")["claims_problem"] is None
    end(alice)


# Keeps one place of a GPU that nobody has.
ONE = """
import fcntl, glob, os, struct, sys
kind, key = sys.argv[1], sys.argv[2]
name = f"gpu.{key}" if kind == "byte of the GPU" else f"share.{key}.9"
kept = os.open("/run/thole/" + name, os.O_RDONLY | os.O_NONBLOCK)
if kind == "lock": fcntl.flock(kept, fcntl.LOCK_EX)
else: fcntl.fcntl(kept, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 9, 1, 0))      # F_OFD_SETLK
print("up", flush=True); sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["lock", "byte", "byte of the GPU"])
@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_who_keeps_one_place_of_a_gpu_that_nobody_has_stops_no_sharer_and_is_told(lab, kind):
    lab.init()
    mallory = lab.start_python("mallory", ONE, kind, lab.status()["gpus"][0]["uuid"])
    for more in (("--no-wait",), ("--wait", "20s"), ("--no-wait", "-g", "2")):
        done = lab.thole("bob", "run", *more, *SHARE, "--", "true")
        assert done.returncode == 0 and "is yours alone" in done.stderr, done
    told = one_line(lab.thole("root", "status").stdout)
    assert "places for sharers are kept" in told and "of mallory" in told, told
    end(mallory)
    done = lab.thole("bob", "run", "--no-wait", *SHARE, "--", "true")
    assert done.returncode == 0 and "alone" not in done.stderr, done


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_who_locks_bytes_of_all_places_stops_no_sharer_and_is_told(lab, kind):
    lab.init()
    mallory = lab.start_python("mallory", BYTES, kind, 0)
    done = lab.thole("alice", "run", "--no-wait", *SHARE, "--", "true")
    assert done.returncode == 0 and "is yours alone" in done.stderr, done.stderr
    assert "somebody locks bytes of it" in done.stderr, done.stderr
    for user in ("bob", "root"):
        told = one_line(lab.thole(user, "status").stdout)
        who = "of mallory locks bytes of it" if user == "root" else "somebody locks bytes of it"
        assert "places for sharers are kept" in told and who in told, (user, told)
    end(mallory)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_who_locks_bytes_of_free_places_of_a_shared_gpu_makes_that_one_full_and_is_told(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "0", *SHARE)
    key = lab.status()["gpus"][0]["uuid"]
    mallory = lab.start_python("mallory", BYTES.replace("share.*", f"share.*{key}.[1-9]*"), "read", 0)
    assert lab.thole("bob", *BESIDE).returncode == 75
    done = lab.thole("bob", "run", "--no-wait", *SHARE, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert (done.returncode, done.stdout) == (0, "1\n"), done
    waiter = lab.hold_later("bob", "--on", "0", *SHARE)
    eventually(lambda: lab.waiters(), "he stands in line")
    told = one_line(lab.thole("bob", "status").stdout)
    assert "locks that are no sharer's" in told and "somebody" in told, told
    assert "of mallory locks bytes of it" in one_line(lab.thole("root", "doctor").stdout)
    end(mallory)
    assert waiter.line() == "up"
    end(waiter)
    end(alice)


# Closes what keeps its unit and its place, and nothing else.
CLOSE = """
import os, sys
for fd in os.listdir("/proc/self/fd"):
    try: name = os.readlink("/proc/self/fd/" + fd)
    except OSError: continue
    if "/gpu." in name or "/share." in name: os.close(int(fd))
print("up", flush=True); sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["closed", "taken back"])
def test_a_note_that_outlives_its_place_says_nothing_of_who_has_it_next(lab, how):
    lab.init()
    alice = lab.start("alice", lab.program, "run", "--no-supervisor", "--on", "0", "--share", "--memory", "10G", "--",
                      interpreter(), "-c", CLOSE if how == "closed" else CLOSE.replace("os.close(int(fd))", "pass"))
    assert alice.line() == "up"
    if how == "taken back":
        lab.thole("root", "init", "--take-back", "0", check=True)
    bob = lab.hold("bob", "--on", "0", "--share", "--memory", "20G")
    for more in ((), ("--share-with", "any")):
        done = lab.thole("alice", "run", "--no-wait", "--on", "0", "--share", *more, "--memory", "1G", "--", "true")
        assert done.returncode == 75, (how, done)
    lab.thole("bob", "run", "--no-wait", "--on", "0", "--share", "--memory", "1G", "--", "true", check=True)
    end(bob)
    end(alice)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_place_that_was_deleted_under_its_sharer_makes_the_gpu_full(lab):
    lab.init()
    first = lab.hold("alice", "--on", "0", "--share", "--memory", "10G")
    second = lab.hold("alice", "--on", "0", *SHARE)
    key = lab.status()["gpus"][0]["uuid"]
    lab.run("root", "sh", "-c", f"rm /run/thole/share.*{key}.0", check=True)
    for _ in range(2):
        assert lab.thole("bob", *BESIDE).returncode == 75
        assert "deleted or replaced under its holder" in one_line(lab.thole("bob", "status").stdout)
        lab.init()                                              # makes the node anew
    end(first)
    assert lab.thole("bob", *BESIDE).returncode == 0
    end(second)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_thousand_locks_on_a_place_say_no_less(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "0", "--share", "--memory", "40G")
    mallory = lab.start_python("mallory", BYTES.replace("first, 0, 0))", "first + 2 * len(kept), 1, 0))")
                               .replace('sorted(glob.glob("/run/thole/share.*"))', '1000 * glob.glob("/run/thole/share.*.0")'),
                               "read", 0)
    assert lab.thole("bob", *BESIDE).returncode == 75
    end(mallory)
    assert lab.thole("bob", *BESIDE).returncode == 75
    assert lab.thole("alice", *BESIDE).returncode == 0
    end(alice)


def test_places_kept_of_a_gpu_that_another_has_alone_hide_him_from_nobody(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "0", "--time", "1h")
    key = lab.status()["gpus"][0]["uuid"]
    keep = KEEPER.replace("share.*", f"share.*{key}*")
    places, alloc = lab.start_python("mallory", keep), lab.start_python("mallory", keep.replace(f"share.*{key}*", "alloc"))
    for who in ("bob", "alice", "root"):
        (claim,) = lab.claims(who)
        assert (claim["gpu"], claim["user"], claim["shared"], claim["verified"]) == (0, "alice", False, True)
    assert lab.thole("alice", "extend", "0", "2h").returncode == 0
    done = lab.thole("root", "release", "0")
    assert done.returncode == 0 and "alice" not in [claim["user"] for claim in lab.claims("bob")], done.stderr
    assert alice.wait() != 0
    end(places)
    end(alloc)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_claim_that_waits_for_a_process_ends_with_that_process(lab):
    lab.init()
    lab.set_gpus(1)
    alice = lab.hold("alice")
    process = lab.start("bob", "cat")
    waiting = lab.start("bob", lab.program, "claim", "--pid", str(process.process.pid))
    eventually(lambda: lab.waiters("bob"), "he waits")
    end(process)
    assert waiting.wait() == 69
    assert "the process that the claim was for has ended" in waiting.process.stderr.read().decode()
    assert lab.waiters("root") == []
    end(alice)

# ctest: serial
"""Files of notes of hundreds of users, with thousands of locks: they cost bounded work, and hide nobody. The kernel's list of
locks is one for the whole machine, so no other test runs meanwhile."""
import pathlib
import resource

import pytest

from hostile import end, lab  # noqa: F401 (the fixture)

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# Files of notes of so many users, with so many live records each. A user has 65,536 subordinate uids; root stands in for
# newuidmap.
CROWD = """
import fcntl, os, struct, sys
for uid in range(200000, 200000 + int(sys.argv[1])):
    os.seteuid(uid)
    fd = os.open(f"/run/thole/notes/{uid}-0000000a", os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, 512 * 512)
    for record in range(int(sys.argv[2])): fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, record * 512, 1, 0))
    os.seteuid(0)
print("up", flush=True)
sys.stdin.read()
"""


@in_one_surrounding
def test_notes_of_many_users_cost_no_more_than_those_of_some(lab):
    lab.init()
    alice = lab.hold("alice", "--share", "--share-with", "any", "--memory", "10G")
    on = str(lab.claims()[0]["gpu"])
    beside = ["run", "--share", "--share-with", "any", "--memory", "2G", "--on", on, "--no-wait", "--", "true"]

    def work(*words):
        """Processor time of a command of bob's: what others do on the machine does not count."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        lab.thole("bob", *words)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    spent = []
    for users in (30, 400):
        crowd = lab.start_python("root", CROWD, str(users), "512")
        spent.append(min(work(*beside) for _ in range(3)))
        assert lab.thole("alice", *beside).returncode == 0, "one's own notes are read"
        end(crowd)
    assert spent[1] < 6 * spent[0], spent
    end(alice)


# A file of as many live notes as it can have, under sys.argv[1] names; they name all GPUs.
ONE_FILE = pathlib.Path(__file__).with_name("forging.py").read_text().split("if __name__")[0] + """
path = f"/run/thole/notes/{os.getuid()}-0bad0000"
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
os.write(fd, b"".join(note(f"{i:016x}", os.getpid(), 0, 0, 0, "x", i % 17) for i in range(512)))
fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
for i in range(1, int(sys.argv[1])): os.link(path, f"/run/thole/notes/{os.getuid()}-{i:08x}")
print("up", flush=True)
sys.stdin.read()
"""


@in_one_surrounding
def test_init_looks_once_at_a_file_of_notes_with_many_names(lab):
    lab.init()

    def work(names):
        mallory = lab.start_python("mallory", ONE_FILE, str(names))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        lab.init()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        end(mallory)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    few, many = work(2), work(1000)
    assert many < 10 * few, (few, many)


@in_one_surrounding
def test_the_notes_of_holders_are_read_before_those_of_many_others(lab):
    lab.init()
    alice = lab.hold("alice", "--share", "--share-with", "any", "--memory", "10G")
    crowd = lab.start_python("root", CROWD, "400", "16")
    claims = lab.claims("bob")
    assert ("alice", True) in {(claim["user"], claim["verified"]) for claim in claims}, claims
    assert len(claims) <= 8, "there is no line for each stranger"
    end(crowd)
    end(alice)


# Files of notes that cost much to look at, and a small one that is listed before them.
COSTLY = """
import fcntl, os, resource, struct, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
kept = []
for number in range(300):
    kept.append(os.open(f"/run/thole/notes/{os.getuid()}-{number:08x}", os.O_RDWR | os.O_CREAT, 0o644))
    os.ftruncate(kept[-1], 512 * 512)
    for record in range(511, -1, -1): fcntl.fcntl(kept[-1], 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, record * 512, 1, 0))
os.open(f"/run/thole/notes/{os.getuid()}-0fffffff", os.O_RDWR | os.O_CREAT, 0o644)
print("up", flush=True)
sys.stdin.read()
"""


@in_one_surrounding
def test_init_deletes_nobodys_live_note_for_the_time_that_others_notes_take(lab):
    lab.init()
    alice = lab.hold("alice")
    [claim] = lab.claims("alice")
    mallory = lab.start_python("mallory", COSTLY)
    lab.init()
    end(mallory)
    assert [(told["id"], told["verified"]) for told in lab.claims("bob")] == [(claim["id"], True)]
    assert lab.thole("alice", "release", claim["id"]).returncode == 0
    alice.wait()
    alice.__exit__()


# Locks for reading, which stand before those of the file's owner in the kernel's list.
READ_LOCKS = """
import fcntl, struct, sys, time
file = open(sys.argv[1])
end = time.monotonic() + 3
count = 0
while time.monotonic() < end:
    for _ in range(100):
        fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 700000 - 2 * count, 1, 0))     # F_OFD_SETLK
        count += 1
print("up", flush=True)
sys.stdin.read()
"""


@in_one_surrounding
def test_init_deletes_no_live_notes_that_cannot_be_read_for_locks_of_others(lab):
    lab.init()
    end(lab.hold("alice"))
    [notes] = [name for name in lab.run("root", "ls", "/run/thole/notes").stdout.split() if "line" not in name]
    mallory = lab.start_python("mallory", READ_LOCKS, f"/run/thole/notes/{notes}")
    held = [lab.hold("alice", "--share", "--memory", "100M") for _ in range(28)]
    lab.init()
    end(mallory)
    claims = lab.claims("bob")
    assert len(claims) == 28 and {(claim["user"], claim["verified"]) for claim in claims} == {("alice", True)}, claims
    for one in held:
        end(one)

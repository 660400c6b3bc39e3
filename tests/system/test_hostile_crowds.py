# ctest: serial
"""Lists that strangers make long, and names that they borrow: locks of files by the ten thousand, notes full of locks, places
in line in another's name. They make nobody wait, and no innocent is named."""
import json
import pathlib
import re
import time

import pytest

from hostile import USERS, end, interpreter, lab, supervisor_of  # noqa: F401 (the fixture)
from run_tools import eventually, read_line
from test_hostile_line import FORGE, FORGING
from test_hostile_places import plant

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# sys.argv[1] flocks of files of one's own. /proc/locks has a line for each, and the kernel begins anew for each page of it.
MANY_FLOCKS = """
import fcntl, os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
folder, left = "/tmp/locks-of-mine", int(sys.argv[1])
os.mkdir(folder)
told, tell = os.pipe()
while left > 0:
    here = min(left, most - 100, 20000)
    left -= here
    if os.fork() == 0:
        kept = [os.open(f"{folder}/{i % 500}", os.O_RDWR | os.O_CREAT) for i in range(here)]
        for fd in kept: fcntl.flock(fd, fcntl.LOCK_SH)
        os.write(tell, b"x")
        sys.stdin.read()
        os._exit(0)
    os.read(told, 1)
print("up", flush=True)
sys.stdin.read()
"""

# A live note file of one's own with sys.argv[1] locks behind its records and a lock in each record: each question walks all of
# them.
NOTE_FULL_OF_LOCKS = """
import fcntl, os, struct, sys
def lock(fd, start): fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0))     # F_OFD_SETLK
for number in range(8):
    path = f"/run/thole/notes/{os.getuid()}-{number:08x}"
    behind, inside = (os.open(path, os.O_RDWR | os.O_CREAT, 0o644) for _ in range(2))
    os.ftruncate(behind, 512 * 512)
    for i in reversed(range(int(sys.argv[1]))): lock(behind, 1000000 + 2 * i)
    for i in reversed(range(512)): lock(inside, 512 * i)
print("up", flush=True)
sys.stdin.read()
"""

# Takes the lock sys.argv[1] in a process that ends at once; a child of it keeps it.
KEPT_BY_A_CHILD = """
import fcntl, os, sys
told, tell = os.pipe()
first = os.fork()
if first == 0:
    fd = os.open(sys.argv[1], os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    if os.fork() == 0:
        os.write(tell, b"x")
        sys.stdin.read()
    os._exit(0)
os.waitpid(first, 0)
os.read(told, 1)
print("up", flush=True)
sys.stdin.read()
"""

# A ticket in the name of the user sys.argv[2] and his process sys.argv[1]; the lock of its FIFO was taken by a process that has
# ended.
FRAMED = FORGE + """
header(12)
if os.fork() == 0:
    occupy([9])
    if os.fork() == 0:
        sys.stdin.read()
    os._exit(0)
os.wait()
victim, uid = int(sys.argv[1]), int(sys.argv[2])
start = int(open(f"/proc/{victim}/stat").read().rsplit(")", 1)[1].split()[19])
r = bytearray(struct.pack("<QQIIQIIHBBIqQ", M, M, uid, victim, start, 0, 0, 1, 0, 0, 0, int(time.time() * 1000), 5))
struct.pack_into("<I", r, 44, checksum(bytes(r)) & 0xffffffff | 1)
with open(D + "queue", "r+b") as file:
    file.seek(64 + 64 * 9)
    file.write(r)
print("up", flush=True)
sys.stdin.read()
"""

READ_ALL_TURNS = """
import glob, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
kept = [os.open(path, os.O_RDONLY | os.O_NONBLOCK) for path in glob.glob("/run/thole/turn.*")]
print("up", flush=True)
sys.stdin.read()
"""

# sys.argv[1]: the folder in which safe-gpu makes its own.
KEEP_SAFE_GPU = """
import fcntl, os, sys
os.umask(0)
folder = sys.argv[1] + "/safe_gpu"
os.mkdir(folder, 0o777)
fd = os.open(folder + "/gpu-lock-magic-RaNdOM-This_Name-NEED_BE-THE_SAME-Across_Users", os.O_RDWR | os.O_CREAT, 0o666)
fcntl.lockf(fd, fcntl.LOCK_EX)
print("up", flush=True)
sys.stdin.read()
"""


def work_of(lab, user, *words):
    """What the processes of a command worked, in seconds, and how it ended; time that others had the processor does not
    count."""
    code = ("import os, subprocess, sys\n"
            "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
            "t = os.times()\n"
            "import json; print(json.dumps([t.children_user + t.children_system, done.returncode, done.stdout + done.stderr]))")
    return json.loads(lab.python(user, code, lab.program, *words).stdout)


@in_one_surrounding
def test_a_hundred_thousand_locks_of_a_stranger_delay_nobody_and_he_is_named(lab):
    lab.init()
    alice = lab.hold("alice", "--time", "1h")
    usual = work_of(lab, "bob", "status")[0]
    mallory = lab.start_python("mallory", MANY_FLOCKS, "100000")
    worked, status, told = work_of(lab, "bob", "status")
    assert worked < usual + 2, "two lists, each read for 0.2 s at most"
    assert status == 0 and " ".join(told.split()).count("mallory keeps"), told
    held = lab.claims("bob")
    assert [claim["held"] for claim in held] == [True] and held[0]["user"] in ("alice", None), "nobody innocent"
    assert lab.thole("bob", "run", "--no-wait", "--", "true").returncode == 0
    assert lab.thole("bob", "run", "-g", "4", "--no-wait", "--", "true").returncode == 75
    end(mallory)
    end(alice)


# As many names like the one that alice gets.
MANY_NAMES = """
import os, sys
os.chdir("/tmp")
for number in range(int(sys.argv[2])):
    os.symlink("x", f"thole-{sys.argv[1]}-{number:08x}")
"""


@in_one_surrounding
def test_a_crowd_of_names_costs_a_command_one_look_and_who_made_it_is_named(lab):
    lab.init()
    assert lab.thole("alice", "run", "-q", "--", "true").stderr == ""
    lab.run("root", "sh", "-c", f"rm -r /tmp/thole-{USERS['alice']}", check=True)
    plant(lab, "alice")
    lab.python("mallory", MANY_NAMES, str(USERS["alice"]), "250000", check=True)
    listed = float(lab.python("alice", "import os; os.listdir('/tmp'); print(sum(os.times()[:2]))", check=True).stdout)
    lab.thole("alice", "status", check=True)                # the first look makes the directory, for which it looks twice
    for words in (["status"], ["run", "--on", "0", "true"], ["claim", "--on", "1"], ["release", "1"],
                  ["submit", "-g", "0", "true"], ["--machine", "8xA100", "run", "true"]):
        worked, status, told = work_of(lab, "alice", *words)
        assert status == 0 and worked < 2 * listed + 0.2, (words, worked, listed)
        assert "/tmp has 2500" in told and "most of them mallory's" in told and "-maxdepth 1 -uid" in told, told
    shown = json.loads(lab.thole("alice", "doctor", "--json").stdout)["checks"]
    assert any(check["result"] == "warning" and "most of them mallory's" in check["text"] for check in shown), shown
    lab.thole("bob", "status", check=True)
    assert "mallory" not in lab.thole("bob", "status").stderr, "who has his first name looks no further"


MANY_LOCKS_OF_OPEN_FILES = """
import fcntl, os, struct, sys, tempfile
kept = []
for file in range(100):
    kept.append(tempfile.TemporaryFile())
    for byte in range(1000):
        fcntl.fcntl(kept[-1], 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 2 * byte, 1, 0))    # F_OFD_SETLK
print("up"); sys.stdin.read()
"""


@in_one_surrounding
def test_a_crowd_of_locks_of_open_files_is_told_and_root_is_told_whose(lab):
    """The kernel names nobody for such a lock; descriptors do, to who may see them."""
    lab.init()
    bobs = ("import fcntl, sys, tempfile; file = tempfile.TemporaryFile(); fcntl.lockf(file, fcntl.LOCK_EX)\n"
            "print('up'); sys.stdin.read()")
    bob = lab.start_python("bob", bobs)
    mallory = lab.start_python("mallory", MANY_LOCKS_OF_OPEN_FILES)
    assert re.search(r"somebody keeps \d+ locks of open files and more: who holds what", told_by_status(lab, "bob"))
    assert re.search(r"mallory keeps \d+ locks of open files and more: who holds what", told_by_status(lab, "root"))
    end(mallory)
    end(bob)


def told_by_status(lab, user):
    return " ".join(lab.thole(user, "status", check=True).stdout.split())


# Shares all GPUs by all places, and has sys.argv[1] more descriptors of the GPUs' FIFOs, which lock nothing.
MANY_DESCRIPTORS = """
import fcntl, glob, os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
gpus = glob.glob("/run/thole/gpu.*")
kept = [os.open(gpus[i % len(gpus)], os.O_RDWR | os.O_NONBLOCK) for i in range(min(int(sys.argv[1]), most - 100))]
for path in gpus + glob.glob("/run/thole/share.*"):
    kept.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    fcntl.flock(kept[-1], fcntl.LOCK_SH)
print("up", flush=True)
sys.stdin.read()
"""


@in_one_surrounding
def test_a_process_of_many_descriptors_delays_nobody_and_is_named(lab):
    """root may see them, and would look through them for each of its locks."""
    lab.init()
    usual = work_of(lab, "root", "status")[0]
    usual_init = work_of(lab, "root", "init")[0]
    mallory = lab.start_python("mallory", MANY_DESCRIPTORS, "16000")
    for words in (["status"], ["why", "0"], ["run", "--no-wait", "--", "true"]):
        worked, _, told = work_of(lab, "root", *words)
        assert worked < usual + 1, words
        assert "mallory" in told, told
    his = lab.start_python("bob", FORGING, "notes", "00000000deadbeef", "1", "0", "1", "0", "by another user of his")
    worked, status, told = work_of(lab, "root", "init")
    assert status == 0 and worked < usual_init + 1, told
    end(his)
    end(mallory)


def work_of_reading_locks():
    began = time.process_time()
    assert pathlib.Path("/proc/locks").read_text()
    return time.process_time() - began


@in_one_surrounding
def test_a_note_full_of_locks_delays_nobody(lab):
    lab.init()
    bob = lab.hold("bob", "--share", "--share-with", "any", "--memory", "1G")
    on = str(lab.claims()[0]["gpu"])
    share = ("run", "--share", "--share-with", "any", "--on", on, "--memory", "2G", "--no-wait", "--", "true")
    usual = {words: work_of(lab, "alice", *words)[0] for words in [("status",), share]}
    mallory = lab.start("mallory", interpreter(), "-u", "-c", NOTE_FULL_OF_LOCKS, "3000")
    assert read_line(mallory.process.stdout, 200) == "up"
    for words, before in usual.items():
        worked, status, told = work_of(lab, "alice", *words)
        assert worked < before + 20 * work_of_reading_locks(), (words, told)
        assert status in (0, 75), told
    assert lab.thole("alice", "run", "--no-wait", "--", "true").returncode == 0
    end(mallory)
    end(bob)


# Each of sys.argv[1] descriptors of one open directory tells of all its locks.
DIRECTORY_FULL_OF_LOCKS = """
import fcntl, os, resource, struct, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
one = os.open("/tmp", os.O_RDONLY)
for i in reversed(range(3000)):
    fcntl.fcntl(one, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 1000 + 2 * i, 1, 0))     # F_OFD_SETLK
kept = [os.dup(one) for _ in range(min(int(sys.argv[1]), most - 100))]
print("up", os.getpid(), one, flush=True)
sys.stdin.read()
"""


@in_one_surrounding
def test_directories_full_of_locks_delay_nobody(lab):
    mallory = lab.start("mallory", interpreter(), "-u", "-c", DIRECTORY_FULL_OF_LOCKS, "5000")
    _, pid, fd = read_line(mallory.process.stdout, 200).split()
    began = time.process_time()
    assert pathlib.Path(f"/proc/{pid}/fdinfo/{fd}").read_text().count("lock:") == 3000
    one = time.process_time() - began
    worked, status, told = work_of(lab, "root", "init")
    assert status == 0 and worked < 1000 * one, (worked, one, told)
    for words in (["run", "-q", "-g", "1", "--", lab.program, "run", "-q", "--", "true"],
                  ["--machine", "2xA100", "run", "-q", "--", "true"]):
        worked, status, told = work_of(lab, "root", *words)
        assert status == 0 and worked < 1000 * one, (words, worked, one, told)
    end(mallory)


@in_one_surrounding
def test_a_lock_whose_taker_has_ended_is_his_childs_and_root_is_told_the_child(lab):
    lab.init()
    mallory = lab.start_python("mallory", KEPT_BY_A_CHILD, "/run/thole/alloc")
    told = " ".join(lab.thole("root", "status").stdout.split())
    assert "of mallory holds it" in told, told
    told = " ".join(lab.thole("bob", "status").stdout.split())
    in_a_container = "its owner has ended or is in another container"   # where the kernel lists no lock of who has ended
    assert "took it and has ended, who has it since is told to root" in told or in_a_container in told, told
    end(mallory)


@in_one_surrounding
def test_who_holds_a_gpu_by_a_lock_whose_taker_has_ended_is_named_to_root(lab):
    lab.init()
    node = lab.run("root", "sh", "-c", "ls /run/thole/gpu.* | head -1").stdout.strip()
    mallory = lab.start_python("mallory", KEPT_BY_A_CHILD, node)
    for who in ("root", "mallory"):
        [claim] = lab.claims(who)
        assert (claim["user"], claim["verified"]) == ("mallory", False) and claim["pid"], (who, claim)
        assert "mallory" in lab.thole(who, "why", str(claim["gpu"])).stdout
    [claim] = lab.claims("bob")
    assert not claim["user"] and not claim["verified"], claim
    end(mallory)


@in_one_surrounding
def test_nobody_is_shown_in_line_by_anothers_word_alone(lab):
    lab.init()
    every = lab.hold("bob", gpus=4)
    victim = lab.start("alice", "sleep", "1000")
    mallory = lab.start_python("mallory", FRAMED, str(supervisor_of(victim)), str(USERS["alice"]))
    for who in ("alice", "bob", "root"):
        [waiter] = lab.waiters(who)
        assert (waiter["mine"], waiter["uid"], waiter["pid"], waiter["user"]) == (False, None, None, "?alice"), who
    honest = lab.hold_later("alice")
    [_, waiter] = eventually(lambda: len(lab.waiters("alice")) == 2 and lab.waiters("alice"), "alice waits")
    assert (waiter["mine"], waiter["uid"], waiter["user"]) == (True, USERS["alice"], "alice")
    mallory.__exit__()
    end(every)
    assert honest.line() == "up"
    end(honest)


@in_one_surrounding
def test_readers_of_all_places_in_line_keep_nobody_out_of_it(lab):
    lab.init()
    mallory = lab.start_python("mallory", READ_ALL_TURNS)
    every = lab.hold("bob", gpus=4)
    first = lab.hold_later("alice", gpus=4)
    eventually(lambda: len(lab.waiters()) == 1, "alice is in line")
    second = lab.hold_later("bob")
    eventually(lambda: len(lab.waiters()) == 2, "and bob behind her")
    end(every)
    assert first.line() == "up", "who came first is served first"
    end(first)
    assert second.line() == "up"
    end(second)
    end(mallory)


@in_one_surrounding
def test_who_keeps_safe_gpus_lock_is_named(lab):
    lab.init()
    folder = lab.driver.root / "tmp"
    lab.run("root", "mkdir", "-p", "-m", "1777", folder, check=True)
    mallory = lab.start_python("mallory", KEEP_SAFE_GPU, folder)
    done = lab.thole("alice", "run", "--no-wait", "--", "true")
    assert done.returncode == 0 and "of mallory keeps safe-gpu's lock" in " ".join(done.stderr.split()), done.stderr
    for words in (["status"], ["why"], ["doctor"]):
        done = lab.thole("bob", *words)
        assert "of mallory keeps safe-gpu's lock" in " ".join((done.stdout + done.stderr).split()), words
    end(mallory)


def status_for(lab, user):
    done = lab.thole(user, "status")
    return " ".join((done.stdout + done.stderr).split())


@in_one_surrounding
def test_a_crowd_of_locks_makes_nobody_the_keeper_of_alloc(lab):
    """Whose descriptors can be seen is named; others are told that it cannot be told, and whose crowd it is, unless the keeper
    stands in that part of the list that is read in time: its order goes by processors."""
    lab.init()
    alice = lab.lock("alice", "/run/thole/alloc")
    mallory = lab.start_python("mallory", MANY_FLOCKS, "100000")
    for user in ("root", "alice"):
        said = status_for(lab, user)
        assert "of alice holds it" in said and "cannot be told" not in said, (user, said)
    said = status_for(lab, "bob")
    assert ("who holds it cannot be told, for mallory keeps" in said) != ("of alice holds it" in said), said
    assert "of mallory holds it" not in said, said
    end(mallory)
    end(alice)


@in_one_surrounding
def test_a_crowd_of_locks_keeps_no_orphan_from_the_locks_of_its_claim(lab):
    """Its launcher has ended, and the claim has no keeper: the claim's own process is known by its note."""
    lab.init()
    alice = lab.start("alice", lab.program, "run", "--no-supervisor", "-q", "-g", "2", "--", interpreter(), "-u", "-c", """
import os, subprocess, sys
program, gate = sys.argv[1:]
orphan = f"while [ ! -e {gate} ]; do sleep 0.05; done; exec {program} run -q -g 1 -- sh -c 'echo orphan; exec sleep 1000.25'"
subprocess.run(["sh", "-c", f"({orphan}) &"])
print("up")
sys.stdin.read()
""", lab.program, "/tmp/gate")
    assert alice.line() == "up"
    bob = lab.start_python("bob", MANY_FLOCKS, "100000")
    lab.run("alice", "touch", "/tmp/gate", check=True)
    assert alice.line() == "orphan"
    alice.process.stdin.close()
    alice.process.wait()
    done = lab.thole("bob", "run", "-q", "--no-wait", "--trust-claims", "--on", "0,1", "-g", "2", "--", "true")
    assert done.returncode == 75, done.stderr
    end(bob)
    lab.run("root", "pkill", "-KILL", "-u", str(USERS["alice"]), "-f", "sleep 1000.25")
    eventually(lambda: lab.thole("bob", "run", "-q", "--no-wait", "-g", "4", "--", "true").returncode == 0, "all is free")

# ctest: timeout 900
"""What users who mean harm can do to the line, with forged tickets, frozen waiters and kept locks: they cost order for a
bounded time, never that somebody starts; and who keeps a lock is named."""
import concurrent.futures
import contextlib
import os
import pathlib
import signal

import pytest

from hostile import USERS, Lab, end, interpreter, lab, supervisor_of  # noqa: F401 (the fixture)
from run_tools import eventually

FORGING = pathlib.Path(__file__).with_name("forging.py").read_text()
PATIENCE = 60   # of a test with a claim that must come by itself; the graces are of 3 and 6 s

# Forged tickets (host/claims/layout.hpp): N of them, each alive by the lock of its turn FIFO, that want one unit of all.
FORGE = FORGING.split("if __name__")[0] + """
import time
M = MASK
D = "/run/thole/"
def ticket(number):
    r = bytearray(struct.pack("<QQIIQIIHBBIqQ", M, M, os.getuid(), os.getpid(), 1, 0, 0, 1, 0, 0, 0, int(time.time() * 1000),
                              number))
    struct.pack_into("<I", r, 44, checksum(bytes(r)) & 0xffffffff | 1)
    return bytes(r)
def put(index, number):
    with open(D + "queue", "r+b") as file:
        file.seek(64 + 64 * index)
        file.write(ticket(number))
def header(used):
    with open(D + "queue", "r+b") as file:
        file.write(struct.pack("<QQI44x", 0x3165756575716874, 1, used))
def occupy(indices):
    for index in indices:
        fd = os.open(D + f"turn.{index}", os.O_RDWR | os.O_NONBLOCK)
        fcntl.flock(fd, fcntl.LOCK_EX)
        held.append(fd)
held = []
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
"""

LARGEST = """
occupy([9]); header(12); put(9, 2 ** 62 - 1)
print("up", flush=True)
sys.stdin.read()
"""

FORGED = FORGE + """
n = int(sys.argv[1])
occupy(range(n))
header(n + 5)
for i in range(n): put(i, i + 1)
print("up", flush=True)
sys.stdin.read()
"""

# A new ticket before all others every 2 s; `sys.argv[1]`: what number the first has.
PULSES = FORGE + """
import select
number = int(sys.argv[1])
occupy([0])
header(5)
print("up", flush=True)
while True:
    put(0, number)
    if select.select([sys.stdin], [], [], 2)[0]: break
    number = max(1, number - 1)
"""

# Really claims every unit for a moment, again and again, while a forged ticket stands first; `sys.argv`: for so many seconds,
# so many apart. "up" is said at such a moment: who joins then and looks at equal intervals may find them claimed for ever.
CLAIM_PULSES = FORGE + """
import glob, itertools, select
held_for, apart = float(sys.argv[1]), float(sys.argv[2])
occupy([0]); header(5); put(0, 1)
nodes = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in glob.glob(D + "gpu.*")]
due = time.monotonic()
for turn in itertools.count(1):
    for fd in nodes:
        try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError: pass
    if turn == 1: print("up", flush=True)
    if select.select([sys.stdin], [], [], held_for)[0]: break
    for fd in nodes: fcntl.flock(fd, fcntl.LOCK_UN)
    if select.select([sys.stdin], [], [], max(0, due + turn * apart - time.monotonic()))[0]: break
"""

# Wakes everybody all the time: one process that answers every mailbox.
ACKS = FORGE + """
import glob, select
occupy(range(3)); header(8)
for i in range(3): put(i, i + 1)
boxes = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in sorted(glob.glob(D + "turn.*"))[:16]]
print("up", flush=True)
while not select.select([sys.stdin], [], [], 0.005)[0]:
    for box in boxes:
        try: os.read(box, 64)
        except BlockingIOError: pass
        try: os.write(box, b"!")
        except BlockingIOError: pass
"""


def serves(lab, *words):
    done = lab.thole("alice", "run", "-g", "1", "--wait", str(PATIENCE), "--", "echo", "served", *words)
    assert done.returncode == 0 and done.stdout == "served\n", done.stdout + done.stderr


@contextlib.contextmanager
def kept_by(lab, user):
    """A line at which something can be forged: this user has one unit of all."""
    lab.init()
    holder = lab.hold(user, gpus=1)
    yield
    end(holder)


@contextlib.contextmanager
def forging(lab, code, *arguments):
    mallory = lab.start_python("mallory", code, *arguments)
    yield
    end(mallory)


@pytest.mark.parametrize("lab", ["plain", "hidepid runtime"], indirect=True)
@pytest.mark.parametrize("count", [1, 2, 20, 1000])
def test_any_number_of_forged_tickets_costs_one_grace(lab: Lab, count):
    lab.init()
    with forging(lab, FORGED, count):
        serves(lab)


# A ticket for all units in another's name, whose FIFO's lock no process has: it is on its way in a socket.
GHOST = FORGE.replace("os.getuid(), os.getpid(), 1, 0, 0, 1,", "int(sys.argv[1]), 4242, 1, 0, 0, 4,") + """
import socket
ends = socket.socketpair()
if os.fork() == 0:
    occupy([0]); header(5); put(0, int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e6) - 5000000)
    socket.send_fds(ends[0], [b"x"], [held[0]])
    os._exit(0)
os.wait()
print("up", flush=True)
sys.stdin.read()
"""

# Writes over the ticket of another's process (argv[1]) without end: it wants all units.
WIDENING = FORGE + """
import select
print("up", flush=True)
with open(D + "queue", "r+b", buffering=0) as file:
    while not select.select([sys.stdin], [], [], 0)[0]:
        file.seek(64)
        for index in range(16):
            r = bytearray(file.read(64))
            if len(r) < 64 or struct.unpack_from("<I", r, 20)[0] != int(sys.argv[1]): continue
            struct.pack_into("<QQ", r, 0, M, M)
            struct.pack_into("<H", r, 40, 4)
            struct.pack_into("<I", r, 44, 0)
            struct.pack_into("<I", r, 44, checksum(bytes(r)) & 0xffffffff | 1)
            os.pwrite(file.fileno(), bytes(r), 64 + 64 * index)
"""


@pytest.mark.parametrize("lab", ["plain", "hidepid container"], indirect=True)
def test_a_wide_ticket_in_anothers_name_that_can_never_start_keeps_nobody_waiting(lab: Lab):
    """No grace ends where it could not start: only that its user does not say it himself."""
    with kept_by(lab, "alice"), forging(lab, GHOST, USERS["alice"]):
        serves(lab)
        assert lab.thole("bob", "run", "-g", "1", "--no-wait", "--", "true").returncode == 0
        assert [waiter["user"][:1] for waiter in lab.waiters()] == ["?"]


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_init_and_files_of_strangers_leave_what_waiters_say(lab: Lab):
    """Also of one who stands so far behind that his file is longer than a page."""
    lab.init()
    everything = lab.hold("bob", gpus=4)
    before = lab.start_python("mallory", FORGE + "occupy(range(70)); print('up', flush=True); sys.stdin.read()")
    waiter = lab.start("alice", lab.program, "run", "-g", "4", "--", "true")
    eventually(lambda: [waiter["user"] for waiter in lab.waiters()] == ["alice"], lab.waiters)
    plant = f"cd /run/thole/notes; for i in $(seq 100 200); do : > {USERS['alice']}-00000$i-line; done"
    lab.run("mallory", "sh", "-c", plant, check=True)
    for _ in range(3):
        lab.init()
        assert [waiter["user"] for waiter in lab.waiters()] == ["alice"]
    end(before)
    end(everything)
    assert waiter.wait() == 0


@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_what_somebody_writes_over_a_waiters_ticket_keeps_nobody_waiting(lab: Lab):
    with kept_by(lab, "bob"):
        waiter = lab.start("bob", lab.program, "run", "--on", "0", "--", "true")   # bob's own; the first that is free is GPU 0
        eventually(lambda: len(lab.waiters()) == 1, "bob waits")
        with forging(lab, WIDENING, lab.waiters()[0]["pid"] or supervisor_of(waiter)):
            eventually(lambda: lab.waiters() and lab.waiters()[0]["wants"]["gpus"] == 4, "it is altered")
            serves(lab)
        eventually(lambda: lab.waiters()[0]["wants"]["gpus"] == 1, "he says it again")
    assert waiter.wait() == 0


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("attack", [(PULSES, "1000000"), (PULSES, str(2 ** 62 - 1)), (CLAIM_PULSES, "0.3", "1"),
                                    (CLAIM_PULSES, "0.6", "2"), (ACKS, "")],
                         ids=["earlier pulses", "largest number", "claims", "claims as often as others look", "acks"])
def test_nor_do_pulses(lab: Lab, attack):
    lab.init()
    with forging(lab, *attack):
        serves(lab)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_the_largest_number_ends_no_order(lab: Lab):
    lab.init()
    everything = lab.hold("bob", gpus=4)
    forged = lab.start_python("mallory", FORGE + LARGEST)
    first = lab.start("alice", lab.program, "run", "-g", "4", "--", "echo", "first")
    eventually(lambda: len(lab.waiters()) == 1, "alice waits")
    second = lab.start("bob", lab.program, "run", "-g", "4", "--", "echo", "second")
    eventually(lambda: len(lab.waiters()) == 2, "bob waits")
    numbers = [waiter["ticket"] for waiter in lab.waiters()]
    assert numbers[0] < numbers[1] < 2 ** 61
    end(everything)
    assert first.wait() == 0 and second.wait() == 0
    end(forged)


@pytest.mark.parametrize("lab", ["plain", "hidepid runtime", "container"], indirect=True)
def test_two_waiters_stopped_by_their_user_stop_nobody(lab: Lab):
    lab.init()
    everything = lab.hold("bob", gpus=4)
    stopped = [lab.start("mallory", lab.program, "run", "-g", "4", "--", "true") for _ in range(2)]
    eventually(lambda: len(lab.waiters()) == 2, "they wait")
    for one in stopped:
        os.kill(supervisor_of(one), signal.SIGSTOP)
    waiter = lab.start("alice", lab.program, "run", "-g", "4", "--", "echo", "served")
    eventually(lambda: len(lab.waiters()) == 3, "alice waits")
    end(everything)
    assert eventually(lambda: waiter.process.poll() is not None or None, "alice is served", PATIENCE)
    assert waiter.line() == "served"
    for one in stopped:
        os.kill(supervisor_of(one), signal.SIGCONT)
        one.wait()


# ---- Locks that anybody can keep ----

@pytest.mark.parametrize("lab", ["plain", "hidepid runtime", "container"], indirect=True)
def test_a_kept_alloc_is_named_and_stops_nobody(lab: Lab):
    lab.init()
    keeper = lab.lock("mallory", "/run/thole/alloc")
    waiter = lab.start("alice", lab.program, "run", "-g", "1", "--", "echo", "served")
    waiter.error_until("keeps the claims locked")
    assert waiter.line() == "served"
    assert waiter.wait() == 0
    named = "pid " if "container" not in lab.words else ""
    def is_told(words):
        done = lab.thole("bob", *words)
        told = " ".join((done.stdout + done.stderr).split())
        assert "keeps the claims locked: " + named in told and "/run/thole/alloc" in told, (words, told)
    with concurrent.futures.ThreadPoolExecutor() as at_once:
        list(at_once.map(is_told, (["status"], ["why"], ["why", "-g", "1"], ["doctor"])))
    assert lab.thole("bob", "run", "--no-wait", "-g", "4", "--", "true").returncode == 0
    everything = lab.hold("bob", gpus=4)
    assert lab.thole("alice", "run", "--no-wait", "-g", "1", "--", "true").returncode == 75
    end(everything)
    end(keeper)


@pytest.mark.parametrize("lab", ["plain", "hidepid runtime"], indirect=True)
def test_a_kept_alloc_keeps_no_end_from_being_set(lab: Lab):
    lab.init()
    held = lab.hold("alice", "--time", "1h")
    [before] = lab.claims("alice")
    keeper = lab.lock("mallory", "/run/thole/alloc")
    done = lab.thole("alice", "extend", before["id"], "5h")
    assert done.returncode == 0, done.stderr
    assert lab.claims("alice")[0]["until"] > before["until"]
    end(keeper)
    end(held)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_waits_for_alloc_can_be_interrupted(lab: Lab, number):
    lab.init()
    everything = lab.hold("bob", gpus=4)
    keeper = lab.lock("mallory", "/run/thole/alloc")
    waiter = lab.start("alice", lab.program, "run", "-g", "1", "--", "true")
    waiter.error_until("keeps the claims locked")
    os.kill(supervisor_of(waiter), number)
    assert waiter.wait() in (-number, 128 + number)
    end(keeper)
    end(everything)


# ---- Names that anybody can give ----

LINKS_ALL = """
import contextlib, glob, os, sys
os.chdir("/run/thole")
for file in [*glob.glob("[a-z]*.*"), "alloc", "queue", "who", "devices", *glob.glob("notes/[0-9]*-*")]:
    link = f"notes/61003-{sys.argv[1]}{os.path.basename(file)}"
    with contextlib.suppress(OSError): os.link(file, link, follow_symlinks=False)
"""


@pytest.mark.parametrize("lab", ["plain", "hidepid runtime", "container"], indirect=True)
@pytest.mark.parametrize("linker", ["mallory", "root"])   # root: like everybody where fs.protected_hardlinks is 0
def test_links_to_what_is_shared_stop_nobody(lab: Lab, linker):
    lab.init()
    alice, waiter = lab.hold("alice", "--on", "0"), None
    for again in range(2):
        lab.run(linker, interpreter(), "-c", LINKS_ALL, str(again))
        linked = lab.run("root", "find", "/run/thole", "-maxdepth", "1", "-links", "+1", "!", "-type", "d",
                         "-printf", "%f ").stdout
        assert {"alloc", "queue", "who"} <= set(linked.split())
        waiter = waiter or lab.start("bob", lab.program, "run", "--on", "0", "--", "echo", "served")
        eventually(lambda: len(lab.waiters()) == 1, "bob waits")
        assert lab.thole("bob", "run", "--no-wait", "--on", "1", "--", "true").returncode == 0
        assert lab.thole("bob", "run", "--no-wait", "--on", "0", "--", "true").returncode == 75
        assert [claim["user"] for claim in lab.claims("bob")] == ["alice"]
        assert lab.thole("root", "init").returncode == 0
    assert lab.thole("alice", "release", "0").returncode == 0
    assert waiter.line() == "served"
    assert waiter.wait() == 0
    alice.wait()

"""What users who mean harm can do to the line with tickets that they say themselves, and with what makes those of others hard
to hear: they cost order for a bounded time, and whoever looks sees who waits."""

import pytest

from hostile import USERS, Lab, end, lab  # noqa: F401 (the fixture)
from run_tools import eventually
from test_hostile_line import FORGE, PATIENCE, forging

LIMIT = 1024   # descriptors, as a login has them

# Says a ticket in a file of one's own (host/claims/own_tickets.hpp).
SAY = FORGE + """
import select
about = os.stat("/run/thole")
def word_file(name):
    fd = os.open(D + f"notes/{os.getuid()}-{name:08x}-line", os.O_RDWR | os.O_CREAT, 0o600)
    number = (about.st_ino * 0x9e3779b97f4a7c15 & 2 ** 64 - 1) ^ about.st_dev
    os.pwrite(fd, struct.pack("<QQI44x", 0x31656e696c6f6874, number, 0), 0)
    os.fchmod(fd, 0o1644)
    return fd
def say(fd, index, record):
    os.pwrite(fd, record, 64 + 64 * index)
    fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 64 + 64 * index, 64, 0))   # F_OFD_SETLK
queue = os.open(D + "queue", os.O_RDWR)
def write(index, record): os.pwrite(queue, record, 64 + 64 * index)
"""

# Forty of one's own, of which the first N are away at a look: another N at the next, so that another one is the first.
TURNS = SAY + """
import ctypes, time
said = word_file(1)
tickets = [ticket(i + 1) for i in range(40)]
occupy(range(40)); header(48)
for index, record in enumerate(tickets): say(said, index, record); write(index, record)
libc = ctypes.CDLL(None)
looks = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(looks, D.encode(), 0x20)   # IN_OPEN
def be_away(count):
    global away
    for index in range(away, count): write(index, bytes(64))
    for index in range(count, away): write(index, tickets[index])
    away = count
print("up", flush=True)
away, last = 0, 0.0
while True:
    ready, _, _ = select.select([sys.stdin, looks], [], [])
    if sys.stdin in ready: break
    opened = os.read(looks, 65536)
    if b"queue" in opened: be_away(0)
    elif b"gpu." in opened and time.monotonic() - last > 0.05: be_away((away + 1) % 20)
    else: continue
    last = time.monotonic()
"""

# As many files as somebody with the usual limit can have open, and more; and a ticket in another's name that no one says.
CROWD = SAY.replace("os.getuid(), os.getpid(), 1, 0, 0, 1,", "UID, 4242, 1, 0, 0, COUNT,") + """
for name in range(1200): os.close(word_file(name))
occupy([0, 1]); header(8)
said = word_file(1200)
UID, COUNT = os.getuid(), 1
mine = ticket(1)
say(said, 0, mine); write(0, mine)
UID, COUNT = int(sys.argv[1]), 4
write(1, ticket(2))
print("up", flush=True)
sys.stdin.read()
"""

# All records of the line, one of them said, and that for all GPUs.
ALL_RECORDS = SAY.replace("os.getpid(), 1, 0, 0, 1,", "os.getpid(), 1, 0, 0, COUNT,") + """
occupy(range(1024)); header(1024)
said = word_file(1)
COUNT = 4
first = ticket(1)
say(said, 0, first); write(0, first)
COUNT = 1
for index in range(1, 1024): write(index, ticket(index + 1))
print("up", flush=True)
sys.stdin.read()
"""


# One that nobody says, with a waiter's number, uid and all, but for the process: that is stopped.
STOPPED_TWIN = SAY + """
import signal
occupy([0]); header(8)
print("up", flush=True)
index, pid = map(int, sys.stdin.readline().split())
child = os.fork()
if child == 0: signal.pause()
os.kill(child, signal.SIGSTOP)
start = int(open(f"/proc/{child}/stat").read().rsplit(")", 1)[1].split()[19])
r = bytearray(os.pread(queue, 64, 64 + 64 * index))
struct.pack_into("<IQ", r, 20, child, start)
struct.pack_into("<I", r, 44, 0)
struct.pack_into("<I", r, 44, checksum(bytes(r)) & 0xffffffff | 1)
write(0, bytes(r))
print("twin", flush=True)
sys.stdin.read()
os.kill(child, signal.SIGKILL)
"""


def limited(lab, user, *words):
    return lab.run(user, "sh", "-c", f'ulimit -n {LIMIT}; exec "$0" "$@" 2>&1', lab.program, *words)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_who_makes_another_of_his_tickets_stand_first_at_every_look_keeps_nobody_waiting(lab: Lab):
    lab.init()
    with forging(lab, TURNS, ""):
        done = lab.thole("alice", "run", "--wait", str(PATIENCE), "--", "echo", "served")
    assert done.stdout == "served\n", done.stderr


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_crowd_of_files_makes_nobodys_ticket_count_as_said(lab: Lab):
    lab.init()
    first = lab.hold("bob", gpus=4)                # bob has waited once, and has a file for that
    waits = lab.start("bob", lab.program, "run", "--", "true")
    eventually(lambda: len(lab.waiters()) == 1, "bob waits")
    end(first)
    assert waits.wait() == 0
    holder = lab.hold("bob", "--on", "3")         # so that four can never be had
    with forging(lab, CROWD, str(USERS["bob"])):
        done = limited(lab, "alice", "run", "--wait", str(PATIENCE), "--", "echo", "served")
        assert done.stdout.endswith("served\n") and "behind bob" not in done.stdout, done.stdout
        assert "?bob" in limited(lab, "alice", "status").stdout
    end(holder)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_tickets_at_all_places_blind_nobody(lab: Lab):
    lab.init()
    holder = lab.hold("mallory", "--on", "3")     # so that the four of his ticket are not free
    with forging(lab, ALL_RECORDS, ""):
        for user in ("alice", "root"):
            status = limited(lab, user, "status").stdout
            assert "Too many open files" not in status and "3 free" in status, status
            assert "mallory" in status.partition("WAITING")[2], status
        waits = limited(lab, "alice", "run", "--wait", "5", "--", "true").stdout
        assert "behind mallory" in waits, waits
    end(holder)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_stopped_process_in_a_ticket_with_a_waiters_number_makes_nobody_pass_him(lab: Lab):
    lab.init()
    holders = [lab.hold("root", "--on", str(gpu)) for gpu in range(4)]
    mallory = lab.start_python("mallory", STOPPED_TWIN)
    wide = lab.start("alice", lab.program, "run", "-g", "2", "--", "true")
    eventually(lambda: len(lab.waiters()) == 1, "alice waits")
    mallory.process.stdin.write(b"1 0\n")
    mallory.process.stdin.flush()
    assert mallory.line() == "twin"
    narrow = lab.start("bob", lab.program, "run", "-g", "1", "--wait", "9", "--", "true")
    eventually(lambda: [w["user"] for w in lab.waiters() if w["user"][0] != "?"] == ["alice", "bob"], lab.waiters)
    end(holders.pop())
    assert narrow.wait() == 124, "one is free, and alice comes first"
    end(holders.pop())
    assert wide.wait() == 0
    for holder in holders:
        end(holder)
    end(mallory)

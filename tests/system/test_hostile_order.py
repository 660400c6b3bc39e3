# ctest: timeout 600
"""Who writes over what shows the order, or knows when others look, gains nothing by it once he has stopped, and keeps nobody
from starting meanwhile."""
import sys

import pytest

from hostile import USERS, end, lab  # noqa: F401 (the fixture)
from init_tools import in_one_surrounding
from run_tools import eventually
from test_hostile_line import FORGE
from test_hostile_line_words import SAY

WIPE_TICKETS = FORGE + """
import sys
victim = int(sys.argv[1])
queue = os.open(D + "queue", os.O_RDWR)
wiped = 0
for index in range(32):
    record = os.pread(queue, 64, 64 + 64 * index)
    if len(record) == 64 and struct.unpack_from("<Q", record, 56)[0] and struct.unpack_from("<I", record, 16)[0] == victim:
        os.pwrite(queue, bytes(64), 64 + 64 * index)
        wiped += 1
print(wiped)
"""

# Stands first, could start, and does not; wakes everybody again and again, each second time with every unit locked for the
# moment in which he looks.
WAKES = SAY + """
import glob, time
said = word_file(1)
first = ticket(1)
occupy([0]); header(8); say(said, 0, first); write(0, first)
units = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in sorted(glob.glob(D + "gpu.*"))]
who = os.open(D + "who", os.O_RDWR)
print("up", flush=True)
sys.stdin.readline()                                       # nobody takes a ticket whose mailbox is open
boxes = [os.open(D + f"turn.{index}", os.O_RDWR | os.O_NONBLOCK) for index in range(1, 8)]
def wake():
    for box in boxes: os.write(box, b"!")
while not select.select([sys.stdin], [], [], 0.12)[0]:
    locked = []
    for unit in units:
        try: fcntl.flock(unit, fcntl.LOCK_EX | fcntl.LOCK_NB); locked.append(unit)
        except OSError: pass
    os.pwrite(who, struct.pack("<%dI" % len(units), *[1] * len(units)), 0)
    wake()
    time.sleep(0.006)
    for unit in locked: fcntl.flock(unit, fcntl.LOCK_UN)
    if select.select([sys.stdin], [], [], 0.12)[0]: break
    wake()
"""


@in_one_surrounding
def test_a_ticket_that_is_written_over_once_keeps_its_place_before_those_who_join_then(lab):
    lab.init()
    held = [lab.hold("bob") for _ in range(4)]
    alice = lab.hold_later("alice", gpus=2)
    eventually(lambda: len(lab.waiters()) == 1, "alice waits")
    wiped = lab.python("mallory", WIPE_TICKETS, str(USERS["alice"]))
    assert wiped.stdout.strip() == "1", wiped.stderr
    bobs = [lab.hold_later("bob") for _ in range(2)]
    eventually(lambda: [one["user"] for one in lab.waiters()] == ["alice", "bob", "bob"], "all are in line")
    end(held.pop())
    end(held.pop())
    assert alice.line() == "up"
    end(alice)
    for one in bobs:
        assert one.line() == "up"
    for one in [*held, *bobs]:
        end(one)


@pytest.mark.parametrize("how", ["wiped", "taken without order"])
@in_one_surrounding
def test_a_unit_whose_mark_is_missing_counts_as_held_for_whoever_stands_behind_others(lab, how):
    lab.init()
    if how == "wiped":
        held = [lab.hold("bob", "--on", str(gpu)) for gpu in (1, 2, 3)]
        lab.python("mallory", FORGE + 'os.pwrite(os.open(D + "who", os.O_RDWR), bytes(512), 0)', check=True)
    else:
        keeper = lab.lock("mallory", "/run/thole/alloc")
        held = [lab.hold("bob", "--on", str(gpu)) for gpu in (1, 2, 3)]
        end(keeper)
    alice = lab.hold_later("alice", gpus=2)
    eventually(lambda: len(lab.waiters()) == 1, "alice waits for two, and one is free")
    assert lab.thole("bob", "run", "--time", "1h", "--wait", "3", "--", "true").returncode == 124
    end(held.pop())
    assert alice.line() == "up"
    for one in [*held, alice]:
        end(one)


@in_one_surrounding
def test_who_wakes_others_to_look_at_what_he_shows_them_keeps_nobody_from_starting(lab):
    lab.init()
    held = [lab.hold("bob") for _ in range(4)]
    mallory = lab.start_python("mallory", WAKES)
    alice = lab.hold_later("alice")
    eventually(lambda: any(one["user"] == "alice" for one in lab.waiters()), "alice waits")
    mallory.write("go\n")
    for one in held:
        end(one)
    assert alice.line() == "up"
    end(alice)
    mallory.write("end\n")
    mallory.wait()


@in_one_surrounding
def test_who_keeps_alloc_is_named_also_where_another_has_kept_it_just_before(lab):
    lab.init()
    held = [lab.hold("bob") for _ in range(4)]
    alice = lab.hold_later("alice")
    eventually(lambda: len(lab.waiters()) == 1, "alice waits")
    for user in ("bob", "mallory"):
        keeper = lab.lock(user, "/run/thole/alloc")
        alice.error_until(f"of {user} holds it")
        end(keeper)
    for one in held:
        end(one)
    assert alice.line() == "up"
    end(alice)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))

"""Of those who may pass others by their declared times, who declared least goes first, whoever's it is; and nobody waits for
one of them that does not start."""
import os
import signal
import time

import pytest

from hostile import end, lab  # noqa: F401 (the fixture)
from run_tools import eventually
from test_hostile_line_words import SAY

ON = ("--on", "0,1")

# Says that it declared a second, and never starts. `sys.argv`: how many, and whether it says its tickets in a file of its own.
FORGED = SAY.replace("os.getpid(), 1, 0, 0, 1,", "os.getpid(), 1, 0, 1, 1,") + """
count, says = int(sys.argv[1]), sys.argv[2] == "says"
indices = range(20, 20 + count)
occupy(indices)
header(20 + count)
number = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
said = word_file(1)
for index in indices:
    record = ticket(number + index)
    if says: say(said, index, record)
    write(index, record)
print("up", flush=True)
sys.stdin.read()
"""


def line_of(lab):  # noqa: F811
    return [(one["user"], one["time_s"]) for one in lab.waiters()]


def busy_with_a_wide_one_waiting(lab):  # noqa: F811
    """GPU 0 is bob's for an hour, GPU 1 is held by the process that is returned, and alice waits for both."""
    lab.init()
    hour = lab.hold("bob", "--on", "0", "--time", "1h")
    other = lab.hold("bob", "--on", "1")
    wide = lab.hold_later("alice", *ON, gpus=2)
    eventually(lambda: line_of(lab) == [("alice", None)], "alice waits")
    return hour, other, wide


def test_a_shorter_one_behind_goes_before_a_longer_one_of_somebody_else(lab):  # noqa: F811
    hour, other, wide = busy_with_a_wide_one_waiting(lab)
    longer = lab.hold_later("bob", *ON, "--time", "50m")
    eventually(lambda: len(line_of(lab)) == 2, "the longer one waits")
    shorter = lab.hold_later("mallory", *ON, "--time", "10m")
    eventually(lambda: line_of(lab) == [("alice", None), ("bob", 3000), ("mallory", 600)], "the shorter one waits behind it")
    end(other)
    assert shorter.line() == "up"
    assert line_of(lab) == [("alice", None), ("bob", 3000)]
    end(shorter)
    assert longer.line() == "up"
    end(longer)
    end(hour)
    assert wide.line() == "up"
    end(wide)


def test_nobody_waits_for_a_shorter_one_that_is_frozen(lab):  # noqa: F811
    hour, other, wide = busy_with_a_wide_one_waiting(lab)
    longer = lab.hold_later("bob", *ON, "--time", "50m")
    eventually(lambda: len(line_of(lab)) == 2, "the longer one waits")
    shorter = lab.hold_later("mallory", *ON, "--time", "10m")
    eventually(lambda: len(line_of(lab)) == 3, "the shorter one waits")
    os.kill(shorter.process.pid, signal.SIGSTOP)
    end(other)
    begin = time.monotonic()
    assert longer.line() == "up"
    assert time.monotonic() - begin < 15
    os.kill(shorter.process.pid, signal.SIGCONT)
    end(longer)
    assert shorter.line() == "up"
    for one in (shorter, hour):
        end(one)
    assert wide.line() == "up"
    end(wide)


@pytest.mark.parametrize("how", ["says", "says nothing"])
def test_forged_tickets_that_declare_a_second_cost_one_grace_at_most(lab, how):  # noqa: F811
    hour, other, wide = busy_with_a_wide_one_waiting(lab)
    longer = lab.hold_later("bob", *ON, "--time", "50m")
    eventually(lambda: len(line_of(lab)) == 2, "the longer one waits")
    forged = lab.start_python("mallory", FORGED, "12", how)
    assert line_of(lab)[2:] == 12 * [("mallory" if how == "says" else "?mallory", 1)]
    end(other)
    begin = time.monotonic()
    assert longer.line() == "up"
    took = time.monotonic() - begin
    assert took < (15 if how == "says" else 3)
    for one in (longer, hour):
        end(one)
    end(forged)
    assert wide.line() == "up"
    end(wide)

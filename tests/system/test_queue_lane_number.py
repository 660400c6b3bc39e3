"""A lane whose number means another process here: it is of another pid namespace, or its number was used again."""
import struct
import subprocess

import pytest

from queue_inside import queue  # noqa: F401 (queue: a fixture)
from run_tools import eventually

PID_AT = 48   # in its record: model/lane_record.hpp


@pytest.fixture
def stranger():
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def mean(queue, lane, number):
    """What the lane has noted as its number means another process from here on."""
    with open(queue.directory / "lanes" / str(lane), "r+b") as record:
        record.seek(PID_AT)
        record.write(struct.pack("=i", number))


def adopted_by_another_runner(queue):
    before = queue.runner()
    queue.kill([before])
    looked = queue.submit("-g", "0", "--", "true")
    queue.until_ended(looked)
    assert queue.runner() not in (None, before)


def test_its_end_is_noticed(queue, stranger):
    job = queue.submit("-g", "4", "--", "sleep", "600")
    [command] = queue.until_asleep()
    [lane] = queue.lanes()
    mean(queue, 0, stranger)
    adopted_by_another_runner(queue)
    queue.kill([lane, command])
    queue.until_ended(job)
    assert queue.states(job) == {"lost": 1}
    after = queue.submit("-g", "4", "--", "true")
    queue.until_ended(after)
    assert queue.states(after) == {"done": 1}
    eventually(lambda: queue.runner() is None, "nothing keeps the runner", 60)


def test_the_end_of_one_that_waits_is_noticed(queue, stranger):
    claim = queue.call("claim", "-g", "4").stdout.strip()
    job = queue.submit("-g", "4", "--", "true")
    [lane] = eventually(queue.lanes, "it waits in line")
    mean(queue, 0, stranger)
    adopted_by_another_runner(queue)
    queue.kill([lane])
    queue.call("release", claim)
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1}


def test_what_asks_for_it_means_no_other(queue, stranger):
    queue.submit("-g", "4", "--", "sleep", "600")
    queue.until_asleep()
    mean(queue, 0, stranger)
    released = queue.call("release", "0")
    assert "released" in released.stderr, released.stderr
    queue.until_ended(1)
    assert queue.states(1) == {"cancelled": 1} and not queue.commands()

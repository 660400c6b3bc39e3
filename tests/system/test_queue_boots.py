"""Another boot of the machine, and what only looks like one: a container with a boot id of its own."""
import pathlib

from other_boots import booted_since
from queue_inside import queue  # noqa: F401 (queue: a fixture)
from run_tools import eventually


def begun(queue):
    path = pathlib.Path(queue.folder / "begun")
    return path.read_text().split() if path.exists() else []


def many_short_ones(queue):
    """A job of which some have begun."""
    job = queue.submit("-g", "1", "--array", "0-3999", "--", "sh", "-c", 'echo "$THOLE_TASK_INDEX" >> begun')
    eventually(lambda: len(begun(queue)) > 300, lambda: f"it works: {queue.states(job)} {queue.runner_log()}")
    return job


def until_nobody_works(queue):
    eventually(lambda: not queue.lanes() and queue.runner() is None, queue.who_lives)


def test_what_never_began_before_an_orderly_end_is_not_lost_by_a_boot(queue):
    job = many_short_ones(queue)
    queue.call("drain")
    until_nobody_works(queue)
    done = queue.states(job)["done"]
    assert done == len(begun(queue)) < 4000
    before = booted_since(queue.directory)
    queue.call("hold", job)
    queue.call("drain", "--off")
    eventually(lambda: queue.rows("SELECT boot FROM queue") != [(before,)] and queue.runner() is None, queue.who_lives)
    assert queue.states(job) == {"done": done, "queued": 4000 - done}, queue.runner_log()

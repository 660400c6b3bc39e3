"""A want of processes, memory or descriptors: what cannot be started for it is queued again, not failed."""
import fcntl
import os
import pathlib
import resource
import struct
import sys
import termios

from queue_inside import name_of, queue  # noqa: F401 (queue: a fixture)
from run_tools import eventually, open_gate, state_of


def test_tasks_that_find_no_descriptor_run_in_a_lane_that_has_some(queue):
    """The limit is lowered for the lane alone, as a full table of files would be for all."""
    seen, waits = queue.folder / "seen", queue.folder / "gate"
    os.mkfifo(waits)
    job = queue.submit("-g", "4", "--array", "0-9", "--", "sh", "-c",
                       f"echo {{index}} >> {seen}; [ {{index}} != 0 ] || cat {waits}")
    eventually(lambda: "cat" in map(name_of, queue.commands()), "the first waits")
    lane = queue.working_lane()
    limit = resource.prlimit(lane, resource.RLIMIT_NOFILE)
    resource.prlimit(lane, resource.RLIMIT_NOFILE, (3, limit[1]))
    open_gate(waits)
    queue.until_ended(job)
    assert queue.states(job) == {"done": 10}, (queue.tasks(job), queue.runner_log())
    assert sorted(map(int, seen.read_text().split())) == list(range(10))
    assert all(runs == 1 for _, _, _, runs, _ in queue.tasks(job).values()), "what did not start is no run"
    eventually(lambda: "for want of" in queue.runner_log(), queue.runner_log)


def test_a_command_that_cannot_be_started_at_all_fails_as_before(queue):
    job = queue.submit("-g", "0", "--grid", "p=/no/such/command", "--", "{p}")
    queue.until_ended(job)
    assert queue.states(job) == {"failed": 1}


def test_a_task_of_more_processes_than_the_runner_has_descriptors_is_followed_and_ended(queue):
    many = 150
    job = queue.submit("-g", "0", "--patience", "1s", "--", "sh", "-c",
                       f"i=0; while [ $i -lt {many} ]; do sleep 600 & i=$((i + 1)); done; wait")
    eventually(lambda: len(queue.commands()) == many + 1, "all are there")
    resource.prlimit(queue.runner(), resource.RLIMIT_NOFILE, (100, 100))
    queue.kill(queue.lanes())
    eventually(lambda: not queue.lanes(), "the lane is dead")
    other = queue.submit("-g", "0", "--", "true")
    queue.until_ended(other)
    assert queue.states(other) == {"done": 1} and queue.states(job) == {"running": 1}
    queue.call("cancel", job)
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 1} and not queue.commands()
    assert "descriptor" not in queue.runner_log()


def open_numbers(pid):
    return {int(number) for number in os.listdir(f"/proc/{pid}/fd")}


def processes_open_in(pid):
    """Whose ends it waits for."""
    found = set()
    for number in open_numbers(pid):
        try:
            lines = pathlib.Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines()
        except FileNotFoundError:
            continue
        found.update(int(line.split()[1]) for line in lines if line.startswith("Pid:"))
    return found


def waiting_in(fifo):
    return struct.unpack("i", fcntl.ioctl(fifo, termios.FIONREAD, bytes(4)))[0]


LISTENS = """import signal, sys
seen = open(sys.argv[1], "a", buffering=1)
for number in signal.SIGINT, signal.SIGTERM:
    signal.signal(number, lambda number, _: print(signal.Signals(number).name, file=seen))
print("ready", file=seen)
while True:
    signal.pause()
"""


def test_a_task_without_a_lane_that_cannot_be_looked_at_for_a_while_is_ended_in_order_after_it(queue):
    seen = queue.folder / "seen"
    seen.touch()
    job = queue.submit("-g", "0", "--patience", "1s", "--", sys.executable, "-c", LISTENS, seen)
    eventually(lambda: seen.read_text() == "ready\n", "it runs")
    [command] = queue.commands()
    queue.kill(queue.lanes())
    runner = eventually(queue.runner, "the runner")
    eventually(lambda: command in processes_open_in(runner) and state_of(runner) == "S", "it waits for the end of the command")
    before = resource.prlimit(runner, resource.RLIMIT_NOFILE)
    free = min(set(range(before[0])) - open_numbers(runner))   # so much of its own it keeps, and gets nothing more
    resource.prlimit(runner, resource.RLIMIT_NOFILE, (free, before[1]))
    wake = os.open(queue.directory / "wake", os.O_RDONLY | os.O_NONBLOCK)
    queue.call("cancel", job)
    eventually(lambda: waiting_in(wake) == 0 and state_of(runner) == "S", "it has tried; its log takes a descriptor, too")
    os.close(wake)
    assert seen.read_text() == "ready\n" and queue.states(job) == {"running": 1}
    resource.prlimit(runner, resource.RLIMIT_NOFILE, before)
    queue.until_ended(job)
    assert seen.read_text().split() == ["ready", "SIGINT", "SIGTERM"], queue.runner_log()
    assert queue.states(job) == {"cancelled": 1} and not queue.commands()


def test_of_more_tasks_than_there_are_descriptors_for_none_fails(queue):
    """A lane has what its runner has open, too: the last ones have next to nothing left."""
    few, many = 64, 60
    queue.environment["THOLE_CPU_TASKS"] = "40"
    queue.submit("-g", "0", "--begin", "1000d", "--", "true")   # keeps a runner at work
    resource.prlimit(eventually(queue.runner, "the runner"), resource.RLIMIT_NOFILE, (few, few))
    job = queue.submit("-g", "0", "--array", f"0-{many - 1}", "--", "sleep", "1")
    queue.until_ended(job)
    assert queue.states(job) == {"done": many}, (queue.tasks(job), queue.runner_log())
    assert "Too many open files" in queue.runner_log(), "the limit was none"

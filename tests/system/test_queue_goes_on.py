"""That the work of a queue goes on when its runner and lanes are gone: whoever looks next starts a new one, and so does whoever
waits for it meanwhile."""
import pathlib
import signal
import subprocess
import sys

import pytest

from queue_inside import queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, eventually, gone, processes, state_of


def kill_all_of_it(queue):
    """The runner, its lanes and their tasks, as a crash of the machine would."""
    tasks = queue.until_asleep()
    pids = [queue.runner(), *queue.lanes(), *tasks]
    queue.kill(pids)
    eventually(lambda: all(map(gone, pids)), "they are gone")


def beside(queue, *words):
    return subprocess.Popen([THOLE, *words], env=queue.environment, cwd=queue.folder, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process):
    text, _ = process.communicate(timeout=60)
    return process.returncode, text


@pytest.mark.parametrize("words, status", [(["wait", "1"], 1), (["logs", "-f", "1"], 0), (["logs", "1"], 0),
                                           (["why", "job", "1"], 0), (["jobs"], 0), (["hold", "1"], 0), (["drain"], 0)])
def test_any_command_of_the_queue_takes_up_what_a_crash_has_left(queue, words, status):
    job = queue.submit("-g", "0", "--", "sleep", "1000")
    kill_all_of_it(queue)
    assert queue.call(*words, check=False).returncode == status
    queue.until_ended(job)
    assert queue.states(job) == {"lost": 1}


@pytest.mark.parametrize("words, status", [(["wait", "1"], 1), (["logs", "-f", "1"], 0)])
def test_who_waits_sees_the_end_of_what_was_killed_meanwhile(queue, words, status):
    queue.submit("-g", "0", "--", "sleep", "1000")
    queue.until_asleep()
    waiter = beside(queue, *words)
    eventually(lambda: list((queue.directory / "watch").glob("[ae]n[yd].*")), "it watches")
    kill_all_of_it(queue)
    assert ended(waiter)[0] == status, queue.runner_log()


def test_a_task_that_ends_after_its_runner_and_lane_is_waited_for(queue):
    job = queue.submit("-g", "0", "--", "sleep", "1000")
    [task] = queue.until_asleep()
    waiter = beside(queue, "wait", str(job))
    eventually(lambda: list((queue.directory / "watch").glob("end.*")), "it watches")
    pids = [queue.runner(), *queue.lanes()]
    queue.kill(pids)
    eventually(lambda: all(map(gone, pids)), "they are gone")
    eventually(lambda: queue.runner() not in (None, *pids), "the waiter has started a new one")
    queue.kill([task], signal.SIGTERM)
    assert ended(waiter)[0] == 1 and queue.states(job) == {"lost": 1}


STOOD = """
import os, pathlib, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0 and sys.argv[1] == "session":
    os.setsid()
pathlib.Path(f"pid.{os.getpid()}").touch()
signal.pause()
"""


@pytest.mark.parametrize("session", ["session", "group"])
@pytest.mark.parametrize("by", ["lane", "runner"])
def test_what_stood_when_its_runner_was_killed_goes_on_with_continue(queue, by, session):
    """By its lane, or by the runner in the place of that."""
    job = queue.submit("-g", "0", "--", sys.executable, "-c", STOOD, session)
    eventually(lambda: len(list(queue.folder.glob("pid.*"))) == 2, "it runs")
    both = [int(path.suffix[1:]) for path in queue.folder.glob("pid.*")]
    if by == "runner":
        queue.kill(queue.lanes())
    queue.call("pause", job)
    eventually(lambda: all(state_of(pid) == "T" for pid in both), "it stands")
    pids = [queue.runner(), *queue.lanes()]
    queue.kill(pids)
    eventually(lambda: all(map(gone, pids)), "they are gone")
    queue.call("continue", job)
    eventually(lambda: all(state_of(pid) == "S" for pid in both), lambda: f"it goes on: {[state_of(pid) for pid in both]}")
    queue.call("cancel", job)
    queue.until_ended(job)


def test_watching_jobs_starts_the_runner_again(queue):
    queue.submit("-g", "0", "--", "sleep", "1000")
    queue.until_asleep()
    watcher = beside(queue, "jobs", "--watch", "--json")
    eventually(lambda: list((queue.directory / "watch").glob("any.*")), "it watches")
    kill_all_of_it(queue)
    queue.until_ended(1)
    watcher.terminate()
    assert '"lost"' in ended(watcher)[1]


def told_and_killed(queue, *words):
    """A job that the runner was told of and never came to look at: it was killed first."""
    runner = queue.runner()
    queue.kill([runner], signal.SIGSTOP)
    eventually(lambda: state_of(runner) == "T", "it is stopped")
    job = queue.submit(*words)
    queue.kill([runner])
    eventually(lambda: gone(runner), "it is gone")
    return job


def test_a_lane_that_works_starts_the_runner_again(queue):
    """What was submitted a moment before the runner was killed, and nobody gives another command."""
    queue.submit("-g", "0", "--", "sleep", "1000")
    queue.until_asleep()
    job = told_and_killed(queue, "-g", "0", "--", "true")
    eventually(lambda: queue.states(job) == {"done": 1}, lambda: f"it runs: {queue.states(job)}\n{queue.runner_log()}")
    assert queue.states(1) == {"running": 1}


def test_of_many_lanes_one_starts_the_runner_again(queue):
    queue.submit("-g", "1", "--array", "0-3", "--", "sleep", "1000")
    queue.until_asleep(4)
    job = told_and_killed(queue, "-g", "0", "--array", "0-19", "--", "true")
    eventually(lambda: queue.states(job) == {"done": 20}, lambda: f"it runs: {queue.states(job)}\n{queue.runner_log()}")
    eventually(lambda: len([pid for pid, name, *_ in processes() if name == "thole-runner" and is_of(pid, queue)]) == 1,
               "one is left")


def is_of(pid, queue):
    try:
        return f"THOLE_QUEUE_DIR={queue.directory}\0".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def test_what_nobody_can_start_needs_no_runner(queue):
    """Held, or behind what is held: no runner comes and goes for who waits."""
    held = queue.submit("-g", "0", "--hold", "--", "true")
    queue.submit("-g", "0", "--after", held, "--", "true")
    eventually(lambda: queue.runner() is None, "the runner has left")
    for words in [["jobs"], ["why", "job", "2"], ["wait", "--timeout", "1s"]]:
        queue.call(*words, check=False)
        assert queue.runner() is None, words


def test_a_stopped_runner_is_named(queue):
    queue.submit("-g", "0", "--", "sleep", "1000")
    queue.until_asleep()
    runner = queue.runner()
    queue.kill([runner], signal.SIGSTOP)
    eventually(lambda: state_of(runner) == "T", "it is stopped")
    queue.submit("-g", "1", "--", "true")
    assert f"kill -CONT {runner}" in queue.call("why", "job", "2").stdout
    assert f"kill -CONT {runner}" in queue.call("doctor", check=False).stdout
    queue.kill([runner], signal.SIGCONT)
    queue.until_ended(2)
    assert "kill -CONT" not in queue.call("doctor", check=False).stdout


def test_a_stopped_lane_is_named(queue):
    queue.submit("-g", "0", "--", "sleep", "1000")
    queue.until_asleep()
    [lane] = queue.lanes()
    queue.kill([lane], signal.SIGSTOP)
    eventually(lambda: state_of(lane) == "T", "it is stopped")
    assert f"kill -CONT {lane}" in queue.call("why", "job", "1").stdout
    queue.call("cancel", "1")
    queue.kill([lane], signal.SIGCONT)
    queue.until_ended(1)
    assert queue.states(1) == {"cancelled": 1}

"""What a task leaves behind with a cleared environment, in a session of its own, shows nothing of it once its lane is dead: the
lane's lock, which it has from that, tells whose it is. It is ended, paused and named like all else of the task; in a lane of
several tasks when the last of them ends. And nobody else is."""
import os
import signal
import subprocess
import sys

import pytest

from queue_inside import queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, eventually, goes_on, gone, state_of, text_of

MAIN = "echo $$ > main.new; mv main.new main; exec sleep 600"


def leaves(name, start="env -i"):
    """A shell's words for what goes on in a session of its own, with its pid in that file."""
    inner = f"echo \\$\\$ > {name}.new; mv {name}.new {name}; exec sleep 600"
    return f'{start} setsid sh -c "{inner}" & while [ ! -e {name} ]; do sleep 0.02; done; '


def why(queue, job):
    return " ".join(queue.call("why", "job", job).stdout.split())


def lane_dies(queue):
    lane = queue.working_lane()
    queue.kill([lane])
    eventually(lambda: not queue.lanes(), "the lane has ended")


@pytest.mark.parametrize("both", [False, True], ids=["lane killed", "lane and runner killed"])
@pytest.mark.parametrize("how", ["cancel", "time limit", "the command ends"])
def test_it_is_ended_with_its_task(queue, tmp_path, how, both):
    limit = ["--time", "4s"] if how == "time limit" else []
    job = queue.submit("-g", "1", "--patience", "1s", *limit, "--", "sh", "-c",
                       leaves("left") + MAIN)
    main, left = (int(text_of(tmp_path / name)) for name in ("main", "left"))
    if both:
        queue.kill([queue.runner()])
    lane_dies(queue)
    assert f"process {left} sleep 600, which has its lane's lock" in why(queue, job)
    if how == "cancel":
        queue.call("cancel", job)
    elif how == "the command ends":
        queue.kill([main])                       # of both, nobody will know how
    queue.until_ended(job)
    assert gone(main) and gone(left)


@pytest.mark.parametrize("start", ["env -i", ""], ids=["unmarked", "marked"])
@pytest.mark.parametrize("per_gpu", [[], ["--per-gpu", "2"]], ids=["alone", "per-gpu"])
def test_it_is_ended_where_the_lane_dies_of_the_same_moment(queue, tmp_path, start, per_gpu):
    """The lane was told how the command had ended, and has not come to ending what that has left."""
    job = queue.submit("-g", "1", "--patience", "1s", *per_gpu, "--", "sh", "-c", leaves("left", start) + MAIN)
    main, left = (int(text_of(tmp_path / name)) for name in ("main", "left"))
    lane = queue.working_lane()
    queue.kill([main])
    eventually(lambda: not os.path.exists(f"/proc/{main}"), "its lane was told")
    queue.kill([lane])
    queue.until_ended(job)
    assert gone(left)


def test_it_is_paused_and_goes_on_with_its_task(queue, tmp_path):
    job = queue.submit("-g", "1", "--", "sh", "-c", leaves("left") + "exec sleep 600")
    left = int(text_of(tmp_path / "left"))
    lane_dies(queue)
    queue.call("pause", job)
    eventually(lambda: state_of(left) == "T", "it stands")
    queue.call("continue", job)
    eventually(lambda: state_of(left) == "S", "it goes on")
    queue.call("cancel", job)
    queue.until_ended(job)
    assert gone(left)


def test_beside_others_it_ends_with_the_last_of_them(queue, tmp_path):
    """It keeps no task running that has ended."""
    for go in ("go0", "go1"):
        os.mkfifo(tmp_path / go)
    job = queue.submit("-g", "1", "--per-gpu", "2", "--array", "0-1", "--patience", "1s", "--", "sh", "-c",
                       leaves("left$THOLE_TASK_INDEX") + "echo > up$THOLE_TASK_INDEX; cat go$THOLE_TASK_INDEX")
    left = [int(text_of(tmp_path / f"left{task}")) for task in (0, 1)]
    eventually(lambda: all((tmp_path / f"up{task}").exists() for task in (0, 1)), "both run")
    lane_dies(queue)
    with open(tmp_path / "go0", "w"):
        pass
    eventually(lambda: queue.states(job) == {"running": 1, "done": 1}, "the first has ended")
    assert not any(map(gone, left))
    with open(tmp_path / "go1", "w"):
        pass
    queue.until_ended(job)
    assert queue.states(job) == {"done": 2} and all(map(gone, left))


@pytest.mark.parametrize("lane", ["killed before", "killed while paused"])
def test_beside_others_it_stands_still_and_goes_on_with_the_last_of_them(queue, tmp_path, lane):
    job = queue.submit("-g", "1", "--per-gpu", "2", "--array", "0-1", "--patience", "1s", "--", "sh", "-c",
                       leaves("left$THOLE_TASK_INDEX") + "echo > up$THOLE_TASK_INDEX; exec sleep 600")
    left = [int(text_of(tmp_path / f"left{task}")) for task in (0, 1)]
    eventually(lambda: all((tmp_path / f"up{task}").exists() for task in (0, 1)), "both run")
    if lane == "killed before":
        lane_dies(queue)
    queue.call("pause", job)
    eventually(lambda: [state_of(one) for one in left] == ["T", "T"], "they stand")
    if lane != "killed before":
        lane_dies(queue)
    queue.call("continue", f"{job}.0")
    eventually(lambda: "S" in [state_of(child) for child in queue.commands()], "the first goes on")
    assert [state_of(one) for one in left] == ["T", "T"]
    queue.call("continue", job)
    eventually(lambda: [state_of(one) for one in left] == ["S", "S"], "they go on")
    queue.call("cancel", job)
    queue.until_ended(job)
    assert all(map(gone, left))


def test_who_only_has_the_file_open_is_left_alone(queue, tmp_path):
    """A person who looks at the queue's files, say: the lock is none of his."""
    job = queue.submit("-g", "1", "--patience", "1s", "--", "sh", "-c", leaves("left") + "exec sleep 600")
    left = int(text_of(tmp_path / "left"))
    life, = (queue.directory / "lanes").glob("*.life")
    looks = os.open(life, os.O_RDWR)
    reader = os.spawnve(os.P_NOWAIT, "/bin/sleep", ["sleep", "600"], {})
    os.close(looks)
    try:
        lane_dies(queue)
        queue.call("cancel", job)
        eventually(lambda: gone(left), "what has the lock is ended")
        assert goes_on(reader)
    finally:
        os.kill(reader, signal.SIGKILL)
        os.waitpid(reader, 0)
    queue.until_ended(job)


ANOTHERS = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


@ANOTHERS
@pytest.mark.parametrize("clears", [False, True], ids=["shows its task", "shows nothing"])
def test_what_has_become_another_users_is_ended_too(queue, tmp_path, clears):
    tmp_path.chmod(0o711)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    start = ("env -i " if clears else "") + "setpriv --reuid 65534 --clear-groups"
    job = queue.submit("-g", "1", "--patience", "1s", "--", "sh", "-c", leaves("open/left", start) + "exec sleep 600")
    left = int(text_of(tmp_path / "open" / "left"))
    lane_dies(queue)
    assert f"process {left} sleep 600, which has its lane's lock" in why(queue, job)
    queue.call("cancel", job)
    queue.until_ended(job)
    assert gone(left)


SENDS = """
import array, os, socket, sys
life, = [fd for fd in map(int, os.listdir("/proc/self/fd"))
         if os.path.lexists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").endswith(".life")]
with socket.socket(socket.AF_UNIX) as to:
    to.connect(sys.argv[1])
    to.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [life]))])
    to.recv(1)
"""
RECEIVES = """
import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("up", flush=True)
peer, _ = server.accept()
_, fds, _, _ = socket.recv_fds(peer, 1, 1)
peer.send(b"x")
print("has it", flush=True)
time.sleep(600)
"""


def test_who_was_sent_the_lock_is_named_and_left_alone(queue, tmp_path):
    where = str(tmp_path / "socket")
    (tmp_path / "sends.py").write_text(SENDS)
    (tmp_path / "receives.py").write_text(RECEIVES)
    server = subprocess.Popen([sys.executable, tmp_path / "receives.py", where], stdout=subprocess.PIPE, text=True, env={})
    try:
        assert server.stdout.readline() == "up\n"
        job = queue.submit("-g", "1", "--patience", "1s", "--", "sh", "-c",
                           f"{sys.executable} sends.py {where}; echo $$ > main.new; mv main.new main; exec sleep 600")
        main = int(text_of(tmp_path / "main"))
        assert server.stdout.readline() == "has it\n"
        lane_dies(queue)
        queue.call("cancel", job)
        eventually(lambda: gone(main), "what is the task's is ended")
        assert f"process {server.pid} " in why(queue, job) and goes_on(server.pid)
    finally:
        server.kill()
        server.wait()
    queue.until_ended(job)


# The runner that is started in a task, for its own had been killed, is below its lane; so is all that it starts.
# By a process that takes orphans in, as `thole run` and an init do, they are not the lane's own children.
@pytest.mark.parametrize("within", [[], [THOLE, "run"], [THOLE, "map"]], ids=["", "run", "map"])
@pytest.mark.parametrize("how", ["end", "cancel", "pause"])
def test_a_lane_leaves_alone_what_a_runner_below_it_has_left(queue, tmp_path, how, within):
    items = [":::", "1"] if "map" in within else []
    one = queue.submit("-g", "1", "--patience", "1s", "--", *within, "sh", "-c",
                       "trap '' INT TERM; "
                       f"echo up > up.new; mv up.new up; until [ -e look ]; do sleep 0.02; done; {THOLE} jobs > looked; "
                       "until [ -e end ]; do sleep 0.02; done", *items)
    text_of(tmp_path / "up")
    [lane] = queue.lanes()
    os.kill(lane, signal.SIGSTOP)                # else it starts one itself, beside it
    first = queue.runner()
    queue.kill([first])
    eventually(lambda: gone(first), "nobody is there")
    (tmp_path / "look").touch()
    eventually(lambda: queue.runner() is not None, "the task has started one")
    os.kill(lane, signal.SIGCONT)
    two = queue.submit("-g", "1", "--", "sh", "-c", MAIN)
    main = int(text_of(tmp_path / "main"))
    [other] = set(queue.lanes()) - {lane}
    queue.kill([queue.runner(), other])
    if how == "pause":
        queue.call("pause", one)
        eventually(lambda: queue.rows("SELECT flags & 1 FROM task WHERE job = ?", one) == [(1,)], "it is paused")
        assert goes_on(main)
        queue.call("continue", one)
    if how == "cancel":
        queue.call("cancel", one)
    else:
        (tmp_path / "end").touch()
    queue.until_ended(one)
    assert goes_on(main) and queue.states(two) == {"running": 1}
    queue.call("cancel", two)
    queue.until_ended(two)
    assert gone(main)


FORGED = "THOLE_TASK=1.0.1.0123456789abcdef@/elsewhere"


@pytest.mark.parametrize("dies", [False, True], ids=["lane lives", "lane killed"])
def test_what_has_taken_on_the_mark_of_another_task_is_of_its_own(queue, tmp_path, dies):
    """By a saved environment, say. Its lane's lock tells."""
    job = queue.submit("-g", "1", "--patience", "1s", "--", "sh", "-c",
                       leaves("left", FORGED) + "until [ -e end ]; do sleep 0.02; done")
    left = int(text_of(tmp_path / "left"))
    if dies:
        lane_dies(queue)
        assert f"process {left} sleep 600, which has its lane's lock" in why(queue, job)
    (tmp_path / "end").touch()
    queue.until_ended(job)
    assert queue.states(job) == {"done": 1} and gone(left)


def test_who_shows_the_mark_of_a_dead_lanes_task_is_of_the_living_one_whose_lock_it_has(queue, tmp_path):
    one = queue.submit("-g", "1", "--", "sh", "-c", "echo \"$THOLE_TASK\" > mark.new; mv mark.new mark; exec sleep 600")
    mark = text_of(tmp_path / "mark").strip()
    lane_dies(queue)
    two = queue.submit("-g", "1", "--", "env", f"THOLE_TASK={mark}", "sh", "-c",
                       MAIN)
    main = int(text_of(tmp_path / "main"))
    queue.call("cancel", one)
    queue.until_ended(one)
    assert goes_on(main) and queue.states(two) == {"running": 1}
    queue.call("cancel", two)
    queue.until_ended(two)


def test_what_an_earlier_task_of_the_lane_has_left_is_ended_with_the_last(queue, tmp_path):
    """Whoever is killed: it began after the lane, though before the last command."""
    job = queue.submit("-g", "1", "--per-gpu", "2", "--array", "0-1", "--patience", "1s", "--", "sh", "-c",
                       "if [ $THOLE_TASK_INDEX = 0 ]; then " + leaves("left") + "until [ -e end ]; do sleep 0.02; done; "
                       "else until [ -e left ]; do sleep 0.02; done; exec sleep 600; fi")
    left = int(text_of(tmp_path / "left"))
    (tmp_path / "end").touch()
    eventually(lambda: queue.states(job) == {"running": 1, "done": 1}, "the first has ended")
    [last] = queue.until_asleep()
    queue.kill([queue.runner(), queue.working_lane()])
    queue.call("cancel", job)
    queue.until_ended(job)
    assert gone(left) and gone(last)


def test_whose_command_has_ended_does_not_run_as_long_as_its_neighbour(queue, tmp_path):
    """Nobody has seen it live: its runner and its lane were killed before. The number that it has noted is gone."""
    job = queue.submit("-g", "1", "--per-gpu", "2", "--array", "0-1", "--", "sleep", "600")
    first, second = queue.until_asleep(2)
    queue.kill([queue.runner(), queue.working_lane(), first])
    eventually(lambda: gone(first), "it has ended")
    queue.call("retry", job, check=False)        # anything that wakes a runner
    eventually(lambda: queue.states(job) == {"running": 1, "lost": 1}, lambda: queue.runner_log())
    assert not gone(second)

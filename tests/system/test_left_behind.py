"""Nobody gets a GPU before what was started on it has ended, and nothing else is ended with it."""
import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from queue_inside import queue_of_two_gpus as queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, Started, eventually, gone, killed_at_the_end, processes, python, text_of

# Starts what a claim does not see by its locks: a session of its own, descriptors closed, and with `-i` no word of the claim.
DAEMON = """
import os, subprocess, sys
child = subprocess.Popen(["sleep", "1000"], start_new_session=True, env=dict() if "-i" in sys.argv else None,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
with open("daemon.new", "w") as file: file.write(str(child.pid))
os.rename("daemon.new", "daemon")
"""

# Forks on without end, each child ended before /proc is read, and keeps a lock on the file "chain" while it goes on.
CHAIN = """
import fcntl, os, signal
lock = os.open("chain", os.O_CREAT | os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
os.closerange(lock + 1, 64)
if os.fork(): os._exit(0)
os.setsid()
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
while True:
    if os.fork(): os._exit(0)
"""


@pytest.mark.parametrize("environment", ["kept", "empty"])
def test_a_lane_of_map_gives_its_gpu_back_after_what_has_left_its_group(queue, tmp_path, environment):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    task = DAEMON + "open('gate').read()\n"
    words = ["-i"] if environment == "empty" else []
    with killed_at_the_end(tmp_path / "daemon"), \
            Started([THOLE, "map", "-q", "--on", "0", *python(task), *words, ":::", "1", "2"], env=queue.environment,
                    cwd=tmp_path) as job:
        daemon = text_of(tmp_path / "daemon")
        alive = f"kill -0 {daemon} 2> /dev/null && echo two || echo one; kill -9 {daemon} 2> /dev/null; true"
        with Started([THOLE, "run", "-q", "--trust-claims", "--on", "0", "--", "sh", "-c", alive],
                     env=queue.environment) as other:
            eventually(lambda: len(json.loads(queue.call("status", "--json").stdout)["queue"]) == 1, "the other waits")
            gate.write_text("")
            assert other.line() == "one"
            other.wait()
        job.kill(signal.SIGKILL)


def test_another_lane_s_task_is_not_ended_with_a_lane(queue, tmp_path):
    """What shows another lane's claim goes on; what left the group of the lane that ends does not."""
    for name in ("first", "second"):
        os.mkfifo(tmp_path / name)
        (tmp_path / f"of-{name}").mkdir()
    task = "import os, sys; os.chdir('of-' + sys.argv[1])\n" + DAEMON + "open('../' + sys.argv[1]).read()\n"
    daemons = {name: tmp_path / f"of-{name}" / "daemon" for name in ("first", "second")}
    with killed_at_the_end(daemons["first"]), killed_at_the_end(daemons["second"]), \
            Started([THOLE, "map", "-q", *python(task), ":::", "first", "second"], env=queue.environment, cwd=tmp_path) as job:
        pids = {name: int(text_of(path)) for name, path in daemons.items()}
        (tmp_path / "first").write_text("")
        eventually(lambda: gone(pids["first"]), "what the first left behind has ended")
        assert not gone(pids["second"])
        (tmp_path / "second").write_text("")
        assert job.wait() == 0
        assert gone(pids["second"])


# Leaves a process behind that tells of TERM. "late" then lives on, and tells again after half of the time that it has before
# KILL; the other one saves its work as soon as that one is no more.
SAVES = """
import os, select, signal, subprocess, sys, time
if sys.argv[1] == "daemon":
    def told(*_):
        open(sys.argv[2] + ".told", "w").close()
        if sys.argv[2] == "late":
            time.sleep(5)
            open("half.new", "w").close()
            os.rename("half.new", "half")
            while True: signal.pause()
        end = os.pidfd_open(int(open("late.pid").read()))
        select.select([end], [], [])
        open("saved", "w").close()
        os._exit(0)
    signal.signal(signal.SIGTERM, told)
    print(flush=True)
    while True: signal.pause()
name = sys.argv[1]
child = subprocess.Popen([sys.executable, "task", "daemon", name], start_new_session=True, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
child.stdout.readline()
open(name + ".pid", "w").write(str(child.pid))
open(name).read()
"""


def test_what_is_left_of_the_last_task_has_its_own_time_to_save_its_work(queue, tmp_path):
    """Though what an earlier lane has left behind gets KILL meanwhile."""
    (tmp_path / "task").write_text(SAVES)
    for name in ("late", "work"):
        os.mkfifo(tmp_path / name)
    with killed_at_the_end(tmp_path / "late.pid"), killed_at_the_end(tmp_path / "work.pid"), \
            Started([THOLE, "map", "-q", sys.executable, "task", ":::", "late", "work"], env=queue.environment,
                    cwd=tmp_path) as job:
        for name in ("late", "work"):
            text_of(tmp_path / f"{name}.pid")
        (tmp_path / "late").write_text("")
        eventually((tmp_path / "half").exists, "the first one has been told")
        (tmp_path / "work").write_text("")
        assert job.wait() == 0
        assert (tmp_path / "saved").exists()


@pytest.mark.parametrize("how", ["run", "map"])
def test_a_job_goes_on_whose_lane_was_killed_below(queue, tmp_path, how):
    """Its command is left to the runner then, which looks after it."""
    for name in ("gate", "go"):
        os.mkfifo(tmp_path / name)
    inside = f"{THOLE} submit -q --on 1 -- sh -c 'echo $$ > begun.new; mv begun.new begun; cat gate; echo > done'; cat go"
    words = ["run", "--on", "0", "--", "sh", "-c", inside] if how == "run" else \
        ["map", "--on", "0", "sh", "-c", inside, "sh", ":::", "1"]
    with Started([THOLE, *words], env=queue.environment, cwd=tmp_path) as outer:
        command = int(text_of(tmp_path / "begun"))
        lane, = queue.lanes()
        os.kill(lane, signal.SIGKILL)
        eventually(lambda: any(pid == command and parent == queue.runner() for pid, _, parent, _ in processes()),
                   "the command is left to the runner")
        (tmp_path / "go").write_text("")
        assert outer.wait() == 0
    assert not gone(command)
    (tmp_path / "gate").write_text("")
    eventually((tmp_path / "done").exists, "the job has done its work")
    eventually(lambda: gone(command), "and ends by itself")


RENAMED = """
import ctypes, os, signal, sys
if os.fork(): os._exit(0)
os.setsid()
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
open("renamed.new", "w").write(str(os.getpid()))
os.rename("renamed.new", "renamed")
null = os.open("/dev/null", os.O_RDWR)
for standard in range(3): os.dup2(null, standard)
os.closerange(3, 64)
while True: signal.pause()
"""


@pytest.mark.parametrize("how", ["run", "map"])
@pytest.mark.parametrize("name", ["thole-lane", "thole-runner"])
def test_what_calls_itself_a_queue_s_is_ended_all_the_same(queue, tmp_path, how, name):
    end = [":::", "1"] if how == "map" else []
    task = RENAMED.replace("if os.fork(): os._exit(0)",
                           "if os.fork():\n    while not os.path.exists('renamed'): pass\n    os._exit(0)")
    with killed_at_the_end(tmp_path / "renamed"):
        done = subprocess.run([THOLE, how, "-q", "--on", "0", *python(task), name, *end], env=queue.environment, cwd=tmp_path,
                              timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 0
        assert gone(int((tmp_path / "renamed").read_text()))


# Leaves a process behind that keeps the lock of a file of its own: a game's, say.
LOCKER = """
import fcntl, os, signal, sys
if os.fork():
    while not os.path.exists("locker"): pass
    os._exit(0)
os.setsid()
null = os.open("/dev/null", os.O_RDWR)
for standard in range(3): os.dup2(null, standard)
os.closerange(3, 64)
if sys.argv[2] == "fifo": os.mkfifo(sys.argv[1], 0o600)
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
open("locker.new", "w").write(str(os.getpid()))
os.rename("locker.new", "locker")
while True: signal.pause()
"""


@pytest.mark.parametrize("how", ["run", "map"])
@pytest.mark.parametrize("name, kind", [("game.life", "file"), ("7.life", "file"), ("game.life", "fifo")])
def test_who_keeps_a_lock_of_its_own_by_a_name_like_a_lane_s_is_named_and_ended(queue, tmp_path, how, name, kind):
    end = [":::", "1"] if how == "map" else []
    with killed_at_the_end(tmp_path / "locker"):
        done = subprocess.run([THOLE, how, "--on", "0", *python(LOCKER), name, kind, *end], env=queue.environment, cwd=tmp_path,
                              timeout=60, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        left = (tmp_path / "locker").read_text()
        assert done.returncode == 0 and f"\n  {left} " in done.stderr, done.stderr
        assert gone(int(left))


@pytest.mark.parametrize("how", ["run", "map"])
@pytest.mark.parametrize("mark", ["", "x", "1.0.1.0123456789abcdef@0123456789abcdef@/nowhere"])
def test_what_shows_the_claim_is_ended_whatever_mark_of_a_task_it_has(queue, tmp_path, how, mark):
    """No task of the queue shows it."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    command = ["sh", "-c", f"THOLE_TASK={mark} exec {sys.executable} daemon.py"]
    end = ["sh", ":::", "1"] if how == "map" else []
    with killed_at_the_end(tmp_path / "daemon"):
        done = subprocess.run([THOLE, how, "--on", "0", *command, *end], env=queue.environment, cwd=tmp_path, timeout=60,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        left = (tmp_path / "daemon").read_text()
        assert done.returncode == 0 and f"{left} sleep 1000" in done.stderr, done.stderr
        assert gone(int(left))


@pytest.mark.parametrize("how", ["run", "map"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_goes_on_whose_runner_was_started_below_and_killed(queue, tmp_path, how, number):
    """Its lane is left to the supervisor, and is no part of what the command has left behind."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    inside = f"{THOLE} submit -q --on 1 -- sh -c 'echo > begun; cat gate; echo > done'"
    words = ["run", "--on", "0", "--", "sh", "-c", inside + "; read line"] if how == "run" else \
        ["map", "--on", "0", "sh", "-c", inside + "; cat go", "sh", ":::", "1"]
    os.mkfifo(tmp_path / "go")
    with Started([THOLE, *words], env=queue.environment, cwd=tmp_path) as outer:
        eventually((tmp_path / "begun").exists, "the job runs")
        runner = queue.runner()
        os.kill(runner, number)
        eventually(lambda: gone(runner), "the runner has ended")
        if how == "run": outer.write("\n")
        else: (tmp_path / "go").write_text("")
        assert outer.wait() == 0
    assert queue.states(1) == {"running": 1}
    gate.write_text("")
    eventually((tmp_path / "done").exists, "the job has done its work")
    eventually(lambda: queue.call("jobs").stdout and queue.states(1) == {"done": 1}, "and says so")


@pytest.mark.parametrize("how", ["run", "map", "submit"])
def test_what_forks_without_end_is_ended_first(queue, tmp_path, how):
    end = [":::", "1"] if how == "map" else []
    began = subprocess.run([THOLE, how, "-q", "--on", "0", *python(CHAIN), *end], env=queue.environment, cwd=tmp_path,
                           timeout=120, stdin=subprocess.DEVNULL)
    assert began.returncode == 0
    if how == "submit": queue.until_ended(1, 90)   # KILL comes after ten seconds
    assert subprocess.run(["flock", "-n", str(tmp_path / "chain"), "true"]).returncode == 0


NUMBERED = """
import os, subprocess
stranger = int(open("stranger").read())
open("gate", "w").close()
while os.path.exists(f"/proc/{stranger}"): pass
for tries in range(20):
    with open("/proc/sys/kernel/ns_last_pid", "w") as last: last.write(str(stranger - 1))
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    if child.pid == stranger: break
    child.kill()
    child.wait()
else: raise SystemExit("no process got that number")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to choose the number of a process")
def test_who_has_the_number_of_a_child_that_was_there_before_is_ended_all_the_same(queue, tmp_path):
    os.mkfifo(tmp_path / "gate")
    (tmp_path / "task").write_text(NUMBERED)
    run = f'(cat gate & echo $! > stranger; exec {THOLE} run -q --on 0 -- {sys.executable} task)'
    lives = 'kill -0 "$(cat stranger)" 2> /dev/null && echo lives || echo ended'
    words = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c"]
    if not numbers_can_be_chosen():
        pytest.skip("the number of the next process cannot be chosen here")
    done = subprocess.run([*words, f"{run} && {lives}"], cwd=tmp_path, env=queue.environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


# The leader L of group N ends at once. C stays in N below M, which has left it; C ends at TERM, and N is free then.
ENDED_GROUP = """
import os, signal
group = os.getpid()
ready, told = os.pipe()
if os.fork() == 0:
    member = os.fork()
    if member == 0:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        os.write(told, b"x")
        while True: signal.pause()
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(told, b"x")
    os.waitpid(member, 0)
    with open("free.new", "w") as file: file.write(str(group))
    os.rename("free.new", "free")
    while True: signal.pause()
for _ in range(2): os.read(ready, 1)
"""

# Takes N for a process group of its own as soon as it is free, then ends map in haste.
STRANGER = """
import os, signal, subprocess, sys, time
job = subprocess.Popen(sys.argv[1:])
until = time.monotonic() + 60
while not os.path.exists("free"):
    if job.poll() is not None or time.monotonic() > until: raise SystemExit("the group has not ended")
group = int(open("free").read())
for tries in range(20):
    with open("/proc/sys/kernel/ns_last_pid", "w") as last: last.write(str(group - 1))
    stranger = subprocess.Popen(["sleep", "1000"], process_group=0)
    if stranger.pid == group: break
    stranger.kill()
    stranger.wait()
else: raise SystemExit("no process got that number")
job.send_signal(signal.SIGINT)
job.send_signal(signal.SIGTERM)
while job.poll() is None and stranger.poll() is None: os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
print("ended by", -stranger.poll() if stranger.poll() is not None else None)
"""


def numbers_can_be_chosen():
    return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "test", "-w", "/proc/sys/kernel/ns_last_pid"],
                          capture_output=True).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to choose the number of a process")
def test_who_has_the_number_of_a_task_s_ended_group_is_not_signalled(queue, tmp_path):
    if not numbers_can_be_chosen():
        pytest.skip("the number of the next process cannot be chosen here")
    job = [THOLE, "map", "-q", "--on", "0", *python(ENDED_GROUP), ":::", "1"]
    done = subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *python(STRANGER), *job], cwd=tmp_path,
                          env=queue.environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "ended by None\n", done.stderr


def test_what_the_shell_has_started_before_map_feeds_it_to_the_end(queue, tmp_path):
    """`bash -c 'map < <(…)'` becomes map by exec, and what feeds it is map's own child then."""
    os.mkfifo(tmp_path / "more")
    feed = f"exec {THOLE} map -q --on 0 sh -c 'echo got $1' sh < <(echo one; cat more)"
    with Started(["bash", "-c", feed], env=queue.environment, cwd=tmp_path) as job:
        assert job.line() == "got one"
        eventually(lambda: not json.loads(queue.call("status", "--json").stdout)["claims"], "the GPU is given back meanwhile")
        (tmp_path / "more").write_text("two\n")
        assert job.line() == "got two"
        assert job.wait() == 0


@pytest.mark.parametrize("how", ["run", "map"])
def test_what_a_child_from_before_leaves_is_left_alone_and_named(queue, tmp_path, how):
    """A part of the script that was started before this became thole by exec; what carries the claim's mark is ended."""
    os.mkfifo(tmp_path / "gate")
    (tmp_path / "daemon.py").write_text(DAEMON)
    (tmp_path / "task").write_text(f"""mkdir its; cd its; {sys.executable} ../daemon.py; echo > ../gate
until test -s ../daemon && test "$(cut -d ' ' -f 4 "/proc/$(cat ../daemon)/stat")" = $PPID; do :; done""")
    command = f"{THOLE} {how} --on 0 " + ("-- sh task" if how == "run" else "sh task ::: 1")
    script = f"( cat gate; {sys.executable} daemon.py ) & exec {command}"
    with killed_at_the_end(tmp_path / "daemon"), killed_at_the_end(tmp_path / "its" / "daemon"):
        done = subprocess.run(["sh", "-c", script], env=queue.environment, cwd=tmp_path, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60)
        assert done.returncode == 0, done.stderr
        daemon = (tmp_path / "daemon").read_text()
        assert not gone(int(daemon)) and gone(int((tmp_path / "its" / "daemon").read_text()))
        told = " ".join(done.stderr.split())
        assert told.count("left alone") == 1 and f"process {daemon} sleep 1000" in told, told


def test_who_enters_the_container_of_map_leaves_it_what_is_not_its_own(queue, tmp_path):
    """As by `docker exec -d`: the first process of a container gets the orphans of everybody in it."""
    box = ["unshare", "-p", "-f", "--mount-proc", "--kill-child"]
    if subprocess.run([*box, "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces of one's own can be made here")
    for name in ("1", "2", "go1", "go2"): os.mkfifo(tmp_path / name)
    task = "echo up > $1; cat go$1"
    with Started([*box, THOLE, "map", "--on", "0", "sh", "-c", task, "sh", ":::", "1", "2"], env=queue.environment,
                 cwd=tmp_path) as container:
        assert (tmp_path / "1").read_text() == "up\n"
        first = children_of(container.pid)[0]
        entered = ["nsenter", "-t", str(first), "-p", "-m", "sh", "-c", "setsid sleep 1000 < /dev/null > /dev/null 2>&1 &"]
        assert subprocess.run(entered, timeout=60).returncode == 0
        daemons = eventually(lambda: [pid for pid in children_of(first) if name_of(pid) == "sleep"], "it is map's child")
        (tmp_path / "go1").write_text("")
        assert (tmp_path / "2").read_text() == "up\n" and not gone(daemons[0])
        (tmp_path / "go2").write_text("")
        assert container.wait() == 0
        assert "left alone" in " ".join(container.process.stderr.read().decode().split())


def children_of(pid):
    return [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]


def name_of(pid):
    with contextlib.suppress(OSError):
        return open(f"/proc/{pid}/comm", errors="replace").read().strip()

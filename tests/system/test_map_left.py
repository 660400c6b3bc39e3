"""What a task of `map` leaves to it is waited for while the task runs; what it leaves behind is named whatever the hurry, and
given up when nobody can end it."""
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from queue_inside import queue_of_two_gpus as queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, Started, eventually, gone, killed_at_the_end, processes, read_line, state_of, text_of

USER, OTHER = 54_881, 54_882

# Leaves a process of a session of its own behind, which writes its number to the file once it is deaf to TERM.
DAEMON = """
import os, subprocess, sys
code = '''
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("NAME.new", "w") as file: file.write(str(os.getpid()))
os.rename("NAME.new", "NAME")
while True: signal.pause()
'''.replace("NAME", sys.argv[1])
subprocess.Popen([sys.executable, "-c", code], start_new_session=True, env=dict() if "-i" in sys.argv else None,
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


def folded(text):
    return " ".join(text.split())


@pytest.mark.parametrize("how", ["", "setsid"])
def test_a_running_task_leaves_no_zombies(queue, tmp_path, how):
    os.mkfifo(tmp_path / "gate")
    task = f"for i in $(seq 200); do ( {how} true & ); done; echo all; cat gate; exit 3"
    with Started([THOLE, "map", "-q", "-u", "--on", "0", "sh", "-c", task, "sh", ":::", "1"], env=queue.environment,
                 cwd=tmp_path) as job:
        assert job.line() == "all"
        eventually(lambda: [state_of(pid) for pid, _, parent, _ in processes() if parent == job.pid] == ["S"],
                   "of map's children only the task is left")
        (tmp_path / "gate").write_text("")
        assert job.wait() == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user without processes of his own")
def test_a_task_that_starts_many_after_the_other_needs_few_processes():
    """As below `run`."""
    task = "for i in $(seq 600); do ( true & ) || exit 9; done; echo all"
    with folder_of_a_user() as (folder, environment):
        done = subprocess.run([folder + "/thole", "map", "-q", "--on", "0", "bash", "-c", task, "bash", ":::", "1"], cwd=folder,
                              env=environment, capture_output=True, text=True, timeout=120, user=USER, group=USER,
                              extra_groups=[], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (200, 200)))
    assert done.stdout == "all\n" and done.returncode == 0, done.stderr


def test_each_that_is_left_alone_is_named_once(queue, tmp_path):
    """Where `map` has children from before, which may have left it what shows no claim."""
    os.mkfifo(tmp_path / "items")
    (tmp_path / "task").write_text(DAEMON)
    script = f"sleep 1000 > /dev/null 2>&1 & echo $! > before; exec {THOLE} map --on 0 {sys.executable} task {{}} -i < items"
    daemons = [tmp_path / "d1", tmp_path / "d2"]
    with killed_at_the_end(*daemons, tmp_path / "before"), \
            Started(["sh", "-c", script], env=queue.environment, cwd=tmp_path) as job, \
            open(tmp_path / "items", "w", buffering=1) as items:
        pids = []
        for daemon in daemons:
            items.write(f"{daemon.name}\n")
            pids.append(text_of(daemon))
            line = ""
            while f"process {pids[-1]} " not in line:
                line = job.error_line()
                assert line, "it is not named"
        items.close()
        assert job.wait() == 0
        rest = job.process.stderr.read().decode()
        assert "left alone" not in rest and not any(gone(int(pid)) for pid in pids), rest


def watches_a_process(pid):
    """Has it the descriptor of one?"""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return any("pidfd" in link for link in links)


@pytest.mark.parametrize("task", ["sleep 1000 & echo $! > left", f"{sys.executable} daemon left"],
                         ids=["its group", "a session of its own"])
def test_who_is_ended_is_named_whatever_the_hurry(queue, tmp_path, task):
    (tmp_path / "daemon").write_text(DAEMON)
    script = f"{task}; until test -s left; do :; done; echo $$; read line < gate; kill -9 $$"
    os.mkfifo(tmp_path / "gate")
    with killed_at_the_end(tmp_path / "left"), \
            Started([THOLE, "map", "-u", "--on", "0", "sh", "-c", script, "sh", ":::", "1"], env=queue.environment,
                    cwd=tmp_path) as job:
        command = int(job.line())
        left = text_of(tmp_path / "left").strip()
        assert watches_a_process(job.pid)
        (tmp_path / "gate").write_text("\n")
        eventually(lambda: gone(command) and not watches_a_process(job.pid), "map has seen the end of the task")
        job.kill(signal.SIGINT)
        job.kill(signal.SIGTERM)
        assert job.wait() == -signal.SIGINT
        assert gone(int(left))
        told = job.process.stderr.read().decode()
        assert f"\n  {left} " in told, told


@pytest.mark.parametrize("how", ["time", "signals"])
def test_a_command_that_goes_to_another_group_is_ended_too(queue, tmp_path, how):
    """As a program that wants the terminal's signals may do."""
    task = ("import os, signal; os.setpgid(0, os.getpgid(os.getppid()));"
            "print(os.getpid(), flush=True); signal.pause()")
    limit = ["--time", "1s"] if how == "time" else []
    with Started([THOLE, "map", "-u", "--on", "0", *limit, sys.executable, "-c", task, ":::", "1"], env=queue.environment,
                 cwd=tmp_path) as job:
        command = int(job.line())
        for _ in range(2 if how == "signals" else 0):
            job.kill(signal.SIGTERM)
        assert job.wait() == (-signal.SIGTERM if how == "signals" else 1)
        assert gone(command)


@pytest.mark.parametrize("wrapped", [["timeout", "1000"], ["bash", "-c", 'set -m; "$@" & wait', "bash"], ["setsid", "-w"]],
                         ids=["timeout", "set -m", "setsid"])
def test_who_made_a_group_of_his_own_is_ended_with_its_task(queue, tmp_path, wrapped):
    """Before the next task is on the GPU."""
    work = tmp_path / "work"
    work.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 1000\n")
    work.chmod(0o755)
    next_one = "if [ -e pid ]; then read pid < pid; ! grep -s 'State:.[^ZX]' /proc/$pid/status; exit; fi"
    words = ["map", "-j", "1", "--on", "0", "--time", "1s", "--joblog", "log", "sh", "-c", f'{next_one}; "$@"; true', "sh"]
    with Started([THOLE, *words, *wrapped, "./work", ":::", "1", "2"], env=queue.environment, cwd=tmp_path) as job:
        assert job.process.wait(60) == 1
        assert b"left a process running" not in job.process.stderr.read()
    assert [line.split("\t")[6] for line in (tmp_path / "log").read_text().splitlines()[1:]] == ["-1", "0"]


@contextlib.contextmanager
def folder_of_a_user():
    """Programs that USER may run, and a machine's claims of his."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:   # a test's own folder is closed to others
        os.chown(folder, USER, USER)
        shutil.copy(THOLE, f"{folder}/thole")
        yield folder, {"PATH": os.environ["PATH"], "HOME": folder, "THOLE_MACHINE": "2xA100", "THOLE_BIND": "none",
                       "THOLE_STATE_DIR": f"{folder}/state", "THOLE_PERSONAL_DIR": f"{folder}/personal"}


class AnothersProcess:
    """`as-other COMMAND...`, which a user can start and not end, as with sudo."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment
        program = shutil.copy(shutil.which("setpriv"), f"{folder}/setpriv")
        os.chown(program, 0, 0)
        os.chmod(program, 0o4755)
        self.words = f"./setpriv --reuid={OTHER} --regid={OTHER} --clear-groups sleep 1000"

    def thole(self, *words):
        return Started([f"{self.folder}/thole", *words], env=self.environment, cwd=self.folder, user=USER, group=USER,
                       extra_groups=[])

    def end(self):
        for pid, name, _, _ in processes():
            with contextlib.suppress(OSError):
                if name == "sleep" and os.readlink(f"/proc/{pid}/cwd") == self.folder:
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def anothers():
    if os.geteuid() != 0 or os.statvfs("/var/tmp").f_flag & os.ST_NOSUID:
        pytest.skip("needs root, and a folder for a program that becomes another user")
    with folder_of_a_user() as (folder, environment):
        one = AnothersProcess(folder, environment)
        yield one
        one.end()


def test_what_nobody_can_end_is_given_up_and_keeps_its_gpu(anothers):
    """As `run` does; the item's result stands, and the next one gets another GPU."""
    task = f'echo "$CUDA_VISIBLE_DEVICES"; test $1 = 2 || {{ {anothers.words} & echo $!; }} < /dev/null 2> /dev/null'
    with anothers.thole("map", "-u", "-j", "1", "sh", "-c", task, "sh", ":::", "1", "2") as job:
        first, left = job.line(), int(job.line())
        job.error_until("only their own user or root end")
        second = read_line(job.process.stdout, 60)
        assert {first, second} == {"0", "1"}
        assert job.process.wait(60) == 0
        assert not gone(left)
        with anothers.thole("run", "-q", "--no-wait", "--on", first, "--", "true") as refused:
            assert refused.wait() == 75, "its copies of the locks keep the claim"


def test_what_is_given_up_is_neither_waited_for_nor_named_after_the_next_item(anothers):
    """It has closed what it was given, so that nothing keeps the GPU."""
    os.mkfifo(f"{anothers.folder}/items")
    os.chmod(f"{anothers.folder}/items", 0o666)
    daemon = f'for n in $(seq 3 60); do eval "exec $n>&-"; done; exec setsid {anothers.words} < /dev/null > /dev/null 2>&1'
    begun = f'until test "$(stat -c %u /proc/$!)" = {OTHER}; do :; done'
    task = f"test $1 = 2 || {{ {{ {daemon}; }} & {begun}; }}; echo item $1"
    with anothers.thole("map", "-u", "--on", "0", "-a", "items", "bash", "-c", task, "bash") as job, \
            open(f"{anothers.folder}/items", "w", buffering=1) as items:
        items.write("1\n")
        assert job.line() == "item 1"
        job.error_until("only their own user or root end")
        with anothers.thole("run", "-q", "--on", "0", "--", "true") as other:
            assert other.process.wait(60) == 0
        items.write("2\n")
        assert read_line(job.process.stdout, 60) == "item 2"
        items.close()
        assert job.process.wait(60) == 0
        rest = folded(job.process.stderr.read().decode())
        assert "left a process running" not in rest, rest


@pytest.mark.parametrize("what", ["task", "rest"])
def test_two_signals_end_map_whatever_lives_on(anothers, what):
    quiet = f"{anothers.words} < /dev/null > /dev/null 2>&1"
    task = f"exec {quiet}" if what == "task" else f"{quiet} &"
    with anothers.thole("map", "-u", "--on", "0", "sh", "-c", f"echo $$; {task}", "sh", ":::", "1") as job:
        command = int(job.line())
        if what == "rest":
            job.error_until("left a process running")
        else:
            eventually(lambda: os.stat(f"/proc/{command}").st_uid == OTHER, "it is another user's")
        job.kill(signal.SIGINT)
        job.kill(signal.SIGTERM)
        assert job.process.wait(60) == -signal.SIGINT
        assert "only their own user or root end, stop or continue: process" in folded(job.process.stderr.read().decode())


def test_a_task_that_succeeded_stays_so_when_all_is_ended_while_its_rest_is(tmp_path):
    leaves = "trap '' TERM; echo $1 >> ran; (while :; do sleep 0.05; done) & exit 0"
    words = [THOLE, "map", "-g", "0", "--joblog", "log", "--", "sh", "-c", leaves, "sh", ":::", "1"]
    with Started(words, cwd=tmp_path) as job:
        job.error_until("left")
        job.kill(signal.SIGINT)
        job.kill(signal.SIGINT)
        job.wait()
    [_, line] = (tmp_path / "log").read_text().splitlines()
    assert line.split("\t")[6:8] == ["0", "0"]
    subprocess.run([*words[:2], "--resume", *words[2:]], cwd=tmp_path, timeout=60, check=True)
    assert (tmp_path / "ran").read_text() == "1\n"

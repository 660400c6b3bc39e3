"""A runner in another pid namespace than the task that a dead lane has left: it does not see it, and leaves it alone."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from queue_inside import Queue, queue  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, eventually, gone, state_of

ELSEWHERE = ["unshare", "-m", "-p", "-f", "--kill-child"]

# As subprocess.Popen of Python does: the lane's lock is closed in it.
WITHOUT_THE_LOCK = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.closerange(3, 4096)
with open("begun", "a") as begun:
    begun.write(os.environ["THOLE_RUN"])
signal.pause()
"""


@pytest.mark.parametrize("proc", [["--mount-proc"], []], ids=["its own proc", "the proc of another"])
def test_what_is_not_seen_from_there_is_neither_lost_nor_run_twice(queue, proc):
    if subprocess.run([*ELSEWHERE, "--mount-proc", "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces of one's own can be made here")
    begun = pathlib.Path(queue.folder / "begun")
    job = queue.submit("-g", "0", "--retry", "1,lost", "--", sys.executable, "-c", WITHOUT_THE_LOCK)
    eventually(lambda: begun.exists() and begun.read_text() == "1", "it runs")
    [task] = queue.commands()
    killed = [*queue.lanes(), queue.runner()]   # a lane would start another runner
    queue.kill(killed)
    eventually(lambda: all(map(gone, killed)), "they are gone")
    with subprocess.Popen([*ELSEWHERE, *proc, "sh", "-c", f"{THOLE} jobs; exec sleep 600"], env=queue.environment,
                          cwd=queue.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as there:
        eventually(lambda: "not seen from here" in queue.runner_log(), lambda: f"it is said: {queue.runner_log()}")
        assert queue.states(job) == {"running": 1} and begun.read_text() == "1"
        there.kill()
    queue.call("jobs")
    os.kill(task, 0)
    assert queue.states(job) == {"running": 1} and begun.read_text() == "1"
    queue.kill([task])
    eventually(lambda: begun.read_text() == "12", lambda: f"whoever sees that it is gone begins it again: {queue.runner_log()}")


def need(*command):
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces of one's own can be made here")


def left_running(queue, *words):
    """A job's number, and the process that is left of it."""
    job = queue.submit("-g", "0", *words, "--", sys.executable, "-c", WITHOUT_THE_LOCK)
    eventually(lambda: (queue.folder / "begun").exists() and (queue.folder / "begun").read_text() == "1", "it runs")
    [task] = queue.commands()
    killed = [*queue.lanes(), queue.runner()]   # a lane would start another runner
    queue.kill(killed)
    eventually(lambda: all(map(gone, killed)), "they are gone")
    return job, task


@contextlib.contextmanager
def there(queue, script):
    """In namespaces of its own, which end with this; its words come through a pipe."""
    with subprocess.Popen([*ELSEWHERE, "--mount-proc", "sh", "-c", script], env=queue.environment, cwd=queue.folder,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as shell:
        try:
            yield shell
        finally:
            shell.kill()


def test_what_is_not_seen_is_not_cancelled_but_given_up_by_who_knows(queue):
    need(*ELSEWHERE, "--mount-proc")
    job, task = left_running(queue)
    with there(queue, f"{THOLE} cancel {job}; echo told; {THOLE} why job {job}; echo told; read line; "
                      f"{THOLE} cancel --force {job}; echo told; read line") as shell:
        def words():
            return "".join(iter(shell.stdout.readline, "told\n"))
        cancelled, why = words(), words()
        for told in cancelled, why:
            assert "does not see" in told and "another pid namespace" in told, told
            assert f"thole cancel --force {job}.0" in " ".join(told.split()), told
        os.kill(task, 0)
        assert queue.states(job) == {"running": 1}
        shell.stdin.write("\n")
        shell.stdin.flush()
        assert "not ended by this" in words()
        eventually(lambda: queue.states(job) == {"cancelled": 1}, queue.runner_log)
    os.kill(task, 0)
    queue.kill([task])


def test_what_is_seen_is_not_given_up(queue):
    job, task = left_running(queue)
    refused = queue.call("cancel", "--force", job, check=False)
    assert refused.returncode == 64 and f"thole cancel {job}.0 ends it" in refused.stderr
    os.kill(task, 0)
    assert queue.states(job) == {"running": 1}


@pytest.mark.parametrize("how", ["cancel", "--time"])
def test_a_runner_elsewhere_that_has_work_of_its_own_leaves_for_one_that_sees_more(queue, how):
    need(*ELSEWHERE, "--mount-proc")
    job, task = left_running(queue, "--patience", "100ms", *(["--time", "1s"] if how == "--time" else []))
    os.mkfifo(queue.folder / "gate")
    with there(queue, f"{THOLE} submit -q -g 0 -- sh -c 'echo > theirs; cat gate'; read line"):
        eventually((queue.folder / "theirs").exists, "it has work of its own")
        eventually(lambda: "not seen from here" in queue.runner_log(), "and does not see ours")
        if how == "cancel":
            queue.call("cancel", job)
        queue.call("wait", job, check=False)
        assert gone(task)
        assert queue.states(job) == ({"cancelled": 1} if how == "cancel" else {"lost": 1})
        assert queue.states(job + 1) == {"running": 1}, "its lane goes on"
        (queue.folder / "gate").write_text("")
        queue.until_ended(job + 1)
        assert queue.states(job + 1) == {"done": 1}


def of_queue(queue):
    """The runner and the lanes, by their numbers here."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        folder = pathlib.Path(f"/proc/{pid}")
        try:
            name = (folder / "comm").read_text(errors="replace").strip()
            if name in ("thole-runner", "thole-lane") and str(queue.directory) in " ".join(
                    os.readlink(path) for path in (folder / "fd").iterdir()):
                found[pid] = name
        except OSError:
            pass
    return found


def kill_all(queue):
    pids = list(of_queue(queue))
    queue.kill(pids, signal.SIGSTOP)               # a lane that sees its runner gone would start another one
    queue.kill(pids)
    eventually(lambda: all(map(gone, pids)), "they are gone")


def note(queue):
    """What the runner that sits has told, once that is whole."""
    path = queue.directory / "unseen"
    text = path.read_text() if path.exists() else ""
    return text if text.endswith("\n.\n") and len(text.splitlines()) > 2 else None


@contextlib.contextmanager
def at_work_there(queue):
    """A runner that does not see what is left here, and has work of its own; its number here."""
    os.mkfifo(queue.folder / "gate")
    with there(queue, f"{THOLE} submit -q -g 0 -- sh -c 'echo > theirs; cat gate'; read line"):
        eventually((queue.folder / "theirs").exists, "it has work of its own")
        eventually(lambda: note(queue), lambda: f"it tells that it does not see ours: {queue.runner_log()}")
        [runner] = [pid for pid, name in of_queue(queue).items() if name == "thole-runner"]
        yield runner


def test_who_looks_waits_for_no_stopped_runner_and_has_it_relieved_all_the_same(queue):
    need(*ELSEWHERE, "--mount-proc")
    _, task = left_running(queue, "--patience", "100ms", "--time", "1s")
    with at_work_there(queue) as runner:
        os.kill(runner, signal.SIGSTOP)
        queue.call("jobs")
        assert state_of(runner) == "T" and not gone(task)
        os.kill(runner, signal.SIGCONT)
        eventually(lambda: gone(task), lambda: f"whoever sees it ends it at its limit: {queue.runner_log()}")


def test_what_a_runner_does_not_see_is_told_again_when_somebody_has_removed_that(queue):
    need(*ELSEWHERE, "--mount-proc")
    job, task = left_running(queue, "--patience", "100ms")
    with at_work_there(queue):
        (queue.directory / "unseen").unlink()
        eventually(lambda: note(queue), "it is told again")
        queue.call("cancel", job)
        eventually(lambda: gone(task), lambda: f"whoever sees it ends it: {queue.runner_log()}")


def test_a_runner_does_not_leave_for_one_that_does_not_see_what_it_looks_after(queue):
    """Two containers, of which each has left something; the limit of one of these is to hold."""
    need(*ELSEWHERE, "--mount-proc")
    begun = pathlib.Path(queue.folder / "begun")
    script = (f"{THOLE} submit -q %s -g 0 -- {sys.executable} -c '{WITHOUT_THE_LOCK}'; read line; {THOLE} jobs; echo told; "
              "read line")
    with there(queue, script % "") as one:
        eventually(lambda: begun.exists() and len(begun.read_text()) == 1, "it runs")
        kill_all(queue)
        before = set(queue.commands())
        with there(queue, script % "--time 5s --patience 100ms") as other:
            eventually(lambda: len(begun.read_text()) == 2, "it runs, too")
            [limited] = set(queue.commands()) - before
            kill_all(queue)
            for shell in other, one:
                shell.stdin.write("\n")
                shell.stdin.flush()
                list(iter(shell.stdout.readline, "told\n"))
                eventually(lambda: note(queue), lambda: f"it does not see the other one's: {queue.runner_log()}")
            eventually(lambda: gone(limited), lambda: f"its limit holds: {queue.runner_log()}")
            assert "another runner is started" not in queue.runner_log()


@pytest.mark.parametrize("what", ["the program", "the program, by its name alone", "the directory of what is tried again"])
def test_a_runner_stays_where_what_it_is_to_start_would_find_other_files_here(queue, what):
    need(*ELSEWHERE, "--mount-proc")
    job, task = left_running(queue)
    own = queue.folder / "own"
    own.mkdir()
    os.mkfifo(queue.folder / "gate")
    tool = own / "tool"
    make = f"mount -t tmpfs none {own} && printf '#!/bin/sh\necho there >> {queue.folder}/did\n' > {tool} && chmod +x {tool}"
    if what.startswith("the program"):
        name = "tool" if "name" in what else str(tool)
        work = (f"{make}; {THOLE} submit -q -g 0 -- sh -c 'echo > theirs; cat gate'; "
                f"PATH=$PATH:{own} {THOLE} submit -q -g 0 --after {job + 1} -- {name}")
    else:
        script = f"echo > {queue.folder}/theirs; cat {queue.folder}/gate; test -e again || {{ : > again; exit 3; }}; ./tool"
        work = f"{make}; cd {own}; {THOLE} submit -q -g 0 --retry 1 --retry-pause 1s -- sh -c '{script}'"
    with there(queue, f"{work}; echo > {queue.folder}/all; read line"):
        eventually((queue.folder / "theirs").exists, "it has work of its own")
        eventually((queue.folder / "all").exists, "all of it: what is submitted once it has left begins here")
        eventually((queue.directory / "unseen").exists, "and does not see ours")
        (queue.folder / "theirs").unlink()
        queue.call("cancel", job)
        (queue.folder / "gate").write_text("")
        if "again" in what:
            eventually((queue.folder / "theirs").exists, "it is tried again")
            (queue.folder / "gate").write_text("")
        last = job + (1 if "again" in what else 2)
        queue.until_ended(last)
        assert queue.states(last) == {"done": 1}, queue.log(last)
        assert (queue.folder / "did").read_text() == "there\n"
        queue.call("wait", job, check=False)       # then nothing keeps it
        assert gone(task) and queue.states(job) == {"cancelled": 1}


USER = 41611
AS_USER = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]


@pytest.fixture
def queue_of_a_user():
    """In a folder that nobody else closes to him, as each pytest that starts does with those of all tests."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chown(folder, USER, USER)
        made = Queue(folder)
        yield made
        made.end_everything()


def test_a_runner_of_a_user_namespace_says_that_it_sees_nothing_and_leaves(queue_of_a_user):
    """Apptainer, bubblewrap, podman --pid=host: the processes of the user are there, and nothing is told of them."""
    queue = queue_of_a_user
    need(*AS_USER, "unshare", "-r")
    for path in THOLE, "/usr/bin/python3":
        if subprocess.run([*AS_USER, "test", "-x", path, "-a", "-w", queue.folder]).returncode != 0:
            pytest.skip(f"that user has no {path}, or no {queue.folder}")

    def call(*words, within=()):
        return subprocess.run([*AS_USER, *within, THOLE, *map(str, words)], env=queue.environment, cwd=queue.folder,
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    began = call("submit", "-q", "-g", "0", "--patience", "100ms", "--", "/usr/bin/python3", "-c",
                 "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True).wait()",
                 "/usr/bin/python3", "-c", WITHOUT_THE_LOCK)
    assert began.returncode == 0, began.stderr
    job = int(began.stdout.split()[-1])
    eventually(lambda: (queue.folder / "begun").exists() and len(queue.commands()) == 2, "it runs")
    living = queue.commands()
    [launcher] = [pid for pid in living if b"Popen" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    killed = [*queue.lanes(), queue.runner(), launcher]
    queue.kill(killed, signal.SIGSTOP)             # a lane that sees its runner gone would start another one
    queue.kill(killed)
    eventually(lambda: all(map(gone, killed)), "they are gone")
    [worker] = queue.commands()
    told = call("cancel", job, within=["unshare", "-r"])
    assert "user namespace" in told.stderr, told.stderr
    eventually(lambda: "user namespace" in queue.runner_log(), lambda: f"it says why: {queue.runner_log()}")
    eventually(lambda: queue.runner() is None, "it leaves")
    assert queue.states(job) == {"running": 1} and not gone(worker)
    call("wait", job)
    assert gone(worker) and queue.states(job) == {"cancelled": 1}


AHEAD = ["unshare", "-T", "--boottime", "100000", "--monotonic", "100000", "-f"]


def test_a_limit_is_not_over_for_a_runner_of_a_time_namespace(queue):
    if subprocess.run([*AHEAD, "true"], capture_output=True).returncode != 0:
        pytest.skip("no time namespaces can be made here")
    job = queue.submit("-g", "0", "--time", "10h", "--", sys.executable, "-c", WITHOUT_THE_LOCK)
    eventually(lambda: (queue.folder / "begun").exists(), "it runs")
    [task] = queue.commands()
    killed = [*queue.lanes(), queue.runner()]   # a lane would start another runner
    queue.kill(killed)
    eventually(lambda: all(map(gone, killed)), "they are gone")
    subprocess.run([*AHEAD, THOLE, "pause", str(job)], env=queue.environment, cwd=queue.folder, check=True, timeout=60)
    eventually(lambda: state_of(task) == "T", lambda: f"it stands: {queue.states(job)} {queue.runner_log()}")

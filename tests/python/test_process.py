# ctest: timeout 600
"""Process, ProcessGroup, Policy, System: as the documentation of Dragon describes them, on this host."""
import os
import select
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

import few_descriptors
import pool_work as work
import tholepin
from tholepin import Policy, Process, ProcessGroup, ProcessTemplate

LONG = 200  # seconds, that no test takes unless something is wrong
DEAF = ["-c", "trap '' INT TERM; echo deaf; while :; do sleep 1000; done"]


def fail():
    raise ValueError("in user code")


def leave(status):
    sys.exit(status)


def say(word, end="\n"):
    print(word, end=end, flush=True)


def run(**arguments):
    process = Process(**arguments)
    process.start()
    return process.join(LONG)


@pytest.mark.parametrize(
    "target, args, status",
    [
        ("true", [], 0),
        ("sh", ["-c", "exit 7"], 7),
        ("sh", ["-c", "kill -TERM $$"], -signal.SIGTERM),
        (leave, [0], 0),
        (leave, [None], 0),
        (leave, [9], 9),
        (leave, ["a word"], 1),
        (fail, [], 1),
        (work.kill_self, [0], -signal.SIGKILL),
    ],
)
def test_exit_statuses(target, args, status):
    assert run(target=target, args=args, stderr=Process.DEVNULL) == status


def test_an_exception_is_told_on_stderr(tmp_path):
    run(target=fail, stderr=str(tmp_path / "log"))
    told = (tmp_path / "log").read_text()
    assert "*** Exception Occurred in User-Provided Code ***" in told and "ValueError: in user code" in told


def test_streams_go_where_they_are_sent(tmp_path):
    log = str(tmp_path / "log")
    run(target=say, args=["one"], stdout=log)
    run(target="sh", args=["-c", "echo two; echo three >&2"], stdout=log, stderr=Process.STDOUT)
    with open(log, "ab") as file:
        run(target="echo", args=["four"], stdout=file)
    assert (tmp_path / "log").read_text() == "one\ntwo\nthree\nfour\n"
    assert run(target="grep", args=["-q", "three"], stdin=log) == 0
    assert run(target="grep", args=["-q", "x"]) == 1  # nothing to read
    with pytest.raises(ValueError):
        Process("true", stdout="")


def test_pipes_are_files_here():
    process = Process("cat", stdin=Process.PIPE, stdout=Process.PIPE)
    process.start()
    process.stdin_conn.write(b"through")
    process.stdin_conn.close()
    assert process.stdout_conn.read() == b"through"
    assert process.join(LONG) == 0


def test_directory_environment_and_name_by_value(tmp_path, monkeypatch):
    monkeypatch.setenv("GONE", "here")
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "$PWD $ADDED ${GONE-none}"\n')
    program.chmod(0o755)
    for target in ("program", program, str(program)):
        process = Process(target, cwd=str(tmp_path), env={"ADDED": "yes", "GONE": None}, stdout=Process.PIPE)
        process.start()
        assert process.stdout_conn.read().decode().split() == [str(tmp_path), "yes", "none"]
        process.join(LONG)


@pytest.mark.parametrize("target, code", [("no-such-program-at-all", 127), ("./text", 126)])
def test_what_cannot_be_run_is_said_at_the_start(target, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no program")
    with pytest.raises(tholepin.Error) as raised:
        Process(target).start()
    assert raised.value.code == code


def test_a_process_is_started_once_and_ended_at_will():
    process = Process("sleep", ["1000"])
    with pytest.raises(RuntimeError):
        process.join()
    process.start()
    with pytest.raises(RuntimeError):
        process.start()
    assert process.is_alive and process.join(0) is None and process.returncode is None
    process.terminate()
    assert process.join(LONG) == -signal.SIGTERM == process.returncode
    process.kill()  # nothing happens


def test_what_a_process_leaves_in_its_group_is_killed_with_its_end():
    process = Process("sh", ["-c", "sleep 1000 & echo $!"], stdout=Process.PIPE)
    process.start()
    left = os.pidfd_open(int(process.stdout_conn.readline()))
    process.join(LONG)
    import select

    assert select.select([left], [], [], LONG)[0]
    os.close(left)


def test_its_gpus_are_claimed_until_it_has_ended():
    process = Process("sleep", ["1000"], policy=Policy(gpu_affinity=[0, 1, 2, 3, 4, 5, 6, 7], cpu_affinity=[0]))
    process.start()
    with pytest.raises(tholepin.NoneFree):
        tholepin.claim(1, wait=0)
    assert os.sched_getaffinity(process.puid) == {0}
    process.kill()
    process.join(LONG)
    tholepin.claim(8, wait=0).release()


# ---- Groups ----


def group_of(*templates, **options):
    group = ProcessGroup(**options)
    for template in templates:
        group.add_process(1, template)
    group.init()
    return group


def nap():
    return ProcessTemplate("sleep", ["1000"])


def statuses(group):
    return sorted(status for _, status in group.exit_status)


def test_a_group_is_idle_then_running_then_idle():
    with group_of(nap(), nap()) as group:
        assert group.state == "IDLE" and group.puids == []
        group.start()
        assert group.state == "RUNNING" and len(group.puids) == 2
        with pytest.raises(TimeoutError):
            group.join(0)
        pids = sorted(group.puids)
        group.terminate()
        group.join(LONG)
        assert group.state == "IDLE" and sorted(pid for pid, _ in group.inactive_puids) == pids
        group.start()  # again
        group.kill()
        group.join(LONG)
        assert statuses(group) == [-15, -15, -9, -9]


def test_a_group_that_is_over_before_start_returns_is_over(monkeypatch):
    class AtOnce(threading.Thread):
        def start(self):
            super().start()
            self.join()

    monkeypatch.setattr(threading, "Thread", AtOnce)
    with ProcessGroup() as group:
        group.add_process(1, ProcessTemplate("true"))
        group.init()
        group.start()
        group.join(timeout=10)
        assert group.state == "IDLE"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda group: group.kill(),
        lambda group: group.terminate(),
        lambda group: group.send_signal(1),
        lambda group: group.init(),
        lambda group: group.add_process(1, nap()),
        lambda group: (group.start(), group.start()),
        lambda group: (group.close(), group.start()),
        lambda group: (group.close(), group.stop()),
        lambda group: ProcessGroup().start(),
    ],
)
def test_what_makes_no_sense_in_a_state_is_an_error(wrong):
    with group_of(nap()) as group, pytest.raises(tholepin.Error) as raised:
        wrong(group)
    assert raised.value.code == 64


def test_functions_and_programs_together():
    with group_of(ProcessTemplate(leave, [3]), ProcessTemplate("sh", ["-c", "exit 4"]), ignore_error_on_exit=True) as group:
        group.start()
        group.join(LONG)
        assert statuses(group) == [3, 4] and not group.in_error_state


def test_the_first_failure_is_raised_while_others_run():
    with group_of(ProcessTemplate("false"), nap()) as group:
        group.start()
        with pytest.raises(tholepin.WorkerDied) as raised:
            group.join(LONG)
        assert raised.value.exit_status == 1 and group.state == "ERROR" and len(group.puids) == 1


def test_an_end_that_nobody_knows_is_no_failure_and_is_told_of(caplog):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with group_of(ProcessTemplate("true"), ProcessTemplate("false")) as group:
            group.start()
            group.join(LONG)
            assert {status for _, status in group.exit_status} == {None} and group.state == "IDLE"
        process = Process("true")
        process.start()
        assert process.join(LONG) is None and not process.is_alive
    finally:
        signal.signal(signal.SIGCHLD, before)
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "ignores SIGCHLD" in record.getMessage()


def test_stop_interrupts_then_terminates_then_kills():
    started = time.monotonic()
    half_deaf = ["-c", "trap '' INT; echo deaf; sleep 1000"]
    with group_of(nap(), ProcessTemplate("sh", half_deaf, stdout=-1), ProcessTemplate("sh", DEAF, stdout=-1)) as group:
        group.start()
        deaf = [pipes[1] for pipes in group.pipes().values() if pipes]
        assert [pipe.readline() for pipe in deaf] == [b"deaf\n"] * 2
        group.stop(patience=1)
        assert statuses(group) == [-15, -9, -2]
        for pipe in deaf:
            pipe.close()
    assert time.monotonic() - started < LONG


def test_stop_reaches_a_stopped_child_that_listens():
    listens = ["-c", "trap 'exit 7' INT; echo up; kill -STOP $$; while :; do :; done"]
    with group_of(ProcessTemplate("sh", listens, stdout=-1)) as group:
        group.start()
        [pipe] = [pipes[1] for pipes in group.pipes().values()]
        assert pipe.readline() == b"up\n"
        group.stop(patience=LONG)
        assert statuses(group) == [7]
        pipe.close()


def test_a_forked_child_leaves_the_block_of_a_group_that_it_does_not_run():
    with ProcessGroup(policy=Policy(gpu_affinity=[0])) as group:
        group.add_process(1, ProcessTemplate("sleep", ["1000"]))
        group.init()
        group.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of fork and threads
            pid = os.fork()
        if pid == 0:
            try:
                group.join()
                group.stop()
                with group:
                    pass
            finally:
                os._exit(0)
        fd = os.pidfd_open(pid)
        ended = select.select([fd], [], [], LONG / 10)[0]
        os.close(fd)
        os.kill(pid, signal.SIGKILL)
        assert ended and os.waitpid(pid, 0) == (pid, 0)
        assert group.state == "RUNNING" and len(group.puids) == 1 and tholepin.status()["claims"]


def test_a_group_ends_at_its_walltime():
    with group_of(nap(), nap(), walltime=0.4) as group:
        begun = time.monotonic()
        group.start()
        group.join(LONG)
        assert time.monotonic() - begun >= 0.4 and statuses(group) == [-2, -2]


def test_a_group_restarts_what_ends_until_told_not_to():
    with group_of(ProcessTemplate("sh", ["-c", "exit 5"]), restart=True) as group:
        group.start()
        assert group._sleepers.until(lambda: len(group._exits) >= 4, LONG)
        group.stop_restart()
        try:
            group.join(LONG)  # the one that runs now ends as one that is not restarted: with an error
        except tholepin.WorkerDied as error:
            assert error.exit_status == 5
        assert set(statuses(group)) <= {5, 0} and group.puids == []


def test_one_that_cannot_start_leaves_none_running():
    with group_of(nap(), ProcessTemplate("no-such-program-at-all")) as group:
        with pytest.raises(tholepin.Error):
            group.start()
        assert group.state == "IDLE" and group.puids == []


def test_each_process_has_its_policy_and_the_groups_where_it_says_nothing():
    def telling(policy=None):
        return ProcessTemplate(
            "sh", ["-c", "echo $CUDA_VISIBLE_DEVICES; taskset -cp $$"], stdout=ProcessTemplate.PIPE, policy=policy
        )

    with group_of(telling(), telling(Policy(gpu_affinity=[6])), policy=Policy(gpu_affinity=[2], cpu_affinity=[0])) as group:
        group.start()
        group.join(LONG)
        told = sorted(pipes[1].read().split()[0::6] for pipes in group.pipes().values())  # also what has ended can be read
        assert told == [[b"2", b"0"], [b"6", b"0"]]
        with pytest.raises(tholepin.NoneFree):
            tholepin.claim(7, wait=0)
    tholepin.claim(8, wait=0).release()


# ---- Policies and the system ----


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu_affinity": "0"},
        {"gpu_affinity": 0},
        {"cpu_affinity": [-1]},
        {"cpu_affinity": ["0"]},
        {"placement": Policy.Placement.HOST_NAME, "host_name": "elsewhere"},
        {"placement": Policy.Placement.HOST_ID, "host_id": 3},
    ],
)
def test_a_policy_that_cannot_be_is_an_error(wrong):
    with pytest.raises(tholepin.Error) as raised:
        Policy(**wrong)
    assert raised.value.code == 64


@pytest.mark.parametrize("gpu", ["99", "nonsense", "GPU-"])
def test_a_gpu_that_is_not_there_is_an_error_and_never_all_gpus(gpu):
    with pytest.raises(tholepin.NeverPossible):
        tholepin.Pool(policy=[Policy(gpu_affinity=[gpu])])


def test_the_higher_policy_wins_where_it_says_something():
    low, high = Policy(gpu_affinity=[1], cpu_affinity=[0]), Policy(gpu_affinity=[2])
    merged = Policy.merge(low, high)
    assert (merged.gpu_affinity, merged.cpu_affinity) == ((2,), (0,))


def test_gpu_policies_name_the_gpus_that_are_ours(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    system = tholepin.System()
    assert [policy.gpu_affinity for policy in system.gpu_policies()] == [(2,), (3,)]
    with tholepin.Pool(policy=system.gpu_policies()) as pool:
        assert {one[0] for one in pool.map(work.where, range(50), 1)} <= {"2", "3"}


def test_the_system_is_this_host():
    node = tholepin.Node(os.uname().nodename)
    assert (node.num_gpus, node.gpus[7], node.is_primary, node.cpus) == (8, 7, True, sorted(os.sched_getaffinity(0)))
    assert tholepin.System().nodes == [0] and tholepin.System().hostname_policies()[0].host_name == node.hostname
    with pytest.raises(tholepin.Error):
        tholepin.Node("elsewhere")


def test_whatever_there_is_too_few_of_nothing_but_worker_not_started_is_raised(tmp_path):
    """However few descriptors are left: a program, a function, a group of them; all GPUs are given back."""
    script = tmp_path / "few.py"
    script.write_text("""
import few_descriptors, os
from tholepin import Process, ProcessGroup, ProcessTemplate, WorkerNotStarted
def program():
    process = Process("true", stdout=Process.PIPE)
    process.start()
    process.join()
def function():
    process = Process(os.getpid)
    process.start()
    process.join()
def group():
    with ProcessGroup() as made:
        made.add_process(2, ProcessTemplate("true", stdout=Process.PIPE))
        made.init()
        made.start()
        made.join(100)
if __name__ == "__main__":
    for tried in (program, function, group):
        errors = few_descriptors.errors(tried)
        for error in errors:
            assert error.code == 69 and error.hint == "raise the descriptor limit: ulimit -n", repr(error)
        print(tried.__name__, any(isinstance(error, WorkerNotStarted) for error in errors))
""")
    assert few_descriptors.run(script) == ["program True", "function True", "group True"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user without processes of his own")
def test_a_want_of_processes_is_said_in_the_programs_words():
    """Of a fork, and of a thread of ours after the process was started: nothing is left of it."""
    script = """
import ctypes, os, resource, sys, tholepin
first = tholepin.Process("true", policy=tholepin.Policy())   # so that what is imported is there
first.start()
first.join()
tholepin.ProcessGroup()   # the same
while len(os.listdir("/proc/self/task")) > 1:   # a thread that is about to end counts
    os.sched_yield()
os.setgroups([]); os.setgid(54883); os.setuid(54883)
ctypes.CDLL(None).prctl(4, 1)   # PR_SET_DUMPABLE: its own /proc/self/fd
tholepin._start._after_fork()    # a pipe of its own, not the one of root
def tried(start):
    try:
        start()
    except tholepin.WorkerNotStarted as error:
        print(error.code, str(error).replace(chr(10), "|"))
def group():
    with tholepin.ProcessGroup() as made:
        made.add_process(1, tholepin.ProcessTemplate("true"))
        made.init()
        made.start()
for most in (1, 2):
    resource.setrlimit(resource.RLIMIT_NPROC, (most, 2))
    tried(lambda: tholepin.Process("true", policy=tholepin.Policy()).start())
    tried(group)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG, cwd="/",
                          env={**os.environ, "HOME": "/nonexistent"})
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    why = "Resource temporarily unavailable|  raise the limit of processes (ulimit -u) or of memory (ulimit -v)"
    assert done.stdout.splitlines() == [f"69 cannot start a process: true: {why}", f"69 cannot start a process: true: {why}",
                                        f"69 cannot start the process's thread: {why}",
                                        f"69 cannot start the group's thread: {why}", "no child"]


@pytest.mark.parametrize("python", [None, "", "/gone/python"])
def test_without_an_interpreter_a_function_cannot_be_started(monkeypatch, python):
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(tholepin.WorkerNotStarted) as caught:
        Process(leave, [0]).start()
    assert str(caught.value).splitlines() == [
        f"cannot start a process: {python or 'sys.executable'}: No such file or directory",
        "  sys.executable must be the path of a Python"]


def test_a_file_of_a_template_that_cannot_be_opened_is_named():
    with pytest.raises(FileNotFoundError) as caught:
        Process("true", stdin="/gone/file").start()
    assert caught.value.filename == "/gone/file" and not isinstance(caught.value, tholepin.Error)

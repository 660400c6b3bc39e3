"""Exit statuses and signals pass through `run`: each sent one arrives once, whoever it was sent to."""
import os
import signal
import subprocess
import sys

import pytest

from run_programs import program, run  # noqa: F401 (fixtures)
from run_tools import DEADLINE, PROBE, Started, eventually, gone, group_members, is_pending, python, state_of, witness_of

# Says which signals it gets, each a line; ends at the end of its input. The wake-up descriptor gets a byte for every
# delivery at once; Python's own handlers run some time later.
COUNTER = """
import os, select, signal
wakeups, write_end = os.pipe()
os.set_blocking(write_end, False)
signal.set_wakeup_fd(write_end)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGWINCH):
    signal.signal(number, lambda *_: None)
os.write(1, b"ready\\n")
while True:
    for fd in select.select([0, wakeups], [], [])[0]:
        data = os.read(fd, 100)
        if fd == wakeups:
            for number in data: os.write(1, b"got %d\\n" % number)
        elif not data:
            os.write(1, b"end\\n")
            raise SystemExit(0)
        else:
            if data.startswith(b"group"): os.kill(0, signal.SIGUSR1)
            os.write(1, b"alive\\n")
"""


@pytest.mark.parametrize("code", [0, 1, 7, 75, 124, 255])
def test_the_status_is_the_command_s(run, code):
    assert subprocess.run(run + ["sh", "-c", f"exit {code}"]).returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT, signal.SIGRTMIN])
def test_a_command_killed_by_a_signal_ends_run_by_the_same(run, number, tmp_path):
    result = subprocess.run(run + python(f"import os; os.kill(os.getpid(), {int(number)})"), cwd=tmp_path)
    assert result.returncode == -number
    assert not list(tmp_path.glob("core*"))


@pytest.mark.parametrize("words, status, message", [
    (["no-such-command-anywhere"], 127, "no such command"),
    (["/no/such/file"], 127, "no such command"),
    (["pyhton3"], 127, "did you mean"),
    (["/etc/passwd"], 126, "cannot run"),
    (["/"], 126, "cannot run"),
])
def test_a_command_that_cannot_run_is_named(run, words, status, message):
    result = subprocess.run(run + words, stderr=subprocess.PIPE, text=True)
    assert result.returncode == status
    assert message in result.stderr and words[0] in result.stderr


def test_a_script_without_an_interpreter_line_runs_in_sh(run, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo $0 $1\n")
    script.chmod(0o755)
    result = subprocess.run(run + ["script", "word"], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                            stdout=subprocess.PIPE, text=True)
    assert result.stdout == f"{script} word\n"


def test_a_script_whose_interpreter_is_missing_is_told_apart(run, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    result = subprocess.run(run + [str(script)], stderr=subprocess.PIPE, text=True)
    assert result.returncode == 127 and "interpreter" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT])
@pytest.mark.parametrize("to", ["run alone", "the group", "each in turn"])
def test_every_signal_arrives_once(run, number, to):
    with Started(run + python(COUNTER), start_new_session=True) as job:
        assert job.line() == "ready"
        if to == "run alone":
            job.kill(number)
        elif to == "the group":
            os.killpg(job.pid, number)
        else:  # as systemd and Slurm end a job: one process after the other
            for pid in group_members(job.pid):
                os.kill(pid, number)
        assert job.line() == f"got {number}"
        # A second delivery would come before these: run has read its signals by the time it passes the next one on.
        job.kill(signal.SIGWINCH)
        assert job.line() == f"got {signal.SIGWINCH}"
        job.write("line\n")
        assert job.line() == "alive"
        job.process.stdin.close()
        assert job.line() == "end"
        assert job.wait() == 0


def test_what_the_command_sends_to_its_group_is_not_sent_again(run):
    with Started(run + python(COUNTER), start_new_session=True) as job:
        assert job.line() == "ready"
        job.write("group\n")
        assert sorted([job.line(), job.line()]) == ["alive", f"got {signal.SIGUSR1}"]
        job.kill(signal.SIGWINCH)
        assert job.line() == f"got {signal.SIGWINCH}"


def test_two_signals_to_the_group_at_once_come_once_each(run):
    with Started(run + python(COUNTER), start_new_session=True) as job:
        assert job.line() == "ready"
        for one, other in 3 * [(signal.SIGTERM, signal.SIGHUP), (signal.SIGHUP, signal.SIGUSR1)]:
            os.killpg(job.pid, one)
            os.killpg(job.pid, other)
            assert sorted([job.line(), job.line()]) == sorted([f"got {one}", f"got {other}"])
            job.kill(signal.SIGWINCH)
            assert job.line() == f"got {signal.SIGWINCH}"


# As COUNTER does, between two waits for a signal.
WAITER = """
import os, signal
wanted = {signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGWINCH}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
os.write(1, b"ready\\n")
while True: os.write(1, b"got %d\\n" % signal.sigwait(wanted))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_group_comes_once_to_who_waits_for_signals(run, number):
    with Started(run + python(WAITER), start_new_session=True) as job:
        assert job.line() == "ready"
        for _ in range(5):
            os.killpg(job.pid, number)
            assert job.line() == f"got {number}"
            eventually(lambda: not is_pending(job.pid, number), "run takes the signal to the group")
            job.kill(signal.SIGWINCH)
            assert job.line() == f"got {signal.SIGWINCH}"
        job.kill(signal.SIGKILL)


def test_a_signal_to_run_alone_after_one_to_the_group_is_passed_on(run):
    with Started(run + python(COUNTER), start_new_session=True) as job:
        assert job.line() == "ready"
        for _ in range(3):
            os.killpg(job.pid, signal.SIGTERM)
            assert job.line() == f"got {signal.SIGTERM}"
            job.kill(signal.SIGHUP)
            assert job.line() == f"got {signal.SIGHUP}"
            # While run has not taken the first, the kernel would merge the two into one signal.
            eventually(lambda: not is_pending(job.pid, signal.SIGTERM), "run takes the signal to the group")
            job.kill(signal.SIGTERM)
            assert job.line() == f"got {signal.SIGTERM}"


@pytest.mark.parametrize("ignored", [signal.SIGINT, signal.SIGHUP, signal.SIGPIPE])
def test_signals_ignored_at_the_start_stay_ignored(run, ignored):
    def ignore():
        signal.signal(ignored, signal.SIG_IGN)
        os.setpgid(0, 0)

    with Started(
        run + ["sh", "-c", "grep SigIgn /proc/$$/status; read line; exit 5"], preexec_fn=ignore, restore_signals=False
    ) as job:
        mask = int(job.line().split()[1], 16)
        assert mask >> (ignored - 1) & 1
        os.killpg(job.pid, ignored)
        job.kill(ignored)
        job.write("go on\n")
        assert job.wait() == 5


def test_the_command_finds_the_mask_and_handlers_that_run_found(run):
    plain = subprocess.run(["grep", "^Sig[BI]", "/proc/self/status"], stdout=subprocess.PIPE).stdout
    assert subprocess.run(run + ["grep", "^Sig[BI]", "/proc/self/status"], stdout=subprocess.PIPE).stdout == plain

    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    blocked = subprocess.run(run + ["grep", "^SigB", "/proc/self/status"], stdout=subprocess.PIPE, preexec_fn=block).stdout
    assert int(blocked.split()[1], 16) == 1 << (signal.SIGUSR2 - 1)


def test_children_ignored_by_the_caller_are_still_waited_for(run):
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    result = subprocess.run(
        run + ["sh", "-c", "grep SigIgn /proc/self/status; exit 5"], stdout=subprocess.PIPE, preexec_fn=ignore
    )
    assert result.returncode == 5
    result = subprocess.run(run + ["grep", "SigIgn", "/proc/self/status"], stdout=subprocess.PIPE, preexec_fn=ignore)
    assert int(result.stdout.split()[1], 16) >> (signal.SIGCHLD - 1) & 1


def test_under_nohup_a_hangup_ends_neither(run):
    with Started(["nohup", *run, "sh", "-c", "echo ready; read line; exit 6"], start_new_session=True) as job:
        assert job.line() == "ready"
        os.killpg(job.pid, signal.SIGHUP)
        job.kill(signal.SIGHUP)
        job.write("go on\n")
        assert job.wait() == 6


def test_timeout_around_run_ends_the_command_once(run):
    with Started(["timeout", str(DEADLINE / 12), *run, *python(COUNTER)]) as job:
        assert job.line() == "ready"
        assert job.line() == f"got {signal.SIGTERM}"
        job.process.stdin.close()
        assert job.line() == "end"
        assert job.wait() == 124


def test_timeout_inside_run_works(run):
    assert subprocess.run(run + ["timeout", "0.1", "sleep", "60"]).returncode == 124


def test_a_broken_pipe_ends_the_command_as_without_run(run):
    script = '"$@" yes | head -n 1; echo ${PIPESTATUS[0]}'
    result = subprocess.run(["bash", "-c", script, "bash", *run], stdout=subprocess.PIPE, text=True)
    assert result.stdout == "y\n141\n"


def test_a_script_stops_when_its_command_dies_of_an_interrupt(run):
    # bash goes on after a command that handled SIGINT and ends with one that died of it.
    dies = python("import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); print('ready'); signal.pause()")
    with Started(["bash", "-c", '"$@"; echo not reached', "bash", *run, *dies], start_new_session=True) as job:
        assert job.line() == "ready"
        os.killpg(job.pid, signal.SIGINT)
        assert job.wait() == -signal.SIGINT
        assert job.process.stdout.read() == b""


def test_a_command_stopped_without_a_terminal_leaves_run_awake(run):
    with Started(run + ["sh", "-c", "echo $$; read line; exit 4"], start_new_session=True) as job:
        command = int(job.line())
        os.kill(command, signal.SIGSTOP)
        eventually(lambda: state_of(command) == "T", "the command is stopped")
        job.kill(signal.SIGCONT)
        eventually(lambda: state_of(command) != "T", "a SIGCONT to run alone continues the command")
        assert state_of(job.pid) in "SR"
        job.write("go on\n")
        assert job.wait() == 4


def test_the_witness_holds_nothing_and_ends_with_run():
    with Started([PROBE, "sh", "-c", "echo ready; read line"]) as job:
        assert job.line() == "ready"
        witness = witness_of(job.pid)
        eventually(lambda: os.listdir(f"/proc/{witness}/fd") == [], "it has closed its descriptors")
        job.kill(signal.SIGKILL)
        eventually(lambda: gone(witness), "it ends with run")


def test_without_its_witness_run_goes_on():
    with Started([PROBE, *python(COUNTER)], start_new_session=True) as job:
        assert job.line() == "ready"
        witness = witness_of(job.pid)
        os.kill(witness, signal.SIGKILL)
        eventually(lambda: state_of(witness) is None, "the witness is reaped")
        job.kill(signal.SIGTERM)
        assert job.line() == f"got {signal.SIGTERM}"


def test_who_signals_processes_by_their_names_ends_the_command(program):
    """pkill -f 'thole run' finds run and its witness, which has run's words, and not the command."""
    with Started(program.words + ["sh", "-c", "echo $$; exec sleep 1000"], start_new_session=True) as job:
        job.line()
        os.kill(witness_of(job.pid), signal.SIGTERM)
        os.kill(job.pid, signal.SIGTERM)
        assert job.wait() == -signal.SIGTERM


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))

"""The claim and the life of the command: what ends, what is ended, and when the claim is free."""
import json
import os
import signal
import subprocess
import sys

import pytest

from run_programs import program, run  # noqa: F401 (fixtures)
from run_tools import PROBE, THOLE, Started, eventually, gone, only_child, python, state_of

# Leaves the session, forks twice and lives on, as daemons do; `prepare` runs in the daemon.
DAEMON = """
import os, signal, sys, time
read_end, write_end = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    {prepare}
    os.write(write_end, b"%d" % os.getpid())
    os.closerange(0, 100)
    while True: time.sleep(1000)
os.wait()
print(os.read(read_end, 20).decode(), flush=True)
"""


def daemon(prepare="pass", then="pass"):
    return python(DAEMON.format(prepare=prepare) + then)


def test_the_claim_lasts_as_long_as_the_command(program):
    assert not program.held()
    with Started(program.words + ["sh", "-c", "echo ready; read line"]) as job:
        assert job.line() == "ready"
        assert program.held()
        job.write("end\n")
        assert job.wait() == 0
        assert not program.held()


@pytest.mark.parametrize("ending", ["exit 3", "kill -KILL $$", "kill -SEGV $$"])
def test_the_claim_is_free_when_run_has_ended(program, ending):
    subprocess.run(program.words + ["sh", "-c", ending])
    assert not program.held()


def test_the_command_keeps_the_claim_when_run_is_killed(program):
    with Started(program.words + ["sh", "-c", "echo $$; read line; echo still here; read line"]) as job:
        command = int(job.line())
        job.kill(signal.SIGKILL)
        job.wait()
        assert program.held()
        job.write("line\n")
        assert job.line() == "still here"
        assert program.held()
        job.write("line\n")
        eventually(lambda: gone(command), "the command ends")
        eventually(lambda: not program.held(), "the claim is free")


def test_an_orphan_of_the_command_keeps_the_claim_when_run_is_killed(program):
    with Started(program.words + ["sh", "-c", "sleep 1000 & echo $!; read line"]) as job:
        orphan = int(job.line())
        command = only_child(job.pid)
        job.kill(signal.SIGKILL)
        job.wait()
        os.kill(command, signal.SIGKILL)
        eventually(lambda: gone(command), "the command ends")
        assert program.held()
        os.kill(orphan, signal.SIGKILL)
        eventually(lambda: not program.held(), "the claim is free")


def test_a_stopped_command_keeps_the_claim(program):
    with Started(program.words + ["sh", "-c", "echo $$; read line"], start_new_session=True) as job:
        command = int(job.line())
        for pid in (command, job.pid):
            os.kill(pid, signal.SIGSTOP)
            eventually(lambda pid=pid: state_of(pid) == "T", "it is stopped")
        assert program.held()
        for pid in (job.pid, command):
            os.kill(pid, signal.SIGCONT)
        job.write("line\n")
        assert job.wait() == 0
        assert not program.held()


@pytest.mark.parametrize("script", [
    "exec 3>/dev/null; echo word >&3; exec 3>&-; exec 4<&-; exec 9>&-; echo ready; read line",
    "python3 -c 'import subprocess; subprocess.run([\"sh\", \"-c\", \"echo ready; read line\"], close_fds=True)'",
    "python3 -c 'import os; os.closerange(3, 1000); print(\"ready\", flush=True); input()'",
])
def test_commands_that_use_or_close_descriptors_do_not_lose_the_claim(program, script):
    with Started(program.words + ["sh", "-c", script]) as job:
        assert job.line() == "ready"
        assert program.held()
        job.write("line\n")
        assert job.wait() == 0


def test_the_command_gets_copies_at_10_and_above_and_nothing_else(program):
    listing = subprocess.run(program.words + python("import os; print(*sorted(map(int, os.listdir('/proc/self/fd'))))"),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
    numbers = [int(word) for word in listing.split()]
    assert numbers[:3] == [0, 1, 2]
    extra = [number for number in numbers if number > 3]  # 3 is the listing's own
    assert extra and min(extra) >= 10


def test_a_daemon_left_behind_is_named_and_ended(program):
    with Started(program.words + daemon(then="raise SystemExit(7)")) as job:
        pid = int(job.line())
        assert job.wait() == 7
        assert gone(pid)
        assert str(pid).encode() in job.process.stderr.read()
        assert not program.held()


def test_a_daemon_that_ignores_sigterm_is_killed_after_the_patience(tmp_path):
    with Started([PROBE, "--patience", "50", *daemon("signal.signal(signal.SIGTERM, signal.SIG_IGN)")]) as job:
        pid = int(job.line())
        assert job.wait() == 0
        assert gone(pid)


def test_a_second_interrupt_ends_the_patience():
    with Started([PROBE, "--patience", "100000", *daemon("signal.signal(signal.SIGTERM, signal.SIG_IGN)")]) as job:
        pid = int(job.line())
        assert str(pid) in job.error_line()
        job.kill(signal.SIGINT)
        assert job.wait() == 0
        assert gone(pid)


def test_a_stopped_process_left_behind_is_ended():
    with Started(
        [PROBE, "--patience", "100000", *daemon("os.kill(os.getpid(), signal.SIGSTOP) if os.fork() == 0 else None")]
    ) as job:
        pid = int(job.line())
        assert job.wait() == 0
        assert gone(pid)


FORKER = """
import os, signal
def more(*_):
    for _ in range(3): os.fork()
signal.signal(signal.SIGTERM, more)
if os.fork() == 0:
    os.write(1, b"ready\\n")
    while True: signal.pause()
signal.pause()
"""


def test_what_forks_on_being_told_is_all_killed():
    with Started([PROBE, "--patience", "100", *python(FORKER)]) as job:
        assert job.line() == "ready"
        os.kill(only_child(job.pid), signal.SIGKILL)
        assert job.wait() == -signal.SIGKILL
        assert job.process.stdout.read() == b""  # nobody has the other end any more


def test_helpers_that_end_with_the_command_are_not_named(tmp_path):
    # The background process reads a pipe of the command to its end, as Python's resource tracker does.
    script = "mkfifo $0; (cat <$0 >/dev/null) & exec 3>$0; exit 2"
    with Started([PROBE, "sh", "-c", script, str(tmp_path / "fifo")]) as job:
        assert job.wait() == 2
        assert job.process.stderr.read() == b""


LINGERER = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
pid = os.fork()
if pid == 0:
    signal.sigwait([signal.SIGUSR1])
    os.write(1, b"last\\n")
    os._exit(0)
print(pid, flush=True)
os._exit(3)
"""


def with_options(program, *options):
    """The words with further options of run."""
    return [PROBE, *options, *program.words[1:]] if program.words[0] == PROBE else [*program.words, *options]


def test_linger_waits_for_what_is_left(program):
    with Started(with_options(program, "--linger") + python(LINGERER)) as job:
        rest = int(job.line())
        job.error_until(f"{rest} ")
        assert program.held()
        os.kill(rest, signal.SIGUSR1)
        assert job.line() == "last"
        assert job.wait() == 3
        assert not program.held()


def test_an_interrupt_ends_the_lingering(program):
    with Started(with_options(program, "--linger") + python(LINGERER)) as job:
        rest = int(job.line())
        job.error_until(f"{rest} ")
        job.kill(signal.SIGINT)
        assert job.wait() == 3
        assert gone(rest)


def test_release_ends_the_lingering(tmp_path):
    thole = [THOLE, "--machine", "8xA100", "--state-dir", str(tmp_path / "state")]
    with Started([*thole, "run", "-q", "--linger", *python(LINGERER)]) as job:
        rest = int(job.line())
        job.error_until(f"{rest} ")
        [claim] = json.loads(subprocess.check_output([*thole, "status", "--json"]))["claims"]
        subprocess.run([*thole, "release", claim["id"]], check=True)
        assert job.wait() == 3
        assert gone(rest)


def test_a_command_that_ended_by_itself_was_not_ended_by_a_release_asked_later(tmp_path):
    thole = [THOLE, "--machine", "8xA100", "--state-dir", str(tmp_path / "state")]
    with Started([*thole, "run", "-q", "sh", "-c", "echo $$; read line; exit 5"]) as job:
        command = int(job.line())
        [claim] = json.loads(subprocess.check_output([*thole, "status", "--json"]))["claims"]
        job.kill(signal.SIGSTOP)
        job.write("end\n")
        eventually(lambda: state_of(command) == "Z", "the command ends")
        asked = subprocess.run([*thole, "release", claim["id"]], capture_output=True)
        assert asked.returncode == 69, asked.stderr
        job.kill(signal.SIGCONT)
        assert job.wait() == 5
        assert b"released" not in job.process.stderr.read()


def test_extend_is_refused_when_the_command_is_being_ended(tmp_path):
    thole = [THOLE, "--machine", "8xA100", "--state-dir", str(tmp_path / "state")]
    stubborn = ("import signal, time\nsignal.signal(signal.SIGINT, lambda *_: print('int', flush=True))\n"
                "while True: time.sleep(60)")
    with Started([*thole, "run", "-q", "--time", "1s", *python(stubborn)]) as job:
        assert job.line() == "int"
        [claim] = json.loads(subprocess.check_output([*thole, "status", "--json"]))["claims"]
        asked = subprocess.run([*thole, "extend", claim["id"], "5m"], capture_output=True)
        assert asked.returncode == 69 and b"is being ended already" in asked.stderr, asked
        job.kill(signal.SIGKILL)


def test_an_end_that_was_asked_of_one_that_stood_still_is_not_found_later(tmp_path):
    """Who asked was told that nobody answers; by now that end may be long past, and the command would be ended at once."""
    thole = [THOLE, "--machine", "8xA100", "--state-dir", str(tmp_path / "state")]
    with Started([*thole, "run", "-q", "--time", "1h", "sh", "-c", "echo up; read line; exit 5"]) as job:
        assert job.line() == "up"
        def until():
            return json.loads(subprocess.check_output([*thole, "status", "--json"]))["claims"][0]["until"]
        before = until()
        [claim] = json.loads(subprocess.check_output([*thole, "status", "--json"]))["claims"]
        job.kill(signal.SIGSTOP)
        asked = subprocess.run([*thole, "extend", claim["id"], "1s"], capture_output=True)
        assert asked.returncode == 69 and b"does not answer" in asked.stderr, asked
        job.kill(signal.SIGCONT)
        assert subprocess.run([*thole, "extend", claim["id"], "2h"], capture_output=True).returncode == 0, "it answers again"
        assert until() > before
        job.write("end\n")
        assert job.wait() == 5


def test_the_time_limit_ends_the_lingering(program):
    with Started(with_options(program, "--linger", "--time", "1s") + python(LINGERER)) as job:
        rest = int(job.line())
        job.error_until(f"{rest} ")
        assert job.wait() == 3
        assert gone(rest)


@pytest.mark.parametrize("trap, status", [("", -signal.SIGINT), ("trap '' INT;", -signal.SIGTERM),
                                          ("trap '' INT TERM;", -signal.SIGKILL)])
def test_the_time_limit_asks_three_times(trap, status):
    command = ["sh", "-c", f"{trap} while :; do sleep 0.01; done"]
    with Started([PROBE, "--time", "1", "--patience", "200", *command], start_new_session=True) as job:
        assert job.wait() == status
        assert b"time limit" in job.process.stderr.read()


def test_the_time_limit_reaches_the_workers_of_the_command_and_the_stopped():
    script = "trap '' INT; sh -c 'kill -STOP $$; read line' & echo $!; wait; wait"
    with Started([PROBE, "--time", "1", "--patience", "100", "sh", "-c", script], start_new_session=True) as job:
        worker = int(job.line())
        eventually(lambda: state_of(worker) == "T", "the worker is stopped")
        job.wait()
        assert gone(worker)


def test_without_a_supervisor_the_command_takes_run_s_place(program):
    option = "--become" if program.words[0] == PROBE else "--no-supervisor"
    with Started(with_options(program, option) + ["sh", "-c", "echo $$; read line; exit 3"]) as job:
        assert int(job.line()) == job.pid
        assert program.held()
        job.write("line\n")
        assert job.wait() == 3
        assert not program.held()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))

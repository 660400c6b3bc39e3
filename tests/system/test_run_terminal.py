"""`run` on a terminal: prompts, an editor, Ctrl-C, Ctrl-Z and fg, window size, hang-up; as if the command ran alone."""
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from run_programs import program, run  # noqa: F401 (fixtures)
from run_tools import (DEADLINE, THOLE, Terminal, children, eventually, gone, is_pending, only_child, python, state_of, text_of,
                       witness_of)

PROMPT = r"prompt\d*> "
# What is typed while the shell still switches the terminal from its own mode may be lost to any command: wait for "up".
CAT = "sh -c 'echo u''p; exec cat'"
UP = r"up\r\n"


def shell(line, run):
    """A bash at a prompt that has just been given `line`, in which `run` stands for the words before the command."""
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], {"PS1": "prompt$?> ", "PS2": "", "HISTFILE": ""})
    terminal.expect(PROMPT)
    terminal.send(line.replace("RUN", " ".join(run)) + "\n")
    terminal.expect(r"\n")  # its echo
    return terminal


def test_a_python_prompt_survives_ctrl_c(run):
    with Terminal(run + [sys.executable, "-q"]) as terminal:
        terminal.expect(">>> ")
        terminal.send("6 * 7\n")
        terminal.expect("42")
        terminal.expect(">>> ")
        terminal.press_until("\x03", "KeyboardInterrupt")  # a signal just before its select() waits in Python for the next key
        terminal.expect(">>> ")
        terminal.send("exit(3)\n")
        assert os.waitstatus_to_exitcode(terminal.wait()) == 3


# Says which signals it gets. It waits for them blocked, so that none comes between two looks.
WAITER = """
import os, signal
wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
os.write(1, b"ready %d\\n" % os.getpid())
while True:
    number = signal.sigwait(wanted)
    size = os.get_terminal_size() if number == signal.SIGWINCH else (0, 0)
    os.write(1, b"got %d %d %d.\\n" % (number, *size))
"""


def test_two_interrupts_arrive_as_two(run):
    with Terminal(run + python(WAITER)) as terminal:
        terminal.expect("ready")
        for _ in range(2):
            terminal.send("\x03")
            terminal.expect(r"got 2 0 0\.")
        terminal.resize(20, 40)
        terminal.expect(r"got 28 40 20\.")
        assert "got 2 " not in terminal.seen


def test_an_interrupted_command_ends_the_shell_s_line(run):
    with shell(f"RUN {CAT}; echo not reached", run) as terminal:
        terminal.expect(UP)
        terminal.send("word\n")
        terminal.expect("word\r\nword")
        terminal.send("\x03")
        terminal.expect(r"\^C")
        terminal.expect(PROMPT)
        terminal.send("echo status $?\n")
        assert terminal.expect(r"status (\d+)\r").group(1) == "130"


def test_ctrl_z_stops_both_and_fg_continues_both(run):
    with shell(f"RUN {CAT}", run) as terminal:
        terminal.expect(UP)
        terminal.send("one\n")
        terminal.expect("one\r\none\r\n")
        [supervisor] = children(terminal.pid)
        command = only_child(supervisor)
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        eventually(lambda: state_of(supervisor) == state_of(command) == "T", "both stand still")
        terminal.send("jobs\n")
        terminal.expect("Stopped")
        terminal.send("fg\n")
        terminal.expect(r"cat'?\r\n")
        eventually(lambda: state_of(command) == "S" and state_of(supervisor) == "S", "both go on")
        terminal.send("two\n")
        terminal.expect("two\r\ntwo\r\n")
        terminal.send("\x1a")       # and again
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        terminal.send("kill %1; fg\n")   # a stopped job hears SIGTERM when it goes on
        terminal.expect("Terminated")
        terminal.expect(PROMPT)
        eventually(lambda: gone(command) and gone(supervisor), "both end")


# timeout(1) makes a process group of its own, which a shell has made for it already where it starts it itself.
IN_A_GROUP_OF_ITS_OWN = "timeout 900 sh -c 'echo u''p; exec sleep 900'"


def those_that_run(terminal):
    [supervisor] = children(terminal.pid)
    command = only_child(supervisor)
    return supervisor, command, only_child(command)


def test_keys_reach_a_command_that_has_made_a_group_of_its_own(run):
    with shell(f"RUN {IN_A_GROUP_OF_ITS_OWN}", run) as terminal:
        terminal.expect(UP)
        supervisor, command, asleep = those_that_run(terminal)
        assert os.getpgid(command) == command != os.getpgid(supervisor)
        for _ in range(2):
            terminal.send("\x1a")
            terminal.expect("Stopped")
            terminal.expect(PROMPT)
            eventually(lambda: state_of(supervisor) == state_of(command) == state_of(asleep) == "T", "all stand still")
            terminal.send("fg\n")
            terminal.expect(r"900'?\r\n")
            eventually(lambda: state_of(asleep) == "S" and state_of(supervisor) == "S", "all go on")
        terminal.send("\x03")
        terminal.expect(PROMPT)
        terminal.send("echo status $?\n")
        assert terminal.expect(r"status (\d+)\r").group(1) == "130"
        eventually(lambda: gone(command) and gone(asleep), "both end")


def test_a_hangup_reaches_a_command_that_has_made_a_group_of_its_own(run):
    with shell(f"RUN {IN_A_GROUP_OF_ITS_OWN}", run) as terminal:
        terminal.expect(UP)
        supervisor, command, asleep = those_that_run(terminal)
        terminal.hang_up()
        eventually(lambda: gone(command) and gone(asleep) and gone(supervisor), "all end")


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_the_shells_kill_of_a_job_reaches_a_command_that_has_made_a_group_of_its_own(run, stopped):
    with shell(f"RUN {IN_A_GROUP_OF_ITS_OWN}" + ("" if stopped else " &"), run) as terminal:
        terminal.expect(UP)
        supervisor, command, asleep = those_that_run(terminal)
        if stopped:
            terminal.send("\x1a")
            terminal.expect("Stopped")
            terminal.expect(PROMPT)
        terminal.send("kill %1; fg\n")
        terminal.expect(r"Terminated|no such job")
        terminal.expect(PROMPT)
        eventually(lambda: gone(command) and gone(asleep) and gone(supervisor), "all end")


SIGNALS_HEARD = """
import os, signal, sys
heard, hears = os.pipe()
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM):
    signal.signal(number, lambda number, frame: os.write(hears, bytes([number])))
getattr(os, sys.argv[1])(*map(int, sys.argv[2:]))
os.write(1, b"up\\n")
number = 0
while number != signal.SIGALRM:
    number = os.read(heard, 1)[0]
    os.write(1, b"got %d.\\n" % number)
"""


@pytest.mark.parametrize("way", [("setsid",), ("getpid",)])
def test_who_signals_every_process_in_turn_signals_the_command_once(run, way):
    """As systemd does: the command has had it."""
    with subprocess.Popen(run + python(SIGNALS_HEARD) + list(way), stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as started:
        assert started.stdout.readline() == "up\n"
        for number in (signal.SIGTERM, signal.SIGUSR1):
            for pid in (started.pid, witness_of(started.pid), *children(started.pid)):
                os.kill(pid, number)
            assert started.stdout.readline() == f"got {number}.\n"
            eventually(lambda: not is_pending(started.pid, number), "thole has taken it")
        started.send_signal(signal.SIGALRM)
        assert started.stdout.read() == f"got {signal.SIGALRM}.\n"


def test_a_signal_to_the_group_reaches_a_command_that_has_made_a_group_of_its_own(run):
    """As that of who would have started the command itself."""
    with subprocess.Popen(run + python(SIGNALS_HEARD) + ["setpgid", "0", "0"], stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as started:
        assert started.stdout.readline() == "up\n"
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM):
            os.killpg(started.pid, number)
            assert started.stdout.readline() == f"got {number}.\n"
        assert started.stdout.read() == ""


def test_an_outer_timeout_ends_an_inner_one(run):
    done = subprocess.run(["timeout", "0.5", *run, "timeout", "900", "sleep", "900"], timeout=DEADLINE)
    assert done.returncode == 124


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_a_hangup_leaves_a_session_of_its_own_alone(run, tmp_path, background):
    (tmp_path / "heard.py").write_text(SIGNALS_HEARD)
    out = tmp_path / "out"
    with shell(f"RUN {sys.executable} {tmp_path}/heard.py setsid > {out} {'&' if background else ''}", run) as terminal:
        eventually(lambda: "up" in text_of(out), "it is up")
        [supervisor] = children(terminal.pid)
        command = only_child(supervisor)
        terminal.hang_up()
        eventually(lambda: state_of(terminal.pid) in ("Z", None), "the shell has hung up its jobs")
        eventually(lambda: not is_pending(supervisor, signal.SIGHUP), "thole has taken it")
        os.kill(supervisor, signal.SIGALRM)
        eventually(lambda: gone(command) and gone(supervisor), "all end")
    assert text_of(out) == f"up\ngot {signal.SIGALRM}.\n"


@pytest.mark.parametrize("words", ["setsid sleep 900", "setsid -w sleep 900"])
def test_a_key_does_not_reach_a_session_of_its_own(run, words):
    with shell(f"RUN sh -c 'echo u''p; exec {words}'", run) as terminal:
        terminal.expect(UP)
        [supervisor] = children(terminal.pid)
        command = only_child(supervisor)
        eventually(lambda: os.getsid(command) == command, "it has a session of its own")
        terminal.send("\x03")
        terminal.expect(r"\^C")
        os.kill(command, signal.SIGUSR1)
        terminal.expect(PROMPT)
        terminal.send("echo status $?\n")
        assert terminal.expect(r"status (\d+)\r").group(1) == str(128 + signal.SIGUSR1)


def test_the_time_limit_stands_still_while_both_are_stopped(tmp_path):
    thole = [THOLE, "--machine", "8xA100", "--state-dir", str(tmp_path / "state")]

    def now():
        return datetime.datetime.now(datetime.timezone.utc)

    def claims():
        return json.loads(subprocess.check_output([*thole, "status", "--json"]))["claims"]

    def end_of(claim):
        return claim["until"] and datetime.datetime.fromisoformat(claim["until"].replace("Z", "+00:00"))

    with shell(f"RUN {CAT}", [*thole, "run", "-q", "--time", "4s"]) as terminal:
        terminal.expect(UP)
        [supervisor] = children(terminal.pid)
        command = only_child(supervisor)
        [declared] = map(end_of, claims())
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        assert [end_of(claim) for claim in claims()] == [None], "nobody is promised what is not known"
        eventually(lambda: now() > declared, "its time would have passed")
        eventually(lambda: state_of(command) == "T", "it stands still")
        terminal.send("fg\n")
        terminal.expect(r"cat'?\r\n")
        eventually(lambda: state_of(command) == "S", "it goes on")
        eventually(lambda: all((end_of(claim) or declared) > declared for claim in claims()), "its end is known, or has come")
        eventually(lambda: gone(command) and gone(supervisor), "its time ends it")


def test_ctrl_z_stops_what_lingers_and_gives_the_prompt_back(tmp_path):
    thole = [THOLE, "--machine", "8xA100", "--state-dir", str(tmp_path / "state")]
    with shell("RUN sh -c 'sleep 1000 & echo u''p; exit 3'", [*thole, "run", "--linger"]) as terminal:
        terminal.expect(UP)
        terminal.expect("left a process running")
        [supervisor] = children(terminal.pid)
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        assert state_of(supervisor) == "T"
        terminal.send("fg\n")
        eventually(lambda: state_of(supervisor) == "S", "it goes on")
        terminal.send("\x03")
        terminal.expect(r"prompt3> ")


def test_bg_continues_in_the_background_and_reading_there_stops_again(run):
    with shell("RUN sh -c 'echo u''p; read line; echo got $line'", run) as terminal:
        terminal.expect(UP)
        [supervisor] = children(terminal.pid)
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        terminal.send("bg\n")
        terminal.expect(" &\r\n")
        terminal.press_until("\n", "Stopped")     # reading the terminal from the background stops it again
        terminal.expect(PROMPT)
        assert state_of(supervisor) == "T"
        terminal.send("fg\n")
        terminal.expect("read line")
        terminal.send("word\n")
        terminal.expect("got word")


def test_a_command_stopped_by_another_stops_the_job(run):
    with shell(f"RUN {CAT}", run) as terminal:
        terminal.expect(UP)
        [supervisor] = children(terminal.pid)
        command = only_child(supervisor)
        terminal.send("x\n")
        terminal.expect("x\r\nx")
        os.kill(command, signal.SIGSTOP)
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        terminal.send("fg\n")
        terminal.expect(r"cat'?\r\n")
        terminal.send("y\n")
        terminal.expect("y\r\ny")


def test_kill_of_a_job_interrupts_the_command_once(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WAITER)
    with shell(f"RUN {sys.executable} {script} &", run) as terminal:
        terminal.expect("ready")
        terminal.send("kill -INT %1\n")
        terminal.expect(r"got 2 0 0\.")
        terminal.send("kill %1\n")
        terminal.expect(r"got 15 0 0\.")
        assert "got 2" not in terminal.seen
        terminal.send("kill -KILL %1; wait; echo ov''er\n")
        terminal.expect("over")
        assert "got" not in terminal.seen


def test_an_inner_shell_can_be_suspended(run):
    with shell("RUN env PS1='inner> ' bash --norc --noprofile -i", run) as terminal:
        terminal.expect("inner> ")
        terminal.send(CAT + "\n")
        terminal.expect(UP)
        terminal.send("\x1a")             # stops cat within the inner shell, not the inner shell
        terminal.expect("Stopped")
        terminal.expect("inner> ")
        terminal.send("suspend\n")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        assert terminal.foreground() == terminal.pid
        terminal.send("fg\n")
        terminal.expect("inner> ")
        terminal.send("exit 4\n")
        terminal.expect("There are stopped jobs")
        terminal.send("exit 4\n")       # what is left behind is stopped, and ended nevertheless
        terminal.expect("prompt4> ")


def test_the_window_s_size_reaches_the_command(run):
    with Terminal(run + python(WAITER)) as terminal:
        terminal.expect("ready")
        for rows, columns in [(50, 132), (24, 80)]:
            terminal.resize(rows, columns)
            terminal.expect(rf"got 28 {columns} {rows}\.")


def test_a_hangup_reaches_the_command_although_run_leads_the_session(run, tmp_path):
    code = f"""
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
print("ready", os.getpid(), flush=True)
signal.sigwait([signal.SIGHUP])
open({str(tmp_path / "hup")!r}, "a").write("hup")
"""
    with Terminal(run + python(code)) as terminal:
        command = int(terminal.expect(r"ready (\d+)\r").group(1))
        terminal.hang_up()
        eventually(lambda: gone(command), "the command ends by the hang-up")
        assert (tmp_path / "hup").read_text() == "hup"
        assert os.waitstatus_to_exitcode(terminal.wait()) == 0


@pytest.mark.skipif(not shutil.which("vim"), reason="vim is not installed")
def test_vim_edits_stops_and_goes_on(run, tmp_path):
    path = tmp_path / "text"
    with shell(f"RUN vim -u NONE -i NONE -n {path}", run) as terminal:
        terminal.expect("text")
        terminal.send("ihello\x1b:w\r")
        eventually(lambda: path.exists() and path.read_text() == "hello\n", "the file is written")
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        terminal.send("fg\r")
        terminal.expect("hello")
        terminal.send("A world\x1b:wq\r")
        terminal.expect(r"prompt0> ")
    assert path.read_text() == "hello world\n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))

"""`run` on a terminal: prompts, an editor, Ctrl-C, Ctrl-Z and fg, window size, hang-up; as if the command ran alone."""
import os
import shutil
import signal
import sys

import pytest

from run_programs import run  # noqa: F401 (a fixture)
from run_tools import Terminal, children, eventually, gone, python, state_of

PROMPT = r"prompt\d*> "


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
        terminal.send("\x03")
        terminal.expect("KeyboardInterrupt")
        terminal.expect(">>> ")
        terminal.send("exit(3)\n")
        assert os.waitstatus_to_exitcode(terminal.wait()) == 3


def test_two_interrupts_arrive_as_two(run):
    code = """
import signal
count = 0
def got(*_):
    global count
    count += 1
    print("interrupt", count, flush=True)
    if count == 2: raise SystemExit(9)
signal.signal(signal.SIGINT, got)
print("ready", flush=True)
while True: signal.pause()
"""
    with Terminal(run + python(code)) as terminal:
        terminal.expect("ready")
        terminal.send("\x03")
        terminal.expect("interrupt 1")
        terminal.send("\x03")
        terminal.expect("interrupt 2")
        assert os.waitstatus_to_exitcode(terminal.wait()) == 9
        assert "interrupt 3" not in terminal.seen


def test_an_interrupted_command_ends_the_shell_s_line(run):
    with shell("RUN cat; echo not reached", run) as terminal:
        terminal.send("word\n")
        terminal.expect("word\r\nword")
        terminal.send("\x03")
        terminal.expect(r"\^C")
        terminal.expect(PROMPT)
        terminal.send("echo status $?\n")
        assert terminal.expect(r"status (\d+)\r").group(1) == "130"


def test_ctrl_z_stops_both_and_fg_continues_both(run):
    with shell("RUN cat", run) as terminal:
        terminal.send("one\n")
        terminal.expect("one\r\none\r\n")
        [supervisor] = children(terminal.pid)
        [command] = children(supervisor)
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        assert state_of(supervisor) == state_of(command) == "T"
        terminal.send("jobs\n")
        terminal.expect("Stopped")
        terminal.send("fg\n")
        terminal.expect("cat\r\n")
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


def test_bg_continues_in_the_background_and_reading_there_stops_again(run):
    with shell("RUN sh -c 'read line; echo got $line'", run) as terminal:
        [supervisor] = eventually(lambda: children(terminal.pid))
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        terminal.send("bg\n")
        eventually(lambda: state_of(supervisor) == "T", "reading the terminal from the background stops the job")
        terminal.send("fg\n")
        terminal.expect("read line")
        terminal.send("word\n")
        terminal.expect("got word")


def test_a_command_stopped_by_another_stops_the_job(run):
    with shell("RUN cat", run) as terminal:
        [supervisor] = eventually(lambda: children(terminal.pid))
        [command] = eventually(lambda: children(supervisor))
        terminal.send("x\n")
        terminal.expect("x\r\nx")
        os.kill(command, signal.SIGSTOP)
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        terminal.send("fg\n")
        terminal.expect("cat\r\n")
        terminal.send("y\n")
        terminal.expect("y\r\ny")


def test_kill_of_a_job_interrupts_the_command_once(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import os, signal
def got(number, _): os.write(1, b"got %d." % number)
signal.signal(signal.SIGINT, got)
signal.signal(signal.SIGTERM, got)
print("ready", flush=True)
while True: signal.pause()
""")
    with shell(f"RUN {sys.executable} {script} &", run) as terminal:
        terminal.expect("ready")
        terminal.send("kill -INT %1\n")
        terminal.expect(r"got 2\.")
        terminal.send("kill %1\n")
        terminal.expect(r"got 15\.")
        assert "got 2" not in terminal.seen
        terminal.send("kill -KILL %1; wait; echo ov''er\n")
        terminal.expect("\nover")
        assert "got" not in terminal.seen


def test_an_inner_shell_can_be_suspended(run):
    with shell("RUN env PS1='inner> ' bash --norc --noprofile -i", run) as terminal:
        terminal.expect("inner> ")
        terminal.send("sh -c 'echo u''p; cat'\n")
        terminal.expect("up\r\n")
        terminal.send("\x1a")             # stops cat within the inner shell, not the inner shell
        terminal.expect("Stopped")
        terminal.expect("inner> ")
        terminal.send("suspend\n")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        assert terminal.foreground() == terminal.pid
        terminal.send("fg\n")
        terminal.expect("inner> ")
        terminal.send("kill -9 %1; wait; exit 4\n")
        terminal.expect("prompt4> ")


def test_the_window_s_size_reaches_the_command(run):
    code = """
import os, signal, sys
def show(*_): print("size %d %d" % os.get_terminal_size()[::-1], flush=True)
signal.signal(signal.SIGWINCH, show)
print("ready", flush=True)
while True: signal.pause()
"""
    with Terminal(run + python(code)) as terminal:
        terminal.expect("ready")
        for rows, columns in [(50, 132), (24, 80)]:
            terminal.resize(rows, columns)
            terminal.expect(f"size {rows} {columns}")


def test_a_hangup_reaches_the_command_although_run_leads_the_session(run, tmp_path):
    code = f"""
import os, signal
print("ready", os.getpid(), flush=True)
signal.signal(signal.SIGHUP, lambda *_: (open({str(tmp_path / "hup")!r}, "a").write("hup"), os._exit(0)))
while True: signal.pause()
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

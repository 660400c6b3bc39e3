"""Ctrl-Z in a watch gives the shell its screen, its cursor and its keys back; fg goes on with the watch."""
import os
import signal
import termios

import pytest

from run_tools import THOLE, Terminal, eventually, state_of

SECOND, FIRST = "\x1b[?1049h", "\x1b[?1049l"


def keys(terminal):
    flags = termios.tcgetattr(terminal.fd)[3]
    return bool(flags & termios.ICANON), bool(flags & termios.ECHO)


def watching(tmp_path, words):
    """A watch as the job of a shell with job control, which prints its process number."""
    env = {"THOLE_MACHINE": "2xA100", "THOLE_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path), "PS1": "ready> "}
    terminal = Terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"], env=env)
    terminal.expect("ready> ")
    terminal.send(f"sh -c 'echo pid $$; exec {THOLE} {words}'\n")
    pid = int(terminal.expect(r"pid (\d+)\r").group(1))
    terminal.expect(r"\x1b\[\?1049h")
    return terminal, pid


@pytest.mark.parametrize("words", ["status --watch=100s", "jobs --watch"])
@pytest.mark.parametrize("how", [signal.SIGTSTP, "key"])
def test_ctrl_z_gives_the_terminal_back_and_fg_goes_on(words, how, tmp_path):
    terminal, pid = watching(tmp_path, words)
    with terminal:
        eventually(lambda: keys(terminal) == (False, False), "keys as they are typed")
        terminal.expect("q ")                    # drawn
        if how == "key":
            terminal.send("\x1a")
        else:
            os.kill(pid, how)
        left = terminal.expect(r"(?s)(.*?)ready> ").group(1)
        assert "\x1b[?25h" in left and FIRST in left and SECOND not in left
        assert state_of(pid) == "T"
        assert keys(terminal) == (True, True)
        terminal.send("fg\n")
        terminal.expect(r"\x1b\[\?1049h\x1b\[\?25l")
        terminal.expect("q ")                    # drawn again
        assert keys(terminal) == (False, False)
        terminal.send("q")
        terminal.expect("ready> ")
        assert keys(terminal) == (True, True)
        terminal.send("exit\n")
        terminal.wait()


def test_it_is_set_up_again_after_a_sigstop(tmp_path):
    terminal, pid = watching(tmp_path, "status --watch=100s")
    with terminal:
        terminal.expect("q ")
        os.kill(pid, signal.SIGSTOP)
        terminal.expect("ready> ")
        terminal.send("fg\n")
        terminal.expect(r"\x1b\[\?1049h\x1b\[\?25l")
        terminal.expect("q ")
        assert keys(terminal) == (False, False)
        terminal.send("q")
        terminal.expect("ready> ")

"""What is said to people at a terminal, and to no program."""
import os
import pty
import subprocess

import pytest

from queue_tools import Queue
from run_tools import THOLE


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


class Terminal:
    """A terminal whose other end is here."""

    def __init__(self):
        self.ours, self.its = pty.openpty()

    def start(self, queue, *words, **more):
        streams = {"stdin": self.its, "stdout": self.its, "stderr": self.its, **more}
        return subprocess.Popen([THOLE, *words], env=queue.env, cwd=queue.work, start_new_session=True, **streams)

    def all_of(self, process):
        """What it has said there, once it has ended."""
        os.close(self.its)
        said = b""
        try:
            while piece := os.read(self.ours, 4096):
                said += piece
        except OSError:                                  # EIO: nobody has the terminal any more
            pass
        process.wait(timeout=60)
        os.close(self.ours)
        return " ".join(said.decode().split())


@pytest.mark.parametrize("words, read", [
    (["--each-line", "-", "true", "{}"], "reading lines from the terminal; Ctrl-D ends them"),
    (["--file", "-"], "reading the file of jobs from the terminal; Ctrl-D ends it")])
def test_submit_says_that_it_reads_from_the_terminal(queue, words, read):
    terminal = Terminal()
    process = terminal.start(queue, "submit", "--dry-run", "-g", "0", *words)
    os.write(terminal.ours, b"\x04")
    assert read in terminal.all_of(process)
    piped = queue.run("submit", "--dry-run", "-g", "0", "--each-line", "-", "echo", "{}", input="a\n")
    assert "terminal" not in piped.stderr


def test_who_runs_a_multiplexer_is_told_what_detaching_does(queue):
    tmux = queue.work / "tmux"
    tmux.write_text("#!/bin/sh\n")
    tmux.chmod(0o755)
    said = "when tmux is detached, this command is over"
    terminal = Terminal()
    assert said in terminal.all_of(terminal.start(queue, "run", "-g", "0", "./tmux"))
    for words in (["-g", "0", "./tmux", "attach"], ["--linger", "-g", "0", "./tmux"], ["-g", "0", "true"]):
        terminal = Terminal()
        assert said not in terminal.all_of(terminal.start(queue, "run", *words)), words
    assert said not in queue.run("run", "-g", "0", "./tmux").stderr, "that is for people"


IN_THE_BACKGROUND = """
import os, subprocess, sys
os.setsid()
fd = os.open(os.ttyname(0), os.O_RDWR)                   # the terminal is this session's from here on
map = subprocess.Popen(sys.argv[1:], preexec_fn=os.setpgrp, stdin=fd)
sys.exit(map.wait())
"""


def test_map_in_the_background_says_why_it_cannot_read_the_terminal(queue):
    terminal = Terminal()
    words = ["python3", "-c", IN_THE_BACKGROUND, THOLE, "map", "-g", "0", "echo"]
    process = subprocess.Popen(words, env=queue.env, cwd=queue.work, stdin=terminal.its, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    os.write(terminal.ours, b"a\n")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 69 and "by what runs in the background" in " ".join(said.split()), (process.returncode, said)

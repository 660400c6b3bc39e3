"""What the tests of `run` share: the two programs under test, waiting on conditions, and a terminal."""
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

BUILD = pathlib.Path(os.environ.get("THOLE_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build"))
THOLE = os.environ.get("THOLE", str(BUILD / "thole"))
PROBE = str(BUILD / "run_probe")  # the process module alone, for short patiences and locks of a test's own
CACHE = BUILD / "CMakeCache.txt"
SANITIZED = CACHE.exists() and "THOLE_SANITIZE:STRING=\n" not in CACHE.read_text()  # slow: it keeps no promise of seconds
DEADLINE = 60.0 if SANITIZED else 20.0  # seconds; generous, since a condition that comes true ends the wait at once


def eventually(condition, what="the condition", seconds=DEADLINE):
    """Waits until condition() is true and returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what() if callable(what) else what}"
        select.select([], [], [], 0.005)


def state_of(pid):
    """The state letter of a process, None when there is none."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()[0]


def open_gate(path):
    """Ends every `cat` of this FIFO, those that read it now and those that will."""
    fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    opened = pathlib.Path(f"{path}.open")
    opened.touch()
    os.replace(opened, path)
    os.close(fifo)


@contextlib.contextmanager
def killed_at_the_end(*files):
    """Whoever has written its number into one of these, by then."""
    yield
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def gone(pid):
    return state_of(pid) in (None, "Z", "X")


def goes_on(pid):
    """Neither ended nor stopped: whether it sleeps or runs in this instant says nothing."""
    return state_of(pid) in ("S", "R", "D")


def unread(pipe):
    """How many bytes lie in it."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def processes():
    """All processes as (pid, name, parent, group)."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = pathlib.Path(f"/proc/{entry}/stat").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, rest = text.partition("(")[2].rpartition(")")[::2]
        fields = rest.split()
        found.append((int(entry), name, int(fields[1]), int(fields[2])))
    return found


def children(pid):
    """Direct children, without the supervisor's witness."""
    return [child for child, name, parent, _ in processes() if parent == pid and name != "witness"]


def text_of(path):
    """Of a file, once something is in it."""
    return eventually(lambda: path.exists() and path.read_text(), f"{path.name} is there")


def witness_of(pid):
    return eventually(lambda: [child for child, name, parent, _ in processes() if parent == pid and name == "witness"],
                      "the witness has its name")[0]


def group_members(group):
    return [pid for pid, _, _, its_group in processes() if its_group == group]


def only_child(pid):
    """The one child there must be; the witness has its name a moment after its birth."""
    return eventually(lambda: len(children(pid)) == 1 and children(pid)[0], f"one child of {pid}")


def is_locked(path, lock=fcntl.flock):
    """Does anybody hold the lock of this file? Of the other kind: fcntl.lockf."""
    with open(path, "r+") as file:
        try:
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read_line(stream, seconds=DEADLINE):
    """One line of an unbuffered binary pipe, with a deadline."""
    line = b""
    end = time.monotonic() + seconds
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0, end - time.monotonic()))
        assert ready, f"no line within {seconds} s, only {line!r}"
        byte = os.read(stream.fileno(), 1)
        if not byte:
            break
        line += byte
    return line.decode().rstrip("\n")


def is_pending(pid, number):
    with open(f"/proc/{pid}/status") as status:
        pending = next(line.split()[1] for line in status if line.startswith("ShdPnd:"))
    return int(pending, 16) >> (number - 1) & 1


def python(code):
    """A command that runs Python code."""
    return [sys.executable, "-u", "-c", code]


class Started:
    """A process with pipes; ended with its test."""

    def __init__(self, command, **more):
        more.setdefault("stdin", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, **more)
        self.pid = self.process.pid

    def line(self):
        return read_line(self.process.stdout)

    def error_line(self):
        return read_line(self.process.stderr)

    def until(self, line):
        """Reads the standard output up to this line."""
        seen = None
        while seen != line:
            seen = self.line()
            assert seen or self.process.poll() is None, f"the standard output ended before {line!r}"

    def error_until(self, text):
        """Reads the standard error up to a line with this text."""
        line = ""
        while text not in line:
            line = self.error_line()
            assert line, f"the standard error ended before {text!r}"

    def write(self, text):
        self.process.stdin.write(text.encode())

    def kill(self, number):
        os.kill(self.pid, number)

    def wait(self):
        return self.process.wait(DEADLINE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass


class Terminal:
    """A command as the leader of a session on a pty of its own."""

    def __init__(self, command, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", **(env or {})})
            finally:
                os._exit(127)
        self.seen = ""          # all that was shown and not yet expected
        self.status = None

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, seconds=DEADLINE):
        """Reads until the pattern is shown; returns the match. What came before is forgotten."""
        end = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.seen)
            if match:
                self.seen = self.seen[match.end():]
                return match
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"{pattern!r} was not shown within {seconds} s, only: {self.seen!r}"
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data, f"the terminal closed before {pattern!r}: {self.seen!r}"
            self.seen += data.decode(errors="replace")

    def press_until(self, key, pattern):
        """Presses a key again every second until the pattern is shown."""
        for _ in range(int(DEADLINE)):
            self.send(key)
            try:
                return self.expect(pattern, 1)
            except AssertionError:
                pass
        return self.expect(pattern, 0)

    def foreground(self):
        """The process group that has the terminal."""
        return os.tcgetpgrp(self.fd)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self):
        """The wait status of the leader; what it still shows is kept in `seen`."""
        eventually(self.ended, "the end of the terminal's command")
        return self.status

    def ended(self):
        if self.status is None:
            if self.fd >= 0 and select.select([self.fd], [], [], 0)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    pass  # nobody has the other end any more
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.status = status
        return self.status is not None

    def hang_up(self):
        os.close(self.fd)
        self.fd = -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        if self.fd >= 0:
            os.close(self.fd)

# ctest: serial
"""A process whose memory is locked for ever, by a file system that does not answer: a stranger's, for anybody can make one, or
one's own beside a server that hangs. Whoever reads its command line or environment waits with it. No command hangs of it: it is
named by what else is known of it, ended where it is one's own, and given up where nothing ends it.

Alone: whatever else looks at all processes (ps) hangs while there is one."""
import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import time

import pytest

from hostile import end, lab, supervisor_of  # noqa: F401 (the fixture)
from run_tools import BUILD, PROBE, SANITIZED, eventually, gone, witness_of
from test_hostile_keepers import LIAR, claim_on_3

PROGRAM = "locked_memory"
LIMIT = 60                                                         # seconds; who waits for such a memory never comes back
CLAIM = "import tholepin\nwith tholepin.claim(on='2', wait=0) as got: print(*got.indices)"


class Locked:
    """Such processes of a lab's users, and the file system that they wait for."""

    def __init__(self, lab):  # noqa: F811
        self.lab, self.program, self.mount = lab, str(lab.folder / PROGRAM), lab.folder / "mount"
        self.pid_file, self.gate = lab.folder / "pid", lab.folder / "gate"
        shutil.copy(BUILD / PROGRAM, self.program)
        self.mount.mkdir()
        self.pid_file.touch()
        os.mkfifo(self.gate)
        for path in (self.pid_file, self.gate):
            path.chmod(0o666)
        lab.init()

    @contextlib.contextmanager
    def served(self, how, user, *words):
        """A command of this user's, beside that file system; without which it can end."""
        with self.lab.start("root", self.program, "serve", self.mount, how) as server:
            if server.line() != "up":
                pytest.skip("no FUSE here: " + server.process.stderr.read().decode())
            with self.lab.start(user, *words) as started:
                try:
                    yield started
                finally:
                    server.kill(signal.SIGKILL)

    def words(self, more=0):
        return [self.program, "lock", str(self.mount / "page"), str(more)]

    def leaves_one(self, then, words=None):
        """A command that starts one with a session of its own, as daemons have."""
        start = f"setsid {shlex.join(map(str, words or self.words()))} > /dev/null 2>&1"
        return ["sh", "-c", f"{start} & echo $! > {self.pid_file}; {then}"]

    def with_child_from_before(self, words):
        """A script that has started something, which goes on until `thole` has ended, and becomes thole by exec."""
        return ["sh", "-c", f"( exec tail --pid=$$ -f /dev/null ) & exec {shlex.join(map(str, words))}"]

    def states(self, pid):
        """Of its threads."""
        stats = [pathlib.Path(f"/proc/{pid}/task/{thread}/stat").read_text() for thread in os.listdir(f"/proc/{pid}/task")]
        return [stat.rpartition(")")[2].split()[0] for stat in stats]

    def is_locked(self, pid):
        """One thread waits for the page, and one for the lock (D): neither runs."""
        states = self.states(pid) + self.states(pid)
        return len(states) == 4 and set(states) <= {"S", "D"} and "D" in states

    def is_at_exec(self, pid):
        """It has its new name, as it gets it with its new memory, and never gets the rest of its program."""
        return "(program)" in pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")

    def left(self):
        """The pid of the one that a command has left, once its memory is locked."""
        pid = int(eventually(lambda: self.pid_file.read_text().strip(), "it has begun"))
        eventually(lambda: self.is_locked(pid), "its memory is locked")
        return pid


@pytest.fixture
def locked(lab):  # noqa: F811
    if SANITIZED:
        pytest.skip("the leak sanitizer stops all threads at the end, and one that waits for such a memory never stops")
    return Locked(lab)


@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_who_has_such_a_process_on_a_gpu_stops_nobody(lab, locked):  # noqa: F811
    with locked.served("taken", "mallory", *locked.words()) as process:
        pid = supervisor_of(process)
        eventually(lambda: locked.is_locked(pid), "its memory is locked")
        (lab.driver.root / f"proc/{pid}").symlink_to(f"/proc/{pid}")
        lab.driver.configure("gpus 4", f"gpu 0 process compute {pid} 1000")
        for user in ("root", "alice"):
            sees = user == "root" or "hidepid" not in lab.words
            shown = lab.thole(user, "status", timeout=LIMIT, check=True).stdout
            assert ("mallory" in shown and PROGRAM in shown) == sees, shown
            assert f"pid {pid}" in lab.thole(user, "why", "0", timeout=LIMIT).stdout
            assert lab.thole(user, "doctor", timeout=LIMIT).returncode in (0, 1)
            assert lab.thole(user, "run", "--on", "1", "--no-wait", "--", "true", timeout=LIMIT).returncode == 0
            assert lab.thole(user, "run", "--on", "0", "--no-wait", "--", "true", timeout=LIMIT).returncode == 75
            assert lab.python(user, CLAIM, timeout=LIMIT).stdout == "2\n"


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("verb", ["run", "map", "submit"])
def test_one_that_a_command_has_left_is_named_and_ended(lab, locked, verb):  # noqa: F811
    command = locked.leaves_one(f"read word < {locked.gate}")
    words = [verb, "-g", "1", "--", *command, *(["sh", ":::", "item"] if verb == "map" else [])]
    with locked.served("untaken", "alice", lab.program, *words) as started:
        pid = locked.left()
        locked.gate.write_text("\n")
        if verb == "submit":
            assert lab.thole("alice", "wait", "1", timeout=LIMIT).returncode == 0
        else:
            started.error_until(f"{pid} {PROGRAM}")
        assert started.wait() == 0
        assert gone(pid)
        assert lab.thole("bob", "run", "-g", "4", "--no-wait", "--", "true").returncode == 0, "its GPU is free"


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("verb", ["run", "map"])
@pytest.mark.parametrize("how", ["locked", "at its exec", "without threads"])
def test_what_cannot_be_told_of_is_of_the_claim_in_which_it_began(lab, locked, verb, how):  # noqa: F811
    """Where there were children before, what shows no claim is left alone. It is not known what this one shows."""
    at_exec = how == "at its exec"
    command = locked.leaves_one(f"read word < {locked.gate}", [locked.mount / "program"] if at_exec else None)
    words = [lab.program, verb, "--on", "1", "--", *command, *(["sh", ":::", "item"] if verb == "map" else [])]
    if how != "without threads":
        words = locked.with_child_from_before(words)
    with locked.served("program" if at_exec else "untaken", "alice", *words) as started:
        pid = int(eventually(lambda: locked.pid_file.read_text().strip(), "it has begun"))
        eventually(lambda: locked.is_at_exec(pid) if at_exec else locked.is_locked(pid), "it is there")
        if how == "without threads":
            lab.run("alice", "prlimit", f"--pid={supervisor_of(started)}", "--nproc=1:1", check=True)
        locked.gate.write_text("\n")
        started.process.wait(LIMIT)
        told = started.process.stderr.read().decode()
        assert started.process.returncode == 0 and f"{pid} {'program' if at_exec else PROGRAM}" in told, told
        assert gone(pid)
        assert lab.thole("bob", "run", "-g", "4", "--no-wait", "--", "true").returncode == 0, "its GPU is free"


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_crowd_of_them_costs_a_look_little_more_than_some(lab, locked):  # noqa: F811
    crowd = 256
    took = {}
    with locked.served("taken", "mallory", *locked.words(crowd - 1)) as process:
        pids = [int(process.line()) for _ in range(crowd)]
        eventually(lambda: locked.is_locked(pids[-1]), "their memory is locked")
        for pid in pids:
            (lab.driver.root / f"proc/{pid}").symlink_to(f"/proc/{pid}")
        for number in (8, crowd):
            lab.driver.configure("gpus 4", *(f"gpu 0 process compute {pid} 10" for pid in pids[-number:]))
            begun = time.monotonic()
            lab.thole("alice", "status", timeout=LIMIT, check=True)
            took[number] = time.monotonic() - begun
    assert took[crowd] < 2 * took[8], took


UNLOADS = """
import _ctypes, ctypes, os, sys, threading
lib = ctypes.CDLL(os.environ["THOLE_LIBRARY"])
lib.thole_open.restype = lib.thole_snapshot.restype = ctypes.c_void_p
lib.thole_snapshot.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
lib.thole_close.argtypes = [ctypes.c_void_p]
machine = lib.thole_open(None, None)
assert lib.thole_snapshot(machine, None)
lib.thole_close(machine)
threads = lambda: len(os.listdir("/proc/self/task"))
assert threads() > 1, "one waits for that memory"
_ctypes.dlclose(lib._handle)
print("up")
sys.stdin.readline()
while threads() > 1: pass
print("lives")
"""


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_program_may_unload_the_library_while_one_is_waited_for(lab, locked):  # noqa: F811
    with contextlib.ExitStack() as host:
        with locked.served("taken", "mallory", *locked.words()) as process:
            pid = supervisor_of(process)
            eventually(lambda: locked.is_locked(pid), "its memory is locked")
            (lab.driver.root / f"proc/{pid}").symlink_to(f"/proc/{pid}")
            lab.driver.configure("gpus 4", f"gpu 0 process compute {pid} 1000")
            program = host.enter_context(lab.start_python("alice", UNLOADS))
        program.write("\n")
        assert program.line() == "lives", program.process.stderr.read().decode()
        assert program.wait() == 0


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_what_not_even_kill_ends_is_given_up(lab, locked):  # noqa: F811
    command = locked.leaves_one(f"read word < {locked.gate}")
    probe = shutil.copy(PROBE, lab.folder)                         # the process module alone, for a short patience
    with locked.served("taken", "alice", probe, "--patience", "1", *command) as started:
        pid = locked.left()
        locked.gate.write_text("\n")
        started.error_until(f"{pid} {PROGRAM}")
        started.process.wait(LIMIT)
        assert "D" in locked.states(pid), "it lives"


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_root_takes_back_what_such_a_process_holds(lab, locked):  # noqa: F811
    command = locked.leaves_one("wait")
    with locked.served("taken", "mallory", lab.program, "run", "--on", "0", "--", *command) as started:
        pid, supervisor = locked.left(), supervisor_of(started)
        os.kill(witness_of(supervisor), signal.SIGKILL)
        os.kill(supervisor, signal.SIGKILL)
        assert f"kill {pid}  # {PROGRAM}" in lab.thole("root", "why", "0", timeout=LIMIT).stdout
        assert lab.thole("root", "release", "0", timeout=LIMIT).returncode == 69
        told = lab.thole("root", "init", "--take-back", "0", timeout=LIMIT)
        assert told.returncode == 0 and f"pid {pid} ({PROGRAM})" in told.stderr, told.stderr
        assert lab.thole("alice", "run", "--on", "0", "--no-wait", "--", "true", timeout=LIMIT).returncode == 0


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_keepers_file_whose_end_nobody_answers_stops_root_no_longer_than_he_waits(lab, locked):  # noqa: F811
    held, claim = claim_on_3(lab, "mallory")
    words = ["python3", "-c", LIAR, claim["id"], "ok 9", "locks", str(locked.mount / "page")]
    with locked.served("unflushed", "mallory", *words) as liar:
        assert liar.line() == "up"
        done = lab.thole("root", "run", "--in", "3", "--", "echo", "ran", timeout=LIMIT)
        assert done.returncode == 69 and not done.stdout and "a file that is no lock of this claim" in done.stderr, done.stderr
    end(held)

"""A queue of a simulated machine in a directory of a test's own: submitting, killing, and looking at what is stored.

The store is read with Python's sqlite3 and the lanes' records as bytes, so that what a test sees does not come through the
program it tests.
"""
import os
import pathlib
import signal
import sqlite3
import struct
import subprocess

import pytest

from run_tools import DEADLINE, THOLE, eventually, processes

STATES = ["queued", "held", "running", "done", "failed", "lost", "cancelled", "skipped"]
ENDED = {"done", "failed", "lost", "cancelled", "skipped"}


def name_of(pid):
    """What the process runs, or None when there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return None


def shell(text):
    """The words of `submit` for a script."""
    return ["--", "sh", "-c", text]


def only_task(queue, job):
    queue.until_ended(job)
    return queue.tasks(job)[0]


class Queue:
    def __init__(self, folder, machine="4xA100", claims=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.directory = self.folder / "queue"
        self.environment = dict(os.environ, THOLE_MACHINE=machine, THOLE_QUEUE_DIR=str(self.directory),
                                THOLE_STATE_DIR=str(claims or self.folder / "claims"), THOLE_BIND="none")
        for name in ("THOLE_CLAIM", "THOLE_GPUS", "THOLE_TASK", "CUDA_VISIBLE_DEVICES"):
            self.environment.pop(name, None)

    def call(self, *words, check=True, cwd=None, **variables):
        done = subprocess.run([THOLE, *map(str, words)], env=dict(self.environment, **variables), cwd=cwd or self.folder,
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}{self.runner_log()}"
        return done

    def submit(self, *words, **more):
        """The number of the new job."""
        return int(self.call("submit", "-q", *words, **more).stdout.split()[-1])

    def runner_log(self):
        path = self.directory / "runner.log"
        return path.read_text() if path.exists() else ""

    # What is stored.

    def rows(self, question, *values):
        db = sqlite3.connect(f"file:{self.directory}/queue.db?mode=ro", uri=True, timeout=60)
        try:
            return db.execute(question, values).fetchall()
        finally:
            db.close()

    def states(self, job):
        """State -> number of tasks, of one job."""
        columns = ["queued", "held_tasks", *STATES[2:]]
        row = self.rows(f"SELECT {', '.join(columns)} FROM job WHERE id = ?", job)[0]
        return {state: number for state, number in zip(STATES, row) if number}

    def tasks(self, job):
        """Index -> (state, exit code, signal, runs, reason), of those that have left the plain queued state."""
        found = self.rows("SELECT idx, state, exit_code, signal, runs, reason FROM task WHERE job = ?", job)
        return {index: (STATES[state], *rest) for index, state, *rest in found}

    def unended(self):
        return self.rows("SELECT count(*) FROM job WHERE ended IS NULL")[0][0]

    def unended_or_none(self):
        return self.unended() if (self.directory / "queue.db").exists() else 0

    def log(self, job, task=0):
        name, offset, length = self.rows("SELECT log, log_offset, log_length FROM task WHERE job = ? AND idx = ?", job, task)[0]
        text = (self.directory / "logs" / name).read_bytes()[offset:]
        return (text if length is None else text[:length]).decode()

    def until_ended(self, job, seconds=DEADLINE):
        eventually(lambda: set(self.states(job)) <= ENDED, lambda: f"job {job} ends: {self.states(job)}\n{self.runner_log()}",
                   seconds)

    # Who lives.

    def runner(self):
        """The runner's pid, or None: whoever reads `wake`."""
        try:
            os.close(os.open(self.directory / "wake", os.O_WRONLY | os.O_NONBLOCK))
            return int((self.directory / "runner").read_text())
        except (OSError, ValueError):
            return None

    def lanes(self):
        """Pids of the lanes that live."""
        alive = []
        for record in (self.directory / "lanes").glob("*"):
            if not record.name.isdigit():
                continue
            try:
                os.close(os.open(f"{record}.mail", os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue
            head = record.read_bytes()[:64]
            if len(head) == 64:   # else its maker was killed before it had room
                alive.append(struct.unpack_from("=i", head, 48)[0])
        return [pid for pid in alive if pid > 0]

    def noted_end(self, lane):
        """The exit status that the lane has noted of the task in its first place, None before its end; see
        model/lane_record.hpp."""
        try:
            record = (self.directory / "lanes" / str(lane)).read_bytes()
        except OSError:
            return None
        if len(record) < 120 or struct.unpack_from("=I", record, 72)[0] != 3:
            return None
        return struct.unpack_from("=i", record, 112)[0]

    def commands(self):
        """Pids of the processes that carry the mark of one of our tasks."""
        mark = f"@{self.directory}\0".encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            at = environment.find(b"THOLE_TASK=")
            if at >= 0 and mark in environment[at:environment.find(b"\0", at) + 1]:
                found.append(int(pid))
        return found

    def working_lane(self):
        """The pid of the lane that runs commands; another may wait in line."""
        def working():
            parents = {pid: (parent, name) for pid, name, parent, _ in processes()}
            lanes = {pid for pid, (_, name) in parents.items() if name == "thole-lane"}
            return {parents[pid][0] for pid in self.commands() if pid in parents} & lanes

        [lane] = eventually(working, "a lane works")
        return lane

    def until_asleep(self, number=1):
        """Waits until so many of them, and no others, run `sleep` and so start nothing any more; returns their pids. Killing
        those that commands() lists while a shell forks would leave its child behind."""
        def asleep():
            pids = self.commands()
            return pids if [name_of(pid) for pid in pids] == ["sleep"] * number else None
        return eventually(asleep, lambda: f"{number} sleep: {self.who_lives()}\n{self.runner_log()}")

    def who_lives(self):
        """For the message of a test that waits in vain."""
        def of(pid):
            try:
                text = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
                fields = text.rpartition(")")[2].split()
                name, wchan = text.partition("(")[2].rpartition(")")[0], pathlib.Path(f"/proc/{pid}/wchan").read_text()
                return f"{pid} {name} {fields[0]} of {fields[1]}, wait status {fields[49]}, {wchan}"
            except OSError:
                return f"{pid} gone"
        named = (self.directory / "runner").read_text().strip() if (self.directory / "runner").exists() else "-"
        return (f"runner {self.runner()} ({of(named)}), lanes {[of(pid) for pid in self.lanes()]}, commands "
                f"{[of(pid) for pid in self.commands()]}")

    def kill(self, pids, number=signal.SIGKILL):
        killed = 0
        for pid in pids:
            try:
                os.kill(pid, number)
                killed += 1
            except ProcessLookupError:
                pass
        return killed

    def end_everything(self):
        """For the end of a test: nothing of the queue is left."""
        for _ in range(50):
            left = [pid for pid in [self.runner()] if pid] + self.lanes() + self.commands()
            if not self.kill(left):
                return


@pytest.fixture
def queue(tmp_path):
    made = Queue(tmp_path)
    yield made
    made.end_everything()


@pytest.fixture
def queue_of_two_gpus(tmp_path):
    made = Queue(tmp_path, machine="2xA100")
    yield made
    made.end_everything()

"""What the tests of the durable queue's commands share: a machine and a queue of their own, and commands against them."""
import contextlib
import json
import os
import pathlib
import subprocess

from run_tools import THOLE, eventually, open_gate


class Queue:
    """`thole` on a simulated machine with claims and a queue of its own, below one directory."""

    def __init__(self, folder, machine="4xA100"):
        self.folder = pathlib.Path(folder)
        self.machine = machine
        self.directory = self.folder / "queue"
        self.work = self.folder / "work"
        self.work.mkdir(exist_ok=True)
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("THOLE_", "CUDA_", "SLURM_", "XDG_"))}
        self.env.update(THOLE_MACHINE=machine, THOLE_STATE_DIR=str(self.folder / "state"), THOLE_QUEUE_DIR=str(self.directory))

    def run(self, *words, env=None, input=None, timeout=60):
        return subprocess.run([THOLE, *map(str, words)], capture_output=True, text=True, input=input, timeout=timeout,
                              env={**self.env, **(env or {})}, cwd=self.work)

    def __call__(self, *words, **more):
        """The standard output of a command that must succeed."""
        done = self.run(*words, **more)
        assert done.returncode == 0, (words, done.returncode, done.stderr)
        return done.stdout

    def json(self, *words, **more):
        return json.loads(self("--json", *words, **more))

    def submit(self, *words, **more):
        """Submits and returns the number of the one job."""
        return int(self("submit", *words, **more))

    def refused(self, *words, status=64, **more):
        """The message of a command that must be refused."""
        done = self.run(*words, **more)
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done.stderr

    def job(self, number):
        [job] = self.json("jobs", number)["jobs"]
        return job

    def task(self, name):
        [task] = self.json("jobs", name, "--tasks")["tasks"]
        return task

    def reaches(self, number, state):
        """Waits until the job is in this state; returns it."""
        def there():
            job = self.job(number)
            return job if job["state"] == state else None
        return eventually(there, f"job {number} is {state}")

    def drain(self):
        """Nothing starts: what is queued can be looked at in peace."""
        self("drain")

    @contextlib.contextmanager
    def gate(self):
        """A FIFO that tasks of `cat NAME` wait at until it is opened here."""
        path = self.work / f"gate-{len(list(self.work.glob('gate-*')))}"
        os.mkfifo(path)
        yield path
        open_gate(path)

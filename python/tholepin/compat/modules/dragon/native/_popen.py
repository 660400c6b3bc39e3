"""Popen: subprocess.Popen's interface, as far as Dragon has it, over tholepin.Process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Mapping, Sequence

from .._claims import ProgramProcess
from ..infrastructure.connection import Connection
from ..infrastructure.policy import Policy, own


class Popen:
    """A program, started at once, with what its policy says from its first instruction.

    >>> mine = Policy(gpu_affinity=[2])
    >>> process = Popen(["-c", "echo $CUDA_VISIBLE_DEVICES"], executable="/bin/sh", stdout=Popen.PIPE, policy=mine)
    >>> process.stdout.recv()
    '2\\n'

    ``args`` are those behind the program's name, as in Dragon. Without ``executable`` the first of them is the program.
    """

    PIPE = subprocess.PIPE
    STDOUT = subprocess.STDOUT
    DEVNULL = subprocess.DEVNULL

    def __init__(
        self,
        args: Sequence[Any],
        executable: str | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        preexec_fn: object = None,
        shell: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        group: object = None,
        user: object = None,
        proc_name: str | None = None,
        umask: int = -1,
        pipesize: int = -1,
        policy: Policy | None = None,
    ) -> None:
        given = {"preexec_fn": preexec_fn, "shell": shell, "group": group, "user": user}
        for name, value in given.items():
            if value:
                raise ValueError(f"Popen.{name}: thole's drop-in has not got it; use subprocess.Popen where no GPU is claimed")
        words = [args] if isinstance(args, str) else list(args)
        program = words.pop(0) if executable is None else executable
        cwd = os.getcwd() if cwd in (None, ".") else cwd
        if executable is not None and not os.path.isfile(program):
            program = os.path.join(cwd or ".", program)
        if program.strip().endswith(".py"):
            program, words = sys.executable, [program, *words]
        self._args = [program, *words]
        self._process = ProgramProcess(
            program,
            words,
            cwd=cwd or ".",
            env=env,
            ident=proc_name,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            policy=None if policy is None else own(policy),
        )
        self._process.start()
        ends = (self._process.stdin_conn, self._process.stdout_conn, self._process.stderr_conn)
        self._ends = [None if file is None else Connection(file) for file in ends]

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> None:
        """Sleeps until it has ended, ``timeout`` seconds at most."""
        self._process.join(timeout)

    def communicate(self, input: object = None, timeout: float | None = None) -> None:
        """Not here, and not in Dragon: NotImplementedError."""
        raise NotImplementedError("receive from stdout and stderr, send to stdin, and wait()")

    def send_signal(self, signal: int) -> None:
        """Sends a signal to it."""
        self._process.send_signal(signal)

    def terminate(self) -> None:
        """Sends SIGTERM to it."""
        self._process.terminate()

    def kill(self) -> None:
        """Sends SIGKILL to it."""
        self._process.kill()

    @property
    def args(self) -> list[Any]:
        """The program and its words."""
        return self._args

    @property
    def stdin(self) -> Connection | None:
        """Our end of its stdin where that is PIPE."""
        return self._ends[0]

    @property
    def stdout(self) -> Connection | None:
        """Our end of its stdout where that is PIPE."""
        return self._ends[1]

    @property
    def stderr(self) -> Connection | None:
        """Our end of its stderr where that is PIPE."""
        return self._ends[2]

    @property
    def puid(self) -> int | None:
        """Its process id."""
        return self._process.puid

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return self._process.puid

    @property
    def returncode(self) -> int | None:
        """Its exit status, minus the signal's number where one killed it; None before its end."""
        return self._process.returncode

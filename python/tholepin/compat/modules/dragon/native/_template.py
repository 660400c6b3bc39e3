"""ProcessTemplate: what is to run, in Dragon's words; thole's own is made of it where it is used."""

from __future__ import annotations

import base64
import os
import pickle
import shutil
import sys
from typing import Any, Callable, Mapping, Sequence

import tholepin
from tholepin import _pickling

from ..infrastructure.policy import Policy, own

_STREAMS = ("stdin", "stdout", "stderr")


class ProcessTemplate:
    """What is to run, where and how, for a ProcessGroup or :meth:`Process.from_template`.

    >>> template = ProcessTemplate("sh", args=["-c", "exit 3"], policy=Policy(gpu_affinity=[3]))
    >>> process = Process.from_template(template)
    >>> process.start()
    >>> process.join()
    3

    The parameters are those of :class:`tholepin.ProcessTemplate`. A function's ``target``, ``args`` and ``kwargs`` stay what
    they were given as; ``options`` is about Dragon's channels and not looked at.
    """

    PIPE = tholepin.ProcessTemplate.PIPE
    STDOUT = tholepin.ProcessTemplate.STDOUT
    DEVNULL = tholepin.ProcessTemplate.DEVNULL

    def __init__(
        self,
        target: str | Callable[..., object],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        cwd: str = ".",
        env: Mapping[str, str | None] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        policy: Policy | None = None,
        options: object = None,
    ) -> None:
        self.cwd = os.getcwd() if cwd in (None, ".") else cwd
        self.target: str | Callable[..., object] = target if callable(target) else _found(target, self.cwd)
        self.is_python = callable(self.target)
        self.args, self.kwargs, self.env = args, kwargs, env
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.policy, self.options = policy, options
        self._own()  # so that what is wrong is said here

    def _own(self) -> tholepin.ProcessTemplate:
        """The same as thole's."""
        return tholepin.ProcessTemplate(
            self.target,
            self.args,
            self.kwargs,
            self.cwd,
            self.env,
            self.stdin,
            self.stdout,
            self.stderr,
            None if self.policy is None else own(self.policy),
        )

    @property
    def argdata(self) -> bytes | None:
        """A function and what it is called with, pickled; None for a program."""
        return _pickling.whole(self.get_original_python_parameters()) if self.is_python else None

    def get_original_python_parameters(self) -> tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]:
        """The function, and what it is called with; TypeError for a program.

        >>> ProcessTemplate(print, args=(1,)).get_original_python_parameters()
        (<built-in function print>, (1,), {})
        """
        if isinstance(self.target, str):
            raise TypeError(f"{self.target} is a program; a function has Python parameters")
        return self.target, tuple(self.args or ()), dict(self.kwargs or {})

    @property
    def sdesc(self) -> dict[str, Any]:
        """What :meth:`get_sdict` gives."""
        return self.get_sdict()

    def get_sdict(self) -> dict[str, Any]:
        """As a dict; functions, their arguments and the policy pickled.

        >>> ProcessTemplate.from_sdict(ProcessTemplate("true", policy=Policy(gpu_affinity=[2])).sdesc).policy.gpu_affinity
        [2]
        """
        policy = None if self.policy is None else pickle.dumps(self.policy)
        return {
            "is_python": self.is_python,
            "target": sys.executable if self.is_python else self.target,
            "args": None if self.is_python else self.args,
            "argdata": None if self.argdata is None else base64.b64encode(self.argdata).decode(),
            "env": self.env,
            "cwd": self.cwd,
            **{name: getattr(self, name) for name in ("stdout", "stderr", "stdin")},
            "options": None,
            "policy": None if policy is None else base64.b64encode(policy).decode(),
        }

    @classmethod
    def from_sdict(cls, sdict: Mapping[str, Any]) -> ProcessTemplate:
        """What :meth:`get_sdict` gave."""
        target, args, kwargs = sdict["target"], sdict["args"], None
        if sdict["argdata"] is not None:
            target, args, kwargs = pickle.loads(base64.b64decode(sdict["argdata"]))
        policy = None if sdict["policy"] is None else pickle.loads(base64.b64decode(sdict["policy"]))
        streams = {name: sdict[name] for name in _STREAMS}
        return cls(target, args, kwargs, sdict["cwd"], sdict["env"], policy=policy, **streams)

    def start(self) -> None:
        """A template cannot be started: NotImplementedError."""
        raise NotImplementedError("You need to create a Process object from this template to start it.")


def _found(target: str | os.PathLike[str], cwd: str) -> str:
    """A program's path."""
    name = os.fspath(target)
    for path in (os.path.abspath(name), shutil.which(name), os.path.join(cwd, name)):
        if path is not None and os.path.isfile(path):
            return path
    raise AttributeError(f"Cannot find executable {name} directly, in PATH or in working directory {cwd}")

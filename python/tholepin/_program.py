"""The bundled program ``thole``, for what it does already and no one does in a hot loop: drawing, explaining, the queue.

Why not through the library: these are whole commands (rendering, reading job files, starting a runner). A second way into them
would be a second set of rules; a start of the program costs 2 ms. Options here are the program's own, with ``_`` for ``-``.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any, Iterable, Mapping

from . import _native, _option_words, errors, words

_MiB_OPTIONS = {"memory", "log_limit"}
_LISTS = {"on", "not_on", "order", "after", "tag", "state", "retry"}


def options(said: Mapping[str, Any]) -> list[str]:
    """The command line for keyword arguments; what is None or False is not said.

    >>> options({"gpus": 2, "share": True, "on": [0, 1], "memory": 512, "env": {"A": "b"}})
    ['--gpus=2', '--share', '--on=0,1', '--memory=512MiB', '--env=A=b']
    """
    line: list[str] = []
    for name, value in said.items():
        option = "--not" if name == "not_on" else "--" + name.replace("_", "-")
        if value is None or value is False or value == ():
            continue
        if value is True:
            line.append(option)
        elif name == "wait" and value == 0:
            line.append("--no-wait")
        elif name in _MiB_OPTIONS:
            line.append(f"{option}={words.mebibytes(value, name)}MiB")
        elif isinstance(value, Mapping):
            line += [
                f"{option}={key}={one if isinstance(one, (str, int, float)) else ','.join(map(str, one))}"
                for key, one in value.items()
            ]
        elif name in _LISTS:
            line.append(f"{option}={','.join(words.names(value))}")
        else:
            line.append(f"{option}={value}")
    return line


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as problem:
        raise errors.Error("the program thole cannot be run", object=argv[0], errno=problem.errno or 0) from None


def _failure(command: str, done: subprocess.CompletedProcess[str]) -> errors.Error:
    if done.returncode < 0:
        return errors.Error(f"thole {command} was ended by signal {-done.returncode}")
    said = done.stderr.strip().partition(": ")[2]
    return errors.Error(said or f"thole {command} ended with status {done.returncode}", code=done.returncode)


def text(command: str, line: Iterable[str]) -> str:
    """What a command prints."""
    done = _run([_native.program(), command, *line])
    if done.returncode:
        raise _failure(command, done)
    return done.stdout


def answer(command: str, line: Iterable[str], wanted: Iterable[str] = ()) -> Any:
    """The JSON that a command prints, whatever status comes with it; raises the failure that it reports."""
    done = _run([_native.program(), command, "--json", *line, *wanted])
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise _failure(command, done) from None
    if told["schema"] != "thole/error/1":
        return told
    error = told["error"]
    message, about, hint = (_option_words.in_arguments(error[name] or "") for name in ("message", "object", "hint"))
    raise _native.exception(
        error["reason"], message, code=error["exit_status"], object=about, hint=hint, errno=error["errno"] or 0
    )

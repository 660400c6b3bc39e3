"""The bundled program ``thole``, for what it does already and no one does in a hot loop: drawing, explaining, the queue.

Why not through the library: these are whole commands (rendering, reading job files, starting a runner). A second way into them
would be a second set of rules; a start of the program costs 2 ms. Options here are the program's own, with ``_`` for ``-``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Iterable, Mapping

from . import _native, _option_words, _start, errors, words

_MiB_OPTIONS = {"memory", "log_limit"}
# What would have it print something else than the answer.
_OF_THE_PROGRAM = {"help", "version", "dry_run"}
_LISTS = {"on", "not_on", "order", "after", "tag", "state", "retry"}


def options(said: Mapping[str, Any]) -> list[str]:
    """The command line for keyword arguments; what is None or False is not said.

    >>> options({"gpus": 2, "share": True, "on": [0, 1], "memory": 512, "env": {"A": "b"}})
    ['--gpus=2', '--share', '--on=0,1', '--memory=512MiB', '--env=A=b']
    """
    line: list[str] = []
    for name, value in said.items():
        option = "--not" if name == "not_on" else "--" + name.replace("_", "-")
        value = words.own(value)
        nothing_in_it = isinstance(value, (tuple, list)) and not value
        if value is None or value is False or nothing_in_it:
            continue
        if name in _OF_THE_PROGRAM or not re.fullmatch("[a-z][a-z0-9_]*", name):
            raise errors.WrongType(f'there is no argument "{words.text(name, "argument")}"')
        if value is True:
            line.append(option)
        elif name == "wait" and words.milliseconds(value) == 0:
            line.append("--no-wait")
        elif name in _MiB_OPTIONS:
            line.append(f"{option}={words.mebibytes(value, name)}MiB")
        elif isinstance(value, Mapping):
            words_of = words.mapping(value, name).items()
            line += [f"{option}={words.text(key, name)}={_values(one, name)}" for key, one in words_of]
        elif name in _LISTS:
            line.append(f"{option}={','.join(words.names(value, name))}")
        else:
            line.append(f"{option}={_values(value, name)}")
    return line


def _values(found: Any, name: str) -> str:
    """One value, or the list of a grid's variable, each value as it is: a text alone is the program's own ("0..4", "a,b")."""
    found = words.own(found)
    if name != "grid" or isinstance(found, (str, int, float, os.PathLike)):
        return words.value(found, name)
    return ",".join(_as_one_value(words.value(one, name)) for one in words.listed(found, name))


def _as_one_value(said: str) -> str:
    return '"' + said.replace('"', '""') + '"'


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as problem:
        if _start.is_want(problem):
            raise _start.not_started("the program thole", problem, argv[0]) from None
        raise errors.Error("the program thole cannot be run", object=argv[0], errno=problem.errno or 0) from None


def _failure(command: str, done: subprocess.CompletedProcess[str]) -> errors.Error:
    if done.returncode < 0:
        return errors.Error(f"thole {command} was ended by signal {-done.returncode}")
    said = done.stderr.strip().partition(": ")[2]
    return errors.Error(said or f"thole {command} ended with status {done.returncode}", code=done.returncode or None)


def text(command: str, line: Iterable[str]) -> str:
    """What a command prints."""
    done = _run([_native.program(), command, *line])
    if done.returncode:
        raise _failure(command, done)
    return done.stdout


def answer(command: str, line: Iterable[str], wanted: Iterable[str] = ()) -> Any:
    """The JSON that a command prints, whatever status comes with it; raises the failure that it reports."""
    done = _run([_native.program(), command, "--json", *line, "--", *wanted])
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise _failure(command, done) from None
    if told["schema"] != "thole/error/1":
        return told
    error = told["error"]
    said = [*wanted, *(word.partition("=")[2] for word in line)]
    message, about, hint = (_option_words.in_arguments(error[name] or "", said) for name in ("message", "object", "hint"))
    raise _native.exception(
        error["reason"], message, code=error["exit_status"], object=about, hint=hint, errno=error["errno"] or 0
    )

"""The durable queue of this user on this machine: submitting jobs, looking at them, waiting for them.

The program does it all (:mod:`tholepin._program` says why); docs/queue.md says what jobs are. Here are its words as arguments.
"""

from __future__ import annotations

import math
import os
from typing import Any, Iterable, Mapping, Sequence, Union

from . import _program, errors, words

# A job or task by number ("12", "12.3"), name or tag; "@" is the newest.
Job = Union[int, str]


def submit(
    command: Sequence[str],
    *,
    gpus: int = 1,
    time: words.Duration | None = None,
    name: str | None = None,
    tag: Iterable[str] = (),
    on: Iterable[words.Name] | words.Name = (),
    not_on: Iterable[words.Name] | words.Name = (),
    model: str | None = None,
    memory: words.Size | None = None,
    grid: Mapping[str, Any] | None = None,
    array: str | None = None,
    at_most: int | None = None,
    per_gpu: int | None = None,
    after: Iterable[Job] | Job = (),
    begin: str | None = None,
    priority: int | None = None,
    hold: bool = False,
    retry: Iterable[Job] | Job = (),
    leave: int | None = None,
    if_absent: bool = False,
    snapshot: bool = False,
    directory: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    bind: str | None = None,
    **more: Any,
) -> int:
    """Puts a command, or one for each of many values, into the queue; returns the number of the job once it is on the disk.

    It runs as this user, in this directory, with this process's variables, on GPUs that it claims when its turn comes.

    >>> import sys, tholepin
    >>> job = tholepin.submit([sys.executable, "-c", "print({lr})"], gpus=0, grid={"lr": [0.1, 0.01]}, hold=True)
    >>> tholepin.jobs(job)[0]["tasks"], tholepin.jobs(job)[0]["state"]
    (2, 'held')

    Args:
        command: the words; no shell is in between. ``{name}`` stands for a variable of the grid, ``{index}`` for a task's
            number.
        gpus: how many each task claims; 0 claims none and hides all.
        time: how long a task may take, seconds or "8h"; it is ended then, and others can plan with it.
        name, tag: what to call it, and marks to find it by.
        on, not_on, model, memory: which GPUs, as for :func:`claim`.
        grid: a task for each combination of these values: a list, or a text as on the command line ("0..4").
        array: a task for each number, "0-99" or "0-99%4".
        at_most: at most this many of its tasks at once. per_gpu: this many on the GPUs of one.
        after: jobs that must have succeeded before; "12:any" ended, "12:fail" failed.
        begin: not before: "22:00", "2h". priority: higher ones first. hold: keep it until ``thole resume``.
        retry: run a task again: 3, or [2, "oom", "signal"].
        leave: start only while this many GPUs stay free for others.
        if_absent: submit nothing when a job of this name has not ended; returns that one.
        snapshot: run in a copy of the code as it is now.
        directory, env: where it runs, and variables beside this process's.
        bind: how it is bound: "node", "exclusive", "none" …
        more: further options of ``thole submit``, with ``_`` for ``-``: ``notify="mail -s done me"``, ``log_limit="10M"``.

    Raises:
        NeverPossible: this machine can never give what each task asks for.
        Error: a wrong request; the queue cannot be written.
    """
    if isinstance(command, str):
        raise errors.WrongRequest(
            "command: a list of words is expected, not one text", hint='["sh", "-c", command] gives it to a shell'
        )
    line = words.listed(command, "command")
    line = [os.fsdecode(word) if isinstance(word, bytes) else words.value(word, "command") for word in line]
    if not line and not more.keys() & {"file", "script"}:
        raise errors.WrongRequest("command: expected a list of words, got an empty one")
    if isinstance(time, str) and time.strip().isdigit():
        raise errors.WrongRequest(
            f"time: {time!r}: seconds, minutes or hours?", hint=f'"{time}s", "{time}m" or "{time}h"; a number is seconds'
        )
    for what, said_text in (("name", name), ("model", model), ("array", array), ("begin", begin), ("bind", bind)):
        if said_text is not None:
            words.text(said_text, what)
    if directory is not None:
        words.path(directory, "directory")
    from . import _worker

    _worker.stay_here()
    said = dict(
        gpus=gpus, time=_time(time), name=name, tag=tag, on=on, not_on=not_on, model=model, memory=memory, array=array,
        at_most=at_most,
        per_gpu=per_gpu, after=after, begin=begin, priority=priority, hold=hold, retry=retry, leave=leave, if_absent=if_absent,
        snapshot=snapshot, directory=None if directory is None else os.fsdecode(directory), bind=bind, grid=grid,
        env=words.variables({key: words.value(one, "env") for key, one in words.mapping(env, "env").items()}, "env"), **more,
    )  # fmt: skip
    told = _program.answer("submit", _program.options(said), line)
    return int(told["jobs"][0]["job"])


def jobs(
    *which: Job, all: bool = False, state: Iterable[str] | str = (), tag: Iterable[str] | str = ()
) -> list[dict[str, Any]]:
    """Jobs that are queued, run, or ended within the last day, each as a dict (docs/json.md: Job).

    >>> import tholepin
    >>> job = tholepin.submit(["true"], gpus=0, name="nothing")
    >>> tholepin.wait(job)[0]["state"]
    'done'
    >>> [one["name"] for one in tholepin.jobs("nothing")]
    ['nothing']

    Args:
        which: only these, by number, name or tag; "@" is the newest.
        all: all that are remembered.
        state, tag: only those with tasks in one of these states, with all of these tags.

    Raises:
        Error: there is no such job.
    """
    told = _program.answer("jobs", _program.options({"all": all, "state": state, "tag": tag}), words.names(which, "which"))
    found: list[dict[str, Any]] = told["jobs"]
    return found


def wait(*which: Job, any: bool = False, timeout: words.Duration | None = None) -> list[dict[str, Any]]:
    """Sleeps until jobs have ended; without a name until all that are queued or run now have.

    >>> import tholepin
    >>> [job["state"] for job in tholepin.wait(tholepin.submit(["false"], gpus=0))]
    ['failed']

    Args:
        which: jobs or tasks by number or name.
        any: until one of them has ended.
        timeout: at most this long, seconds or "30m".

    Returns:
        A dict for each: "job", "which" (as it was named: "12", "12.3", "12.1-4"), and of these "state", "tasks", "done" (how
        many tasks succeeded).

    Raises:
        WaitTimeout: the time is over.
        Error: there is no such job.
    """
    line = _program.options({"any": any, "timeout": _time(timeout, "timeout", whole=False)})
    told = _program.answer("wait", line, words.names(which, "which"))
    found: list[dict[str, Any]] = told["jobs"]
    return found


def _time(duration: words.Duration | None, what: str = "time", whole: bool = True) -> str | None:
    if duration is None:
        return None
    value = words.seconds(duration, what)
    if value == math.inf:
        raise errors.WrongRequest(f"{what}: expected a time that ends, got {duration!r}", hint="None is without an end")
    return f"{math.ceil(value)}s" if whole else f"{math.ceil(value * 1000)}ms"

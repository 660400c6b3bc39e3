"""Starting programs below `thole compat`, for the tests of the drop-ins."""

import os
import pathlib
import subprocess
import sys

from tholepin import _native

LIMIT = 200  # seconds; nothing here takes one
ROOT = pathlib.Path(__file__).resolve().parents[2]


def compat(*words):
    """The words of a command below `thole compat`."""
    return [_native.program(), "compat", *words]


def start(script, *arguments, options=(), environment=None, **more):
    """A Python program below `thole compat`, with pipes; `script` is its text, or the path of a file."""
    program = [str(script)] if os.path.exists(str(script)) else ["-c", script]
    return subprocess.Popen(
        compat(*options, "--", sys.executable, *program, *map(str, arguments)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **(environment or {})}, **more,
    )  # fmt: skip


def run(script, *arguments, **more):
    """What such a program wrote to stdout; its stderr is in the failure if it fails."""
    process = start(script, *arguments, **more)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    return out


def end(process):
    """Lets a program go on that waits for the end of its stdin, and returns what it has still written."""
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    return out

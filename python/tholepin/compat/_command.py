"""The command ``dragon`` of a virtual environment: a file that becomes ``thole compat -- python -m dragon``."""

from __future__ import annotations

import os
import sys

from .. import errors

_MARK = "# thole's dragon: made by python -m tholepin.compat --install-dragon, taken away by --remove-dragon"
_TEXT = """#!{python}
{mark}
import os
import sys

from tholepin import _native

thole = _native.program()
os.execv(thole, [thole, "compat", "--", sys.executable, "-m", "dragon", *sys.argv[1:]])
"""


def install() -> str:
    """Writes it, for the environment whose Python this is; where.

    Raises:
        Error: this Python is in no virtual environment, or there is a dragon of somebody else's.
    """
    path = _path()
    _remove_ours(path)
    python = os.path.join(sys.prefix, "bin", os.path.basename(sys.executable))
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o777), "w", encoding="utf-8") as file:
            file.write(_TEXT.format(python=python, mark=_MARK))
    except FileExistsError:
        raise _foreign(path) from None
    except OSError as problem:
        raise errors.Error("cannot be written", code=69, object=path, errno=problem.errno or 0) from None
    return path


def remove() -> str:
    """Takes it away; where it was."""
    path = _path()
    if not _remove_ours(path):
        raise errors.Error("there is none of thole's", code=64, object=path)
    return path


def _path() -> str:
    if sys.prefix == sys.base_prefix:
        raise errors.Error(
            "this Python is in no virtual environment, and dragon goes into none but that in use",
            code=64,
            object=sys.executable,
            hint="python -m venv DIR, install tholepin there, and call DIR/bin/python -m tholepin.compat; or use no command: "
            "thole compat -- python prog.py",
        )
    return os.path.join(sys.prefix, "bin", "dragon")


def _remove_ours(path: str) -> bool:
    """Whether it was there; raises where there is somebody else's."""
    if not os.path.lexists(path):
        return False
    try:
        with open(path, "rb") as file:
            ours = file.read(4096).split(b"\n")[1:2] == [_MARK.encode()]
    except OSError:
        ours = False
    if not ours or os.path.islink(path):
        raise _foreign(path)
    try:
        os.unlink(path)
    except OSError as problem:
        raise errors.Error("cannot be replaced", code=69, object=path, errno=problem.errno or 0) from None
    return True


def _foreign(path: str) -> errors.Error:
    return errors.Error(
        "there is a dragon that is not thole's; it stays as it is",
        code=64,
        object=path,
        hint="dragonhpc brings one: pip uninstall dragonhpc, or use another virtual environment",
    )

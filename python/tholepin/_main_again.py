"""The pool's main script, for processes that a worker starts by spawn or forkserver (a DataLoader's, say).

multiprocessing runs the main module of a process again in its children. Of a script without a main guard that would be the pool
too; so a worker's main module names this one, which multiprocessing then runs as ``__mp_main__``: it does as the worker did. At
the line that makes the pool the process does what it was started for, and ends.
"""

import os
import sys
from typing import Callable, Optional

from tholepin import _worker


def _rest_of_child() -> Optional[Callable[[], object]]:
    """What ``multiprocessing.spawn._main`` does after the import of the main module; None where it does not run here."""
    from multiprocessing import process, spawn

    frame = sys._getframe()
    while frame.f_code is not spawn._main.__code__:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    if not frame.f_locals.keys() >= {"from_parent", "parent_sentinel"}:
        return None
    from_parent, sentinel = frame.f_locals["from_parent"], frame.f_locals["parent_sentinel"]

    def go_on() -> object:
        sys.modules["__main__"] = sys.modules["__mp_main__"]
        with from_parent:
            child = spawn.reduction.pickle.load(from_parent)  # type: ignore[attr-defined]
        del process.current_process()._inheriting  # type: ignore[attr-defined]
        return child._bootstrap(sentinel)

    return go_on


if __name__ == "__mp_main__":
    package, path = os.environ[_worker.MAIN].split(":", 1)
    _worker.run_main(path, package or None, globals(), _rest_of_child())

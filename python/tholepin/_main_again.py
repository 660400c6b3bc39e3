"""The pool's main script, for processes that a worker starts by spawn or forkserver (a DataLoader's, say).

multiprocessing runs the main module of a process again in its children. Of a script without a main guard that would be the pool
too; so a worker's main module names this one, which multiprocessing then runs as ``__mp_main__``: it does as the worker did.
"""

import os

from tholepin import _worker

if __name__ == "__mp_main__":
    package, path = os.environ[_worker.MAIN].split(":", 1)
    _worker.run_main(path, package or None, globals())

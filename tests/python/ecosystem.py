"""What the tests of examples/python share: running one, around or inside a claim, by a Python that has its packages.

Such a Python is the one that runs the tests, the virtual environment named by THOLE_TEST_VENV, the distribution's, or, with
THOLE_TEST_PYPI=1, one that is made for the tests and filled from PyPI. Where none has the package, the test is skipped and says
so.
"""
import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

import tholepin
from tholepin import _native

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
TIMEOUT = 240  # seconds; a cluster of Dask takes a while on a busy machine

# Read before any test: for the tests' own time these variables are taken away, as all of thole's.
NAMED_ENVIRONMENT = os.environ.get("THOLE_TEST_VENV")
FETCH = os.environ.get("THOLE_TEST_PYPI") == "1"

_made = {}  # the environment from PyPI, one for all tests


def _has(python, modules):
    code = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in sys.argv[1:]))"
    return subprocess.run([python, "-c", code, *modules], capture_output=True).returncode == 0


def python_with(modules, requirements=None):
    """The path of a Python that has these modules, if need be from PyPI by `requirements`; skips the test where there is
    none."""
    for python in filter(None, (NAMED_ENVIRONMENT and f"{NAMED_ENVIRONMENT}/bin/python", sys.executable, "/usr/bin/python3")):
        if _has(python, modules):
            return python
    if not requirements:
        pytest.skip(f"no {' and '.join(modules)} here; THOLE_TEST_VENV names a virtual environment that has it")
    if not FETCH:
        pytest.skip(f"no {' and '.join(modules)} here; THOLE_TEST_PYPI=1 fetches {' '.join(requirements)} from PyPI")
    if "python" not in _made:
        folder = tempfile.mkdtemp(prefix="thole-pypi-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=TIMEOUT)
        _made["python"] = f"{folder}/bin/python"
    done = subprocess.run(
        [_made["python"], "-m", "pip", "install", "-q", *requirements], capture_output=True, text=True, timeout=900
    )
    if done.returncode != 0:
        pytest.skip(f"PyPI cannot be reached: {done.stderr.splitlines()[-1:]}")
    return _made["python"]


def environment(**more):
    """For another Python than ours: it finds this package, and the program is on PATH."""
    package = str(pathlib.Path(tholepin.__file__).parents[1])
    program = os.path.dirname(_native.program())
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # it would cut lines in two
    return {**ours, "PYTHONPATH": path, "PATH": f"{program}:{os.environ['PATH']}", **more}


def run(command, folder, **more):
    """Runs a command line; returns its output. A failure shows what it said."""
    done = subprocess.run([str(word) for word in command], cwd=folder, env=environment(**more), capture_output=True, text=True,
                          timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def inside(gpus, command):
    """The command inside a claim of so many GPUs; as it is for 0."""
    return [_native.program(), "run", "-q", "-g", gpus, "--", *command] if gpus else command


def rows(text):
    return [line.split() for line in text.splitlines()]


def check_one_each(pairs):
    """(GPU, process): each process had one GPU all the time, and none of them had another's."""
    pairs = set(map(tuple, pairs))
    assert len(pairs) == len({gpu for gpu, _ in pairs}) == len({process for _, process in pairs}), pairs
    return len(pairs)

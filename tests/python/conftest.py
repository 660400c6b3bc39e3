"""Tests of the package as it is installed: from the wheel in a virtual environment of its own.

Under ctest that is made by make_environment.py. By hand, without a wheel: PYTHONPATH=python, with THOLE_LIBRARY and
THOLE_PROGRAM naming a library and a program that fit. Each test has a simulated machine and a state directory of its own, in
`os.environ`, so that what it starts has them too.
"""
import ctypes
import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans(whether):
    """So that the tests find what was left running."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, whether) == 0


adopt_orphans(True)

# What other launchers and claims around the tests say must not count.
OUTER = (
    "THOLE_",
    "CUDA_",
    "HIP_",
    "ROCR_",
    "ZE_",
    "NVIDIA_",
    "SLURM_",
    "OMPI_",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "SGE_",
    "PBS_",
    "MPI_",
)
OURS = ("THOLE_LIBRARY", "THOLE_PROGRAM", "THOLE_BUILD_DIR", "THOLE")


@pytest.fixture(autouse=True)
def simulated_machine(monkeypatch, tmp_path):
    """A DGX A100 that is this test's own; returns the folder of its state."""
    for name in list(os.environ):
        if name.startswith(OUTER) and name not in OURS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("THOLE_MACHINE", "dgx-a100")
    monkeypatch.setenv("THOLE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("THOLE_QUEUE_DIR", str(tmp_path / "queue"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def no_claim_outlives_its_test():
    yield
    holding = sys.modules.get("tholepin._holding")
    if holding:
        for held in list(holding.held):
            held.tickets.clear()
        holding.settle()


@pytest.fixture
def everything_taken():
    """Another process has all GPUs; returns what makes it let go."""
    other = subprocess.Popen([sys.executable, "-c", "import tholepin; tholepin.claim(8); print(flush=True); input()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()

    def let_go():
        other.communicate(b"\n")

    yield let_go
    if other.poll() is None:
        let_go()


def descendants():
    """All processes below this one, parents before children."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # a glob looks into each, where strangers' processes end
        try:
            fields = pathlib.Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    before = set(descendants())
    yield
    left = [pid for pid in descendants() if pid not in before]
    while left:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for pid in reversed(left):
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass
        left = [pid for pid in descendants() if pid not in before]


@pytest.fixture
def all_claims_end():
    """Afterwards all of the machine can be claimed; ``pytestmark = pytest.mark.usefixtures("all_claims_end")`` asks for it."""
    import tholepin

    yield
    with tholepin.claim(8, wait=200):
        pass

"""The programs under test as fixtures: each test runs once for the probe of the process module and once for `thole run`."""
import subprocess

import pytest

from run_tools import PROBE, THOLE, is_locked


class Program:
    """`words` before a command make it run with a claim; held() tells whether that claim is held by anybody."""

    def __init__(self, words, held):
        self.words = words
        self.held = held


@pytest.fixture(params=["probe", "thole"])
def program(request, tmp_path):
    if request.param == "probe":
        lock = tmp_path / "lock"
        lock.touch()
        return Program([PROBE, "--lock", str(lock)], lambda: is_locked(lock))
    thole = [THOLE, "--machine", "8xA100", "--state-dir", str(tmp_path / "state"), "-q"]

    def held():
        status = subprocess.run(thole + ["run", "-g", "8", "--no-wait", "true"], stderr=subprocess.DEVNULL).returncode
        assert status in (0, 75)
        return status == 75

    return Program(thole + ["run", "-g", "8"], held)


@pytest.fixture
def run(program):
    """The words alone."""
    return program.words

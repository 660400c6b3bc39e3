# ctest: serial
"""The program on a kernel with four memory nodes: a virtual machine that scripts/test-numa-guest boots."""
import os
import pathlib
import subprocess

import pytest

from run_tools import BUILD

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/test-numa-guest"


def test_binding_on_four_memory_nodes():
    if os.environ.get("THOLE_QEMU") != "1":
        pytest.skip("boots a virtual machine: set THOLE_QEMU=1")
    done = subprocess.run([SCRIPT, BUILD], capture_output=True, text=True, timeout=600)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    lines = done.stdout.splitlines()
    passed = [line for line in lines if line.startswith("ok ")]
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines and f"guest done, {len(passed)} checks" in lines
    assert len(passed) > 40

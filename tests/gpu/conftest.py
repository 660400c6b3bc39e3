import os
import subprocess
import sys

import pytest

# A context on GPU 0 by libcuda alone, held until stdin ends.
HOLDS_A_CONTEXT = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
x = ctypes.c_void_p()
assert cuda.cuCtxCreate_v2(ctypes.byref(x), 0, 0) == 0
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def environment(tmp_path):
    """The caller's variables without anything that would simulate or restrict, and a state directory of the test's own."""
    fake = os.environ.get("THOLE_GPU_LEVEL_ON_FAKE")         # tests/system/test_gpu_level.py
    kept = {k: v for k, v in os.environ.items() if fake or not k.startswith(("THOLE_", "CUDA_VISIBLE"))}
    kept["THOLE_STATE_DIR"] = str(tmp_path / "state")
    return kept


@pytest.fixture
def context(environment):
    """A process with a CUDA context on GPU 0."""
    program = [sys.executable, "-c", HOLDS_A_CONTEXT]
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        process.wait(timeout=60)
        pytest.skip("no CUDA context can be made here (no libcuda, or no GPU behind it)")
    yield process
    process.stdin.close()
    process.wait(timeout=60)


@pytest.fixture
def cuda(context):
    """CUDA works here; nobody of ours is on a GPU."""
    context.stdin.close()
    context.wait(timeout=60)

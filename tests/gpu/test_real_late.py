"""On a real NVIDIA GPU: looking by NVML is never too late, starting CUDA is, whoever did it.

By ctypes, without a framework. Needs a driver and a GPU; skipped with the reason elsewhere.
"""
import pathlib
import subprocess
import sys

from real_gpu import BUILD, needs_a_gpu

pytestmark = needs_a_gpu

SOURCE = pathlib.Path(__file__).parents[2]
CODE = """
import ctypes, os, sys
from tholepin import _late
nvml = ctypes.CDLL("libnvidia-ml.so.1")
device = ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
print("after NVML:", _late.trace())
cuda = ctypes.CDLL("libcuda.so.1")
print("after loading:", _late.trace())
assert cuda.cuInit(0) == 0
print("after cuInit:", _late._libcuda() is not None, _late._open_devices("") is not None)
"""


def test_nvml_proves_nothing_and_cuda_is_found_both_ways(environment):
    environment.update(PYTHONPATH=str(SOURCE / "python"), THOLE_LIBRARY=str(BUILD / "libthole.so.0"))
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["after NVML: None", "after loading: None", "after cuInit: True True"]

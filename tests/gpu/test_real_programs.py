"""thole beside programs on this machine's own NVIDIA GPUs: claims, placeholders, a program that breaks, what a
look costs and leaves.

GPU 0 is taken for some seconds, by a claim where that can be.
"""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest
from conftest import HOLDS_A_CONTEXT
from real_gpu import THOLE, gpus_of, needs_a_gpu, raw_records, smi_apps, status, thole

pytestmark = needs_a_gpu

PATIENCE = 60


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def test_ones_own_program_does_not_make_its_gpu_foreign(environment, cuda):
    claimed = subprocess.Popen([THOLE, "run", "--on", "0", "--", sys.executable, "-c", HOLDS_A_CONTEXT], env=environment,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert claimed.stdout.readline() == "ready\n"
        unit = status(environment)["units"][0]
        assert unit["claims"] and unit["unclaimed_pids"] == [] and unit["state"] != "foreign", unit
    finally:
        claimed.stdin.close()
        assert claimed.wait(timeout=PATIENCE) == 0
    again = thole(environment, "run", "--on", "0", "--wait", f"{PATIENCE}s", "--", "true", timeout=2 * PATIENCE)
    assert again.returncode == 0, again.stderr             # what it left to tear down is waited for


def test_a_placeholder_is_listed_by_the_driver_and_goes_with_its_claim(environment, cuda):
    before = {row[0] for row in smi_apps()}
    claim = thole(environment, "claim", "--placeholder", "--on", "0")
    assert claim.returncode == 0, claim.stderr
    try:
        assert "no placeholder" not in claim.stderr, claim.stderr
        mine = eventually(lambda: {row[0] for row in smi_apps()} - before, "nvidia-smi does not list the placeholder")
    finally:
        assert thole(environment, "release", claim.stdout.strip()).returncode == 0
    eventually(lambda: not mine & {row[0] for row in smi_apps()}, "the placeholder is still on the GPU")


# Writes to an address that nobody has; PTX, which every driver since CUDA 9 compiles for its GPU.
WRITES_WHERE_IT_MAY_NOT = """
import ctypes
ptx = b'''.version 6.0
.target sm_50
.address_size 64
.visible .entry bad() {
  .reg .b64 %address;
  .reg .b32 %value;
  mov.u64 %address, 16;
  mov.u32 %value, 7;
  st.global.u32 [%address], %value;
  ret;
}
'''
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), ptx) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"bad") == 0
assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
print(cuda.cuCtxSynchronize(), flush=True)
"""
ILLEGAL_ADDRESS = "700"
XIDS_OF_A_PROGRAM = (13, 31)


def test_an_illegal_address_is_heard_as_a_programs_fault(environment, cuda):
    # Where the kernel's log cannot be read, an Xid is heard only by who listens when it comes.
    watching = subprocess.Popen([THOLE, "status", "--watch", "--json"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert watching.stdout.readline()
        broken = thole(environment, "run", "--on", "0", "--", sys.executable, "-c", WRITES_WHERE_IT_MAY_NOT)
        assert broken.stdout.strip() == ILLEGAL_ADDRESS, (broken.stdout, broken.stderr)
        deadline = time.monotonic() + PATIENCE
        for line in watching.stdout:
            gpu = json.loads(line)["gpus"][0]
            if gpu["last_xid"] in XIDS_OF_A_PROGRAM:
                break
            assert time.monotonic() < deadline, f"last_xid is {gpu['last_xid']}"
        assert gpu["health"] == "ok", f"a program's fault is no sickness: {gpu['health_reason']}"
    finally:
        watching.kill()
        watching.wait(timeout=PATIENCE)
    readable = subprocess.run(["dmesg"], capture_output=True, timeout=PATIENCE).returncode == 0
    doctor = thole(environment, "doctor")
    assert not readable or "most often a program's own fault" in doctor.stdout, doctor.stdout


def test_links_are_as_many_as_nvidia_smi_lists(environment):
    listed = subprocess.run(["nvidia-smi", "nvlink", "-s", "-i", "0"], capture_output=True, text=True, timeout=120)
    active = len(re.findall(r"^\s*Link \d+: [\d.]+ GB/s", listed.stdout, re.M))
    if listed.returncode != 0 or not active:
        pytest.skip("nvidia-smi lists no NVLink of GPU 0: " + listed.stdout.strip()[:100])
    identities = [json.loads(line).get("identity") for line in raw_records(environment)]
    raw = next(i for i in identities if i and i["index"] == 0)
    by_switch = raw["nvswitch_links"] if isinstance(raw.get("nvswitch_links"), int) else 0  # else the code it was refused with
    direct = len(raw["links"]) if isinstance(raw.get("links"), list) else 0
    assert active in (by_switch, direct), raw
    gpus = list(gpus_of(environment).values())
    addresses = {gpu["pci"] for gpu in gpus}
    ends = [link for link in gpus[0]["links"] if link["kind"] in ("nvlink", "nvswitch")]
    assert all(link["to"] in addresses and link["count"] <= active for link in ends)
    assert by_switch == 0 or len(ends) == len(gpus) - 1


# What a look asks, and how its arguments go on after the device: a buffer, a buffer and its size, two numbers, a counted list.
CALLS = ["nvmlDeviceGetSerial 32", "nvmlDeviceGetUUID 96", "nvmlDeviceGetName 96", "nvmlDeviceGetMemoryInfo",
         "nvmlDeviceGetComputeMode", "nvmlDeviceGetDisplayActive", "nvmlDeviceGetDisplayMode", "nvmlDeviceGetMigMode two",
         "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit",
         "nvmlDeviceGetComputeRunningProcesses_v3 list", "nvmlDeviceGetGraphicsRunningProcesses_v3 list",
         "nvmlDeviceGetMPSComputeRunningProcesses_v3 list"]


def call_times(library):
    """Milliseconds and return code of each call, cold and once more."""
    nvml = ctypes.CDLL(library)
    times = {}

    def timed(name, *arguments):
        begin = time.perf_counter()
        rc = getattr(nvml, name)(*arguments)
        times.setdefault(name, []).append((round((time.perf_counter() - begin) * 1000, 3), rc))
        return rc

    assert timed("nvmlInit_v2") == 0
    device = ctypes.c_void_p()
    for _ in range(2):
        assert timed("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(device)) == 0
        for call in CALLS:
            name, _, how = call.partition(" ")
            room = ctypes.create_string_buffer(1 << 16)
            if not hasattr(nvml, name):
                continue
            if how == "list":
                timed(name, device, ctypes.byref(ctypes.c_uint(64)), room)
            elif how == "two":
                timed(name, device, room, ctypes.byref(ctypes.c_uint()))
            elif how:
                timed(name, device, room, ctypes.c_uint(int(how)))
            else:
                timed(name, device, room)
    timed("nvmlShutdown")
    return times


def test_each_call_answers_and_its_time_is_told(environment):
    times = call_times(environment.get("THOLE_NVML", "libnvidia-ml.so.1"))
    print("milliseconds, cold and warm (return code):")
    for name, answers in times.items():
        print(f"  {name}: " + ", ".join(f"{ms} ({rc})" for ms, rc in answers))
    assert {rc for answers in times.values() for _, rc in answers} <= {0, 3, 4}, "0 ok, 3 not supported, 4 no permission"


def is_a_probe_with_a_gpu(process):
    try:
        if b"__probe\0nvidia" not in (process / "cmdline").read_bytes():
            return False
        return any(os.readlink(fd).startswith("/dev/nvidia") for fd in (process / "fd").iterdir())
    except OSError:
        return False


def test_no_probe_holds_the_gpus_awake_after_a_look(environment):
    status(environment)
    eventually(lambda: not any(is_a_probe_with_a_gpu(p) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()),
               "a probe still has /dev/nvidia* open")

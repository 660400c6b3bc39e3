"""thole on this machine's own NVIDIA GPUs: what it says is compared with nvidia-smi, and the commands do their work.

Needs a driver and a GPU; skipped with the reason elsewhere. Runs no computation: a claim is enough, so it may run on a
machine in use (GPUs that others use are not touched).
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

BUILD = pathlib.Path(os.environ.get("THOLE_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build"))
THOLE = os.environ.get("THOLE", str(BUILD / "thole"))


def why_not():
    if not shutil.which("nvidia-smi"):
        return "no nvidia-smi on this machine, so no NVIDIA driver to compare with"
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=120)
    if listed.returncode != 0 or "GPU 0" not in listed.stdout:
        return "nvidia-smi lists no GPU: " + (listed.stdout + listed.stderr).strip()[:200]
    return None


REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture
def environment(tmp_path):
    """The caller's variables without anything that would simulate or restrict, and a state directory of the test's own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("THOLE_", "CUDA_VISIBLE"))}
    kept["THOLE_STATE_DIR"] = str(tmp_path / "state")
    return kept


def thole(environment, *words, timeout=60):
    return subprocess.run([THOLE, *words], capture_output=True, text=True, env=environment, timeout=timeout)


def status(environment):
    result = thole(environment, "status", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def smi(*fields):
    text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, timeout=120, check=True).stdout
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]


def test_identity_is_what_nvidia_smi_says(environment):
    ours = {g["uuid"]: g for g in status(environment)["gpus"] if g["vendor"] == "nvidia"}
    theirs = smi("uuid", "name", "pci.bus_id", "memory.total")
    assert sorted(ours) == sorted(row[0] for row in theirs)
    for uuid, name, bus, total in theirs:
        assert ours[uuid]["model"] == name
        assert ours[uuid]["pci"].lower() == re.sub("^0000", "", bus.lower())
        assert ours[uuid]["memory_mib"] == int(total)


def test_the_driver_answered_and_every_gpu_is_well(environment):
    found = status(environment)
    for observation in found["observations"]:
        if observation["backend"] == "nvidia":
            assert observation["problem"] is None
            assert observation["answered"]
            assert observation["source"].startswith("nvml ")
    for gpu in found["gpus"]:
        assert gpu["health"] == "ok", gpu["health_reason"]


def test_use_is_near_what_nvidia_smi_says(environment):
    theirs = {row[0]: row[1:] for row in smi("uuid", "memory.used", "temperature.gpu", "power.draw")}
    for gpu in status(environment)["gpus"]:
        if gpu["uuid"] not in theirs:
            continue
        used, temperature, power = theirs[gpu["uuid"]]
        if used.isdigit():
            assert abs(gpu["use"]["memory_used_mib"] - int(used)) <= 1024    # other programs come and go
        if temperature.isdigit():
            assert abs(gpu["use"]["temperature_c"] - int(temperature)) <= 10
        if re.fullmatch(r"[\d.]+", power):
            assert abs(gpu["use"]["power_w"] - float(power)) <= max(50, float(power))
        assert isinstance(gpu["use"]["processes"], list), gpu["use"].get("errors")


def test_status_answers_within_five_seconds(environment):
    begin = time.monotonic()
    status(environment)
    assert time.monotonic() - begin < 5


def test_run_gives_a_gpu_that_the_driver_knows(environment):
    result = thole(environment, "run", "--no-wait", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; echo $THOLE_GPUS")
    if result.returncode == 75:
        pytest.skip("every GPU of this machine is in use: " + result.stderr.strip()[:200])
    assert result.returncode == 0, result.stderr
    visible, gpus = result.stdout.splitlines()
    known = [row[0] for row in smi("uuid")]
    assert any(uuid in gpus for uuid in known)
    assert visible in known or visible.isdigit() or visible.startswith("MIG-")


def test_capture_gives_a_machine_that_can_be_read_back(environment, tmp_path):
    captured = thole(environment, "capture")
    assert captured.returncode == 0, captured.stderr
    machine = tmp_path / "machine.json"
    machine.write_text(captured.stdout)
    again = thole(environment, "--machine", str(machine), "status", "--json")
    assert again.returncode == 0, again.stderr
    assert [g["uuid"] for g in json.loads(again.stdout)["gpus"]] == [g["uuid"] for g in status(environment)["gpus"]]

"""thole on this machine's own NVIDIA GPUs: what it says is compared with nvidia-smi, and the commands do their work.

Needs a driver and a GPU; skipped with the reason elsewhere. Runs no computation: a claim is enough, so it may run on a
machine in use (GPUs that others use are not touched).
"""
import json
import os
import pathlib
import re
import time

import pytest
from real_gpu import gpus_of, needs_a_gpu, raw_records, rows, smi, smi_apps, status, thole

pytestmark = needs_a_gpu

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
            assert abs(gpu["use"]["memory_used_mib"] - int(used)) <= 1024    # exactly: see the reserve below
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


RESERVE_MIB = 64                             # what decides whether a GPU is in use (free.ignore_memory)


def test_the_drivers_reserve_is_not_use(environment):
    theirs = rows("memory.used", "memory.reserved")
    for uuid, gpu in gpus_of(environment).items():
        used, reserved = theirs[uuid]
        if not (used.isdigit() and reserved.isdigit()):
            continue
        ours = gpu["use"]["memory_used_mib"]
        without = int(used) - int(reserved)
        assert min(abs(ours - int(used)), abs(ours - without)) <= RESERVE_MIB, (ours, used, reserved)
        if gpu["use"]["processes"] == []:
            assert ours <= RESERVE_MIB, "an idle GPU would be called in use"


def test_figures_and_names_are_what_nvidia_smi_says(environment):
    theirs = rows("utilization.memory", "enforced.power.limit", "compute_mode", "serial", "driver_version")
    modes = {"Default": "default", "Exclusive_Process": "exclusive-process", "Prohibited": "prohibited"}
    for uuid, gpu in gpus_of(environment).items():
        memory_load, limit, mode, serial, driver = theirs[uuid]
        if memory_load.isdigit():
            assert 0 <= gpu["use"]["memory_utilization_percent"] <= 100
        if re.fullmatch(r"[\d.]+", limit):
            assert abs(gpu["use"]["power_limit_w"] - float(limit)) <= 1
        assert gpu["compute_mode"] == modes.get(mode, gpu["compute_mode"])
        if serial.isdigit():
            assert gpu["serial"] == serial
        assert gpu["driver"] == driver


def test_what_one_gpu_shows_has_its_links_and_near_cpus(environment):
    for gpu in gpus_of(environment).values():
        near = pathlib.Path("/sys/bus/pci/devices", gpu["pci"], "local_cpulist")
        if near.exists() and "THOLE_SYSROOT" not in environment:
            assert gpu["near_cpus"]["node"] == near.read_text().strip()
    shown = thole(environment, "status", "0")
    assert shown.returncode == 0, shown.stderr


def test_the_second_look_is_served_without_asking_who_the_gpus_are(environment):
    took = []
    for _ in range(5):
        begin = time.monotonic()
        status(environment)
        took.append(round((time.monotonic() - begin) * 1000))
    print(f"status, ms: {took}; calls by time: strace -f -c -e ioctl thole status")
    assert max(took) < 5000


def test_the_raw_records_of_this_driver_are_whole(environment):
    records = [json.loads(line) for line in raw_records(environment)]
    kinds = [next(iter(record)) for record in records]
    assert kinds[0] == "driver" and records[0]["driver"]["init"] == 0, records[0]
    assert kinds.count("identity") == kinds.count("use") == records[0]["driver"]["count"]
    refused = {f"{name} {value['rc']}" for record in records for name, value in (record.get("use") or {}).items()
               if isinstance(value, dict) and set(value) == {"rc"}}
    print("refused:", sorted(refused))
    to = os.environ.get("THOLE_RECORD_TO")
    if to:
        pathlib.Path(to).write_text("".join(raw_records(environment)))


def test_a_process_is_listed_with_its_memory_keeps_its_gpu_and_leaves(environment, context):
    listed = {int(row[0]): row[1] for row in smi_apps()}
    seen = {p["pid"]: (uuid, p) for uuid, gpu in gpus_of(environment).items() for p in gpu["use"]["processes"]}
    assert context.pid in seen and context.pid in listed
    uuid, process = seen[context.pid]
    assert process["kind"] == "compute"
    if listed[context.pid].isdigit():
        assert abs(process["memory_mib"] - int(listed[context.pid])) <= RESERVE_MIB
    index = [g["uuid"] for g in status(environment)["gpus"]].index(uuid)
    kept = thole(environment, "run", "--no-wait", "--on", str(index), "true")
    assert kept.returncode == 75, (kept.returncode, kept.stderr)
    context.stdin.close()
    context.wait(timeout=60)
    deadline = time.monotonic() + 60
    while any(p["pid"] == context.pid for g in gpus_of(environment).values() for p in g["use"]["processes"]):
        assert time.monotonic() < deadline, "the driver lists a process that has ended"


def test_doctor_says_what_this_machine_lacks(environment):
    done = thole(environment, "doctor", "--json")
    checks = json.loads(done.stdout)["checks"]
    print("\n".join(f"{c['result']} {c['name']}: {c['text']}" for c in checks))
    assert any(c["name"] == "reading nvidia" for c in checks)

"""The program over a faked NVIDIA driver: kernel files under a root prefix, a fake libnvidia-ml, and every way it can
misbehave."""
import json
import os
import pathlib
import re
import shutil
import sys
import time

import pytest

from fake_nvidia import BUILD, STATUS_LIMIT, THOLE, Driver
from run_tools import SANITIZED, Started, Terminal, eventually


@pytest.fixture
def driver(tmp_path):
    return Driver(tmp_path, 8)


def observation(status):
    return next(o for o in status["observations"] if o["backend"] == "nvidia")


def health(status):
    return [gpu["health"] for gpu in status["gpus"]]


def test_status_shows_what_the_driver_says(driver):
    driver.configure("gpus 8", "gpu 3 process compute 4711 11000", "gpu 3 memory 81920 596 11000", "gpu 3 util 97 40")
    status = driver.status()
    assert [gpu["uuid"] for gpu in status["gpus"]] == [driver.uuid(i) for i in range(8)]
    use = status["gpus"][3]["use"]
    assert (use["memory_used_mib"], use["utilization_percent"]) == (11000, 97)
    assert [p["pid"] for p in use["processes"]] == [4711]
    assert observation(status)["problem"] is None


def test_a_process_whose_number_the_driver_does_not_name_is_not_pid_0(driver, tmp_path):
    driver.configure("gpus 8", "gpu 3 process compute 4294967295 11000", "gpu 3 memory 81920 596 11000", "gpu 3 temp -1")
    shown = driver.thole("status").stdout + driver.thole("status", "3").stdout
    assert "pid unknown" in shown and "pid 0" not in shown, shown
    status = driver.status()
    assert [p["pid"] for p in status["gpus"][3]["use"]["processes"]] == [None]
    assert status["gpus"][3]["use"]["temperature_c"] is None
    assert status["units"][3]["unclaimed_pids"] == []
    captured = tmp_path / "captured.json"
    assert driver.thole("capture", "--use", "-o", captured).returncode == 0
    assert driver.thole("--machine", captured, "status").returncode == 0, "what is captured can be read"


def test_run_takes_no_gpu_that_somebody_uses_without_a_claim(driver):
    driver.configure("gpus 8", *(f"gpu {i} process compute {4000 + i} 500" for i in range(8) if i != 5))
    result = driver.thole("run", "--no-wait", "--ids", "uuid", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == driver.uuid(5)
    assert driver.thole("run", "--no-wait", "-g", "2", "--", "true").returncode == 75


# `more`: what the second look takes of those that look again, a warm one of a claim or of what is shown (docs/hardware.md).
@pytest.mark.parametrize("words, status, more", [("status", 0, 0), ("why 3", 0, 0), ("why -g 2", 0, 64),
                                                 ("run --no-wait -- true", 75, 40)])
def test_the_first_look_of_a_boot_at_eight_busy_gpus_asks_at_most_a_hundred_times(driver, tmp_path, words, status, more):
    driver.configure("gpus 8", f"calls {tmp_path / 'calls'}", "gpu * nvswitch 12",
                     *(f"gpu {i} process compute {4000 + i} 500\ngpu {i} memory 81920 596 600" for i in range(8)))
    result = driver.thole(*words.split())
    assert result.returncode == status, result.stderr
    calls = (tmp_path / "calls").read_text().split()
    prepares = ("nvmlEventSetCreate", "nvmlDeviceRegisterEvents")     # to hear of Xids later, when the answer has been given
    assert 30 < sum(name not in prepares for name in calls) <= 100 + more, calls


@pytest.mark.parametrize("library, lines, state, said", [
    ("full", ["hang nvmlInit_v2"], "hung", "not answered"),
    ("full", ["hang nvmlDeviceGetCount_v2"], "hung", "not answered"),
    ("full", ["crash nvmlInit_v2"], "unreadable", "signal 6"),
    ("full", ["exit nvmlInit_v2"], "unreadable", "status 7"),
    ("full", ["init 18"], "driver-mismatch", "reboot"),
    ("full", ["init 9"], "unreadable", "modprobe"),
    ("full", ["init 4"], "unreadable", "permission"),
    ("stub", [], "unreadable", "stub"),
    ("missing", [], "unreadable", "cannot be loaded"),
])
def test_a_driver_that_gives_nothing_is_named_in_time_and_nothing_is_handed_out(driver, library, lines, state, said):
    driver.environment["THOLE_NVML"] = str(BUILD / "fake" / library / "libnvidia-ml.so.1")
    if state == "hung":
        driver.environment["THOLE_PROBE_PATIENCE"] = "2s"
    driver.configure("gpus 8", *lines)
    status = driver.status()
    assert health(status) == [state] * 8
    assert said in observation(status)["problem"]
    text = driver.thole("status")
    assert said in text.stdout + text.stderr
    begin = time.monotonic()
    result = driver.thole("run", "--no-wait", "--", "true")
    assert result.returncode in (69, 75), result.stderr
    assert result.stderr.strip()
    assert time.monotonic() - begin < 3 * STATUS_LIMIT


def test_a_library_that_is_no_driver_s_is_called_so(driver):
    driver.environment["THOLE_NVML"] = "libc.so.6"
    assert "libc.so.6 has no nvmlInit, count or handle functions: a stub or some other library, not the driver's; take " in \
        observation(driver.status())["problem"]


def test_where_a_sandbox_shows_the_driver_s_device_only_the_library_is_asked(driver):
    for hidden in ("proc/driver", "sys/bus/pci"):
        shutil.rmtree(driver.root / hidden)
    assert driver.status()["gpus"] == []
    driver.write("/dev/nvidiactl", "")
    assert [gpu["uuid"] for gpu in driver.status()["gpus"]] == [driver.uuid(i) for i in range(8)]


def test_what_several_gpus_suffer_from_is_told_once_and_what_each_does_in_its_own_words(driver):
    lost, not_reached = "rc nvmlDeviceGetHandleByIndex_v2 15", "rc nvmlDeviceGetHandleByIndex_v2 999"
    driver.configure("gpus 8", f"gpu 2 {lost}", f"gpu 4 {not_reached}", f"gpu 5 {lost}")
    said = " ".join(driver.thole("status").stdout.split())
    assert "GPUs 2, 5: lost: it has fallen off the bus: reboot" in said and said.count("fallen off the bus") == 1, said
    assert "GPU 4: lost: the driver cannot reach it (an unknown error): see dmesg" in said, said


@pytest.mark.parametrize("fault, state", [("hang nvmlDeviceGetHandleByIndex_v2", "hung"),
                                          ("hang nvmlDeviceGetComputeRunningProcesses_v3", "hung"),
                                          ("crash nvmlDeviceGetComputeMode", "unreadable"),
                                          ("rc nvmlDeviceGetHandleByIndex_v2 15", "lost"),
                                          ("rc nvmlDeviceGetHandleByIndex_v2 16", "reset-required")])
def test_one_bad_gpu_of_eight_is_named_and_the_seven_others_are_used(driver, fault, state):
    driver.configure("gpus 8", "gpu 2 " + fault)
    if state == "hung":
        driver.environment["THOLE_PROBE_PATIENCE"] = "3s"
    assert health(driver.status()) == [state if i == 2 else "ok" for i in range(8)]
    assert driver.thole("run", "--no-wait", "-g", "7", "--", "true").returncode == 0
    assert driver.thole("run", "--no-wait", "--on", "2", "--", "true").returncode in (69, 75)


def test_while_the_driver_hangs_the_last_answer_is_shown_with_its_age(driver):
    driver.configure("gpus 8", "gpu 1 process compute 4711 100")
    driver.status()
    driver.configure("gpus 8", "hang nvmlInit_v2")
    status = driver.status()
    assert observation(status)["age_s"] is not None
    assert not observation(status)["answered"]
    assert [p["pid"] for p in status["gpus"][1]["use"]["processes"]] == [4711]
    assert health(status) == ["hung"] * 8


def claim(driver, *words):
    done = driver.thole("claim", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_claims_are_extended_and_released_at_once_while_the_driver_hangs(driver):
    first, second = claim(driver, "--on", "2", "--time", "1h"), claim(driver, "--on", "5", "--time", "1h")
    driver.configure("gpus 8", "hang nvmlInit_v2")
    asked = (driver.environment["THOLE_PERSONAL_DIR"] + "/probe-nvidia.lock")
    before = pathlib.Path(asked).read_text()
    begin = time.monotonic()
    for words in (["extend", first, "2h"], ["release", first], ["extend", "5", "2h"], ["release", driver.uuid(5)]):
        done = driver.thole(*words)
        assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin < STATUS_LIMIT, "one look at the driver takes 10 s"
    assert pathlib.Path(asked).read_text() == before, "no probe was asked"
    assert driver.thole("release", second).returncode == 64
    assert driver.status()["claims"] == []


def test_while_the_driver_hangs_status_shows_claims_and_the_queue_at_once(driver):
    held = claim(driver, "--on", "2", "--time", "1h")
    with Started([THOLE, "run", "--on", "2", "--trust-claims", "true"], env=driver.environment) as waiting:
        waiting.error_until("waiting")
        driver.configure("gpus 8", "hang nvmlInit_v2")
        begin = time.monotonic()
        with Terminal([THOLE, "status"], env=driver.environment) as status:
            first = status.expect("(?s)^.*1 of GPU 2").group()
            assert "not answered yet" in first and "UNKNOWN" not in first, "it stands before the table"
            plain = re.sub(r"\x1b\[[0-9;]*m", "", first)
            assert [line.split()[0] for line in plain.splitlines() if "thole claim" in line] == ["2"]
            status.expect("(?s)^.*UNKNOWN(.*UNKNOWN){6}")
            assert status.wait() == 0
            assert time.monotonic() - begin < STATUS_LIMIT
        for_programs = driver.thole("status").stdout       # a pipe gets the table only
        assert "not answered yet" not in for_programs and for_programs.startswith("GPU")
        assert "2   A100" in for_programs
        assert "not answered" not in driver.thole("status", "--list").stdout
        assert driver.thole("release", held).returncode == 0
        assert waiting.wait() == 0


def test_a_fatal_xid_in_the_kernel_s_log_keeps_a_gpu_from_being_handed_out(driver):
    # a driver that does not say itself which recovery is needed
    driver.configure("gpus 8", "gpu * rc nvmlDeviceGetFieldValues 3")
    driver.write("/dev/kmsg", "".join(f"<3>[ 1.0] NVRM: Xid (PCI:{driver.pci(gpu)[:-2]}): {xid}, pid=1, name=python\n"
                                      for gpu, xid in ((1, 31), (2, 63), (3, 74))))
    status = driver.status()
    assert health(status) == ["reset-required" if i == 3 else "ok" for i in range(8)]
    assert [gpu["last_xid"] for gpu in status["gpus"][:4]] == [None, 31, 63, 74]
    text = driver.thole("status").stdout
    assert "Xid 74" in text and "Xid that the driver reported is 63" in text and "31" not in text.partition("free")[2]
    assert "last Xid 31" in driver.thole("status", "1").stdout
    doctor = json.loads(driver.thole("doctor", "--json").stdout)["checks"]
    assert {check["name"]: check["result"] for check in doctor if "last Xid" in check["text"]} == \
        {"GPU 1": "ok", "GPU 2": "warning", "GPU 3": "ok"}
    assert [gpu["last_xid"] for gpu in json.loads(driver.thole("capture", "--use").stdout)["gpus"][:4]] == [None, 31, 63, 74]
    assert driver.thole("run", "--no-wait", "--on", "3", "--", "true").returncode in (69, 75)
    assert driver.thole("run", "--no-wait", "-g", "7", "--", "true").returncode == 0


def test_doctor_tells_of_what_works_and_should_be_looked_after(driver):
    """And alone: who shows GPUs does not ask for it."""
    driver.configure("gpus 8", "gpu 1 remap 1 0", "gpu 2 remap 0 1", "gpu 3 slowed 0x40", "gpu 4 fabric 2 0",
                     *(f"gpu {i} slowed 0x80" for i in (5, 6, 7)))
    assert health(driver.status()) == ["ok"] * 8 and observation(driver.status())["problem"] is None
    checks = json.loads(driver.thole("doctor", "--json").stdout)["checks"]
    said = [(check["name"], check["text"]) for check in checks if check["result"] == "warning"]
    for gpu, what in ((1, "at its next reset"), (2, "no spare ones"), (3, "too hot"), (4, "fabric"), (7, "power brake")):
        assert any(name == f"GPU {gpu}" and what in text for name, text in said), (gpu, what, said)


@pytest.mark.skipif(SANITIZED, reason="so slow that the driver's answer is late in truth")
def test_a_driver_that_answers_is_not_called_late(driver):
    def is_called_late():
        with Terminal([THOLE, "status"], driver.environment) as status:
            assert status.wait() == 0
            return "not answered" in status.seen
    eventually(lambda: not is_called_late(), "a look that a busy machine does not make slow")


def test_a_slow_driver_is_called_late_at_a_terminal_and_a_pipe_gets_the_table_only(driver):
    driver.configure("gpus 8", "delay_us nvmlInit_v2 2000000")
    with Terminal([THOLE, "status"], {**driver.environment, "NO_COLOR": "1"}) as status:
        status.expect("(?s)^The driver has not answered yet.*GPU +MODEL.*8 free")
        assert status.wait() == 0
    piped = driver.thole("status")
    assert piped.returncode == 0 and piped.stdout.startswith("GPU MODEL") and "not answered" not in piped.stdout, piped


def probes(driver):
    """The probes that run now for this faked driver."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            mine = str(driver.conf).encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            if mine and b"\0__probe\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
        except OSError:
            pass
    return found


LIST_CHILDREN_OF_THOLE = """
import os
for pid in open(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read().split():
    print(open(f"/proc/{pid}/cmdline").read().replace(chr(0), " "))
"""


def test_no_probe_is_left_behind_nor_runs_beside_the_job(driver):
    driver.status()
    result = driver.thole("run", "--no-wait", "--", sys.executable, "-c", LIST_CHILDREN_OF_THOLE)
    assert result.returncode == 0, result.stderr
    assert "open(" in result.stdout          # the job sees itself, so it would see a probe
    assert "__probe" not in result.stdout
    driver.configure("gpus 8", "gpu 3 hang nvmlDeviceGetMemoryInfo_v2")
    driver.status()
    eventually(lambda: probes(driver) == [], "the probe leaves a GPU that hangs")


def test_a_driver_that_may_be_coming_up_is_left_one_probe_at_most(driver):
    driver.configure("gpus 8", "hang nvmlInit_v2")
    driver.status()
    alone = probes(driver)
    assert len(alone) == 1
    driver.status()
    assert probes(driver) == alone
    os.kill(alone[0], 9)


def test_an_instance_that_is_named_is_shown_without_its_siblings(driver):
    driver.configure("gpus 8", "gpu 0 mig 1", "gpu 0 instance MIG-a 1 0 3 3 20096 1000 3g.20gb",
                     "gpu 0 instance MIG-b 2 0 3 3 20096 30 3g.20gb")
    shown = driver.thole("status", "0:1").stdout
    assert "MIG-b" in shown and "MIG-a" not in shown
    assert [unit["unit"] for unit in json.loads(driver.thole("status", "0:1", "--json").stdout)["gpus"][0]["units"]] == ["0:1"]
    assert [unit["unit"] for unit in json.loads(driver.thole("why", "0:1", "--json").stdout)["units"]] == ["0:1"]
    whole = driver.thole("status", "0").stdout
    assert "MIG-a" in whole and "MIG-b" in whole
    table = driver.thole("status").stdout.splitlines()
    assert next(line for line in table if line.startswith("0:1")).split()[3:5] == [
        "-",
        "-",
    ], "load and temperature are the GPU's"


@pytest.mark.parametrize("code", [15, 999])
@pytest.mark.parametrize("asked", [["-g", "1"], ["--on", "0:1"], ["--on", "MIG-a"], ["-g", "1", "--not", "1"]], ids=" ".join)
def test_instances_that_the_driver_does_not_list_are_its_trouble_and_not_missing_for_ever(tmp_path, code, asked):
    beside = "--not" in asked
    driver = Driver(tmp_path, 1 + beside)
    listed = [f"gpus {1 + beside}", "gpu 0 mig 1", "gpu 0 instance MIG-a 1 0 3 3 20096 30 3g.20gb",
              "gpu 0 instance MIG-b 2 0 3 3 20096 30 3g.20gb"]
    driver.configure(*listed, f"gpu 0 rc nvmlDeviceGetMigDeviceHandleByIndex {code}")
    driver.environment["THOLE_QUEUE_DIR"] = str(tmp_path / "queue")
    for words in (["run", *asked, "true"], ["claim", *asked], ["map", *asked, "echo", ":::", "1"], ["submit", *asked, "true"]):
        refused = driver.thole(*words)
        assert refused.returncode == 69 and "not all of its instances can be told" in refused.stderr, refused.stderr
    driver.configure(*listed)
    assert driver.thole("run", "--no-wait", *asked, "true").returncode == 0

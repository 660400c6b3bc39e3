"""What status, why, doctor and capture show of simulated machines: every shipped one, and states made by editing a file."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from run_tools import THOLE, Started, Terminal, eventually

MACHINES = sorted(path.stem for path in (pathlib.Path(__file__).parents[2] / "machines").glob("*.json"))
HEALTHY = {"utilization_percent": 0, "temperature_c": 31, "memory_used_mib": 0, "processes": []}


def thole(*words, env=None, cwd=None):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("THOLE_", "CUDA_", "SLURM_"))}
    variables.update(env or {})
    return subprocess.run([THOLE, *map(str, words)], capture_output=True, text=True, env=variables, cwd=cwd, timeout=60)


def gpu(index, **more):
    """One GPU of a machine file; `use` and the rest as given."""
    return {"uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000", "vendor": "nvidia", "model": "NVIDIA A100-SXM4-40GB",
            "pci": f"0000:{index + 16:02x}:00.0", "memory_mib": 40960, "health": "ok", "use": dict(HEALTHY), **more}


@pytest.fixture
def machine(tmp_path):
    """Writes a machine file; returns the words that make thole use it."""
    def write(*gpus, name="lab"):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"schema": "thole/machine/1", "name": name, "gpus": list(gpus)}))
        return ["--machine", str(path), "--state-dir", str(tmp_path / "state")]
    return write


def line_of(text, label):
    """The line of a unit in the table, as words."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [label])


@pytest.mark.parametrize("name", MACHINES)
def test_every_shipped_machine_fits_80_columns_and_is_free(name):
    status = thole("--machine", name)
    assert status.returncode == 0, status.stderr
    assert max(map(len, status.stdout.splitlines())) <= 80
    assert "\x1b" not in status.stdout
    shown = json.loads(thole("--machine", name, "status", "--json").stdout)
    assert shown["schema"] == "thole/machine/1"
    assert {unit["state"] for unit in shown["units"]} <= {"idle"}
    for unit in shown["units"]:
        assert line_of(status.stdout, unit["unit"])


@pytest.mark.parametrize("name", MACHINES)
def test_a_status_is_itself_a_machine_file(name, tmp_path):
    first = json.loads(thole("--machine", name, "status", "--json").stdout)
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(first))
    second = json.loads(thole("--machine", copy, "status", "--json").stdout)
    assert second["gpus"] == first["gpus"]
    assert second["units"] == first["units"]


def test_every_state_is_told(machine):
    foreign = {
        **HEALTHY,
        "memory_used_mib": 9000,
        "processes": [{"pid": pid, "user": user, "kind": "compute", "memory_mib": 4500, "command": "train.py"}
                      for pid, user in enumerate(("bob", "ann"), 1)],
    }
    words = machine(gpu(0), gpu(1, use=foreign), gpu(2, health="lost"),
                    gpu(3, health="unreadable", use=None))
    text = thole(*words).stdout
    assert line_of(text, "0")[5] == "IDLE"
    assert line_of(text, "1")[5:7] == ["FOREIGN", "bob,ann"]
    assert line_of(text, "2")[5] == "SICK"
    assert line_of(text, "3")[5] == "UNKNOWN"
    assert line_of(text, "3")[2:5] == ["?/40G", "?", "?"]
    assert "1 free, 1 foreign, 1 sick, 1 unknown" in text


def test_an_edit_of_the_machine_file_is_seen(machine):
    assert line_of(thole(*machine(gpu(0))).stdout, "0")[5] == "IDLE"
    assert line_of(thole(*machine(gpu(0, health="reset-required"))).stdout, "0")[5] == "SICK"


def test_claims_are_shown_with_owner_and_end(machine):
    words = machine(gpu(0), gpu(1), gpu(2))
    with Started([THOLE, *words, "-q", "run", "-g", "2", "--time", "1h", "sh", "-c", "echo ready; read line"]) as job:
        assert job.line() == "ready"
        shown = json.loads(thole(*words, "status", "--json").stdout)
        assert [unit["state"] for unit in shown["units"]].count("claimed") == 2
        assert [unit["mine"] for unit in shown["units"]].count(True) == 2
        claimed = next(unit["unit"] for unit in shown["units"] if unit["state"] == "claimed")
        row = line_of(thole(*words).stdout, claimed)
        assert row[5] == "CLAIMED"
        assert re.fullmatch(r"\d\d:\d\d", row[7]) and row[8] != "-"
        assert "claimed by" in thole(*words, "why", claimed).stdout
        full = thole(*words, "status", claimed).stdout
        assert "claimed by" in full and shown["claims"][0]["id"] in full
        job.write("end\n")
        assert job.wait() == 0
    assert "3 free" in thole(*words).stdout


def test_waiters_are_listed_in_order(machine):
    words = machine(gpu(0))
    with Started([THOLE, *words, "-q", "run", "sh", "-c", "echo ready; read line"]) as job:
        assert job.line() == "ready"
        with Started([THOLE, *words, "run", "--memory", "1G", "true"]) as waiter:
            queue = eventually(lambda: json.loads(thole(*words, "status", "--json").stdout)["queue"])
            assert len(queue) == 1 and queue[0]["wants"]["gpus"] == 1
            assert "WAITING" in thole(*words).stdout
            job.write("end\n")
            assert job.wait() == 0
            assert waiter.wait() == 0


def test_an_outer_mask_is_named(machine):
    words = machine(gpu(0), gpu(1), gpu(2))
    masked = thole(*words, env={"CUDA_VISIBLE_DEVICES": "1"})
    assert "CUDA_VISIBLE_DEVICES leaves you GPU 1 here." in masked.stdout
    assert "CUDA_VISIBLE_DEVICES" in thole(*words, "why", "0", env={"CUDA_VISIBLE_DEVICES": "1"}).stdout


def test_list_is_index_uuid_name(machine):
    words = machine(gpu(0), gpu(1))
    lines = [line.split("\t") for line in thole(*words, "status", "--list").stdout.splitlines()]
    assert lines == [["0", gpu(0)["uuid"], "NVIDIA A100-SXM4-40GB"], ["1", gpu(1)["uuid"], "NVIDIA A100-SXM4-40GB"]]
    assert json.loads(thole(*words, "status", "--list", "--json").stdout)["gpus"][1]["uuid"] == gpu(1)["uuid"]


def test_strangers_texts_cannot_steer_the_terminal(machine):
    hostile = {
        **HEALTHY,
        "memory_used_mib": 900,
        "processes": [
            {"pid": 1, "user": "a\x1b[2Jb", "kind": "compute", "memory_mib": 900, "command": "\x1b]0;x\x07\r\n0 IDLE"}
        ],
    }
    words = machine(gpu(0, model="NVIDIA \x1b[31mRED", use=hostile))
    for more in ([], ["status", "0"], ["status", "--list"], ["why", "0"], ["status", "--json"], ["doctor"]):
        shown = thole(*words, *more)
        assert shown.returncode == 0, shown.stderr
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", shown.stdout), more


def test_watch_repeats_blocks_where_there_is_no_terminal_and_ends_on_ctrl_c(machine):
    with Started([THOLE, *machine(gpu(0)), "status", "--watch=1"]) as watch:
        heads = 0
        while heads < 2:
            heads += watch.line().startswith("GPU MODEL")
        os.kill(watch.pid, signal.SIGINT)
        assert watch.wait() == -signal.SIGINT


def test_without_a_gpu_a_simulated_machine_is_offered():
    shown = thole("--machine", "none")
    assert shown.returncode == 0
    assert "thole --machine dgx-a100 status" in shown.stdout


def test_why_explains_a_request(machine):
    words = machine(gpu(0), gpu(1, health="lost"))
    assert "would claim GPU 0" in thole(*words, "why", "-g", "1").stdout
    refused = thole(*words, "why", "-g", "5")
    assert refused.returncode == 0
    assert "would be refused" in refused.stdout and "5 GPUs" in refused.stdout
    assert json.loads(thole(*words, "why", "-g", "1", "--json").stdout)["plan"]["would"] == "claim"


def test_dry_run_claims_nothing(machine):
    words = machine(gpu(0), gpu(1))
    plan = thole(*words, "run", "--dry-run", "-g", "2", "false")
    assert plan.returncode == 0
    assert "would claim GPU 0,1" in plan.stdout and "CUDA_VISIBLE_DEVICES=" in plan.stdout
    assert "2 free" in thole(*words).stdout
    assert json.loads(thole(*words, "run", "--dry-run", "--json", "x").stdout)["would"] == "claim"


def test_capture_without_use_is_an_idle_machine(machine, tmp_path):
    foreign = {
        **HEALTHY,
        "memory_used_mib": 9000,
        "processes": [{"pid": 1, "user": "bob", "kind": "compute", "memory_mib": 9000}],
    }
    words = machine(gpu(0, use=foreign), gpu(1, health="lost"))
    idle, busy = tmp_path / "idle.json", tmp_path / "busy.json"
    assert thole(*words, "capture", "-o", idle).returncode == 0
    assert "2 free" in thole("--machine", idle).stdout
    busy.write_text(thole(*words, "capture", "--use", "--anonymous").stdout)
    assert "bob" not in busy.read_text()
    assert [row["state"] for row in json.loads(thole("--machine", busy, "status", "--json").stdout)["units"]] == [
        "foreign",
        "sick",
    ]


def test_doctor_informs_and_ends_with_0(machine):
    examined = thole(*machine(gpu(0, health="lost")), "doctor")
    assert examined.returncode == 0
    assert re.search(r"^problem +GPU 0: lost", examined.stdout, re.M)
    checks = json.loads(thole(*machine(gpu(0)), "doctor", "--json").stdout)
    assert checks["schema"] == "thole/doctor/1"
    assert all(check["result"] in ("ok", "warning", "problem") for check in checks["checks"])


def test_colours_only_on_a_terminal_and_never_under_no_color(machine):
    words = [THOLE, *machine(gpu(0, health="lost"))]
    for no_color, colored in (("", True), ("1", False)):
        with Terminal(words, env={"NO_COLOR": no_color}) as terminal:
            terminal.wait()
            assert "SICK" in terminal.seen
            assert ("\x1b[" in terminal.seen) == colored

"""What the program prints as JSON is what docs/schema says, for every shipped machine, idle, claimed and waited for."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import schema_check  # noqa: E402

THOLE = os.environ.get("THOLE", str(ROOT / "build" / "thole"))
MACHINES = sorted(path.stem for path in (ROOT / "machines").glob("*.json"))
STATUS = schema_check.load(ROOT / "docs/schema/status-1.json")
MACHINE = schema_check.load(ROOT / "docs/schema/machine-1.json")


def thole(*words, state, **more):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(state),
        "THOLE_MACHINES": str(ROOT / "machines"),
        "THOLE_STATE_DIR": str(state),
    }
    return subprocess.run([THOLE, *words], env=environment, capture_output=True, text=True, timeout=60, **more)


def described(value, schema):
    return list(schema_check.problems(value, schema, schema))


@pytest.mark.parametrize("machine", MACHINES + ["8xA100", "2xMax1550"])
def test_status_is_as_described(machine, tmp_path):
    result = thole("--machine", machine, "status", "--json", state=tmp_path)
    assert result.returncode == 0, result.stderr
    assert described(json.loads(result.stdout), STATUS) == []


def test_status_under_a_claim_is_as_described(tmp_path):
    inner = [THOLE, "--machine", "dgx-a100", "status", "--json"]
    result = thole("--machine", "dgx-a100", "run", "-q", "-g", "2", "--", *inner, state=tmp_path)
    assert result.returncode == 0, result.stderr
    status = json.loads(result.stdout)
    assert described(status, STATUS) == []
    assert [claim["gpu"] for claim in status["claims"]] == sorted(claim["gpu"] for claim in status["claims"])
    assert len(status["claims"]) == 2


@pytest.mark.parametrize("machine", MACHINES)
def test_capture_reads_back_as_the_same_machine(machine, tmp_path):
    first = thole("--machine", machine, "capture", state=tmp_path)
    assert first.returncode == 0, first.stderr
    assert described(json.loads(first.stdout), MACHINE) == []
    (tmp_path / "again.json").write_text(first.stdout)
    second = thole("--machine", str(tmp_path / "again.json"), "capture", state=tmp_path)
    assert json.loads(second.stdout) == json.loads(first.stdout)

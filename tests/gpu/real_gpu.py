"""What the tests of this machine's own NVIDIA GPUs share."""
import json
import os
import pathlib
import shutil
import subprocess

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
needs_a_gpu = pytest.mark.skipif(REASON is not None, reason=str(REASON))


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


def gpus_of(environment):
    """Ours and nvidia-smi's, by UUID."""
    return {g["uuid"]: g for g in status(environment)["gpus"] if g["vendor"] == "nvidia"}


def rows(*fields):
    return {row[0]: row[1:] for row in smi("uuid", *fields)}


def raw_records(environment):
    """The probe's answer, line by line: every return code of this driver."""
    probe = subprocess.Popen([THOLE, "__probe", "nvidia"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=environment)
    request = {"library": environment.get("THOLE_NVML", ""), "purpose": "examine", "want_cpus": True}
    probe.stdin.write(json.dumps(request) + "\n")
    probe.stdin.flush()
    lines = []
    for line in probe.stdout:
        if line == ".\n":
            break
        lines.append(line)
    probe.stdin.close()
    probe.wait(timeout=60)
    return lines


def smi_apps():
    text = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, timeout=120, check=True).stdout
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]

"""A machine file whose CPUs are two that this host has: each alone in its node and package, each with a GPU. So what is
planned on the machine is really done here."""
import json
import os
import re
import subprocess

import pytest

from run_tools import THOLE

ALLOWED = sorted(os.sched_getaffinity(0))
SHOW = ["grep", "-h", "Cpus_allowed_list", "/proc/self/status"]

needs_two_cpus = pytest.mark.skipif(len(ALLOWED) < 2, reason="this host lets us use one CPU only: nothing to choose from")


def gpu(index, cpu):
    return {"uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000", "vendor": "nvidia", "model": "NVIDIA A100-SXM4-80GB",
            "pci": f"0000:{0x10 + index:02x}:00.0", "minor": index, "memory_mib": 81920, "numa": index,
            "near_cpus": {"node": str(cpu), "package": str(cpu)}, "links": [], "mig": [], "display": False, "health": "ok",
            "use": {"memory_used_mib": 0, "utilization_percent": 0, "processes": []}}


def two_node_machine():
    first, second = ALLOWED[:2]
    return {"schema": "thole/machine/1", "name": "two",
            "cpus": [{"id": cpu, "core": i, "l3": i, "numa": i, "package": i} for i, cpu in enumerate((first, second))],
            "numa": [{"id": 0, "memory_mib": 4096}, {"id": 1, "memory_mib": 4096}],
            "gpus": [gpu(0, first), gpu(1, second)], "nics": [], "outer": {}}


class Site:
    """A machine file, a state directory, and the program on them."""

    def __init__(self, directory, machine):
        self.file = directory / "machine.json"
        self.file.write_text(json.dumps(machine))
        self.words = [THOLE, "--machine", str(self.file), "--state-dir", str(directory / "state")]
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("THOLE_", "CUDA_", "OMP_", "MKL_", "SLURM_", "LOCAL_", "OMPI_", "MPI_"))}

    def run(self, *words, before=(), env=None):
        return subprocess.run([*before, *self.words, *words], capture_output=True, text=True, timeout=60,
                              env={**self.environment, **(env or {})})

    def cpus(self, *words, before=(), env=None):
        """The CPUs that a command gets which these words start."""
        done = self.run(*words, *SHOW, before=before, env=env)
        assert done.returncode == 0, done.stderr
        return cpus_in(done.stdout)


def cpus_in(text):
    found = re.search(r"Cpus_allowed_list:\s*(\S+)", text)
    assert found, text
    cpus = []
    for part in found[1].split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path, two_node_machine())

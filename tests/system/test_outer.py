"""What an engine has allotted narrows what thole hands out, and never widens it."""
import os
import socket
import subprocess

import pytest

from run_tools import THOLE


@pytest.fixture
def box(tmp_path):
    return {
        **{
            key: value for key, value in os.environ.items() if not key.startswith(("THOLE_", "CUDA_", "SLURM_", "SGE_", "PBS_"))
        },
        "THOLE_MACHINE": "4xA100",
        "THOLE_STATE_DIR": str(tmp_path / "state"),
    }


def run(box, *words):
    return subprocess.run([THOLE, "run", "-q", *words], env=box, capture_output=True, text=True, timeout=60)


def devices(box, gpus):
    done = run(box, "-g", str(gpus), "--no-wait", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("variable", [{"SLURM_JOB_GPUS": "1,3"}, {"SGE_HGR_gpu": "gpu1 gpu3"}, {"CUDA_VISIBLE_DEVICES": "3,1"}])
def test_only_what_an_engine_gave_is_handed_out(box, variable):
    box.update(variable)
    assert devices(box, 2) == "1,3"
    refused = run(box, "-g", "3", "true")
    assert refused.returncode == 64 and next(iter(variable)) in refused.stderr


def test_of_the_gpu_file_of_pbs_the_lines_of_this_host_count(box, tmp_path):
    host = socket.gethostname()
    gpu_file = tmp_path / "12.serverGPU"
    box["PBS_GPUFILE"] = str(gpu_file)
    gpu_file.write_text(f"{host}-gpu1\n{host}-gpu3\nsome-other-node-gpu0\n")
    assert devices(box, 2) == "1,3"
    assert run(box, "-g", "3", "true").returncode == 64
    gpu_file.write_text("some-other-node-gpu0\n")
    refused = run(box, "true")
    assert refused.returncode == 64 and "PBS_GPUFILE" in refused.stderr
    gpu_file.unlink()
    assert devices(box, 4) == "0,1,2,3"
    status = subprocess.run([THOLE, "status"], env=box, capture_output=True, text=True)
    assert "PBS_GPUFILE could not be read" in status.stdout

"""tests/gpu, which mostly runs nowhere, runs here on the fake driver as far as it goes: that it can fail, and does not."""
import os
import pathlib
import subprocess
import sys

import pytest

from fake_nvidia import BUILD, THOLE, Driver

LEVEL = pathlib.Path(__file__).parents[1] / "gpu"


def run_level(driver, *more):
    environment = {**driver.environment, "PATH": f"{BUILD}/fake:{os.environ['PATH']}", "THOLE": THOLE,
                   "THOLE_BUILD_DIR": str(BUILD), "THOLE_GPU_LEVEL_ON_FAKE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        str(LEVEL),
        "--ignore",
        str(LEVEL / "test_real_late.py"),
        *more,
    ]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280)


@pytest.fixture
def driver(tmp_path):
    return Driver(tmp_path, 2)


def test_the_level_passes_on_the_fake_and_keeps_its_records(driver, tmp_path):
    driver.environment["THOLE_RECORD_TO"] = str(tmp_path / "records")
    driver.configure("gpus 2", "gpu 1 process compute 4711 600", "gpu 1 memory 81920 596 640", "gpu 1 serial 1562821000042")
    done = run_level(driver)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no CUDA context" in done.stdout                # the one thing that a fake cannot show
    lines = (tmp_path / "records").read_text().splitlines()
    assert sum('"use"' in line[:8] for line in lines) == 2


def test_the_level_notices_a_reserve_that_is_counted_as_use(driver):
    driver.configure("gpus 2", "gpu 0 memory 81920 596 596")    # as an old reading would have it: in use, and by nobody
    done = run_level(driver, "-k", "reserve")
    assert done.returncode == 1, done.stdout

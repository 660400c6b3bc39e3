"""A slow driver is not a hung one: it gets the time that the user gives it, and who may wait waits for it."""
import time

import pytest

from fake_nvidia import THOLE, Driver
from run_tools import Started


@pytest.fixture
def driver(tmp_path):
    return Driver(tmp_path, 8)


@pytest.mark.parametrize("wait", [["--no-wait"], [], ["--wait", "60s"]])
def test_a_driver_that_takes_long_for_each_call_serves_run(driver, wait):
    driver.environment["THOLE_PROBE_PATIENCE"] = "60s"
    driver.configure("gpus 8", "delay_us * 60000")
    done = driver.thole("run", *wait, "true", timeout=120)
    assert done.returncode == 0, done.stderr


def test_probe_patience_is_how_long_run_waits_for_the_driver(driver):
    driver.environment["THOLE_PROBE_PATIENCE"] = "60s"
    driver.configure("gpus 8", "delay_us nvmlInit_v2 11000000")
    done = driver.thole("run", "--no-wait", "true", timeout=120)
    assert done.returncode == 0, done.stderr


def test_who_may_wait_waits_for_a_late_driver_and_is_told(driver):
    driver.environment["THOLE_PROBE_PATIENCE"] = "1s"
    driver.configure("gpus 8", "delay_us nvmlInit_v2 5000000")
    done = driver.thole("run", "true", timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("waiting for it") == 1
    driver.configure("gpus 8", "hang nvmlInit_v2")
    assert driver.thole("run", "--no-wait", "true").returncode == 69
    assert driver.thole("run", "--wait", "2s", "true").returncode == 69


@pytest.mark.parametrize("words", [["--memory", "1G"], ["--share", "--memory", "1G"]])
def test_so_does_who_needs_memory_of_which_nobody_has_told_yet(driver, words):
    driver.environment["THOLE_PROBE_PATIENCE"] = "1s"
    driver.configure("gpus 8", "delay_us nvmlInit_v2 5000000")
    done = driver.thole("run", *words, "true", timeout=120)
    assert done.returncode == 0 and done.stderr.count("waiting for it") == 1, done.stderr
    driver.configure("gpus 8", "hang nvmlInit_v2")
    done = driver.thole("run", *words, "--no-wait", "true")
    assert done.returncode == 69 and "memory" not in done.stderr.splitlines()[1], done.stderr


def test_who_waits_for_a_driver_can_be_interrupted(driver):
    driver.environment["THOLE_PROBE_PATIENCE"] = "1s"
    driver.configure("gpus 8", "hang nvmlInit_v2")
    with Started([THOLE, "run", "true"], env=driver.environment) as run:
        run.error_until("waiting for it")
        run.process.terminate()
        assert run.wait() in (75, 143, -15)


# Each try would begin from nothing if the one before were killed: the driver goes to sleep with its last user.
def test_a_driver_that_needs_longer_than_one_try_comes_up_in_the_end(driver):
    driver.environment["THOLE_PROBE_PATIENCE"] = "1s"
    driver.configure("gpus 8", "wakes_us 4000000")
    deadline = time.monotonic() + 60
    codes = []
    while not codes or codes[-1] != 0:
        assert time.monotonic() < deadline, codes
        codes.append(driver.thole("run", "--no-wait", "true").returncode)
    assert codes[0] == 69 and set(codes) == {0, 69}


def test_one_gpu_that_begins_to_hang_leaves_the_others_to_be_claimed(driver):
    assert driver.status()["observations"][0]["problem"] is None
    driver.configure("gpus 8", "gpu 0 hang nvmlDeviceGetMemoryInfo_v2")
    done = driver.thole("run", "--no-wait", "-g", "7", "--", "true")
    assert done.returncode == 0, done.stderr

# ctest: timeout 300
"""Workers of a pool on a faked NVIDIA driver, whose list of GPUs a process sees as it was when that started."""
import os

import pytest

import pool_work as work
import tholepin
from driver_tools import faked_driver
from tholepin import Policy


@pytest.fixture
def driver(tmp_path, monkeypatch):
    return faked_driver(tmp_path, monkeypatch, 4)


def test_a_worker_that_comes_later_is_told_by_a_look_of_then(driver):
    """Not by the probe that waits for the next look: its library lists the GPUs as they were at its start."""
    with tholepin.Pool(policy=[Policy(gpu_affinity=[2])], retries=0) as pool:
        assert pool.apply(os.getenv, ("CUDA_VISIBLE_DEVICES",)) == "2"
        lines = ["gpus 3"]  # the second has failed to start: the kernel has it still, and to the driver the third is 1
        for number, gpu in ((1, 2), (2, 3)):
            told = (("uuid", driver.uuid(gpu)), ("pci", driver.pci(gpu)), ("minor", gpu))
            lines += [f"gpu {number} {what} {value}" for what, value in told]
        driver.configure(*lines)
        with pytest.raises(tholepin.WorkerDied):
            pool.apply(work.end_with, (1,))
        assert pool.apply(os.getenv, ("CUDA_VISIBLE_DEVICES",)) == driver.uuid(2)

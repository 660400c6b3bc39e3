"""A faked NVIDIA driver for this process and what it starts."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "system"))
import fake_nvidia  # noqa: E402


def faked_driver(folder, monkeypatch, gpus):
    if not (fake_nvidia.BUILD / "fake/full/libnvidia-ml.so.1").exists():
        pytest.skip("needs the fake driver library of a build (THOLE_BUILD_DIR)")
    made = fake_nvidia.Driver(folder, gpus)
    monkeypatch.delenv("THOLE_MACHINE")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made

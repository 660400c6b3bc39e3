"""The package is typed, strictly: mypy finds nothing, and a program that uses it is checked."""
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def mypy():
    """The command line of a mypy that is here."""
    if shutil.which("mypy"):
        return ["mypy"]
    if (
        subprocess.run(
            [sys.executable, "-m", "mypy", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        == 0
    ):
        return [sys.executable, "-m", "mypy"]
    pytest.skip("mypy is not installed (Debian: apt-get install mypy)")


def checked(tmp_path, *arguments):
    done = subprocess.run(
        [*mypy(), "--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path / "cache", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_the_package_is_strictly_typed(tmp_path):
    assert checked(tmp_path)[0] == 0, checked(tmp_path)[1]


def test_users_get_the_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import tholepin\nreveal_type(tholepin.claim(1).uuids)\nreveal_type(tholepin.gpus()[0].memory_mib)\n"
        "tholepin.claim(gpu=1)\ntholepin.claim(pick='best')\n"
    )
    status, told = checked(tmp_path, program)
    assert status != 0
    told = told.replace("builtins.", "").replace("Union[int, None]", "int | None")  # mypy's versions write it differently
    for expected in (
        "list[str]",
        "int | None",
        'Unexpected keyword argument "gpu"',
        'Argument "pick" to "claim" has incompatible type',
    ):
        assert expected in told

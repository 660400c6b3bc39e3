"""A program that has closed 0, 1 and 2 and uses the package: nothing that the library opens takes their numbers."""
import os
import pathlib
import subprocess
import sys

import pytest
from compat_tools import LIMIT

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "system"))
import fake_nvidia  # noqa: E402

PROGRAM = """
import os, sys
import tholepin
told = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
os.dup2(told, 9)
for number in (0, 1, 2):
    os.close(number)

def taken():
    found = []
    for number in (0, 1, 2):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    return found

seen = {}
seen["looked"] = (len(tholepin.gpus()), taken())
claim = tholepin.claim(1)
seen["claimed"] = (claim.indices, taken())
os.write(9, repr(seen).encode())
"""


def test_nothing_takes_the_numbers_of_closed_standard_streams(tmp_path, monkeypatch):
    library = fake_nvidia.BUILD / "fake/full/libnvidia-ml.so.1"
    if not library.exists():
        pytest.skip(f"needs the fake driver library of a build: {library} (THOLE_BUILD_DIR)")
    driver = fake_nvidia.Driver(tmp_path, 2)
    monkeypatch.delenv("THOLE_MACHINE")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(program), str(tmp_path / "told")], capture_output=True, text=True, timeout=LIMIT,
                          env=os.environ | driver.environment)
    assert done.returncode == 0, done.stderr
    seen = eval((tmp_path / "told").read_text())
    assert seen["looked"][0] == 2 and seen["claimed"][0]
    assert {step: descriptors for step, (_, descriptors) in seen.items()} == dict.fromkeys(seen, [])

"""A state directory on NFS is refused with the fix; looking still works. The file system's type is faked by a preloaded
library."""
import os
import subprocess

import pytest

from run_tools import BUILD, THOLE


def thole(folder, *words, preload=True):
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "THOLE_PERSONAL_DIR": str(folder), "NO_COLOR": "1",
                   "ASAN_OPTIONS": "verify_asan_link_order=0"}
    if preload:
        environment["LD_PRELOAD"] = str(BUILD / "fake/network_fs.so")
    return subprocess.run([THOLE, *words], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize("where", [["--machine", "dgx-a100"], ["--machine", "dgx-a100", "--state-dir", "STATE"]])
def test_nothing_is_claimed_in_a_state_directory_on_nfs(tmp_path, where):
    (tmp_path / "state").mkdir(mode=0o755)
    where = [str(tmp_path / "state") if word == "STATE" else word for word in where]
    started = tmp_path / "started"
    done = thole(tmp_path, "run", *where, "--", "touch", str(started))
    assert done.returncode == 69
    assert "locks on NFS do not hold" in done.stderr
    if "--state-dir" in where:
        assert str(tmp_path / "state") in done.stderr and "local disk" in done.stderr
    assert not started.exists()
    assert thole(tmp_path, "run", *where, "--", "touch", str(started), preload=False).returncode == 0   # the fake is the reason
    assert started.exists()


def test_status_shows_the_gpus_and_says_why_there_are_no_claims(tmp_path):
    (tmp_path / "state").mkdir(mode=0o755)
    done = thole(tmp_path, "status", "--machine", "dgx-a100", "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 0
    assert "A100" in done.stdout
    assert "NFS" in done.stdout + done.stderr

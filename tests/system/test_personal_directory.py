"""A user's own directory in /tmp: what ages files leaves it alone."""
import os
import shutil
import subprocess

import pytest

from run_tools import THOLE, Started


def test_what_ages_files_in_tmp_leaves_locks_alone(tmp_path):
    if not shutil.which("systemd-tmpfiles"):
        pytest.skip("systemd-tmpfiles is missing")
    personal = tmp_path / "personal"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("THOLE_")}
    environment |= {"THOLE_PERSONAL_DIR": str(personal), "THOLE_MACHINE": "4xA100"}
    subprocess.run([THOLE, "run", "-q", "true"], env=environment, check=True)
    before = sorted(path.name for path in (personal / "machine-4xA100").iterdir())
    assert len([name for name in before if name.startswith("gpu.")]) == 4
    (personal / "old").touch()
    rules = tmp_path / "rules.conf"
    rules.write_text(f"d {personal} 0700 - - 0\n")       # everything is too old
    with Started([THOLE, "run", "-q", "-g", "2", "--", "sh", "-c", "echo up; read line"], env=environment) as outer:
        outer.until("up")
        done = subprocess.run(["systemd-tmpfiles", "--clean", rules], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert not (personal / "old").exists(), "it did its work"
        assert before == sorted(path.name for path in (personal / "machine-4xA100").iterdir())
        assert subprocess.run([THOLE, "run", "-q", "--no-wait", "-g", "3", "true"], env=environment).returncode == 75
        claim = next(path for path in personal.iterdir() if len(path.name) == 16)
        assert (claim / "control").is_socket(), "its keeper lives"
    assert subprocess.run([THOLE, "run", "-q", "--no-wait", "-g", "4", "true"], env=environment).returncode == 0

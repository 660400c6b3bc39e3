"""As root with a user's HOME (sudo -E, su without -): nothing is made in that home, whose owner could not change it."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from run_tools import THOLE

BEN = 54321
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")


@pytest.fixture
def home():
    """Of a fresh account; not below pytest's folders, which are closed to others."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        path = pathlib.Path(folder) / "ben"
        path.mkdir()
        os.chown(path, BEN, BEN)
        shutil.copy(THOLE, folder)               # a checkout may be closed to others
        yield path


def thole(home, *words, user=0, **variables):
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "THOLE_MACHINE": "2xA100", **variables}
    return subprocess.run([home.parent / "thole", *words], env=env, capture_output=True, text=True, timeout=60, cwd="/",
                          user=user, group=user, extra_groups=[], stdin=subprocess.DEVNULL)


def test_a_refused_submit_makes_nothing(home):
    done = thole(home, "submit", "echo", "x")
    assert done.returncode == 69 and str(home) in done.stderr
    assert list(home.iterdir()) == []


def test_neither_in_a_state_home_nor_a_named_directory_of_his(home):
    assert thole(home, "submit", "echo", "x", XDG_STATE_HOME=str(home / "states")).returncode == 69
    assert thole(home, "--queue-dir", str(home / "my/queue"), "submit", "echo", "x").returncode in (64, 69)
    assert thole(home, "submit", "--queue-dir", str(home / "my/queue"), "echo", "x").returncode == 69
    assert list(home.iterdir()) == []


def test_no_kernel_is_installed_there(home, tmp_path):
    python = tmp_path / "bin/python"             # one that has ipykernel
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    done = thole(home, "jupyter", "install", "-g", "1", "--venv", str(tmp_path))
    assert done.returncode == 69 and "sudo -H -u" in done.stderr, done.stderr
    assert list(home.iterdir()) == []


def test_other_commands_make_nothing_either(home):
    for words in (["status"], ["jobs"], ["run", "true"], ["doctor"], ["why", "0"], ["drain"], ["map", "true", ":::", "1"]):
        thole(home, *words)
        assert list(home.iterdir()) == [], words


def test_what_an_earlier_sudo_left_has_a_cure(home):
    (home / ".local").mkdir(mode=0o700)          # root's
    told = json.loads(thole(home, "doctor", "--json", user=BEN).stdout)
    assert f"sudo chown -R {BEN} {home}/.local" in json.dumps(told), told


def test_a_state_directory_that_is_not_there_and_cannot_be_made_is_said_beside_the_table(home):
    told = thole(home, "--state-dir", "/nonexistent/x", "status", user=BEN)
    assert told.returncode == 0 and "2 free" in told.stdout
    assert "there is no state directory /nonexistent/x yet, and it cannot be made" in told.stderr, told.stderr

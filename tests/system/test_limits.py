"""What a process may do is limited: thole says so, and blames no GPU."""
import os
import resource
import subprocess

import pytest

from run_tools import THOLE


def run(tmp_path, limits, *words):
    def limit():
        for what, most in limits.items():
            resource.setrlimit(what, (most, resource.getrlimit(what)[1]))
    env = {**os.environ, "THOLE_PERSONAL_DIR": str(tmp_path / "own"), "THOLE_STATE_DIR": str(tmp_path / "state")}
    return subprocess.run([THOLE, "--machine", "8xA100", *words], capture_output=True, text=True, env=env, timeout=60,
                          preexec_fn=limit)


@pytest.mark.parametrize("most", [8, 24, 63])
def test_too_few_descriptors_are_named(tmp_path, most):
    for words in (["status"], ["run", "-g", "1", "true"]):
        done = run(tmp_path, {resource.RLIMIT_NOFILE: most}, *words)
        assert done.returncode == 69, done.stderr
        assert f"only {most} open files" in done.stderr and "ulimit -n" in done.stderr


def test_enough_descriptors_are_enough(tmp_path):
    done = run(tmp_path, {resource.RLIMIT_NOFILE: 64}, "run", "-g", "8", "true")
    assert done.returncode == 0, done.stderr


def test_without_room_for_a_file_a_claim_is_made_and_its_command_has_its_signal(tmp_path):
    assert run(tmp_path, {}, "run", "-g", "1", "true").returncode == 0   # makes the directory
    done = run(tmp_path, {resource.RLIMIT_FSIZE: 0}, "run", "-g", "1", "--", "sh", "-c", "echo on")
    assert done.returncode == 0 and done.stdout == "on\n", done.stderr
    file = tmp_path / "file"
    done = run(tmp_path, {resource.RLIMIT_FSIZE: 0}, "run", "-g", "1", "--", "sh", "-c", f"exec cat /etc/passwd > {file}")
    assert done.returncode != 0 and file.stat().st_size == 0, "the command is ended by SIGXFSZ as it would be without thole"

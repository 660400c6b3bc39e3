"""What a newcomer is told: of masks that keep GPUs from him, of mistyped words, and in the words of his locale."""
import os
import subprocess

import pytest

from run_tools import THOLE, Started, eventually

LEFT_OUT = "2 more are free, left out by CUDA_VISIBLE_DEVICES"
UNSET = "unset THOLE_CLAIM THOLE_GPUS CUDA_VISIBLE_DEVICES"


@pytest.fixture
def env(tmp_path):
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", "THOLE_MACHINE": "3xA100",
            "THOLE_STATE_DIR": str(tmp_path / "state")}


def thole(env, *words, cwd=None, **more):
    return subprocess.run([THOLE, *words], env={**env, **more}, capture_output=True, text=True, timeout=60, cwd=cwd,
                          stdin=subprocess.DEVNULL)


def told_while_waiting(env, *words):
    with Started([THOLE, *words], env=env) as waiting:
        seen = []
        eventually(lambda: seen.append(waiting.error_line()) or "leaves the queue" in seen[-1], lambda: seen)
    return "\n".join(seen)


@pytest.mark.parametrize("words", [["run", "true"], ["claim"], ["map", "true", ":::", "1"]], ids=lambda words: words[0])
def test_a_waiter_is_told_what_its_mask_leaves_out(env, words):
    ended = thole(env, "run", "sh", "-c", "echo $THOLE_CLAIM; echo $THOLE_GPUS; echo $CUDA_VISIBLE_DEVICES")
    claim, gpus, mask = ended.stdout.splitlines()
    with Started([THOLE, "run", "--on", mask, "sh", "-c", "echo up; exec cat"], env=env) as holder:
        assert holder.line() == "up"
        told = told_while_waiting({**env, "CUDA_VISIBLE_DEVICES": mask}, *words)
        assert LEFT_OUT in told and UNSET not in told
        stale = {"THOLE_CLAIM": claim, "THOLE_GPUS": gpus, "CUDA_VISIBLE_DEVICES": mask}
        told = told_while_waiting({**env, **stale}, *words)
        assert LEFT_OUT in told and UNSET in told
        assert "left out" not in told_while_waiting(env, *words[:1], "--on", mask, *words[1:])
        why = thole(env, "why", "-g", "1", **stale)
        assert UNSET in why.stdout, why.stdout


def test_a_dash_that_is_no_hyphen_is_named(env):
    for words, meant in ((["run", "–g", "2", "true"], "type it: -g"), (["run", "—gpus", "2", "true"], "type it: --gpus"),
                         (["–version"], "type it: --version")):
        done = thole(env, *words)
        assert done.returncode == 64 and "long dash" in done.stderr and meant in done.stderr, done.stderr


def test_the_order_of_extend_is_told(env):
    done = thole(env, "extend", "1h", "5f2c19d0a4e8b731")
    assert done.returncode == 64 and "thole extend 5f2c19d0a4e8b731 1h" in done.stderr


def test_a_process_that_is_not_there_is_told_once(env):
    assert thole(env, "claim", "--pid", "99999999").stderr.lower().count("no such process") == 1


def test_a_small_copy_is_told_in_bytes(env, tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a").write_text("x" * 30)
    done = thole(env, "submit", "--hold", "--snapshot", "true", cwd=folder)
    assert "copied 1 file, 30 bytes" in done.stderr, done.stderr


def test_a_locale_without_utf_8_gets_ascii_from_every_table(env):
    assert thole(env, "submit", "--hold", "--", "echo", "x" * 500).returncode == 0
    for words in (["jobs"], ["status"], ["topo"]):
        assert thole(env, *words, LC_ALL="C").stdout.isascii(), words
    assert not thole(env, "jobs").stdout.isascii()


def test_a_home_that_is_the_root_has_one_slash(env):
    told = thole(env, "doctor", "--json", HOME="/").stdout
    assert "/.local" in told and "//.local" not in told

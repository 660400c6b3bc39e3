"""What is watched ends with its reader, and shows what runs on a screen that is too low for the rest."""
import json
import os
import signal
import subprocess

import pytest

from run_tools import THOLE, Terminal


@pytest.fixture
def env(tmp_path):
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", "THOLE_MACHINE": "3xA100",
            "THOLE_STATE_DIR": str(tmp_path / "state")}


def thole(env, *words):
    return subprocess.run([THOLE, *words], env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("words", [["jobs", "--watch"], ["jobs", "--tasks", "--watch"], ["status", "--watch=1h"]])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_watch_ends_with_its_reader(env, words, ignored):
    reader, writer = os.pipe()
    restored = not ignored                       # Python starts programs with SIGPIPE as it should be, else ignored
    watch = subprocess.Popen([THOLE, *words], env=env, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
                             text=True, restore_signals=restored)
    os.close(writer)
    assert os.read(reader, 1)
    os.close(reader)
    told = watch.communicate()[1]
    assert watch.returncode == (125 if ignored else -signal.SIGPIPE), told
    assert ("cannot write the result: Broken pipe" in told) == ignored, told


@pytest.mark.parametrize("tasks", [[], ["--tasks"]])
def test_a_watch_on_a_low_screen_keeps_what_runs(env, tasks):
    for _ in range(12):
        assert thole(env, "submit", "-g", "0", "true").returncode == 0
    assert thole(env, "wait", "all").returncode == 0
    assert thole(env, "submit", "-g", "0", "--name", "long", "--", "sleep", "600").returncode == 0
    assert thole(env, "submit", "--hold", "--array", "0-7", "--", "true").returncode == 0
    with Terminal([THOLE, "jobs", *tasks, "--watch"], env={**env, "TERM": "xterm"}) as terminal:
        terminal.resize(9, 80)
        terminal.expect("running")
        terminal.expect(r"\(\d+ more that ended.*: the screen is too low\)")
        terminal.send("q")
        assert terminal.wait() == 0
    assert thole(env, "cancel", "all").returncode == 0


@pytest.mark.parametrize("words, every", [(["--watch"], "2s"), (["--watch", "5"], "5s"), (["-w5"], "5s"),
                                          (["--watch=1m"], "1m"), (["--watch", "300ms"], "0[.]3s")])
def test_a_watch_says_how_often_it_looks(env, words, every):
    with Terminal([THOLE, "status", *words], env={**env, "TERM": "xterm"}) as terminal:
        terminal.expect(f"every {every}: thole status,")
        terminal.send("q")
        assert terminal.wait() == 0


def test_a_watched_gpu_names_all_who_use_it(env, tmp_path):
    machine = json.loads(thole(env, "capture", "--use").stdout)
    machine["gpus"][1]["use"]["processes"] = [{"pid": pid, "user": user, "kind": "compute", "command": "train.py"}
                                              for pid, user in enumerate(("bob", "ann"), 1)]
    (tmp_path / "m.json").write_text(json.dumps(machine))
    with Terminal([THOLE, "--machine", str(tmp_path / "m.json"), "status", "--watch"], env) as terminal:
        terminal.expect(r"FOREIGN\S* +bob,ann ")
        terminal.send("q")
        assert terminal.wait() == 0

"""What people type by mistake, and what they see before it costs them a night."""
import os
import subprocess

import pytest

from run_tools import THOLE, Terminal


@pytest.fixture
def env(tmp_path):
    (tmp_path / "home").mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("THOLE_", "CUDA_", "XDG_"))}
    return {**kept, "HOME": str(tmp_path / "home"), "THOLE_STATE_DIR": str(tmp_path / "state"), "THOLE_MACHINE": "2xA100"}


def thole(env, *words, **more):
    return subprocess.run([THOLE, *words], capture_output=True, text=True, env=env, timeout=120, **more)


def test_help_is_a_word_too(env):
    assert thole(env, "help").stdout == thole(env, "--help").stdout
    assert thole(env, "help", "run").stdout == thole(env, "run", "--help").stdout


@pytest.mark.parametrize("command, status, hint", [
    (["no-such-program-at-all"], 127, ""),
    (["python train.py"], 127, "without the quotes"),
    (["A=1", "python"], 127, "env A=1"),
    (["cd", "/tmp"], 127, "sh -c 'cd"),
    (["train.py"], 127, "python train.py"),
    (["notes.txt"], 127, "./notes.txt"),
    (["./notes.txt"], 126, "chmod +x"),
])
def test_the_command_is_looked_for_before_anybody_waits(env, tmp_path, command, status, hint):
    (tmp_path / "train.py").touch()
    (tmp_path / "notes.txt").touch()
    with subprocess.Popen([THOLE, "run", "-q", "-g", "2", "sh", "-c", "echo begun; read end"], env=env, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == "begun\n"           # both GPUs are taken: whoever waited would not come back
        script = "." in command[0] and "/" not in command[0]    # `submit FILE` is a script's submission
        for verb in ("run",) if script else ("run", "submit"):
            done = thole(env, verb, *command, cwd=tmp_path)
            assert done.returncode == status, (verb, done.stderr)
            assert command[0] in done.stderr and hint in done.stderr and "waiting" not in done.stderr
            assert done.stdout == ""
        holder.communicate("\n", timeout=60)
    assert "no jobs" in thole(env, "jobs").stdout.lower()


def test_what_a_sweep_or_an_earlier_job_makes_is_not_looked_for(env):
    assert thole(env, "submit", "--hold", "--grid", "p=true,false", "--", "{p}").returncode == 0
    later = thole(env, "submit", "--after", "1", "./made-by-the-first")
    assert later.returncode == 0 and "it waits for others" in later.stderr


@pytest.mark.parametrize("words, told", [
    (["run", "echo", "hi", "-g", "2"], "-g goes to the command"),
    (["run", "echo", "hi", "--gpus=2"], "--gpus goes to the command"),
    (["run", "echo", "hi", "--time", "8h"], "--time goes to the command"),
    (["run", "echo", "hi", "--dry-run"], "--dry-run goes to the command"),
    (["run", "echo", "hi", "--time", "8"], None),
    (["run", "echo", "hi", "-g", "fast"], None),
    (["run", "echo", "hi", "--model", "bert"], None),
    (["run", "--", "echo", "hi", "-g", "2"], None),
    (["run", "-q", "echo", "hi", "-g", "2"], None),
    (["run", "--wait", "30", "echo", "hi"], "--wait 30: 30 seconds"),
    (["run", "--wait", "30s", "echo", "hi"], None),
])
def test_what_was_understood_otherwise_than_meant_gets_one_line(env, words, told):
    done = thole(env, *words)
    assert done.returncode == 0 and done.stdout.startswith("hi")
    lines = [line for line in done.stderr.splitlines() if "goes to the command" in line or "seconds" in line]
    assert [told in line for line in lines] == ([True] if told else []), done.stderr


def test_a_range_of_gpus_is_their_numbers(env):
    done = thole(env, "--machine", "4xA100", "run", "-q", "--on", "1-2", "-g", "2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert done.stdout == "1,2\n", done.stderr


@pytest.mark.parametrize("words", [["status", "--watch", "1h"], ["jobs", "--watch"]])
def test_watching_ends_with_q_and_leaves_no_trace(env, words):
    terminal = Terminal([THOLE, *words], env)
    terminal.expect("q ends it")
    terminal.send("q")
    assert terminal.wait() == 0
    assert "\x1b[?1049l" in terminal.seen, "the screen that was there before is back"


def test_a_dumb_terminal_gets_no_sequences(env):
    terminal = Terminal([THOLE, "status"], {**env, "TERM": "dumb"})
    terminal.wait()
    assert "2 free" in terminal.seen and "\x1b" not in terminal.seen

"""`eval "$(thole claim --shell)"` has the status of the claim: what a shell does after it never runs without its GPUs."""
import json
import os
import shutil
import signal
import subprocess

import pytest

from run_tools import THOLE, Started

SHELLS = ["sh", "dash", "bash", "zsh", "fish"]
FAILURES = [
    ("claim --shell -g 99", 64),                 # never possible here
    ("claim --shell --gqus 2", 64),              # a mistyped option behind it,
    ("claim --gqus 2 --shell", 64),              # before it,
    ("claim --shel", 64),                        # and the option itself
    ("clam --shell", 64),
    ("claim --shell --json -g 99", 64),
    ("claim --shell --no-wait -g 2", 75),
    ("claim --shell --wait 0.1s -g 2", 124),
    ("--state-dir /proc/none claim --shell", 69),
    ("--machine no-such-machine claim --shell", 64),
]


@pytest.fixture
def env(tmp_path):
    """A machine of two GPUs, one of which is somebody's."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", "THOLE_MACHINE": "2xA100",
           "THOLE_STATE_DIR": str(tmp_path / "state")}
    with Started([THOLE, "run", "sh", "-c", "echo up; exec cat"], env=env) as holder:
        assert holder.line() == "up"
        yield env


def shell(name, script, env):
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    return subprocess.run([name, "-c", script], env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("name", SHELLS)
def test_eval_has_the_status_of_each_failure(name, env):
    status = "$status" if name == "fish" else "$?"
    script = "\n".join(f'eval "$({THOLE} {words})"; echo {status}' for words, _ in FAILURES)
    done = shell(name, script, env)
    assert done.stdout.split() == [str(status) for _, status in FAILURES], done.stderr


@pytest.mark.parametrize("words", ["--share --memory 1G -g 2", "--share --share-with=any -g 2 --memory 1G",
                                   "--shape pairwise -g 2", "--json --share -g 2 --memory 1G"])
def test_what_fails_for_want_of_gpus_says_nothing_on_stdout_but_json(words, env):
    """An option that begins as --shell does is not that."""
    done = subprocess.run([THOLE, "claim", "--no-wait", *words.split()], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 75, done.stderr
    assert json.loads(done.stdout) if "--json" in words else done.stdout == "", done.stdout


@pytest.mark.parametrize("name", SHELLS)
def test_no_program_starts_after_a_failure(name, env):
    ands = shell(name, f'eval "$({THOLE} claim --shell --no-wait -g 2)" && echo ran', env)
    assert (ands.returncode, ands.stdout) == (75, "")
    if name != "fish":                           # it has no -e
        stopped = shell(name, f'set -e\neval "$({THOLE} claim --shell --no-wait -g 2)"\necho ran', env)
        assert (stopped.returncode, stopped.stdout) == (75, "")


@pytest.mark.parametrize("name", SHELLS)
def test_a_claim_that_is_had_is_0_and_the_shells(name, env):
    done = shell(name, f'eval "$({THOLE} claim --shell)" && echo "on $CUDA_VISIBLE_DEVICES"', env)
    assert (done.returncode, done.stdout) == (0, "on 1\n"), done.stderr


@pytest.mark.parametrize("name", ["tcsh", "csh", "bsd-csh"])
def test_a_c_shell_has_the_variables_and_the_status(name, env):
    """It knows neither $() nor export. Without the quotes it would take the braces of THOLE_GPUS for its own."""
    env["CUDA_VISIBLE_DEVICES"] = "0,1"
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    script = f'eval "`{THOLE} claim --shell`"\necho "on $CUDA_VISIBLE_DEVICES $status"\n' \
             f'eval "`{THOLE} claim --shell --on 0 --no-wait`"\necho "then $status"\n{THOLE} status --json\n'
    done = subprocess.run([name, "-f"], input=script, env=env, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert lines[0] == "on 1 0", (done.stdout, done.stderr)
    assert lines[1].startswith("then ") and lines[1] != "then 0"


@pytest.mark.parametrize("name, to_unset", [
    ("sh", "unset THOLE_CLAIM THOLE_GPUS CUDA_VISIBLE_DEVICES"),
    ("tcsh", "unsetenv THOLE_CLAIM; unsetenv THOLE_GPUS; unsetenv CUDA_VISIBLE_DEVICES"),
    ("fish", "set -e THOLE_CLAIM THOLE_GPUS CUDA_VISIBLE_DEVICES")])
def test_what_release_says_of_the_shells_variables_is_in_its_language(name, to_unset, env):
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    claim = f'eval "`{THOLE} claim --shell`"' if name == "tcsh" else f'eval "$({THOLE} claim --shell)"'
    script = f"{claim}\n{THOLE} release\n{to_unset}\nenv\n"
    done = subprocess.run([name, *(["-f"] if name == "tcsh" else [])], input=script, env={**env, "SHELL": "/bin/false"},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and f"claim: {to_unset}\n" in done.stderr, done.stderr
    assert "THOLE_CLAIM" not in done.stdout and "CUDA_VISIBLE_DEVICES" not in done.stdout


@pytest.mark.parametrize("name, to_unset", [
    ("sh", "unset {}"), ("tcsh", "unsetenv {}"), ("fish", "set -e {}")])
@pytest.mark.parametrize("words, status", [("release", 64), ("why", 0), ("doctor", 0), ("submit --on 1 -- true", 64),
                                           ("claim -g 2", 64), ("run -g 2 true", 64)])
def test_what_a_hint_says_to_unset_is_in_the_language_of_the_shell(name, to_unset, words, status, env, tmp_path):
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    names = ["THOLE_CLAIM", "THOLE_GPUS", "CUDA_VISIBLE_DEVICES"] if words in ("release", "why") else ["CUDA_VISIBLE_DEVICES"]
    more = {"release": {"THOLE_CLAIM": "0123456789abcdef"}, "doctor": {"CUDA_VISIBLE_DEVICES": ""},
            "why": {}}.get(words, {"CUDA_VISIBLE_DEVICES": "0"})
    if words == "why":   # of a claim that has ended, and had the GPU that another has
        shown = subprocess.run([THOLE, "status", "--json"], env=env, capture_output=True, text=True, timeout=60)
        taken = next(unit for unit in json.loads(shown.stdout)["units"] if unit["claims"])
        more = {"THOLE_CLAIM": "0123456789abcdef", "THOLE_GPUS": json.dumps([{"key": taken["key"]}]),
                "CUDA_VISIBLE_DEVICES": taken["unit"]}
    more["THOLE_QUEUE_DIR"] = str(tmp_path / "queue")
    done = subprocess.run([name, *(["-f"] if name == "tcsh" else [])], input=f"{THOLE} {words}\n", env={**env, **more},
                          capture_output=True, text=True, timeout=120)
    told = " ".join((done.stdout + done.stderr).split())
    listed = [to_unset.format(one) for one in names]
    assert done.returncode == status, told
    assert ("; ".join(listed) if name == "tcsh" else to_unset.format(" ".join(names))) in told, told


def test_an_interrupted_wait_is_130(env):
    with Started([THOLE, "claim", "--shell", "-g", "2"], env=env) as waiting:
        assert "waiting" in waiting.process.stderr.readline().decode()
        os.kill(waiting.pid, signal.SIGTERM)
        assert waiting.line() == "/bin/sh -c 'exit 130';"
        assert waiting.wait() == -signal.SIGTERM


def test_other_commands_print_nothing_for_eval(env):
    for words in (["claim", "--gqus"], ["run", "--no-wait", "-g", "2", "x", "--shell"], ["status", "--shell"]):
        done = subprocess.run([THOLE, *words], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode and done.stdout == "", words


def test_a_claim_in_a_shell_within_a_like_one_ends_with_the_inner(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "THOLE_MACHINE": "1xA100",
           "THOLE_STATE_DIR": str(tmp_path / "state")}
    typed = f"""bash
eval "$({THOLE} claim --shell)"; echo "inner has $CUDA_VISIBLE_DEVICES"
exit
{THOLE} run --wait 30s echo "outer finds it free"
"""
    done = subprocess.run(["bash"], env=env, input=typed, capture_output=True, text=True, timeout=120)
    assert done.stdout == "inner has 0\nouter finds it free\n", done.stderr

"""What a process may do is limited: thole says so, and blames no GPU."""
import os
import re
import resource
import shutil
import subprocess

import pytest

from run_tools import THOLE, Started


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
        assert f"only {most} open files" in done.stderr and "\n  ulimit -Sn 1024\n" in done.stderr


def in_a_shell(tmp_path, limit, words, hint):
    """Limited hard and soft: what is said then, and what the same command comes to after what the hint names was done."""
    env = {name: value for name, value in os.environ.items() if name != "THOLE_CLAIM"}
    env.update(THOLE_PERSONAL_DIR=str(tmp_path / "own"), THOLE_STATE_DIR=str(tmp_path / "state"),
               THOLE_QUEUE_DIR=str(tmp_path / "queue"), THOLE_MACHINE="8xA100")
    with Started(["sh"], env=env) as shell:
        said = []

        def do(line):
            shell.write(f"{line} 2>&1; echo status $?\n")
            begin = len(said)
            while not said[begin:] or not said[-1].startswith("status "):
                said.append(shell.line())
        do(limit)
        do(f"{THOLE} {words}")
        cure = re.search(hint, "\n".join(said))
        assert cure, said
        do(cure[1])
        do(f"{THOLE} {words}")
        shell.write("exit\n")
    return said


@pytest.mark.parametrize("limit, told", [
    ("ulimit -n 60", "only 60 open files are allowed here, and 64 are needed"),
    ("ulimit -f 0", "a file may have 0 bytes here (ulimit -f)"),
    ("ulimit -f 4", "a file may have 2048 bytes here (ulimit -f)")])
@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
def test_a_limit_is_named_and_what_lifts_it_does(tmp_path, limit, told, hard):
    if hard and (os.geteuid() != 0 or not shutil.which("prlimit")):
        pytest.skip("a hard limit is raised by root alone, with prlimit")
    limit = limit if hard else limit.replace("ulimit -", "ulimit -S")
    said = in_a_shell(tmp_path, limit, "submit -q -g 0 --hold true", "sudo (prlimit .*)" if hard else "(ulimit -S.*)")
    assert said[0] == "status 0" and any(told in line for line in said), said
    assert any("the hard limit is " in line for line in said) == hard, said
    if any(line.startswith("prlimit: ") and "Operation not permitted" in line for line in said):
        pytest.skip("what raises a hard limit was named, and is not permitted here (CAP_SYS_RESOURCE)")
    assert [line for line in said if line.startswith("status ")] == ["status 0", "status 69", "status 0", "status 0"], said


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
    done = run(tmp_path, {resource.RLIMIT_FSIZE: 0}, "claim", "-g", "1")
    assert done.returncode == 69 and "found" not in done.stdout, "nothing could release it"
    assert "a file may have 0 bytes here (ulimit -f)" in " ".join(done.stderr.split()), done.stderr

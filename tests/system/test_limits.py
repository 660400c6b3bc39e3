"""What a process may do is limited: thole says so, and blames no GPU."""
import json
import os
import re
import resource
import shutil
import subprocess

import pytest

from run_tools import SANITIZED, THOLE, Started


def run(tmp_path, limits, *words, env=os.environ):
    def limit():
        for what, most in limits.items():
            resource.setrlimit(what, (most, resource.getrlimit(what)[1]))
    env = {**env, "THOLE_PERSONAL_DIR": str(tmp_path / "own"), "THOLE_STATE_DIR": str(tmp_path / "state")}
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
    ("ulimit -s 64", "only 64 KiB of stack are allowed here, and 256 are needed"),
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


@pytest.mark.parametrize("most", [8, 40])
def test_doctor_says_what_it_cannot_look_at_and_goes_on(tmp_path, most):
    done = run(tmp_path, {resource.RLIMIT_NOFILE: most}, "doctor", "--json")
    assert done.returncode == 0, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert f"only {most} open files" in checks["open files"]["text"] and checks["open files"]["result"] == "problem"
    assert checks["open files"]["fix"] == "ulimit -Sn 1024" and {"CPUs", "state directory", "personal directory"} <= set(checks)


def queue_command(tmp_path, limits, *words):
    env = {**os.environ, "THOLE_QUEUE_DIR": str(tmp_path / "queue")}
    return run(tmp_path, limits, *words, env=env)


@pytest.mark.parametrize("words", ["submit -q -g 0 --hold true", "drain", "resume 1", "cancel 1", "hold 1", "retry 1"])
def test_a_limit_of_files_is_named_and_no_disk_where_there_is_a_queue(tmp_path, words):
    assert queue_command(tmp_path, {}, *"submit -q -g 0 --hold true".split()).returncode == 0
    done = queue_command(tmp_path, {resource.RLIMIT_FSIZE: 0}, *words.split())
    assert done.returncode in (0, 69), done.stderr      # 0: there was nothing to do
    if done.returncode == 69 or words in ("drain", "resume 1", "cancel 1") or words.startswith("submit"):
        assert done.returncode == 69, done.stderr
        assert "(ulimit -f)" in done.stderr and "the disk" not in done.stderr, done.stderr


def test_a_wait_that_cannot_write_its_ticket_names_the_limit(tmp_path):
    env = {**os.environ, "THOLE_PERSONAL_DIR": str(tmp_path / "own"), "THOLE_STATE_DIR": str(tmp_path / "state"),
           "THOLE_MACHINE": "8xA100"}
    with Started([THOLE, "run", "-g", "8", "sh", "-c", "echo up; exec cat"], env=env) as holder:
        assert holder.line() == "up"
        done = run(tmp_path, {resource.RLIMIT_FSIZE: 0}, "run", "--wait", "1s", "true")
    assert done.returncode == 124, done.stderr
    said = " ".join(done.stderr.split())
    assert "waiting without order: a file may have 0 bytes here (ulimit -f)" in said and "disk" not in said, said


@pytest.mark.skipif(SANITIZED, reason="the sanitizer's own memory is in the limit")
def test_too_little_memory_is_named_and_is_69(tmp_path):
    seen = []
    for most in [*range(8_000, 11_000, 1_000), *range(11_000, 12_000, 40), *range(12_000, 34_000, 1_000)]:
        done = run(tmp_path, {resource.RLIMIT_AS: most << 10}, "map", "-g", "0", "true", ":::", "1")
        assert "terminate called" not in done.stderr, (most, done.stderr)
        if done.returncode < 0 or done.returncode == 127:
            continue   # not even the program's libraries have room
        assert done.returncode in (0, 69), (most, done.stderr)
        assert "ulimit -u" not in done.stderr and "bad_alloc" not in done.stderr, (most, done.stderr)
        if done.returncode == 69:
            assert "memory is short: end something, or see the limit: ulimit -v" in done.stderr, (most, done.stderr)
        seen.append(done.returncode)
    assert 69 in seen, seen

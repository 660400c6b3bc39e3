"""What a newcomer is told: of masks that keep GPUs from him, of mistyped words, and in the words of his locale."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from run_tools import BUILD, THOLE, Started, eventually

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


def test_why_takes_what_there_is_or_a_request(env):
    for words in (["3", "-g", "2"], ["-g", "2", "1"], ["1", "--on", "2"], ["1", "--wait", "5m"]):
        done = thole(env, "why", *words)
        assert done.returncode == 64 and "one or the other" in done.stderr and "or: thole why -g 2" in done.stderr, done.stderr
    assert thole(env, "why", "1").returncode == 0 and thole(env, "why", "-g", "1").returncode == 0


@pytest.mark.parametrize("words, told", [
    ([THOLE, "run", "-g", "1", "true"], False), (["env", THOLE, "run", "--no-wait", "true"], False),
    (["env", "-g", "1", "x"], True), (["env", "--gpus", "1", "thole"], True),
])
def test_options_of_a_thole_that_is_the_command_are_its_own(env, words, told):
    done = thole(env, "run", *words)
    assert ("goes to the command" in done.stderr) == told, done.stderr


def test_gpus_to_be_left_that_can_never_be_left_are_refused(env):
    for words in (["--leave", "3"], ["-g", "2", "--leave", "2"], ["--on", "0,1", "--leave", "2"], ["--leave", "99"]):
        done = thole(env, "submit", "--hold", *words, "true")
        assert done.returncode == 64 and "--leave" in done.stderr, (words, done.stderr)
    for words in (["--leave", "2"], ["-g", "0", "--leave", "9"], ["--share", "--memory", "1G", "--leave", "3"]):
        assert thole(env, "submit", "--hold", *words, "true").returncode == 0, words


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_tasks_are_watched_too(env, form):
    assert thole(env, "submit", "-g", "0", "true").returncode == 0
    with Started([THOLE, "jobs", "--tasks", "--watch", *form], env=env) as watch:
        seen = []
        eventually(lambda: seen.append(watch.line()) or "1.0" in seen[-1] or '"job":1' in seen[-1], lambda: seen)
        assert thole(env, "submit", "-g", "0", "true").returncode == 0
        eventually(lambda: seen.append(watch.line()) or "2.0" in seen[-1] or '"job":2' in seen[-1], lambda: seen)


def test_a_directory_with_other_files_is_no_state_directory(env, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "passwd").write_text("")
    (theirs / "queue.txt").write_text("")
    told = r"has other files than thole's \((passwd|queue.txt)\)"
    for words in (["run", "true"], ["claim"]):
        done = thole(env, "--state-dir", str(theirs), *words)
        assert done.returncode == 69 and re.search(told, done.stderr), done.stderr
    for words in (["status"], ["why", "0"], ["doctor"]):
        done = thole(env, "--state-dir", str(theirs), *words)
        assert re.search(told, " ".join(done.stdout.split())), done.stdout
        assert " free" not in done.stdout.replace("0 free", "") and "none yet: the first claim" not in done.stdout, done.stdout
    (theirs / "queue.txt").unlink()
    assert [path.name for path in theirs.iterdir()] == ["passwd"]
    (theirs / "passwd").unlink()
    assert thole(env, "--state-dir", str(theirs), "run", "true").returncode == 0
    (theirs / "later").write_text("")
    assert thole(env, "--state-dir", str(theirs), "run", "true").returncode == 0, "it is thole's by now"


def test_a_status_file_that_is_no_file_stays_what_it_is(env, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = thole(env, "run", "--status-file", str(pipe), "true")
    assert done.returncode == 0 and pipe.is_fifo(), "nobody reads it, and nobody waits for that"
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert thole(env, "run", "--status-file", str(pipe), "true").returncode == 0 and pipe.is_fifo()
    assert b'"thole/ended/1"' in os.read(reader, 4096)
    os.close(reader)


def test_a_result_goes_where_a_link_leads_and_the_link_stays(env, tmp_path):
    ended, link, chain = tmp_path / "far" / "ended", tmp_path / "link", tmp_path / "chain"
    ended.parent.mkdir()
    link.symlink_to("far/ended")
    chain.symlink_to(link)
    verbs = (["run", "--status-file", str(chain), "true"], ["capture", "-o", str(chain)], ["topo", "--svg", str(chain)])
    for words, begin in zip(verbs, ('"thole/ended/1"', '"schema"', "<svg")):
        ended.write_text("")
        ended.chmod(0o600)
        before = ended.stat().st_ino
        done = thole(env, *words)
        assert done.returncode == 0 and link.is_symlink() and chain.is_symlink(), (words, done.stderr)
        assert begin in ended.read_text() and ended.stat().st_mode & 0o777 == 0o600, words
        assert ended.stat().st_ino != before, "whole or not at all"
        ended.unlink()
        assert thole(env, *words).returncode == 0 and begin in ended.read_text(), "what a link leads to is made"
    assert [path.name for path in ended.parent.iterdir()] == ["ended"]
    chain.unlink()
    chain.symlink_to(chain)
    assert thole(env, "run", "--status-file", str(chain), "true").returncode == 69


@pytest.mark.parametrize("name", ["-", "link", "other"])
def test_a_result_for_stdout_comes_after_what_the_command_has_written(env, tmp_path, name):
    (tmp_path / "link").symlink_to("/proc/self/fd/1")
    (tmp_path / "fd").symlink_to("/proc/self/fd")
    (tmp_path / "other").symlink_to("fd/1")
    out = tmp_path / "out"
    with open(out, "w") as to:
        words = [THOLE, "run", "--status-file", name, "echo", "written"]
        assert subprocess.run(words, env=env, cwd=tmp_path, stdout=to, timeout=60).returncode == 0
    first, rest = out.read_text().split("\n", 1)
    assert first == "written" and json.loads(rest)["schema"] == "thole/ended/1" and (tmp_path / "link").is_symlink()
    assert not (tmp_path / "-").exists()
    for words, begin in ((["capture", "-o"], "{"), (["topo", "--svg"], "<svg")):
        done = thole(env, *words, name, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.startswith(begin) and (tmp_path / "link").is_symlink()


def test_a_status_file_is_no_descriptor_that_nobody_has_given(env, tmp_path):
    for number in (0, 3, 4, 5, 99):
        (tmp_path / str(number)).symlink_to(f"/proc/self/fd/{number}")
        with open("/dev/null") as nothing:
            done = subprocess.run([THOLE, "run", "--status-file", str(tmp_path / str(number)), "touch", "ran"], env=env,
                                  cwd=tmp_path, stdin=nothing, capture_output=True, text=True, timeout=60)
        assert done.returncode == 69 and "cannot write" in done.stderr and not (tmp_path / "ran").exists(), done.stderr


def test_who_reads_the_status_and_goes_does_not_change_it(env, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        done = subprocess.run([THOLE, "run", "--status-file", "-", "sh", "-c", "exit 7"], env=env, cwd=tmp_path,
                              stdout=gone, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 7 and "--status-file: cannot write" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a link of another user's")
def test_a_link_of_a_neighbours_in_a_folder_for_all_is_not_followed(env, tmp_path):
    for_all, mine = tmp_path / "tmp", tmp_path / "mine"
    for_all.mkdir()
    for_all.chmod(0o1777)
    mine.write_text("mine")
    (for_all / "ended").symlink_to(mine)
    os.lchown(for_all / "ended", 4711, 4711)
    for words in (["run", "--status-file", str(for_all / "ended"), "true"], ["capture", "-o", str(for_all / "ended")]):
        done = thole(env, *words)
        assert done.returncode == 69 and "cannot write" in done.stderr and mine.read_text() == "mine", done.stderr


def test_a_status_file_that_cannot_be_is_told_by_its_name(env, tmp_path):
    done = thole(env, "run", "--status-file", str(tmp_path / "no" / "such"), "true")
    assert done.returncode == 69 and f"cannot write: {tmp_path}/no/such: No such file" in done.stderr, done.stderr


def test_of_a_part_that_has_ended_it_is_not_said_that_there_are_no_claims(env):
    claim = thole(env, "claim").stdout.strip()
    done = thole(env, "release", THOLE_CLAIM=f"{claim}/0123456789abcdef")
    assert done.returncode == 64 and "there are none inside it" in done.stderr, done.stderr
    assert f"thole release {claim}" in done.stderr and "there are no claims" not in done.stderr
    assert thole(env, "release", claim).returncode == 0


def test_of_a_claim_that_was_released_and_goes_on_why_names_what_keeps_it(env):
    claim = thole(env, "claim").stdout.strip()
    with Started(["sh", "-c", f"exec {THOLE} run sh -c 'echo up; exec cat'"], env={**env, "THOLE_CLAIM": claim}) as inner:
        assert inner.line() == "up"
        assert "to end it" not in thole(env, "why", claim).stdout
        assert thole(env, "release", claim).returncode == 69
        for words in (["why", claim], ["why", "0"]):
            told = thole(env, *words).stdout
            assert "what was started in it goes on" in told and "kill " in told, told


def test_so_it_does_while_the_process_that_has_let_go_has_yet_to_end(env):
    library = BUILD / "stops_at_its_end.so"
    if not library.exists():
        pytest.skip(f"no stops_at_its_end.so in {BUILD}")
    unordered = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    claim = thole(env, "claim", LD_PRELOAD=str(library), ASAN_OPTIONS=unordered).stdout.strip()
    (held,) = json.loads(thole(env, "status", "--json").stdout)["claims"]
    with Started(["sh", "-c", f"exec {THOLE} run sh -c 'echo up; exec cat'"], env={**env, "THOLE_CLAIM": claim}) as inner:
        assert inner.line() == "up"
        assert thole(env, "release", claim).returncode == 69
        stopped = pathlib.Path(f"/proc/{held['pid']}/stat")
        eventually(lambda: stopped.read_text().rpartition(")")[2].split()[0] == "T", "it has let go, and not ended")
        try:
            for words in (["why", claim], ["why", "0"]):
                told = thole(env, *words).stdout
                assert "what was started in it goes on" in told and "kill " in told, told
        finally:
            os.kill(held["pid"], signal.SIGCONT)


def test_every_line_of_a_hint_is_indented(env):
    claim = thole(env, "claim").stdout.strip()
    told = thole(env, "release", THOLE_CLAIM=f"{claim}/0123456789abcdef").stderr.splitlines()
    assert len(told) == 3 and not told[0].startswith(" ") and all(line.startswith("  ") for line in told[1:]), told
    assert thole(env, "release", claim).returncode == 0


def test_a_file_here_is_no_name_of_a_machine(env, tmp_path):
    (tmp_path / "runs.csv").write_text("")
    done = thole(env, "--machine", "runs.csv", "status", cwd=tmp_path)
    assert done.returncode == 64 and "the file here: ./runs.csv" in done.stderr, done.stderr


def test_a_full_stdout_is_told(env):
    for words in (["--help"], ["--version"], ["help", "run"], ["completion", "bash"], ["status"], ["topo", "--json"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([THOLE, *words], env=env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 125 and "cannot write the result" in done.stderr, (words, done.stderr)


def test_two_gpus_of_one_claim_are_one_claim_to_release(env):
    shell = "exec 2>&1; $1 claim -g 2 -q >/dev/null; $1 release 0 1 0; echo $?"
    done = subprocess.run(["sh", "-c", shell, "sh", str(THOLE)], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("released") == 1 and done.stdout.endswith("\n0\n"), done.stdout

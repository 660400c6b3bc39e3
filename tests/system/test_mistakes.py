"""What people type by mistake, and what they see before it costs them a night."""
import grp
import json
import os
import re
import subprocess

import pytest

from run_tools import THOLE, Terminal, eventually


@pytest.fixture
def env(tmp_path):
    (tmp_path / "home").mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("THOLE_", "CUDA_", "XDG_"))}
    return {**kept, "HOME": str(tmp_path / "home"), "THOLE_STATE_DIR": str(tmp_path / "state"), "THOLE_MACHINE": "2xA100"}


def thole(env, *words, **more):
    return subprocess.run([THOLE, *words], capture_output=True, text=True, env=env, timeout=120, **more)


@pytest.mark.parametrize("words", [["22:00"], ["5", "22:00"], ["5f2c19d0a4e8b731", "08:30"]], ids=" ".join)
def test_extend_takes_a_time_from_now(env, words):
    done = thole(env, "extend", *words)
    assert done.returncode == 64 and "expected a time from now" in done.stderr and words[-1] in done.stderr
    assert re.search(f"^  thole extend {' '.join([*words[:-1], ''])}(\\d+[hm])+$", done.stderr, re.MULTILINE), done.stderr


@pytest.mark.parametrize("words, hint", [(["2h", "5f2c19d0a4e8b731"], "thole extend 5f2c19d0a4e8b731 2h"),
                                         (["2h", "3:1"], "thole extend 3:1 2h"), (["4:00:00"], "extend 4h")])
def test_extend_has_the_claim_first_and_no_time_of_slurm(env, words, hint):
    done = thole(env, "extend", *words)
    assert done.returncode == 64 and hint in done.stderr


@pytest.mark.parametrize("group, hint", [("33009", "sudo groupadd -g 33009 NAME"), ("99999999999999", "not numbered"),
                                         (str(grp.getgrgid(0).gr_gid), f"--group {grp.getgrgid(0).gr_name}"),
                                         ("no-such-group", "sudo groupadd no-such-group")])
def test_a_group_is_named_and_not_numbered(env, group, hint):
    done = thole(env, "init", "--group", group)
    assert done.returncode == 64 and hint in done.stderr


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
    (["source", "venv/bin/activate"], 127, "bash -c '. FILE && COMMAND"),
    (["./train.py"], 126, "  python "),
    (["./crlf"], 127, "sed -i 's/\\r$//'"),
    (["./env-crlf"], 127, "sed -i 's/\\r$//'"),
    (["./other-machine"], 127, "/no/such/interpreter"),
])
def test_the_command_is_looked_for_before_anybody_waits(env, tmp_path, command, status, hint):
    (tmp_path / "train.py").touch()
    (tmp_path / "notes.txt").touch()
    lines = {"crlf": "#!/bin/sh\r", "env-crlf": "#!/usr/bin/env sh\r", "other-machine": "#!/no/such/interpreter"}
    for name, line in lines.items():
        (tmp_path / name).write_bytes(line.encode() + b"\n")
        (tmp_path / name).chmod(0o755)
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


def script(path, line, text=""):
    path.write_bytes(f"{line}\n{text}".encode())
    path.chmod(0o755)
    return path


def submitted_and_run(env, path, *words):
    return [thole(env, *verb, *words, f"./{path.name}", cwd=path.parent)
            for verb in (["submit", "--dry-run"], ["run", "-q", "--no-supervisor"])]


@pytest.mark.parametrize("line", [
    "#!/usr/bin/env -S sh -e\r", "#!/usr/bin/env -vS sh -e\r", "#!/usr/bin/env --split-string=sh -e\r",
    "#!/usr/bin/env -S 'sh'", "#!/usr/bin/env -S A=${HOME} sh", "#!/usr/bin/env -S PATH=/bin:/usr/bin sh",
    "#!/usr/bin/env -S nice -n 1 sh", "#! /bin/sh\t ",
    "#!/bin/sh", "#!bin/sh", "#!", "#! ", f"#!/{'x' * 300}/sh", f"#!/usr/bin/env -S sh -e {' ' * 300}",
], ids=lambda line: line[:40])
def test_a_first_line_that_every_shell_runs_is_taken(env, tmp_path, line):
    (tmp_path / "bin").symlink_to("/bin")
    path = script(tmp_path / "it", line, "echo it ran\n")
    reference = subprocess.run(["bash", "-c", "./it"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert "it ran" in reference.stdout, reference.stderr
    submitted, ran = submitted_and_run(env, path)
    assert submitted.returncode == 0, submitted.stderr
    assert "it ran" in ran.stdout, ran.stderr


@pytest.mark.parametrize("line, status, says", [
    ("#!/usr/bin/env sh\r", 127, ["it: sh\\x0d", "sed -i 's/\\r$//'"]),
    ("#!/usr/bin/env sh \r", 127, ["it: sh \\x0d", "sed -i"]),
    ("#!/usr/bin/env sh -e", 127, ["it: sh -e", "#!/usr/bin/env -S sh -e"]),
    ("#!/usr/bin/env shallow-pithon", 127, ["it: shallow-pithon", "did you mean shallow-python?"]),
    ("#!/usr/bin/env -S no-such-thing -u", 127, ["it: no-such-thing"]),
    ("#!/usr/bin/env -S nice -n 1 no-such-thing -u", 127, ["it: no-such-thing"]),
    ("#!python3", 127, ["it: python3", "#!/usr/bin/env python3"]),
    ("#!./nested", 127, ["it: ", "nested: /no/such/interpreter"]),
    ("#!/usr/bin/env nested", 127, ["bin/nested: /no/such/interpreter"]),
    ("#!/etc/passwd", 126, ["cannot be run", "it: /etc/passwd", "Permission denied"]),
    ("#!/tmp", 126, ["cannot be run", "it: /tmp", "it is a directory"]),
    ("#!/usr/bin/env closed", 126, ["cannot be run", "it: closed"]),
])
def test_an_interpreter_that_cannot_be_run_is_named(env, tmp_path, line, status, says):
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin/shallow-python", "#!/bin/sh")
    for nested in ("nested", "bin/nested"):
        script(tmp_path / nested, "#!/no/such/interpreter")
    (tmp_path / "bin/closed").touch(0o644)
    path = script(tmp_path / "it", line, "echo it ran\n")
    for done in submitted_and_run({**env, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}, path):
        assert done.returncode == status and "the interpreter named in the first line of the script" in done.stderr, done.stderr
        assert all(word in done.stderr for word in says) and "chmod" not in done.stderr, done.stderr


def test_a_directory_is_no_command(env, tmp_path):
    (tmp_path / "bin/pythn").mkdir(parents=True)
    done = thole({**env, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}, "run", "pythn", "train.py")
    assert done.returncode == 127 and "no such command: pythn" in done.stderr and "mean pythn?" not in done.stderr, done.stderr
    done = thole(env, "run", f"{tmp_path}/bin/pythn")
    assert done.returncode == 126 and "it is a directory" in done.stderr, done.stderr


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
    (["run", "--memory", "20", "echo", "hi"], "--memory 20: 20 MiB; GiB would be --memory 20G"),
    (["run", "--memory", "20G", "echo", "hi"], None),
    (["run", "--no-wait", "--wait", "1m", "echo", "hi"], "the later counts, --wait"),
    (["run", "--wait", "1m", "--no-wait", "echo", "hi"], "the later counts, --no-wait"),
])
def test_what_was_understood_otherwise_than_meant_gets_one_line(env, words, told):
    done = thole(env, *words)
    assert done.returncode == 0 and done.stdout.startswith("hi")
    remarks = ("goes to the command", "seconds", "MiB", "exclude")
    lines = [line for line in done.stderr.splitlines() if any(remark in line for remark in remarks)]
    assert [told in line for line in lines] == ([True] if told else []), done.stderr


def test_a_range_of_gpus_is_their_numbers(env):
    done = thole(env, "--machine", "4xA100", "run", "-q", "--on", "1-2", "-g", "2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert done.stdout == "1,2\n", done.stderr


@pytest.fixture
def taken(env):
    """A machine whose two GPUs somebody has."""
    holds = [THOLE, "run", "-q", "-g", "2", "--time", "2h", "sh", "-c", "echo begun; read end"]
    with subprocess.Popen(holds, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == "begun\n"
        yield env
        holder.communicate("\n", timeout=60)


def test_who_does_not_wait_is_not_told_that_he_waits(taken):
    done = thole(taken, "run", "--no-wait", "true")
    assert done.returncode == 75
    first, *others = done.stderr.splitlines()
    assert first == "thole: would be waiting, next in line"
    assert "GPUs 0,1" in others[0] and others[-1] == "thole: 1 GPU: not free now"
    assert "Ctrl-C" not in done.stderr


def test_a_dry_run_shows_its_plan_on_a_busy_machine_too(taken):
    shown = thole(taken, "run", "--dry-run", "--on", "1", "true").stdout
    assert shown.startswith("would be waiting, next in line\n") and "were all of them free, it would claim GPU 1" in shown
    assert "CUDA_VISIBLE_DEVICES=1\n" in shown and "CPUs" in shown
    plan = json.loads(thole(taken, "run", "--json", "--dry-run", "--on", "1", "true").stdout)
    assert plan["would"] == "wait" and plan["gpus"] == [] and [gpu["gpu"] for gpu in plan["if_free"]] == ["1"]


@pytest.mark.parametrize("words, told", [
    (["--mem", "bind:99"], "there is no memory node 99"),
    (["-g", "2", "--bind", "compat"], "one GPU each"),
])
@pytest.mark.parametrize("verb, end", [("run", []), ("map", [":::", "a"])])
def test_a_binding_that_no_gpu_can_give_is_refused_before_anybody_waits(taken, words, told, verb, end):
    done = thole(taken, verb, *words, "true", *end)
    assert done.returncode == 64 and told in done.stderr and "waiting" not in done.stderr, done.stderr


def test_a_process_that_is_not_there_is_said_so(env):
    for more in ([], ["--on", "1"]):
        done = thole(env, "bind", "--pid", "4194304", *more)   # more than any kernel's greatest pid
        assert done.returncode == 64 and "no such process" in done.stderr, done.stderr


def test_a_claim_is_named_in_plain_words(env):
    claim = thole(env, "claim", "--on", "0", "--time", "2h").stdout.strip()
    assert claim
    why = thole(env, "why", "0").stdout
    assert "(thole claim)" in why and "((" not in why
    assert thole(env, "release", claim).returncode == 0


def test_what_a_dry_run_shows_can_be_pasted(env):
    shown = thole(env, "--machine", "dgx-a100", "run", "--dry-run", "true").stdout
    line = next(line.strip() for line in shown.splitlines() if "NCCL_IB_HCA" in line)
    assert line.startswith("NCCL_IB_HCA='=mlx5_"), "zsh takes an = in front for the name of a program"


def test_links_are_named_once(env):
    shown = thole(env, "--machine", "dgx-a100", "status", "3").stdout
    links = " ".join(shown.partition("  links ")[2].split())
    assert links == "nvswitch x12 to GPUs 0,1,2,4,5,6,7; pxb to GPU 2, mlx5_2, mlx5_3"


def test_memory_is_not_said_twice(env):
    shown = thole(env, "--machine", "dgx-h100", "topo").stdout
    assert "GPU 0 H100 HBM3 80G" in shown and "80GB" not in shown


def test_a_column_that_changes_nothing_is_named(env, tmp_path):
    (tmp_path / "v.csv").write_text("lr,seed\n1,2\n3,4\n")
    done = thole(env, "submit", "--dry-run", "--csv", str(tmp_path / "v.csv"), "echo", "{lr}")
    assert "the command does not name {seed}" in done.stderr and "{lr}" not in done.stderr, done.stderr


@pytest.mark.parametrize("command", [["echo", "{}"], ["echo", "{line}"], ["echo"]])
def test_a_line_that_the_command_gets_is_not_missed(env, tmp_path, command):
    (tmp_path / "lines").write_text("a\nb\n")
    done = thole(env, "submit", "--dry-run", "--each-line", str(tmp_path / "lines"), *command)
    assert done.returncode == 0 and "does not name" not in done.stderr and "echo b\n" in done.stdout, done.stderr


def test_a_drained_queue_says_so_at_once(env):
    assert thole(env, "drain").returncode == 0
    assert "thole drain --off" in thole(env, "submit", "true").stderr
    assert thole(env, "cancel", "1").returncode == 0
    assert thole(env, "drain", "--off").returncode == 0
    assert "drain" not in thole(env, "submit", "--hold", "true").stderr


def test_the_claim_of_a_shell_that_has_ended_is_named(env):
    claim = thole(env, "claim", "--time", "2h").stdout.strip()
    stale = thole({**env, "THOLE_CLAIM": "0123456789abcdef"}, "release")
    assert stale.returncode == 64 and "THOLE_CLAIM=0123456789abcdef" in stale.stderr
    assert "unset THOLE_CLAIM" in stale.stderr and claim in stale.stderr
    for words in (["release", "0123456789abcdef"], ["release", "012345"], ["extend", "0123456789abcdef", "1h"]):
        named = thole({**env, "THOLE_CLAIM": "0123456789abcdef/fedcba9876543210"}, *words)
        assert named.returncode == 64 and "claim of this shell has ended" in named.stderr, named.stderr
    other = thole({**env, "THOLE_CLAIM": "0123456789abcdef"}, "release", "fedcba9876543210")
    assert other.returncode == 64 and "no such claim: fedcba9876543210" in other.stderr, other.stderr
    assert thole(env, "release").returncode == 0, "the only one"


def test_a_claim_without_its_supervisor_names_what_to_end(env):
    holds = [THOLE, "run", "-q", "sh", "-c", "echo $$; exec sleep 600"]
    with subprocess.Popen(holds, env=env, text=True, stdout=subprocess.PIPE) as supervisor:
        command = int(supervisor.stdout.readline())
        try:
            supervisor.kill()
            supervisor.wait()
            done = thole(env, "release", "0")
            assert done.returncode == 69 and f"kill {command}" in done.stderr and "/" not in done.stderr, done.stderr
        finally:
            os.kill(command, 9)


def test_a_load_below_one_percent_is_said_as_it_is(env, tmp_path):
    machine = json.loads(thole(env, "capture", "--use").stdout)
    for gpu in machine["gpus"]:
        gpu["use"]["utilization_percent"] = 0.7
        gpu["use"]["processes"] = [{"pid": 7, "user": "ann", "command": "python", "kind": "compute", "memory_mib": 10}]
    (tmp_path / "m.json").write_text(json.dumps(machine))
    why = thole(env, "--machine", str(tmp_path / "m.json"), "why", "--beside", "any", "--max-load", "0.5%").stdout
    assert "0.7% load, more than 0.5%" in why


def test_gpus_are_looked_at_by_lists_and_ranges_too(env):
    on = {**env, "THOLE_MACHINE": "4xA100"}
    listed = [gpu["index"] for gpu in json.loads(thole(on, "status", "--json", "0,2-3").stdout)["gpus"]]
    assert listed == [0, 2, 3]
    assert "GPU 0,2,3:" in thole(on, "why", "0,2-3").stdout
    for verb in ("status", "why"):
        done = thole(on, verb, "gpu1")
        assert done.returncode == 64 and f"thole {verb} 1" in done.stderr, done.stderr


def test_why_a_job_waits_is_told_once_and_the_same(taken):
    for words in (["-g", "2"], ["-g", "1"], ["-g", "1"], ["--share", "--memory", "1G"]):
        assert thole(taken, "submit", "--hold", *words, "true").returncode == 0
    assert thole(taken, "resume", "1-4").returncode == 0
    counted = {}
    for job in "234":
        lines = thole(taken, "why", "job", job).stdout.splitlines()
        behind = [line for line in lines if "it waits: behind" in line]
        before = [line for line in lines if "before it" in line]
        assert len(behind) == len(before) <= 1, lines
        if behind:
            counted[job] = behind[0].split("behind ")[1]
            jobs = counted[job].split(" and ")[0].split(",")
            number = "one job of yours goes" if len(jobs) == 1 else f"{len(jobs)} jobs of yours go"
            assert number in before[0], lines
    assert counted, "some wait behind others"
    assert thole(taken, "cancel", "1-4").returncode == 0


def test_a_job_that_has_begun_is_changed_by_no_edit_and_no_riddle(env, tmp_path):
    os.mkfifo(tmp_path / "end")
    assert thole(env, "submit", "cat", str(tmp_path / "end")).returncode == 0
    eventually(lambda: json.loads(thole(env, "jobs", "--json").stdout)["jobs"][0]["state"] == "running", "it runs")
    done = thole(env, "edit", "1", "--priority", "10")
    assert done.returncode == 64 and "thole cancel 1 ends it" in done.stderr and "extend" not in done.stderr
    assert thole(env, "cancel", "1").returncode == 0


@pytest.mark.parametrize("words", [["status", "--watch", "1h"], ["jobs", "--watch"]])
def test_watching_ends_with_q_and_leaves_no_trace(env, words):
    terminal = Terminal([THOLE, *words], env)
    terminal.expect("q ends it")
    terminal.send("q")
    assert terminal.wait() == 0
    assert "\x1b[?1049l" in terminal.seen, "the screen that was there before is back"


def test_a_narrow_terminal_shows_what_runs_and_breaks_no_line(taken):
    for words in (["status"], ["run", "--no-wait", "-g", "2", "true"]):
        narrow = Terminal(["sh", "-c", 'stty cols 60 && exec "$@"', "sh", THOLE, *words], {**taken, "NO_COLOR": "1"})
        narrow.wait()
        lines = narrow.seen.replace("\r", "").splitlines()
        assert "sh -c 'e" in " ".join(narrow.seen.split()) and max(map(len, lines)) <= 60, lines


def test_a_dumb_terminal_gets_no_sequences(env):
    terminal = Terminal([THOLE, "status"], {**env, "TERM": "dumb"})
    terminal.wait()
    assert "2 free" in terminal.seen and "\x1b" not in terminal.seen


def test_too_few_gpus_in_a_shell_whose_claim_has_ended_name_the_variables_that_are_left(env):
    on = {**env, "THOLE_MACHINE": "8xA100"}
    left = subprocess.run([THOLE, "run", "-q", "env"], capture_output=True, text=True, env=on, timeout=60).stdout
    stale = {**on, **dict(line.split("=", 1) for line in left.splitlines()
                          if line.startswith(("THOLE_CLAIM=", "THOLE_GPUS=", "CUDA_VISIBLE_DEVICES=")))}
    done = thole(stale, "run", "-g", "2", "true")
    assert done.returncode == 64 and "leaves 1 of the 8" in done.stderr, done.stderr
    assert "unset THOLE_CLAIM THOLE_GPUS CUDA_VISIBLE_DEVICES" in done.stderr, done.stderr
    more = thole(stale, "run", "-g", "9", "true")
    assert more.returncode == 64 and "unset" not in more.stderr, more.stderr


def test_values_of_a_grid_with_blanks_between_are_told_from_a_missing_command(env):
    done = thole(env, "submit", "--grid", "seed=1,", "2", "echo", "{seed}")
    assert done.returncode == 64 and "a comma at its end" in done.stderr, done.stderr
    assert "without blanks: seed=1,2" in done.stderr, done.stderr


def test_a_value_that_looks_like_a_range_is_told_as_one_value(env):
    done = thole(env, "submit", "--hold", "--grid", "seed=1-3", "echo", "{seed}")
    assert "seed=1-3 is one value; the numbers between: seed=1..3" in done.stderr, done.stderr
    for plain in ("seed=1-3,4", "seed=a-3", "seed=1..3"):
        assert "is one value" not in thole(env, "submit", "--hold", "--grid", plain, "echo", "{seed}").stderr


def test_a_state_directory_that_is_not_there_is_said_beside_the_table(env, tmp_path):
    new = thole(env, "status")
    assert new.returncode == 0 and "nobody claims there" in new.stderr, new.stderr
    assert thole(env, "run", "-q", "true").returncode == 0
    assert "state directory" not in thole(env, "status").stderr
    assert thole(env, "--state-dir", str(tmp_path / "new"), "status", "--json").stderr == ""


def test_a_table_of_topologies_is_no_machine_file_and_the_way_to_one_is_named(env, tmp_path):
    (tmp_path / "topo.txt").write_text("\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
                                       "GPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t0-7\t0\n")
    done = thole(env, "--machine", str(tmp_path / "topo.txt"), "status")
    assert done.returncode == 64 and f"thole capture --from {tmp_path}/topo.txt -o machine.json" in done.stderr, done.stderr
    assert thole(env, "capture", "--from", str(tmp_path / "topo.txt"), "-o", str(tmp_path / "m.json")).returncode == 0
    assert thole(env, "--machine", str(tmp_path / "m.json"), "status").returncode == 0

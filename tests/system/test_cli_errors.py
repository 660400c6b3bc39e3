"""Bad input: exit 64, the object and the fix named; and how errors look under --json."""
import json
import os
import shutil
import subprocess
import tempfile

import pytest

from run_tools import THOLE


def thole(*words, env=None):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("THOLE_", "CUDA_"))}
    variables.update(env or {})
    return subprocess.run([THOLE, *words], capture_output=True, text=True, env=variables, timeout=60)


@pytest.mark.parametrize("line, says, hint", [
    ("satus", 'unknown command "satus"', "status"),
    ("--machine dgx-a100 run --gpu 2 true", 'unknown option "--gpu"', "--on 2"),
    ("--machine dgx-a100 run --gpu=2 python train.py", 'unknown option "--gpu"', "GPU 2 by its number: --on 2"),
    ("--machine dgx-a100 run --gpu python", 'unknown option "--gpu"', "--on 0; any one"),
    ("--machine dgx-a100 run --gpu-ids 0,1 true", 'unknown option "--gpu-ids"', "-g 2 --on 0,1"),
    ("--machine dgx-a100 run --gpu-ids=0-3 true", 'unknown option "--gpu-ids"', "-g 4 --on 0-3"),
    ("--machine dgx-a100 run --gpus 0,1 true", "expected a number", "-g 2 --on 0,1"),
    ("--machine dgx-a100 run -g 99999999999999999999 true", "a number up to 4096", ""),
    ("--machine dgx-a100 -g 2 python t.py", "-g belongs after its command", "thole run -g 2 …"),
    ("--machine dgx-a100 -g 2 submit python t.py", "-g belongs after its command", "thole submit -g 2 …"),
    ("--machine dgx-a100 run --bind core:0 true", "core:N", "1 or more"),
    ("--machine dgx-a100 run --cpus 4 true", 'unknown option "--cpus"', "--bind MODE"),
    ("--machine dgx-a100 run --nodes 1 true", 'unknown option "--nodes"', "-g N"),
    ("--machine dgx-a100 run --name x true", 'unknown option "--name"', "thole submit --name"),
    ("--machine dgx-a100 run --partition x true", 'unknown option "--partition"', "--model"),
    ("--machine dgx-a100 status --gpu 3", 'unknown option "--gpu"', "thole status 3"),
    ("--machine dgx-a100 status -i 0,2", 'unknown option "-i"', "thole status 0,2"),
    ("--machine dgx-a100 why --device", 'unknown option "--device"', "thole why 0,1"),
    ("--machine dgx-a100 run --on 0..3 true", "0..3", "a range has a dash, such as 0,1 or 0-3"),
    ("--machine dgx-a100 status 0..3", "0..3", "a range has a dash, such as 0,1 or 0-3"),
    ("run -gpus 2 true", '"-gpus" begins with one hyphen', "--gpus"),
    ("run -time=2h true", '"-time=2h" begins with one hyphen', "--time=2h"),
    ("run -- -g 2 true", '"-g" stands after --', "thole run -g … -- COMMAND"),
    ("submit --dependency 12 true", 'unknown option "--dependency"', "--after N"),
    ("submit --wrap x", 'unknown option "--wrap"', "sh -c 'LINE'"),
    ("submit --output x true", 'unknown option "--output"', "thole logs"),
    ("submit --mail-user me true", 'unknown option "--mail-user"', "--notify"),
    ("wait -t 3", 'unknown option "-t"', "--timeout TIME"),
    ("jobs -u me", 'unknown option "-u"', "thole status"),
    ("edit e --name f", 'unknown option "--name"', "a job keeps its name"),
    ("jobs -n 5", 'unknown option "-n"', "thole jobs | tail"),
    ("logs -n 5", 'unknown option "-n"', "--lines N"),
    ("map -n1 echo", 'unknown option "-n"', "one command's by itself"),
    ("map -P 4 echo", 'unknown option "-P"', "-j N"),
    ("bind --rank 3 -- true", 'unknown option "--rank"', "--local-rank R"),
    ("bind --local_rank=3 true", 'unknown option "--local_rank"', "--local-rank R"),
    ("map -I {} echo {}", 'unknown option "-I"', "{} stands for the item"),
    ("map echo :::: items", ":::: is GNU parallel's", "-a FILE"),
    ("map echo ::: a :::+ b", ":::+ is GNU parallel's", "--csv"),
    ("drain off", '"off"', "thole drain --off"),
    ("jupyter uninstall x", '"uninstall"', "thole jupyter remove NAME"),
    ("--machine dgx-a100 run --on cuda:1 true", "cuda:1", "--on 1"),
    ("--machine dgx-a100 run --on 3-1 true", "3-1", "0-3"),
    ("--machine dgx-a100 run -n 2 true", 'unknown option "-n"', "-g N"),
    ("--machine dgx-a100 run --time 8 true", "--time 8", "--time 8h"),
    ("--machine dgx-a100 submit --time 60 true", "--time 60", "--time 60m"),
    ("--machine dgx-a100 run --time 4:00:00 true", "4:00:00", "--time 4h"),
    ("--machine dgx-a100 run --time 1:30:00 true", "1:30:00", "--time 1h30m"),
    ("ps", 'unknown command "ps"', "thole status"),
    ("top", 'unknown command "top"', "thole status --watch"),
    ("kill 12", 'unknown command "kill"', "thole cancel"),
    ("squeue", 'unknown command "squeue"', "thole jobs"),
    ("sinfo", 'unknown command "sinfo"', "thole status"),
    ("sacct", 'unknown command "sacct"', "thole jobs --all; each task, with what it has used: thole jobs --tasks"),
    ("scontrol show job 1", 'unknown command "scontrol"', "thole hold, resume, edit; of a job: thole why job N"),
    ("salloc", 'unknown command "salloc"', "thole claim --shell, or thole run bash"),
    ("run -g 0 --on 1 true", "-g 0 asks for no GPU, and --on names some", "one of the two"),
    ("--machine 4xA100 jupyter install -g 9", "9 GPUs asked for", "4"),
    ("--machine 4xA100 run --memory 81921 true", "have 81921 MiB", "the largest has 81920 MiB"),
    ("help satus", 'unknown command "satus"', "status"),
    ("--machine dgx-a100 run -g 9 true", "9 GPUs asked for", "8"),
    ("--machine dgx-a100 run -g x true", 'got "x"', "a number"),
    ("--machine dgx-a100 run --memory 2X true", '"2X"', "20G"),
    ("--machine dgx-a100 run --wait tomorrow true", '"tomorrow"', "30m"),
    ("--machine dgx-a100 run --model A1000 true", "A1000", "A100"),
    ("--machine dgx-a100 run --on 12 true", "12", "0 to 7"),
    ("--machine dgx-a100 status 99", "99", ""),
    ("--machine dgx-a100 status GPU-zzzz", "GPU-zzzz", ""),
    ("--machine dgx-a1000 status", "dgx-a1000", "dgx-a100"),
    ("--machine 0xA100 status", "0xA100", ""),
    ("--machine 8xA1000 status", "A1000", "A100"),
    ("--machine /nonexistent.json status", "/nonexistent.json", ""),
    ("--machine dgx-a100 run", "COMMAND [ARGUMENT...] missing", "thole run python"),
    ("completion csh", "csh", "zsh"),
])
def test_a_mistake_is_named_with_its_fix(line, says, hint, tmp_path):
    failed = thole("--state-dir", str(tmp_path / "state"), *line.split())
    assert failed.returncode == 64, failed.stderr
    assert failed.stdout == ""
    assert says in failed.stderr and hint in failed.stderr
    assert failed.stderr.startswith("thole: ")


def test_less_than_none_is_no_gpus_number():
    failed = thole("--machine", "dgx-a100", "run", "-g", "-1", "true")
    assert failed.returncode == 64 and failed.stderr == 'thole: -g: expected a number, got "-1"\n'


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_named_directory_that_is_closed_is_no_case_for_init(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    environment = {"PATH": os.environ["PATH"], "THOLE_MACHINE": "2xA100", "THOLE_STATE_DIR": str(closed)}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as open_to_all:   # a checkout may be closed to others
        os.chmod(open_to_all, 0o755)
        program = shutil.copy(THOLE, open_to_all)
        done = subprocess.run([program, "run", "true"], user=65534, group=65534, extra_groups=[], env=environment,
                              capture_output=True, text=True, timeout=60)
    assert done.returncode == 69 and "Permission denied" in done.stderr, done.stderr
    assert "open to you" in done.stderr and "thole init" not in done.stderr


def test_under_json_an_error_is_one_document_on_stdout():
    failed = thole("--machine", "dgx-a100", "status", "99", "--json")
    assert failed.returncode == 64
    error = json.loads(failed.stdout)
    assert error["schema"] == "thole/error/1"
    assert error["error"]["code"] == "usage" and error["error"]["exit_status"] == 64
    assert "99" in failed.stderr
    assert json.loads(thole("--json", "satus").stdout)["error"]["hint"]


def test_run_leaves_stdout_to_its_command(tmp_path):
    ran = thole("--machine", "2xA100", "--state-dir", str(tmp_path / "s"), "run", "--json", "echo", "hello")
    assert ran.stdout == "hello\n"
    events = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [event["event"] for event in events] == ["claimed", "bound", "ended"]
    assert events[2]["exit_code"] == 0


@pytest.mark.parametrize("words, status", [
    (["--json", "run", "-g", "99", "true"], 64),
    (["run", "--json", "no-such-program"], 127),
    (["run", "--json", "--bogus", "true"], 64),
    (["run", "-g", "x", "--json", "true"], 64),
    (["run", "--json", "--wait", "5", "--memory", "20", "--no-wait", "true"], 0),
    (["claim", "--json", "-g", "99"], 64),
    (["map", "--json", "-g", "99", "true", ":::", "a"], 64),
    (["bind", "--json", "--local-rank", "9", "--ranks", "99", "--on", "12", "true"], 64),
])
def test_where_events_are_read_every_line_is_one(words, status, tmp_path):
    done = thole("--machine", "2xA100", "--state-dir", str(tmp_path / "s"), *words)
    assert done.returncode == status
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert events and all(event["schema"].startswith("thole/") and event["event"] for event in events)
    if status == 0:
        said = [event["message"] for event in events if event["event"] == "note"]
        assert len(said) == 3 and "5 seconds" in said[0] and "20 MiB" in said[1] and "--no-wait" in said[2]
        return
    assert events[-1]["event"] == "error" and events[-1]["error"]["exit_status"] == status
    if {"run", "bind"} & set(words):
        assert done.stdout == "", "stdout is the command's"
    else:
        assert json.loads(done.stdout)["error"] == events[-1]["error"]


def test_the_status_file_tells_the_commands_75_from_ours(tmp_path):
    words = ["--machine", "1xA100", "--state-dir", str(tmp_path / "s"), "-q", "run", "--status-file", str(tmp_path / "ended")]
    assert thole(*words, "sh", "-c", "exit 75").returncode == 75
    ended = json.loads((tmp_path / "ended").read_text())
    assert (ended["who"], ended["why"], ended["exit_code"]) == ("command", "exit", 75)
    with subprocess.Popen(
        [THOLE, *words[:5], "run", "sh", "-c", "echo; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        assert thole(*words, "--no-wait", "true").returncode == 75
        ended = json.loads((tmp_path / "ended").read_text())
        assert (ended["who"], ended["why"]) == ("thole", "busy")
        holder.communicate(b"\n")


def test_a_status_file_that_cannot_be_is_refused_before_the_start(tmp_path):
    words = ["--machine", "1xA100", "--state-dir", str(tmp_path / "s"), "-q", "run", "--status-file"]
    for place in (tmp_path / "none/x", tmp_path):
        refused = thole(*words, str(place), "touch", str(tmp_path / "started"))
        assert refused.returncode == 69 and "cannot write" in refused.stderr and str(place) in refused.stderr
        assert not (tmp_path / "started").exists()


def test_a_status_file_that_fails_at_the_end_leaves_the_commands_status(tmp_path):
    words = ["--machine", "1xA100", "--state-dir", str(tmp_path / "s"), "-q", "run", "--status-file"]
    (tmp_path / "there").mkdir()
    done = thole(*words, str(tmp_path / "there/x"), "sh", "-c", f"ls -A {tmp_path}/there; rm -r {tmp_path}/there; exit 3")
    assert done.returncode == 3 and done.stdout == "", done.stderr
    assert "--status-file" in done.stderr and "cannot write" in done.stderr


def test_configuration_mistakes_name_file_line_and_nearest(tmp_path):
    (tmp_path / "thole").mkdir()
    config = tmp_path / "thole" / "config.toml"
    config.write_text('[request]\nwiat = "1h"\n')
    failed = thole("status", env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert failed.returncode == 64
    assert f"{config}:2: request.wiat: unknown key" in failed.stderr and "request.wait" in failed.stderr
    assert thole("--help", env={"XDG_CONFIG_HOME": str(tmp_path)}).returncode == 0


def test_files_variables_and_options_override_in_this_order(tmp_path):
    (tmp_path / "thole").mkdir()
    (tmp_path / "thole" / "config.toml").write_text('machine = "3xA100"\n')
    env = {"XDG_CONFIG_HOME": str(tmp_path)}

    def gpus(*words, **more):
        return len(thole("status", "--list", *words, env={**env, **more}).stdout.splitlines())

    assert gpus() == 3
    assert gpus(THOLE_MACHINE="4xA100") == 4
    assert gpus("--machine", "5xA100", THOLE_MACHINE="4xA100") == 5


def test_a_dry_run_that_fails_says_so_as_json():
    failed = thole("--machine", "2xA100", "run", "-g", "3", "--dry-run", "--json", "true")
    assert failed.returncode == 64
    assert json.loads(failed.stdout)["schema"] == "thole/error/1"
    real = thole("--machine", "2xA100", "run", "-g", "3", "--json", "true")
    assert (real.returncode, real.stdout) == (64, ""), "stdout is the command's"


def test_a_result_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w", encoding="utf-8") as full:
        failed = subprocess.run([THOLE, "--machine", "2xA100"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert failed.returncode == 125
    assert "No space left" in failed.stderr


@pytest.mark.parametrize("name", ["HOME", "XDG_DATA_HOME", "JUPYTER_DATA_DIR"])
def test_kernels_are_not_kept_where_jupyter_would_not_find_them(tmp_path, name):
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "THOLE_PERSONAL_DIR": str(tmp_path / "own"), name: "work"}
    for words in (["install", "--name", "two"], ["list"], ["remove", "two"]):
        done = subprocess.run([THOLE, "--machine", "1xA100", "jupyter", *words], capture_output=True, text=True, timeout=60,
                              cwd=tmp_path, env=kept)
        assert done.returncode == 64, done
        assert f'{name} is "work", no absolute path' in done.stderr, done.stderr
    assert not (tmp_path / "work").exists()


def test_a_relative_home_is_said_to_be_one(tmp_path):
    done = subprocess.run([THOLE, "--machine", "1xA100", "doctor"], capture_output=True, text=True, timeout=60, cwd=tmp_path,
                          env={"PATH": os.environ["PATH"], "HOME": "work", "THOLE_PERSONAL_DIR": str(tmp_path / "own")})
    assert 'HOME is "work", no absolute path' in " ".join(done.stdout.split()) and "not set" not in done.stdout, done.stdout


@pytest.mark.parametrize("words", [["release"], ["extend", "10m"]])
def test_outside_a_claim_it_is_said_how_one_is_named(tmp_path, words):
    done = thole("--machine", "1xA100", *words,
                 env={"THOLE_PERSONAL_DIR": str(tmp_path / "own"), "THOLE_STATE_DIR": str(tmp_path / "state")})
    assert done.returncode == 64
    assert done.stderr == ("thole: which claim? This is not inside one: name it by its id, or by a GPU of it\n"
                           "  there are no claims\n"), done.stderr

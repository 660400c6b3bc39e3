"""`thole map`: items, output, the job log, early ends, and claims that come and go with the work."""
import json
import os
import resource
import shutil
import signal
import subprocess

import pytest

from run_tools import THOLE, Started, eventually, gone, open_gate, python, state_of


class Box:
    """A simulated machine with claims of its own."""

    def __init__(self, folder, gpus=2):
        self.folder = folder
        self.words = [THOLE, "--machine", f"{gpus}xA100", "--state-dir", str(folder / "state")]
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("THOLE_", "CUDA_"))}
        self.environment["THOLE_PERSONAL_DIR"] = str(folder / "runtime")
        os.makedirs(folder / "runtime", mode=0o700)

    def map(self, *words, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        if "input" in more:
            del more["stdin"]
        return subprocess.run(
            [*self.words, "map", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment,
            cwd=self.folder,
            **more,
        )

    def out(self, *words, **more):
        done = self.map(*words, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *words, verb="map", **more):
        return Started([*self.words, verb, *map(str, words)], env=self.environment, cwd=self.folder, **more)

    def held(self):
        status = subprocess.run(
            [*self.words, "status", "--json"], capture_output=True, text=True, env=self.environment, check=True
        )
        return len(json.loads(status.stdout)["claims"])

    def run(self, *words):
        return subprocess.run([*self.words, *words], capture_output=True, text=True, env=self.environment)

    def status(self):
        return json.loads(self.run("status", "--json").stdout)

    def waiting(self):
        status = subprocess.run(
            [*self.words, "status", "--json"], capture_output=True, text=True, env=self.environment, check=True
        )
        return len(json.loads(status.stdout)["queue"])


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


ECHO = ["-g", "0", "-j", "3", "-k", "echo"]


@pytest.mark.parametrize("words, stdin, lines", [
    ([*ECHO, ":::", "a", "b c"], None, ["a", "b c"]),
    ([*ECHO, "x{}y", ":::", "a", "b"], None, ["xay", "xby"]),
    ([*ECHO, "{2}{1}", ":::", "a", "b", ":::", "1", "2"], None, ["1a", "2a", "1b", "2b"]),
    ([*ECHO, "{#}", "{}", ":::", "a", "b"], None, ["1 a", "2 b"]),
    (["-g", "0", "-j", "1", "echo", "{%}", ":::", "a", "b"], None, ["1", "1"]),
    (ECHO, "a\nb\n\nc", ["a", "b", "c"]),
    (["-0", *ECHO], "a\0b c\0", ["a", "b c"]),
    (["--csv", *ECHO, "{lr}/{seed}"], "lr,seed\n1e-3,0\n1e-4,1\n", ["1e-3/0", "1e-4/1"]),
    ([*ECHO, ":::"], None, []),
    (ECHO, "", []),
])
def test_items_fill_the_command(box, words, stdin, lines):
    more = {} if stdin is None else {"input": stdin}
    assert box.out(*words, **more).splitlines() == lines


def test_a_cell_that_can_be_no_argument_is_refused(box):
    done = box.map("--csv", *ECHO, "{x}", input="x\na\nb\0c\n")
    assert (done.returncode, done.stdout) == (64, "") and ":3: a cell holds a zero byte" in done.stderr, done.stderr


def test_items_come_from_a_file(box):
    (box.folder / "items").write_text("a\nb\n")
    assert box.out("-a", "items", *ECHO).splitlines() == ["a", "b"]


def test_output_is_whole_and_goes_where_the_task_wrote_it(box):
    task = "for i in 1 2 3; do echo out $1 $i; echo err $1 $i >&2; done"
    done = box.map("-g", "0", "-j", "4", "sh", "-c", task, "sh", ":::", *range(20))
    for stream, word in ((done.stdout, "out"), (done.stderr, "err")):
        lines = stream.splitlines()
        assert len(lines) == 60
        for at in range(0, 60, 3):
            item = lines[at].split()[1]
            assert lines[at:at + 3] == [f"{word} {item} {i}" for i in (1, 2, 3)]


def test_large_output_is_whole(box):
    done = box.out("-g", "0", "-j", "2", "-k", *python("import sys; print(sys.argv[1] * 300000)"), ":::", "a", "b")
    assert done == "a" * 300000 + "\n" + "b" * 300000 + "\n"


@pytest.mark.parametrize("how", ["--line-buffer", "-u"])
def test_output_is_shown_as_it_comes(box, how):
    os.mkfifo(box.folder / "fifo")
    with box.start("-g", "0", how, "sh", "-c", "echo first; cat fifo; printf last", "sh", ":::", "a") as job:
        assert job.line() == "first"
        (box.folder / "fifo").write_text("second\n")
        assert job.line() == "second"
        assert job.line() == "last"
        assert job.wait() == 0


def test_the_job_has_what_run_would_give_it(box):
    def variables(text):
        kept = {}
        for line in text.split("\0"):
            name, _, value = line.partition("=")
            if name not in ("THOLE_CLAIM", "THOLE_PLACE", "_", ""):
                kept[name] = value
        return kept
    run = subprocess.run(
        [*box.words, "run", "-q", "--on", "1", "sh", "-c", "exec env -0"],
        capture_output=True,
        text=True,
        env=box.environment,
        cwd=box.folder,
        check=True,
    )
    assert variables(box.out("-q", "--on", "1", "sh", "-c", "exec env -0", "sh", ":::", "a")) == variables(run.stdout)


def test_lanes_are_on_gpus_of_their_own(box):
    task = "mkdir gpu$CUDA_VISIBLE_DEVICES || exit 1; sleep 0.05; rmdir gpu$CUDA_VISIBLE_DEVICES; echo $CUDA_VISIBLE_DEVICES"
    used = box.out("-q", "sh", "-c", task, "sh", ":::", *range(12)).split()
    assert len(used) == 12 and set(used) == {"0", "1"}
    assert box.held() == 0


def test_each_bay_has_a_number_of_its_own(box):
    os.mkfifo(box.folder / "fifo")
    with box.start("-q", "-u", "--per-gpu", "2", "sh", "-c", "echo $THOLE_PLACE {%}; cat fifo", ":::", *range(6)) as job:
        first = sorted(job.line() for _ in range(4))
        assert first == [f"{number} {number}" for number in (1, 2, 3, 4)]
        open_gate(box.folder / "fifo")
        assert {job.line(), job.line()} <= set(first)


def test_per_gpu_runs_as_many_at_once_on_each(box):
    os.mkfifo(box.folder / "fifo")
    with box.start(
        "-q", "-u", "--per-gpu", "2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; cat fifo", "sh", ":::", 1, 2, 3, 4, 5
    ) as job:
        assert sorted(job.line() for _ in range(4)) == ["0", "0", "1", "1"]
        job.kill(signal.SIGTERM)
        job.wait()


def test_j_limits_the_lanes(box):
    assert set(box.out("-q", "-j", "1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", "sh", ":::", *range(4)).split()) == {"0"}


def test_without_gpus_nothing_is_claimed(box):
    with Started([*box.words, "run", "-g", "2", "sh", "-c", "echo ready; read line"], env=box.environment) as holder:
        assert holder.line() == "ready"
        assert box.out("-g", "0", "sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]", "sh", ":::", "a") == "[]\n"


def test_lanes_join_as_gpus_become_free(box):
    with Started([*box.words, "run", "--on", "0", "sh", "-c", "echo ready; read line"], env=box.environment) as holder:
        assert holder.line() == "ready"
        os.mkfifo(box.folder / "fifo")
        with box.start("-q", "-u", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; cat fifo", "sh", ":::", 1, 2) as job:
            assert job.line() == "1"
            eventually(lambda: box.waiting() == 1, "it waits for the other one")
            holder.write("end\n")
            assert job.line() == "0"
            job.kill(signal.SIGTERM)
            job.wait()


def test_gpus_are_given_back_when_items_run_out(box):
    with box.start("-q", "-u", "echo", stdin=subprocess.PIPE) as job:
        job.write("a\n")
        assert job.line() == "a"
        eventually(lambda: box.held() == 0, "the GPU is free while no item is there")
        job.write("b\n")
        assert job.line() == "b"
        job.process.stdin.close()
        assert job.wait() == 0


def test_others_get_their_turn_at_the_end_of_a_task(tmp_path):
    box = Box(tmp_path, gpus=1)
    os.mkfifo(tmp_path / "fifo")
    with box.start("-q", "-u", "sh", "-c", "echo task $1; read line < fifo", "sh", ":::", *range(1, 8)) as job:
        assert job.line() == "task 1"
        with box.start("-q", "sh", "-c", "echo mine; read line", "sh", verb="run") as other:
            eventually(lambda: box.waiting() >= 1, "the other waits")
            (tmp_path / "fifo").write_text("on\n")
            assert other.line() == "mine"
            eventually(lambda: box.waiting() == 1, "map waits behind it")
            other.write("end\n")
            other.wait()
        assert job.line() == "task 2"
        job.kill(signal.SIGTERM)
        job.wait()


def test_inside_a_claim_lanes_share_it_out(box):
    inner = " ".join([*box.words, "map", "-q", "sh", "-c", "'echo $CUDA_VISIBLE_DEVICES'", "sh", ":::", "1", "2", "3", "4"])
    done = subprocess.run(
        [*box.words, "run", "-q", "-g", "2", "sh", "-c", inner], capture_output=True, text=True, env=box.environment, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 4 and set(done.stdout.split()) <= {"0", "1"}


def test_the_exit_status_counts_the_failed(box):
    assert box.map("-g", "0", "sh", "-c", "exit $1", "sh", ":::", 0, 1, 2, 3).returncode == 3
    done = box.map("-g", "0", "false", ":::", *range(105))
    assert done.returncode == 101
    assert "105 of 105 tasks failed" in done.stderr


@pytest.mark.parametrize(
    "halt, status, ran",
    [("now,fail=1", 5, 2), ("soon,fail=2", 2, 3), ("now,success=1", 0, 1), ("soon,done=2", 1, 2), ("never", 3, 5)],
)
def test_halt(box, halt, status, ran):
    done = box.map("-g", "0", "-j", "1", "--halt", halt, "--joblog", "log", "sh", "-c", "exit $1", "sh", ":::", 0, 5, 6, 0, 7)
    assert done.returncode == status, done.stderr
    assert len((box.folder / "log").read_text().splitlines()) == 1 + ran


def test_halt_now_ends_what_runs(box):
    done = box.map(
        "-g", "0", "-j", "2", "--halt", "now,fail=1", "--joblog", "log", "sh", "-c", "sleep $1; exit 3", "sh", ":::", 1000, 0
    )
    assert done.returncode == 3
    assert "1 cut short" in done.stderr
    assert [line.split("\t")[0] for line in (box.folder / "log").read_text().splitlines()] == ["Seq", "2"]


def test_retries_count_all_tries(box):
    assert box.map("-g", "0", "--retries", "3", "sh", "-c", "echo x >> tries; false", "sh", ":::", 1).returncode == 1
    assert (box.folder / "tries").read_text().count("x") == 3
    assert box.out("-g", "0", "--retries", "9", "sh", "-c", "mkdir one 2>/dev/null || mkdir two", "sh", ":::", 1) == ""


def test_a_task_that_takes_too_long_is_ended(box):
    done = box.map("-g", "0", "--timeout", "1", "--joblog", "log", "sleep", ":::", 0, 1000)
    assert done.returncode == 1
    assert "task 2 was ended: its time is over" in done.stderr
    assert (box.folder / "log").read_text().splitlines()[-1].split("\t")[6] == "-1"


def test_a_program_that_does_not_exist_is_told_before_the_wait(box):
    with Started([*box.words, "run", "-g", "2", "sh", "-c", "echo ready; read line"], env=box.environment) as holder:
        assert holder.line() == "ready"
        done = box.map("nosuchprogram", ":::", "a")
        assert done.returncode == 127 and "nosuchprogram" in done.stderr


def test_a_program_named_by_the_item_fails_alone(box):
    done = box.map("-g", "0", "{}", ":::", "true", "nosuchprogram", "true")
    assert done.returncode == 1
    assert "task 2: no such command: nosuchprogram" in done.stderr


JOB = ["sh", "-c", "echo $1 >> ran; exit $(cat status$1 2>/dev/null || echo 0)", "sh"]


@pytest.mark.parametrize("resume", ["--resume", "--resume-failed"])
def test_a_log_that_cannot_be_read_begins_nothing_again(box, resume):
    done = box.map("--dry-run", "--joblog", "/proc/self/mem", resume, "echo", ":::", "a")    # a file whose beginning gives EIO
    assert done.returncode == 69 and "cannot read the log of tasks: /proc/self/mem" in done.stderr, done.stdout + done.stderr


def test_resume_goes_on_with_the_log(box):
    (box.folder / "status2").write_text("1")
    assert box.map("-g", "0", "-j", "1", "--halt", "soon,done=3", "--joblog", "log", *JOB, ":::", 1, 2, 3, 4, 5).returncode == 1
    assert box.map("-g", "0", "-j", "1", "--joblog", "log", "--resume", *JOB, ":::", 1, 2, 3, 4, 5).returncode == 0
    assert (box.folder / "ran").read_text().split() == ["1", "2", "3", "4", "5"]
    (box.folder / "status2").unlink()
    assert box.map("-g", "0", "-j", "1", "--joblog", "log", "--resume-failed", *JOB, ":::", 1, 2, 3, 4, 5).returncode == 0
    assert (box.folder / "ran").read_text().split() == ["1", "2", "3", "4", "5", "2"]


@pytest.mark.skipif(not shutil.which("parallel"), reason="GNU parallel is not installed")
def test_the_log_is_gnu_parallels(box):
    """Each goes on with the other's log, and both write the same lines, times apart."""
    home = dict(os.environ, HOME=str(box.folder))
    (box.folder / ".parallel").mkdir()
    (box.folder / ".parallel" / "will-cite").touch()

    def parallel(*words):
        return subprocess.run(["parallel", "-j1", *words], capture_output=True, text=True, env=home, cwd=box.folder, timeout=60)

    def rows(name):
        return [line.split("\t")[:2] + line.split("\t")[4:] for line in (box.folder / name).read_text().splitlines()]
    tasks = ["sh", "-c", "'echo hello; exit {}'", ":::", "0", "3", "0"]
    parallel("--joblog", "theirs", *tasks)
    box.map("-g", "0", "-j", "1", "--joblog", "ours", "sh", "-c", "echo hello; exit {}", ":::", 0, 3, 0)
    assert rows("ours") == rows("theirs")
    assert parallel("--joblog", "ours", "--resume", "echo", ":::", "a", "b", "c", "d").stdout == "d\n"
    assert box.out("-g", "0", "-k", "--joblog", "theirs", "--resume-failed", "echo", ":::", "a", "b", "c", "d") == "b\nd\n"


def test_ctrl_c_ends_the_tasks_and_gives_back_the_gpus(box):
    task = "trap 'echo told; exit 1' TERM; echo $$; while :; do sleep 0.01; done"
    with box.start("-q", "-u", "sh", "-c", task, "sh", ":::", 1, 2, 3, 4) as job:
        pids = [int(job.line()), int(job.line())]
        job.kill(signal.SIGINT)
        assert job.line() == "told"
        assert job.line() == "told"
        assert job.wait() == -signal.SIGINT
        assert all(gone(pid) for pid in pids)
    assert box.held() == 0


def test_a_second_ctrl_c_does_not_wait(box):
    with box.start(
        "-g", "0", "-u", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done", "sh", ":::", 1
    ) as job:
        assert job.line() == "ready"
        assert eventually(lambda: job.kill(signal.SIGINT) or job.process.poll(), "once more, it ends") == -signal.SIGINT


def test_ctrl_c_leaves_the_line(box):
    with Started([*box.words, "run", "-g", "2", "sh", "-c", "echo ready; read line"], env=box.environment) as holder:
        assert holder.line() == "ready"
        with box.start("-q", "true", ":::", 1) as job:
            eventually(lambda: box.waiting() == 1, "it waits")
            job.kill(signal.SIGINT)
            assert job.wait() == -signal.SIGINT
        assert box.waiting() == 0


def test_what_a_task_leaves_behind_is_ended(box):
    done = box.map("-g", "0", "-j", "1", "sh", "-c", "sleep 1000 & echo $!", "sh", ":::", 1, 2)
    assert done.returncode == 0
    assert "sleep 1000" in done.stderr
    assert all(gone(int(pid)) for pid in done.stdout.split())


def test_a_daemon_of_a_task_is_ended_with_map(box):
    done = box.map("-g", "0", "sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 & sleep 0.3", "sh", ":::", 1)
    assert done.returncode == 0
    assert "sleep 1000" in done.stderr


def test_the_end_of_its_reader_ends_it(box):
    done = subprocess.run(
        [
            "bash",
            "-c",
            'set -o pipefail; "$@" | head -1; exit $?',
            "bash",
            *box.words,
            "map",
            "-g",
            "0",
            "-j",
            "1",
            "echo",
            ":::",
            *map(str, range(2000)),
        ],
        capture_output=True,
        text=True,
        env=box.environment,
        timeout=60,
    )
    assert done.stdout == "0\n"
    assert done.returncode == 128 + signal.SIGPIPE


def test_dry_run_prints_the_commands(box):
    assert box.out("--dry-run", "echo", "{}", "{#}", ":::", "a b", "c") == "echo 'a b' 1\necho c 2\n"
    assert box.held() == 0


def test_json_is_a_line_for_each_task(box):
    done = box.map("--json", "-q", "sh", "-c", "echo hello; echo oops >&2; exit $1", "sh", ":::", 0, 4)
    assert done.returncode == 1
    *tasks, end = map(json.loads, done.stdout.splitlines())
    assert {line["schema"] for line in tasks + [end]} == {"thole/map/1"}
    second = next(task for task in tasks if task["number"] == 2)
    assert (second["item"], second["exit_code"], second["stdout"], second["stderr"]) == (["4"], 4, "hello\n", "oops\n")
    assert second["gpus"][0]["gpu"] in ("0", "1")
    assert (end["event"], end["succeeded"], end["failed"], end["exit_status"]) == ("end", 1, 1, 1)


@pytest.mark.parametrize("words, says", [
    ([":::", "a"], "no command before :::"),
    (["echo", "{2}", ":::", "a"], "one part only"),
    (["-a", "items", "echo", ":::", "a"], "not both"),
    (["--resume", "echo", ":::", "a"], "--joblog"),
    (["--halt", "now,fail=0", "echo", ":::", "a"], "now,fail=1"),
    (["-u", "--json", "echo", ":::", "a"], "--json"),
    (["-g", "3", "echo", ":::", "a"], "3 GPUs"),
])
def test_bad_lines_are_refused(box, words, says):
    done = box.map(*words)
    assert done.returncode == 64, done.stderr
    assert says in done.stderr


def test_a_claim_released_by_hand_ends_its_task(tmp_path):
    box = Box(tmp_path, gpus=1)
    with box.start("-q", "-u", "sh", "-c", "echo $THOLE_CLAIM; sleep 1000", "sh", ":::", 1) as job:
        claim = job.line()
        released = subprocess.run(
            [*box.words, "release", claim], capture_output=True, text=True, env=box.environment, timeout=60
        )
        assert released.returncode == 0, released.stderr
        assert job.wait() == 1


def test_a_task_keeps_its_gpu_when_map_is_killed(tmp_path):
    box = Box(tmp_path, gpus=1)
    with box.start("-q", "-u", "sh", "-c", "echo $$; sleep 1000", "sh", ":::", 1) as job:
        task = int(job.line())
        job.kill(signal.SIGKILL)
        job.wait()
        assert box.held() == 1
        os.killpg(task, signal.SIGKILL)
        eventually(lambda: box.held() == 0, "the claim is free")


def test_without_gpus_no_state_directory_is_needed(box):
    (box.folder / "state").write_text("a file where the directory would be")
    assert box.out(*ECHO, ":::", "a", "b") == "a\nb\n"
    run = subprocess.run(
        [*box.words, "run", "-g", "0", "echo", "fine"], capture_output=True, text=True, env=box.environment, timeout=60
    )
    assert (run.returncode, run.stdout) == (0, "fine\n"), run.stderr
    refused = box.map("-g", "1", "echo", ":::", "a")
    assert refused.returncode == 69 and "state" in refused.stderr and refused.stdout == ""


@pytest.mark.parametrize("output", [[], ["--line-buffer"], ["-u"]])
def test_items_that_find_no_descriptor_wait_for_the_end_of_others(tmp_path, output):
    """More bays than there are descriptors for."""
    few = 64
    done = Box(tmp_path, gpus=4).map("-g", "4", "--per-gpu", "16", *output, "sh", "-c", "sleep 0.2; echo {}", ":::", *range(80),
                                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (few, few)))
    assert done.returncode == 0, done.stderr
    assert sorted(map(int, done.stdout.split())) == list(range(80))


def ends(box):
    return [claim["until"] for claim in box.status()["claims"]]


def test_nobody_is_told_the_end_of_a_map_that_stands_still(box):
    with box.start("-j", "1", "--time", "300s", "sleep", ":::", "600") as mapping:
        [end] = eventually(lambda: all(ends(box)) and ends(box), "its end is known")
        mapping.kill(signal.SIGTSTP)
        eventually(lambda: ends(box) == [None], "nobody knows when it goes on")
        eventually(lambda: state_of(mapping.pid) == "T", "it stands still")
        mapping.kill(signal.SIGCONT)
        eventually(lambda: all(ends(box)), "its end is known again")
        assert ends(box)[0] >= end
        mapping.kill(signal.SIGTERM)
        mapping.wait()


def test_a_map_that_is_being_ended_gets_no_later_end(box):
    stubborn = "trap ': > heard' INT; while :; do sleep 0.1 & wait; done"
    with box.start("-j", "1", "--time", "1s", "sh", "-c", stubborn, ":::", "1") as mapping:
        eventually((box.folder / "heard").exists, "it is being ended")
        [claim] = box.status()["claims"]
        done = box.run("extend", claim["id"], "1h")
        assert done.returncode == 69 and "being ended" in done.stderr
        mapping.wait()

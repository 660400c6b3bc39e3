"""Every verb of the queue does what its page says, and says so in text and JSON."""
import json
import signal
import subprocess

import pytest

from queue_tools import Queue
from run_tools import THOLE, Started, eventually


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


def test_a_job_runs_where_and_as_it_was_submitted(queue):
    number = queue.submit(
        "-g", "2", "sh", "-c", "pwd; echo $COLOUR; umask; echo gpus $CUDA_VISIBLE_DEVICES", env={"COLOUR": "blue"}
    )
    assert queue.run("wait", number).returncode == 0
    text = queue("logs", number)
    assert str(queue.work) in text and "blue" in text and "gpus 0,1" in text


def test_submit_prints_the_number_and_says_the_rest_on_stderr(queue):
    queue.drain()
    done = queue.run("submit", "-n", "train", "-g", "2", "--", "python3", "train.py")
    assert done.stdout == "1\n"
    assert "job 1 (train): one task, 2 GPUs" in done.stderr
    assert queue.json("submit", "true") == {"schema": "thole/submitted/1", "jobs": [
        {"job": 2, "name": None, "tasks": 1, "existed": False}]}


def test_a_grid_is_one_job_whose_tasks_get_their_values(queue):
    number = queue.submit(
        "-g0", "--grid", "lr=1e-3,1e-4", "--grid", "seed=0..1", "--", "echo", "{lr}/{seed}", "{index}", "{{lr}}"
    )
    assert queue.run("wait", number).returncode == 0
    text = queue("logs", number)
    for line in ("1e-3/0 0 {lr}", "1e-3/1 1 {lr}", "1e-4/0 2 {lr}", "1e-4/1 3 {lr}"):
        assert line in text
    assert "1e-4/1 3" in queue("logs", f"{number}.3") and "1e-3/0 0" not in queue("logs", f"{number}.3")


def test_lines_and_rows_are_tasks(queue):
    (queue.work / "lines").write_text("one\n\ntwo words\n")
    (queue.work / "rows.csv").write_text('lr,note\n1e-3,"a, b"\n1e-4,c\n')
    by_line = queue.submit("-g0", "--each-line", "lines", "echo", "line:")
    by_stdin = queue.submit("-g0", "--each-line", "-", "echo", "<{}>", input="x\ny\n")
    by_row = queue.submit("-g0", "--csv", "rows.csv", "echo", "{lr}={note}")
    assert queue.run("wait").returncode == 0
    assert "line: two words" in queue("logs", by_line)
    assert "<x>" in queue("logs", by_stdin) and "<y>" in queue("logs", by_stdin)
    assert "1e-3=a, b" in queue("logs", by_row)


def test_an_array_takes_slurm_s_form(queue):
    queue.drain()
    queue.submit("--array", "0-99%4", "echo", "{index}")
    job = queue.job(1)
    assert job["tasks"] == 100 and job["at_most"] == 4


def test_a_dry_run_shows_the_commands_and_submits_nothing(queue):
    text = queue("submit", "--dry-run", "--grid", "n=0..11", "echo", "a {n}")
    assert "12 tasks" in text and "echo 'a 0'" in text and "and 2 more" in text
    assert queue("jobs") == "no jobs\n"
    shown = queue.json("submit", "--dry-run", "--grid", "n=1,2", "echo", "{n}")
    assert shown["schema"] == "thole/submission/1" and shown["jobs"][0]["first_commands"] == [["echo", "1"], ["echo", "2"]]


def test_options_in_a_script_are_read_and_the_line_wins(queue):
    script = queue.work / "train.sh"
    script.write_text("#!/bin/sh\n#THOLE -g 2 --name trained\n#THOLE --priority 5\necho it ran\n")
    script.chmod(0o755)
    queue.drain()
    queue.submit("--priority", "7", "./train.sh")
    queue.submit("sh", "train.sh")
    queue.submit("train.sh")
    for number in (1, 2, 3):
        job = queue.job(number)
        assert (job["gpus"], job["name"]) == (2, "trained")
    assert [queue.job(number)["priority"] for number in (1, 2)] == [7, 5]
    assert queue.job(3)["command"].startswith("./train.sh")


@pytest.mark.parametrize("words", [
    ["timeout", "--signal", "INT", "2h", "./t.sh"], ["timeout", "2h", "lr=0.1/in.sh"], ["nice", "--adjust", "5", "./t.sh"],
    ["stdbuf", "--output", "L", "./t.sh"], ["env", "--unset", "A", "./t.sh"], ["env", "-", "A=1", "./t.sh"],
    ["env", "-S", "bash t.sh"], ["env", "-C", "lr=0.1", "./in.sh"], ["bash", "--rcfile", "/dev/null", "t.sh"],
    ["bash", "+x", "t.sh"], ["bash", "-O", "extglob", "t.sh"], ["bash", "-", "t.sh"]], ids=" ".join)
def test_options_in_a_script_are_read_behind_what_starts_it(queue, words):
    (queue.work / "lr=0.1").mkdir()
    for script in (queue.work / "t.sh", queue.work / "lr=0.1/in.sh"):
        script.write_text("#!/bin/sh\n#THOLE -g 0 --name of-the-script\n")
        script.chmod(0o755)
    assert "of-the-script" in queue("submit", "--dry-run", *words)


def test_a_program_on_the_path_goes_before_a_script_of_its_name(queue):
    script = queue.work / "true"
    script.write_text("#!/bin/sh\n#THOLE -g 2\n")
    script.chmod(0o755)
    queue.drain()
    queue.submit("-g", "0", "true", env={"PATH": f"/{'x' * 100}::/usr/bin:/bin"})   # the empty one is the folder itself
    queue.submit("true", env={"PATH": f"/{'x' * 100}:/usr/bin:/bin"})
    queue.submit("true", env={"PATH": f"/{'x' * 100}"})
    assert [(job["gpus"], job["command"]) for job in map(queue.job, (1, 2, 3))] == [(0, "true"), (1, "true"), (2, "./true")]


def test_a_job_file_is_the_same_options_as_toml(queue):
    (queue.work / "jobs.toml").write_text('''
gpus = 0
[[job]]
name = "evaluate"
after = ["train"]
command = "echo 'all done'"
[[job]]
name = "train"
command = ["echo", "{lr}", "{seed}"]
grid.lr = ["1e-3", "a,b"]
grid.seed = "0..2"
at-most = 2
hold = false
env.COLOUR = "blue"
''')
    queue.drain()
    done = queue.run("submit", "--file", "jobs.toml", "--priority", "3")
    assert done.stdout == "1\n2\n", done.stderr
    train, evaluate = queue.job(1), queue.job(2)
    assert (train["name"], train["tasks"], train["at_most"], train["gpus"], train["priority"]) == ("train", 6, 2, 0, 3)
    assert evaluate["after"] == [{"job": 1, "when": "ok"}]
    queue("drain", "--off")
    assert queue.run("wait").returncode == 0
    assert "all done" in queue("logs", "evaluate") and "a,b 2" in queue("logs", "train")


def test_jobs_wait_for_each_other_and_say_so(queue):
    queue.drain()
    queue.submit("-g0", "-n", "first", "false")
    queue.submit("-g0", "--after", "first", "true")
    queue.submit("-g0", "--after", "1:fail", "true")
    queue.submit("-g0", "--after", "@:any", "true")
    assert queue.job(2)["waits"] == {"kind": "dependency", "why": "after 1"}
    assert queue.job(4)["after"] == [{"job": 3, "when": "any"}]
    queue("drain", "--off")
    assert queue.run("wait", "all").returncode == 1   # without words it would not wait for one that has ended by then
    assert [queue.job(number)["state"] for number in (1, 2, 3, 4)] == ["failed", "skipped", "done", "done"]


def test_wait_ends_as_the_one_task_did(queue):
    number = queue.submit("-g0", "sh", "-c", "exit 7")
    assert queue.run("wait", number).returncode == 7
    number = queue.submit("-g0", "sh", "-c", "kill -KILL $$")
    assert queue.run("wait", number).returncode == 128 + signal.SIGKILL
    number = queue.submit("-g0", "--array", "0-1", "--", "sh", "-c", "exit {index}")
    assert queue.run("wait", number).returncode == 1
    assert queue.run("wait", f"{number}.0").returncode == 0


def test_wait_gives_up_after_its_timeout_and_ends_by_a_signal(queue):
    queue.drain()
    number = queue.submit("-g0", "true")
    assert queue.run("wait", "--timeout", "0", number).returncode == 124
    with Started([THOLE, "wait", str(number)], env=queue.env, cwd=queue.work) as waiting:
        eventually(lambda: list((queue.directory / "watch").glob("*")), "it watches the store")
        waiting.kill(signal.SIGTERM)
        assert waiting.wait() == -signal.SIGTERM


def test_wait_for_any_ends_with_the_first(queue):
    with queue.gate() as gate:
        slow = queue.submit("-g0", "cat", gate)
        quick = queue.submit("-g0", "true")
        assert queue.run("wait", "--any", slow, quick).returncode == 0
        assert queue.job(slow)["state"] in ("queued", "running")
        queue("cancel", slow)


def test_cancel_takes_out_what_is_queued_and_ends_what_runs(queue):
    with queue.gate() as gate:
        number = queue.submit("-g0", "--at-most", "1", "--array", "0-4", "cat", gate)
        queue.reaches(number, "running")
        done = queue.run("cancel", number)
        assert "1 task being ended" in done.stderr and "4 tasks cancelled" in done.stderr, done.stderr
        assert queue.run("wait", number).returncode != 0
        assert queue.job(number)["counts"]["cancelled"] == 5
        assert "nothing left to cancel" in queue.run("cancel", number).stderr


def test_what_only_waits_is_given_up_without_a_word_of_what_may_run(queue):
    queue.drain()
    for words in (["--array", "0-3", "true"], ["true"]):
        job = queue.submit("-q", "-g", "1", *words)
        done = queue.run("cancel", "--force", job)
        assert done.returncode == 0 and "cancelled" in done.stderr and "still runs" not in done.stderr, done.stderr
        assert queue.job(job)["state"] == "cancelled"


def test_cancel_of_single_tasks_leaves_the_others(queue):
    queue.drain()
    number = queue.submit("-g0", "--array", "0-9", "true")
    assert queue.json("cancel", f"{number}.2-4,{number}.8")["jobs"][0]["tasks_changed"] > 0
    assert queue.job(number)["counts"]["cancelled"] == 4
    queue("drain", "--off")
    queue.run("wait", number)
    assert queue.job(number)["counts"]["done"] == 6


def test_a_million_tasks_are_cancelled_at_once(queue):
    queue.drain()
    number = queue.submit("--array", "0-999999", "true")
    assert queue.job(number)["tasks"] == 1_000_000
    assert "1000000 tasks cancelled" in queue.run("cancel", number, timeout=20).stderr


def test_retry_queues_what_failed_and_a_named_task_whatever_it_did(queue):
    number = queue.submit("-g0", "--array", "0-2", "--", "sh", "-c", "test -e ok-{index} || exit 3")
    queue.run("wait", number)
    assert queue.job(number)["counts"]["failed"] == 3
    for index in range(3):
        (queue.work / f"ok-{index}").touch()
    assert "3 tasks queued again" in queue.run("retry", number).stderr
    assert queue.run("wait", number).returncode == 0
    assert "1 task queued again" in queue.run("retry", f"{number}.1").stderr
    assert queue.run("wait", number).returncode == 0
    assert queue.task(f"{number}.1")["runs"] == 3
    assert "nothing to run again" in queue.run("retry", number).stderr


def test_hold_and_resume(queue):
    queue.drain()
    number = queue.submit("-g0", "true")
    queue("hold", number)
    assert queue.job(number)["state"] == "held" and queue.job(number)["waits"]["kind"] == "held"
    queue("drain", "--off")
    held = queue.submit("-g0", "--hold", "true")
    assert queue.run("wait", queue.submit("-g0", "true")).returncode == 0
    assert [queue.job(one)["state"] for one in (number, held)] == ["held", "held"]
    queue("resume", f"{number},{held}")
    assert queue.run("wait").returncode == 0


def test_the_tasks_of_a_held_job_are_held_and_none_of_them_is_queued(queue):
    queue.drain()
    queued = queue.submit("true")
    submitted = queue.submit("--hold", "--array", "0-2", "true", "{index}")
    later = queue.submit("true")
    queue("hold", later)
    one_task = queue.submit("--array", "0-2", "true", "{index}")
    queue("hold", f"{one_task}.1")
    in_state = lambda state: [job["job"] for job in queue.json("jobs", "--state", state)["jobs"]]
    assert in_state("held") == [submitted, later, one_task] and in_state("queued") == [queued, one_task]
    counts = [(queue.job(job)["counts"]["held"], queue.job(job)["counts"]["queued"]) for job in (submitted, later, one_task)]
    assert counts == [(3, 0), (1, 0), (1, 2)]
    all_tasks = queue.json("jobs")["tasks"]
    assert (all_tasks["held"], all_tasks["queued"]) == (5, 3) and "3 queued, 5 held" in queue("jobs")
    assert "3 of 3 tasks wait: held; thole resume 2" in queue("why", "job", submitted)
    assert f"thole resume {submitted}" in queue.refused("resume", f"{submitted}.1")
    queue("resume", f"{submitted},{later},{one_task}.1")
    assert in_state("held") == [] and queue.json("jobs")["tasks"]["queued"] == 8


def test_a_task_that_is_to_run_again_is_held_with_its_job(queue):
    number = queue.submit("-g0", "--retry", "1", "--retry-pause", "1h", "false")
    eventually(lambda: (queue.job(number)["task"] or {}).get("not_before"), "it waits for its second run")
    assert queue.task(number)["state"] == "queued"
    queue("hold", number)
    assert queue.task(number)["state"] == "held" and queue.job(number)["task"]["state"] == "held"
    assert len(queue.json("jobs", number, "--tasks", "--state", "held")["tasks"]) == 1
    assert queue.json("jobs", number, "--tasks", "--state", "queued")["tasks"] == []


def test_drain_lets_nothing_start(queue):
    queue.drain()
    number = queue.submit("-g0", "true")
    assert queue.job(number)["waits"]["kind"] == "drain"
    assert "drained" in queue("jobs")
    queue("drain", "--off")
    assert queue.run("wait", number).returncode == 0


def test_edit_changes_terms(queue):
    queue.drain()
    first, second = queue.submit("true"), queue.submit("--after", "1", "--begin", "2h", "true")
    queue("edit", second, "--priority", "-5", "--at-most", "3", "--time", "2h", "--begin", "now", "--after", "none")
    job = queue.job(second)
    assert (job["priority"], job["at_most"], job["time_s"], job["begin"], job["after"]) == (-5, 3, 7200, None, [])
    queue("edit", first, "--priority=7")
    assert queue.job(first)["priority"] == 7


def test_if_absent_submits_once(queue):
    queue.drain()
    assert queue.submit("-n", "nightly", "--if-absent", "true") == 1
    again = queue.run("submit", "-n", "nightly", "--if-absent", "true")
    assert again.stdout == "1\n" and "has not ended yet" in again.stderr


def test_jobs_are_named_by_number_range_name_tag_and_place(queue):
    queue.drain()
    for name in ("alpha", "beta", "gamma"):
        queue.submit("-n", name, "--tag", "sweep", "true")
    names = lambda *words: [job["job"] for job in queue.json("jobs", *words)["jobs"]]
    assert names("2") == [2] and names("1-2") == [1, 2] and names("@") == [3] and names("last") == [3]
    assert names("beta") == [2] and names("sweep") == [1, 2, 3] and names("3,1") == [1, 3] and names("2-99") == [2, 3]
    assert names("--tag", "sweep") == [1, 2, 3] and names("--state", "held") == []


def test_a_submission_from_inside_a_claim_takes_nothing_of_it_along(queue):
    done = subprocess.run([THOLE, "run", "-g", "1", "sh", "-c", f"{THOLE} submit -g 2 -- env"], env=queue.env, cwd=queue.work,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    number = int(done.stdout)
    assert queue.run("wait", number).returncode == 0
    variables = dict(line.split("=", 1) for line in queue("logs", number).splitlines() if "=" in line)
    assert len(variables["CUDA_VISIBLE_DEVICES"].split(",")) == 2
    assert len(json.loads(variables["THOLE_GPUS"])) == 2
    assert queue.job(number)["gpus"] == 2


def test_a_mask_of_one_s_own_becomes_on(queue):
    done = queue.run("submit", "true", env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,3"})
    assert "CUDA_VISIBLE_DEVICES is set, so it may use these GPUs only" in done.stderr
    queue.run("wait")
    shown = queue.json("submit", "--dry-run", "true", env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,3"})
    assert len(shown["jobs"][0]["on"]) == 2


def test_no_json_shows_the_environment(queue):
    queue.drain()
    number = queue.submit("true", env={"SECRET_TOKEN": "xyzzy-" + "42"})
    for words in (["jobs"], ["jobs", number], ["jobs", number, "--tasks"], ["why", "job", number]):
        done = queue.run(*words, "--json")
        assert "xyzzy" not in done.stdout + done.stderr


def test_names_are_completed(queue):
    queue.drain()
    queue.submit("-n", "training", "python3", "train.py")
    queue.submit("true")
    offered = queue("__complete", "cancel", "").splitlines()
    assert offered[0] == "words"
    words = [line.split("\t")[0] for line in offered[1:]]
    assert words == ["2", "1", "training"]
    assert "training" in queue("__complete", "logs", "tr")
    assert "1,training" in queue("__complete", "wait", "1,tr")


def test_looking_makes_no_queue(queue):
    assert queue("jobs") == "no jobs\n" and queue.json("jobs")["jobs"] == []
    assert queue.run("wait").returncode == 0
    assert not queue.directory.exists()
    assert "nothing has been submitted" in queue.refused("cancel", "1")


def many_jobs(queue, count):
    lines = "".join(f'[[job]]\nname = "j{number}"\ncommand = "true"\n' for number in range(count))
    file = queue.work / "many.toml"
    file.write_text("gpus = 0\n" + lines)
    queue("submit", "-q", "--file", file, timeout=300)


@pytest.mark.parametrize("words", [[], ["--any"]], ids=["all", "any"])
def test_more_jobs_are_waited_for_than_an_expression_has_room_for(queue, words):
    queue.drain()
    many_jobs(queue, 3000)
    queue("cancel", "-q", ",".join(str(number) for number in range(2, 3000, 7)))   # no range names the others
    assert queue.run("wait", *words, "--timeout", "1s", timeout=300).returncode == 124
    names = ",".join(str(number) for number in range(1, 3001, 2))
    assert queue.run("wait", *words, "--timeout", "1s", names, timeout=300).returncode == (1 if words else 124)   # 9 has ended
    assert len(queue.json("jobs", names, timeout=300)["jobs"]) == 1500
    queue("cancel", "-q", "all", timeout=300)
    assert queue.run("wait", names, timeout=300).returncode == 1

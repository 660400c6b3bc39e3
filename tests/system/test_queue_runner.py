"""The runner and its lanes through the program: turns, limits, retries, what is left behind, and what goes wrong."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import time

import pytest

from queue_inside import Queue, only_task, queue, shell  # noqa: F401 (queue: a fixture)
from run_tools import THOLE, Started, eventually, gone, is_locked, open_gate, state_of


def test_a_job_runs_in_its_directory_and_environment_with_its_gpu_in_sight(queue, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    job = queue.submit(
        "-g", "2", *shell('pwd; echo "$COLOUR $CUDA_VISIBLE_DEVICES"; umask'), cwd=tmp_path / "elsewhere", COLOUR="blue"
    )
    queue.until_ended(job)
    text = queue.log(job)
    body = [line for line in text.splitlines() if not line.startswith("# ")]
    assert body[0] == str(tmp_path / "elsewhere") and body[1] == "blue 0,1", text
    head, foot = text.splitlines()[0], text.splitlines()[-1]
    assert head.startswith(f"# thole job {job} on ") and "exit status 0" in foot, text


@pytest.mark.parametrize(
    "command, state, code, number",
    [
        ("exit 0", "done", 0, None),
        ("exit 3", "failed", 3, None),
        ("kill -9 $$", "failed", None, 9),
        ("kill -TERM $$", "failed", None, 15),
    ],
)
def test_how_the_command_ended_is_kept(queue, command, state, code, number):
    assert only_task(queue, queue.submit("-g", "0", *shell(command)))[:3] == (state, code, number)


@pytest.mark.parametrize("words, code, reason", [
    # By a value: what is known at once to be missing is not submitted.
    (["--grid", "p=no-such-command-anywhere", "--", "{p}"], 127, "no such command"),
    (["--grid", "p=./no-program", "--", "{p}"], 126, "cannot run"),
    (["--grid", "p=folder", "--", "./{p}"], 126, "it is a directory"),
    # What is there is looked for where the task is.
    (["--grid", "p=./crlf", "--", "{p}"], 127, "the interpreter named in the first line of the script does not exist"),
    (["--grid", "p=crlf", "--", "{p}"], 127, "no such command: crlf; in this folder: ./crlf")])
def test_a_command_that_cannot_be_started_fails_as_env_would(queue, tmp_path, words, code, reason):
    (tmp_path / "no-program").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "crlf").write_text("#!/bin/sh\r\necho\r\n")
    (tmp_path / "crlf").chmod(0o755)
    state, got, _, _, why = only_task(queue, queue.submit("-g", "0", *words))
    assert (state, got) == ("failed", code) and reason in why


def test_a_working_directory_that_has_gone_is_said(queue, tmp_path):
    place = tmp_path / "soon gone"
    place.mkdir()
    job = queue.submit("-g", "0", "--hold", "--", "true", cwd=place)
    place.rmdir()
    queue.call("resume", job)
    state, _, _, _, why = only_task(queue, job)
    assert state == "failed" and "working directory" in why and "soon gone" in why


def test_only_the_next_run_after_a_failure_counts(queue, tmp_path):
    job = queue.submit("-g", "0", "--retry", "2,exit:5", *shell('echo x >> tries; test $(wc -l < tries) = 3 || exit 5'))
    assert only_task(queue, job)[:4] == ("done", 0, None, 3)
    assert queue.log(job).count("# thole job") == 1   # the last run's; those before lie in the same file
    other = queue.submit("-g", "0", "--retry", "2,exit:5", *shell("exit 6"))
    assert only_task(queue, other)[:4] == ("failed", 6, None, 1)


def test_a_gpu_that_ran_out_of_memory_is_seen_in_the_log(queue):
    text = 'echo x >> tries; test $(wc -l < tries) = 2 || { echo "torch.OutOfMemoryError: CUDA out of memory. Tried"; exit 1; }'
    assert only_task(queue, queue.submit("--retry", "1,oom", *shell(text)))[:4] == ("done", 0, None, 2)


def test_the_time_limit_ends_a_task_with_int_term_kill(queue):
    begun = time.monotonic()
    job = queue.submit(
        "-g",
        "0",
        "--time",
        "1s",
        "--patience",
        "1s",
        *shell('trap "echo int" INT; trap "echo term" TERM; while :; do sleep 0.05; done'),
    )
    state, _, number, _, reason = only_task(queue, job)
    assert (state, number, reason) == ("failed", signal.SIGKILL, "time limit")
    assert [line for line in queue.log(job).splitlines() if line in ("int", "term")] == ["int", "term"]
    assert time.monotonic() - begun >= 3


def test_what_a_task_leaves_behind_is_named_and_ended(queue, tmp_path):
    job = queue.submit("-g", "1", "--patience", "1s", *shell("setsid sleep 600 & echo $! > left"))
    queue.until_ended(job)
    assert gone(int((tmp_path / "left").read_text()))
    assert "# left behind:" in queue.log(job) and "sleep 600" in queue.log(job)


def test_cancel_ends_what_runs_and_what_waits(queue):
    job = queue.submit("-g", "1", "--patience", "1s", "--array", "0-9", *shell("sleep 600"))
    eventually(lambda: queue.states(job).get("running") == 4, "four run")
    queue.call("cancel", job)
    queue.until_ended(job)
    assert queue.states(job) == {"cancelled": 10}
    assert not queue.commands()


def test_a_cancelled_task_never_runs_after_cancel_has_answered(queue, tmp_path):
    for _ in range(10):   # cancel races with the start
        job = queue.submit("-g", "0", "--patience", "1s", *shell("echo started >> trace; sleep 600"))
        queue.call("cancel", job)
        started = (tmp_path / "trace").exists()
        queue.until_ended(job)
        assert queue.states(job) == {"cancelled": 1}
        if not started:
            before = len(queue.commands())
            assert before == 0
        (tmp_path / "trace").unlink(missing_ok=True)


def test_a_paused_task_stands_still_and_goes_on(queue, tmp_path):
    job = queue.submit("-g", "1", *shell("echo $$ > pid; sleep 600 & wait"))
    pid = int(eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "it runs"))
    queue.call("pause", job)
    eventually(lambda: state_of(pid) == "T", "it is stopped")
    queue.call("continue", job)
    eventually(lambda: state_of(pid) in "SR", "it goes on")
    queue.call("cancel", job)
    queue.until_ended(job)


def test_a_drained_queue_starts_nothing_and_finishes_what_runs(queue, tmp_path):
    job = queue.submit("-g", "4", "--array", "0-1", *shell('until [ -e "go" ]; do sleep 0.02; done'))
    eventually(lambda: queue.states(job).get("running") == 1, "the first runs")
    queue.call("drain")
    (tmp_path / "go").touch()
    eventually(lambda: queue.states(job) == {"queued": 1, "done": 1}, lambda: f"{queue.states(job)}")
    queue.call("drain", "--off")
    queue.until_ended(job)
    assert queue.states(job) == {"done": 2}


def test_higher_priority_goes_first_and_takes_over_after_the_present_task(queue, tmp_path):
    low = queue.submit("-g", "4", "--array", "0-200", *shell("echo low >> order; sleep 0.02"))
    eventually(lambda: queue.states(low).get("done", 0) > 2, "the array is under way")
    high = queue.submit("-g", "1", "--priority", "5", *shell("echo high >> order"))
    queue.until_ended(high)
    assert queue.states(low).get("queued", 0) > 0, "the urgent job waited for the whole array"
    queue.call("cancel", low)
    queue.until_ended(low)


def test_at_most_bounds_what_runs_at_once(queue, tmp_path):
    job = queue.submit("-g", "1", "--at-most", "2", "--array", "0-11",
                       *shell('echo +1 >> count; sleep 0.03; echo -1 >> count'))
    queue.until_ended(job)
    running = most = 0
    for step in (tmp_path / "count").read_text().split():
        running += int(step)
        most = max(most, running)
    assert most <= 2 and queue.states(job) == {"done": 12}


def test_per_gpu_runs_several_at_once_in_one_claim(queue, tmp_path):
    job = queue.submit(
        "--on",
        "1",
        "--per-gpu",
        "3",
        "--array",
        "0-2",
        *shell('echo $CUDA_VISIBLE_DEVICES $THOLE_CLAIM >> seen; until [ $(wc -l < seen) = 3 ]; do sleep 0.02; done'),
    )
    queue.until_ended(job)
    assert queue.states(job) == {"done": 3}
    seen = set((tmp_path / "seen").read_text().splitlines())
    assert len(seen) == 1 and seen.pop().startswith("1 ")


def test_a_job_begins_no_sooner_than_said_and_by_itself(queue):
    asked = time.time()
    job = queue.submit("-g", "0", "--begin", "2s", *shell("date +%s.%N"))
    assert queue.states(job) == {"queued": 1}
    queue.until_ended(job)
    started = float([line for line in queue.log(job).splitlines() if not line.startswith("#")][0])
    assert asked + 1.9 <= started < asked + 15


def test_cpu_jobs_do_not_wait_for_gpus(queue, tmp_path):
    holder = queue.submit("-g", "4", *shell("until [ -e go ]; do sleep 0.02; done"))
    eventually(lambda: queue.states(holder).get("running"), "the GPUs are taken")
    waiting = queue.submit("-g", "1", *shell("true"))
    free = queue.submit("-g", "0", *shell("true"))
    queue.until_ended(free)
    assert queue.states(waiting) == {"queued": 1}
    (tmp_path / "go").touch()
    queue.until_ended(waiting)


def test_two_users_take_turns(tmp_path):
    """One has 500 tasks; the other's single job starts at the latest at the second task end on its GPUs."""
    many, one = Queue(tmp_path / "many", "1xA100", tmp_path / "claims"), Queue(tmp_path / "one", "1xA100", tmp_path / "claims")
    for index in range(4):
        os.mkfifo(many.folder / f"gate-{index}")   # each task ends when its gate is opened
    running = lambda index: many.tasks(sweep).get(index, [""])[0] == "running"

    def end_task(index):
        eventually(lambda: running(index), f"task {index} runs")
        open_gate(many.folder / f"gate-{index}")

    try:
        sweep = many.submit("--array", "0-499", *shell('cat "gate-$THOLE_TASK_INDEX"'))
        end_task(0)
        eventually(lambda: running(1), "the next task runs")
        single = one.submit(*shell("true"))
        eventually(
            lambda: {waiting["pid"] for waiting in json.loads(one.call("status", "--json").stdout)["queue"]} & set(one.lanes()),
            "the single job stands in line",
        )
        end_task(1)
        eventually(lambda: one.states(single) == {"done": 1} or running(2), "somebody has the GPU")
        if one.states(single) != {"done": 1}:
            end_task(2)
            eventually(lambda: one.states(single) == {"done": 1} or running(3), "somebody has the GPU")
        assert one.states(single) == {"done": 1}, "two tasks of the sweep have ended and the other user has not had his turn"
        assert many.states(sweep).get("queued", 0) > 400
    finally:
        many.end_everything()
        one.end_everything()


def test_the_runner_goes_when_there_is_nothing_to_do_and_comes_with_the_next_job(queue):
    queue.until_ended(queue.submit("-g", "0", "--", "true"))
    eventually(lambda: queue.runner() is None, "the runner ends by itself")
    queue.until_ended(queue.submit("-g", "0", "--", "true"))


def test_a_job_outlives_the_runner_and_its_status_is_kept(queue, tmp_path):
    job = queue.submit("-g", "1", *shell("until [ -e go ]; do sleep 0.02; done; exit 5"))
    eventually(lambda: queue.states(job).get("running") and queue.commands(), "it runs")
    queue.kill([queue.runner()])
    (tmp_path / "go").touch()
    assert only_task(queue, job)[:2] == ("failed", 5)


def test_a_submission_right_after_the_runner_was_killed_is_not_told_to_the_dying_one(queue):
    for _ in range(10):
        queue.until_ended(queue.submit("-g", "0", "--", "true"))
        queue.kill([eventually(queue.runner, "a runner lives")])


def test_a_runner_ends_when_its_queue_was_removed(queue):
    queue.submit("-g", "0", "--begin", "1h", "--", "true")
    pid = eventually(queue.runner, "the runner lives")
    wake = os.open(queue.directory / "wake", os.O_WRONLY | os.O_NONBLOCK)
    aside = queue.directory.with_name("removed")
    queue.directory.rename(aside)                  # the runner may be writing: rmtree alone could find it not empty
    shutil.rmtree(aside)
    with contextlib.suppress(BrokenPipeError):     # it was just looking, and has ended
        os.write(wake, b"!")
    os.close(wake)
    eventually(lambda: gone(pid), "the runner ends")


def test_the_end_of_a_claim_moves_with_a_pause(queue):
    def end_of_claim():
        [claim] = json.loads(queue.call("--json", "status").stdout)["claims"]
        return claim["until"]

    job = queue.submit("-g", "1", "--time", "1h", "--", "sleep", "600")
    queue.until_asleep()
    before = eventually(end_of_claim, "its end is known")
    queue.call("pause", job)
    eventually(lambda: end_of_claim() is None, "nobody knows its end")
    queue.call("continue", job)
    assert eventually(end_of_claim, "its end is known again") >= before
    queue.call("cancel", job)
    queue.until_ended(job)


def test_a_job_may_submit_and_the_runner_it_starts_is_not_its_own(queue, tmp_path):
    outer = queue.submit("-g", "1", *shell(f"{queue_program()} submit -q -g 1 -- sh -c 'echo inner > inner'"))
    queue.until_ended(outer)
    assert queue.tasks(outer)[0][0] == "done"
    eventually(lambda: (tmp_path / "inner").exists(), "the inner job runs")


def queue_program():
    from run_tools import THOLE
    return THOLE


def test_no_descriptor_of_the_starter_stays_with_the_runner(queue, tmp_path):
    lock = tmp_path / "lock"
    lock.touch()
    queue.call("submit", "-q", "-g", "0", "--", "true")
    script = f'exec 9>"{lock}"; flock -n 9 || exit 1; {queue_program()} submit -q -g 0 -- sleep 1'
    import subprocess
    queue.kill([pid for pid in [queue.runner()] if pid])
    subprocess.run(["bash", "-c", script], env=queue.environment, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert not is_locked(lock)


def test_the_middle_of_a_long_log_is_dropped(queue):
    job = queue.submit(
        "-g", "0", "--log-limit", "1M", *shell("yes 0123456789012345678901234567890 | head -c 8000000; echo the end")
    )
    queue.until_ended(job)
    name, = queue.rows("SELECT log FROM task WHERE job = ?", job)[0]
    about = (queue.directory / "logs" / name).stat()
    assert about.st_size > 8_000_000 and about.st_blocks * 512 < 2_000_000
    assert "the end" in queue.log(job)[-400:] and queue.log(job).startswith("# thole job")


def test_the_submitter_is_told_when_a_job_has_ended(queue, tmp_path):
    queue.submit("-g", "0", "--notify", 'echo "$THOLE_JOB $THOLE_JOB_STATE" > told', *shell("exit 1"))
    text = eventually(lambda: (tmp_path / "told").exists() and (tmp_path / "told").read_text(), "the command ran")
    assert text == "1 failed\n"


def test_an_idle_runner_sleeps(queue):
    """Voluntary context switches while a job waits for its hour: none, or the runner polls."""
    queue.submit("-g", "0", "--begin", "1h", "--", "true")
    pid = eventually(queue.runner, "the runner lives")

    def switches():
        text = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace")
        return [line for line in text.splitlines() if line.startswith("voluntary")]

    def sleeps():
        before = switches()
        time.sleep(3)   # what is tested: it does nothing meanwhile
        return switches() == before
    eventually(sleeps, "it has settled and sleeps")   # on a loaded machine it settles late

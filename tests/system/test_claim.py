"""Claims without a command: their holder, their ends, release, extend, and running inside them."""
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from run_tools import THOLE, Started, Terminal, children, eventually, gone, python, state_of


class Machine:
    """A simulated machine of two GPUs with a state directory of the test's own."""

    def __init__(self, folder):
        self.words = [THOLE, "--machine", "2xA100", "--state-dir", str(folder / "state")]
        self.holders = []

    def run(self, *words, **more):
        return subprocess.run(self.words + list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def claim(self, *words):
        """Claims both GPUs; returns the id."""
        done = self.run("claim", "-g", "2", *words)
        assert done.returncode == 0, done.stderr
        claim = done.stdout.strip()
        assert re.fullmatch("[0-9a-f]{16}", claim)
        self.holders.append(self.holder(claim))
        return claim

    def holder(self, claim):
        """The pid of the process behind a claim."""
        return next(holding["pid"] for holding in self.status()["claims"] if holding["id"] == claim)

    def status(self):
        return json.loads(self.run("status", "--json").stdout)

    def free(self):
        status = self.run("run", "-g", "2", "--no-wait", "true").returncode
        assert status in (0, 75)
        return status == 0


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    for holder in machine.holders:
        if not gone(holder):
            os.kill(holder, signal.SIGKILL)


@pytest.mark.parametrize("words", [[], ["--json"], ["--shell"]])
@pytest.mark.parametrize("stdout", ["/dev/full", "closed", "nobody reads"])
def test_a_claim_that_nobody_was_told_of_is_given_back(machine, stdout, words):
    reading, writing = os.pipe()
    os.close(reading)
    command = {"/dev/full": 'exec "$@" > /dev/full', "closed": 'exec "$@" >&-', "nobody reads": f'exec "$@" >&{writing}'}
    done = subprocess.run(["bash", "-c", command[stdout] if words != ["--shell"] else command[stdout].replace("exec ", "") +
                           "; status=$?; exit $status", "sh", *machine.words, "claim", "-g", "2", *words],
                          capture_output=True, text=True, pass_fds=[writing], timeout=60)
    os.close(writing)
    assert done.returncode in (-signal.SIGPIPE, 128 + signal.SIGPIPE) if stdout == "nobody reads" else done.returncode == 125
    eventually(machine.free, "it was given back")
    assert machine.status()["claims"] == []


@contextlib.contextmanager
def words_that_nobody_reads(machine, *words):
    """A claimer that has its claim, and is kept at its words by a pipe that is full."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    claimer = subprocess.Popen(machine.words + ["claim", "-q", "-g", "2", *words], stdout=writing, stderr=subprocess.PIPE)
    try:
        yield claimer, reading
    finally:
        claimer.kill()
        claimer.wait()
        claimer.stderr.close()
        os.close(reading)
        os.close(writing)


def test_a_claimer_that_is_killed_before_its_words_are_read_leaves_no_claim(machine):
    with words_that_nobody_reads(machine) as (claimer, _):
        eventually(lambda: not machine.free(), "it has them")
        assert claimer.poll() is None
        claimer.kill()
        eventually(machine.free, "its holder gives them back")


def test_a_claim_ends_at_its_time_though_its_words_are_not_read(machine):
    with words_that_nobody_reads(machine, "--time", "1h") as (claimer, reading):
        eventually(lambda: machine.status()["claims"], "it has them")
        done = machine.run("extend", machine.status()["claims"][0]["id"], "1s")
        assert done.returncode == 0, done.stderr
        eventually(machine.free, "its time is over")
        assert claimer.poll() is None
        os.set_blocking(reading, False)
        while claimer.poll() is None:
            with contextlib.suppress(BlockingIOError):
                os.read(reading, 65536)
        assert claimer.returncode == 69 and b"the claim was lost" in claimer.stderr.read()


def test_a_claim_whose_words_are_not_read_can_be_released(machine):
    with words_that_nobody_reads(machine):
        eventually(lambda: machine.status()["claims"], "it has them")
        done = machine.run("release", machine.status()["claims"][0]["id"])
        assert done.returncode == 0, done.stderr
        assert machine.free()


def test_a_stopped_claimer_is_overtaken_and_keeps_its_ticket(machine):
    claim = machine.claim()
    with Started(machine.words + ["claim", "-q", "-g", "2"]) as stopped:
        eventually(lambda: machine.status()["queue"], "it stands in line")
        [ticket] = machine.status()["queue"]
        stopped.kill(signal.SIGSTOP)
        eventually(lambda: state_of(stopped.pid) == "T", "it is stopped")
        with Started(machine.words + ["run", "-g", "2", "sh", "-c", "echo up; exec cat"]) as other:
            eventually(lambda: [one for one in machine.status()["queue"] if one["pid"] == other.pid], "another waits behind it")
            assert machine.run("release", claim).returncode == 0
            assert other.line() == "up"
            stopped.kill(signal.SIGCONT)
            eventually(lambda: [one["since"] for one in machine.status()["queue"]] == [ticket["since"]], "it is where it was")
            other.process.stdin.close()
            assert other.wait() == 0
        claim = stopped.line()
        assert stopped.wait() == 0
    assert machine.run("release", claim).returncode == 0
    assert machine.free()


def test_a_claim_is_held_until_it_is_released(machine):
    claim = machine.claim()
    assert not machine.free()
    done = machine.run("release", claim)
    assert done.returncode == 0, done.stderr
    assert machine.free()  # at once: release returns when the GPUs are free


@pytest.mark.parametrize("words", ["", "--json", "--shell"])
def test_a_claim_lies_in_a_directory_of_whatever_name(tmp_path, words):
    """Linux' paths are bytes; JSON has none for some of them."""
    state = os.fsencode(tmp_path) + b"/st\xffate's"
    environment = {**os.environb, b"THOLE_MACHINE": b"2xA100", b"THOLE_STATE_DIR": state, b"THOLE": os.fsencode(THOLE)}
    command = f"""
        said=$("$THOLE" claim -q -g 1 {words}) || exit
        case "{words}" in --shell) eval "$said"; set -- ;; --json) set -- 0 ;; *) set -- "$said" ;; esac
        printf %s "$THOLE_STATE_DIR"
        "$THOLE" release -q "$@" >&2"""
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, state, b"")


def test_a_claim_holds_nothing_of_its_caller(machine):
    claim = machine.claim()
    holder = machine.holder(claim)
    assert os.getsid(holder) == holder
    assert os.readlink(f"/proc/{holder}/cwd") == "/"
    assert {os.readlink(f"/proc/{holder}/fd/{fd}") for fd in (0, 1, 2)} == {"/dev/null"}


def test_a_claim_says_its_end_in_the_time_of_who_reads_it_as_status_does(machine):
    here = {**os.environ, "TZ": "HERE-07:30"}                # seven hours and a half before UTC
    told = machine.run("claim", "--on", "0", "--time", "4h", env=here).stderr.strip()
    [claim] = machine.status()["claims"]
    machine.holders.append(claim["pid"])
    end = datetime.datetime.fromisoformat(claim["until"].replace("Z", "+00:00")) + datetime.timedelta(hours=7, minutes=30)
    assert re.search(rf" until (\S+ )?{end:%H:%M}$", told), told
    assert told[told.index(" until "):] in " ".join(machine.run("status", "0", env=here).stdout.split())


def test_a_claim_ends_at_its_time_and_not_before(machine):
    before = time.monotonic()
    done = machine.run("claim", "-g", "2", "--time", "1s")
    assert done.returncode == 0, done.stderr
    eventually(machine.free, "its time is over")
    assert time.monotonic() - before >= 1


def test_a_claim_can_be_extended_and_shortened(machine):
    claim = machine.claim("--time", "2h")
    done = machine.run("extend", claim, "5h", "--json")
    assert done.returncode == 0, done.stderr
    holder = machine.holder(claim)
    assert machine.run("extend", claim, "1s").returncode == 0
    eventually(lambda: gone(holder), "the holder ends")
    assert machine.free()


def test_a_claim_for_a_process_ends_with_it(machine):
    with Started(["cat"]) as adopted:
        claim = machine.claim("--pid", str(adopted.pid))
        holder = machine.holder(claim)
        assert not machine.free()
        adopted.process.stdin.close()
        adopted.wait()
        eventually(lambda: gone(holder), "the holder ends")
        assert machine.free()


def test_a_process_that_outlives_its_claim_is_shown_as_overdue_until_it_ends(machine):
    adopted = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    claim = machine.claim("--pid", str(adopted.pid), "--time", "3s")
    eventually(lambda: any(holding["overdue"] for holding in machine.status()["claims"]), "its time is over")
    overdue = machine.status()["claims"]
    assert {(holding["id"], holding["pid"], holding["overdue"]) for holding in overdue} == {(claim, adopted.pid, True)}
    assert machine.run("status").stdout.count("OVERDUE") == 2
    adopted.stdin.close()
    adopted.wait()
    assert machine.status()["claims"] == []


def test_a_claim_for_a_process_goes_on_after_its_time_in_what_runs_in_it(machine):
    with Started(["cat"]) as adopted:
        claim = machine.claim("--pid", str(adopted.pid), "--time", "3s")
        holder = machine.holder(claim)
        with Started(machine.words + ["run", "-q", "--in", claim, "sh", "-c", "echo up; read line"]) as job:
            assert job.line() == "up"
            eventually(lambda: gone(holder), "its time is over")
            shown = {(held["id"], held["held"], held["verified"]) for held in machine.status()["claims"]}
            assert shown == {(claim, True, True)}
            for word in (claim, "0"):
                done = machine.run("release", word)
                assert done.returncode == 69 and f"kill {children(job.pid)[-1]}" in done.stderr, done.stderr
            said = machine.run("why", "0").stdout
            assert "what was started in it goes on" in " ".join(said.split()), said
            assert f"kill {children(job.pid)[-1]}" in said and "somebody" not in said and "lives and has" not in said, said
            within = {**os.environ, "THOLE_CLAIM": claim}
            done = machine.run("run", "--no-wait", "-g", "1", "echo", "began", env=within)
            assert (done.returncode, done.stdout) == (69, ""), done.stderr
            job.write("end\n")
            job.wait()
        assert machine.free()


def test_why_says_what_goes_on_in_a_run_whose_supervisor_was_killed(machine):
    with Started(machine.words + ["run", "-g", "2", "--time", "3s", "--", "sh", "-c", "echo $PPID $$; read line"]) as job:
        supervisor, command = map(int, job.line().split())
        os.kill(supervisor, signal.SIGKILL)
        eventually(lambda: "its time is over since" in machine.run("why", "0").stdout, "its time is over")
        said = " ".join(machine.run("why", "0", "1").stdout.split())
        assert "what was started in it goes on" in said and f"kill {command} # sh -c" in said, said
        assert "lives and has not let go" not in said, said
        job.write("end\n")
        eventually(machine.free, "the command ends")


def test_two_units_that_go_on_are_two(machine):
    claim = machine.claim()
    with Started(machine.words + ["run", "-q", "--in", claim, "sh", "-c", "echo up; read line"]) as job:
        assert job.line() == "up"
        assert "GPU 0, GPU 1 are still held" in machine.run("release", claim).stderr
        job.write("end\n")
        job.wait()


def test_why_says_that_a_claims_time_is_over_and_who_lives(machine):
    with Started(["cat"]) as adopted:
        claim = machine.claim("--pid", str(adopted.pid), "--time", "2s")
        holder = machine.holder(claim)
        assert "its time is over" not in machine.run("why", "0").stdout
        os.kill(holder, signal.SIGSTOP)
        eventually(lambda: "its time is over since" in machine.run("why", "0").stdout, "its time is over")
        said = " ".join(machine.run("why", "0").stdout.split())
        assert f"process {holder} lives and has not let go" in said and f"ps -o pid,stat,args -p {holder}" in said
        os.kill(holder, signal.SIGCONT)
        eventually(machine.free, "it lets go")
        said = " ".join(machine.run("why", "0").stdout.split())
        assert "no longer claimed by" in said and "what it was claimed for still runs" in said


def test_a_claim_for_no_process_is_refused(machine):
    with Started(["true"]) as gone_already:
        gone_already.wait()
        done = machine.run("claim", "--pid", str(gone_already.pid))
    assert done.returncode == 64
    assert "no such process" in done.stderr
    assert machine.free()


@pytest.mark.parametrize("substitution", ["$(%s claim -g 2 --shell)", "$(%s claim -g 2 --shell | cat)"])
def test_a_claim_for_a_shell_gives_it_the_variables_and_ends_with_it(machine, substitution):
    script = f'eval "{substitution % " ".join(machine.words)}"; echo $THOLE_CLAIM $CUDA_VISIBLE_DEVICES; read line'
    with Started(["bash", "-c", script]) as shell:
        claim, devices = shell.line().split()
        assert devices == "0,1"
        holder = machine.holder(claim)
        machine.holders.append(holder)
        assert not machine.free()
        shell.write("end\n")
        shell.wait()
        eventually(lambda: gone(holder), "the holder ends")
        assert machine.free()


def test_a_claim_survives_the_terminal_it_was_made_on(machine):
    with Terminal(["bash", "--norc", "--noprofile", "-i"], {"PS1": "prompt> "}) as terminal:
        terminal.expect("prompt> ")
        terminal.send(" ".join(machine.words) + " -q claim -g 2\n")
        claim = terminal.expect(r"\r([0-9a-f]{16})\r\n").group(1)
        holder = machine.holder(claim)
        machine.holders.append(holder)
        terminal.hang_up()
        terminal.wait()
    assert not gone(holder)
    assert not machine.free()
    assert machine.run("release", claim).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_wait_leaves_the_line(machine, number):
    claim = machine.claim()
    with Started(machine.words + ["claim", "-g", "2"]) as waiting:
        eventually(lambda: machine.status()["queue"], "it stands in line")
        waiting.kill(number)
        assert waiting.wait() == -number
        eventually(lambda: not machine.status()["queue"], "it has left the line")
    assert machine.run("release", claim).returncode == 0
    assert machine.free()


def test_a_stopped_holder_keeps_the_claim_and_a_killed_one_does_not(machine):
    claim = machine.claim()
    holder = machine.holder(claim)
    os.kill(holder, signal.SIGSTOP)
    eventually(lambda: state_of(holder) == "T", "the holder is stopped")
    assert not machine.free()
    os.kill(holder, signal.SIGKILL)
    eventually(lambda: gone(holder), "the holder ends")
    assert machine.free()


def test_a_command_runs_inside_a_claim_and_keeps_it(machine):
    claim = machine.claim()
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, "THOLE_CLAIM": claim}) as bystander, Started(
        machine.words + ["run", "--in", claim, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $THOLE_CLAIM; read line; exit 4"]
    ) as job:
        assert job.line() == f"0,1 {claim}"
        done = machine.run("release", claim)
        assert done.returncode == 69 and claim in done.stderr, "the command still has the locks"
        assert "what was started in it keeps the GPUs" in done.stderr and f"kill {children(job.pid)[0]}" in done.stderr
        again = machine.run("release", claim)    # its keeper has ended, and what was said can be had again
        assert f"kill {bystander.pid}" not in done.stderr, "which has no lock of it"
        bystander.kill()
        assert again.returncode == 69 and again.stderr.split("\n", 1)[1] == done.stderr.split("\n", 1)[1]
        assert not machine.free()
        job.write("end\n")
        assert job.wait() == 4
    assert machine.free()


def test_release_of_a_running_command_ends_it_and_returns_when_it_is_free(machine):
    waits = python(
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); print(os.environ['THOLE_CLAIM']); signal.pause()"
    )
    with Started(machine.words + ["run", "-g", "2", *waits]) as job:
        claim = job.line()
        done = machine.run("release", claim)
        assert done.returncode == 0, done.stderr
        assert machine.free()
        assert job.wait() == -signal.SIGINT


def test_a_release_that_lasts_says_what_it_waits_for_and_can_be_left(machine):
    deaf = python(
        "import os, signal, sys; heard = lambda number, frame: None; signal.signal(signal.SIGINT, heard);"
        "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7));"
        "print(os.environ['THOLE_CLAIM'], os.getpid(), flush=True)\nwhile True: signal.pause()"
    )
    with Started(machine.words + ["run", "-g", "2", *deaf]) as job:
        claim, pid = job.line().split()
        name = pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        release = subprocess.Popen([*machine.words, "release", claim], stderr=subprocess.PIPE, text=True)
        said = release.stderr.readline()
        assert re.search(rf"waiting for process {pid} \({re.escape(name)}\) to end; it is killed in 1\ds", said), said
        release.send_signal(signal.SIGINT)
        assert release.wait() == -signal.SIGINT
        release.stderr.close()
        assert job.wait() == 7, "TERM comes all the same"
    assert machine.free()


def test_who_waits_behind_a_stopped_one_is_promised_a_start_without_it(machine):
    machine.claim("--time", "2h")
    words = ["run", "-g", "2", "--time", "1h", "true"]
    with Started(machine.words + words) as first:
        eventually(lambda: len(machine.status()["queue"]) == 1, "the first waits")
        with Started(machine.words + words) as second:
            eventually(lambda: len(machine.status()["queue"]) == 2, "the second waits")
            queue = machine.status()["queue"]
            one, other = (datetime.datetime.fromisoformat(waiter["starts_by"].replace("Z", "+00:00")) for waiter in queue)
            assert other == one + datetime.timedelta(hours=1), queue

            os.kill(queue[0]["pid"], signal.SIGSTOP)
            eventually(lambda: state_of(queue[0]["pid"]) == "T", "the first is stopped")
            stopped, behind = machine.status()["queue"]
            assert (stopped["stopped"], stopped["starts_by"]) == (True, None)
            assert (behind["stopped"], behind["starts_by"]) == (False, queue[0]["starts_by"])
            assert re.search(r"^ +1 .* stopped ", machine.run("status").stdout, re.M)
            wait = json.loads(machine.run("why", "-g", "2", "--json").stdout)["plan"]["wait"]
            assert wait["starts_by"] == queue[1]["starts_by"], "who comes now is third, and starts second"

            os.kill(queue[0]["pid"], signal.SIGCONT)
            eventually(lambda: state_of(queue[0]["pid"]) != "T", "it goes on")
            assert [waiter["starts_by"] for waiter in machine.status()["queue"]] == [waiter["starts_by"] for waiter in queue]
            second.process.kill()
        first.process.kill()


def test_nothing_of_a_killed_keeper_stays_after_the_next_claim(machine, tmp_path):
    environment = {**os.environ, "THOLE_PERSONAL_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    done = machine.run("claim", "-g", "2", env=environment)
    holder = machine.holder(done.stdout.strip())
    left = tmp_path / done.stdout.strip()
    assert (left / "control").is_socket()
    os.kill(holder, signal.SIGKILL)
    eventually(lambda: gone(holder), "the holder ends")
    assert left.exists()
    assert machine.run("run", "true", env=environment).returncode == 0
    assert not left.exists()


def test_another_user_cannot_release():
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # a place that everybody may reach, with the program in it
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        machine = Machine(folder)
        machine.words[0] = str(shutil.copy2(THOLE, folder / "thole"))
        claim = machine.claim()
        done = machine.run("release", claim, user=65534, group=65534, extra_groups=[])
        assert done.returncode == 69 and f"claim {claim} is root's" in done.stderr and "only root can release" in done.stderr
        assert machine.run("extend", claim, "1h", user=65534, group=65534, extra_groups=[]).returncode == 69
        assert not machine.free()
        assert machine.run("release", claim).returncode == 0


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))

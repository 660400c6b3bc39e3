# ctest: timeout 900
"""A state directory that is lost under a living claim, in whatever way: no second owner, a word of it, and all is well when the
claim has ended. The machine's own directory is in test_hostile_units.py."""
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from hostile import USERS, end, interpreter, lab  # noqa: F401 (lab: a fixture)
from init_tools import CHURN, SHORT_PAGES, claims_one, guard_byte, in_one_surrounding, key_of
from run_tools import THOLE, Started, eventually, state_of

# DIR: the state directory, UP: the one that it lies in, ASIDE: a folder for what is moved.
WAYS = {
    "deleted": "rm -r DIR",
    "deleted and made again": "rm -r DIR; mkdir -m 700 DIR",
    "emptied": "rm -r DIR/*",
    "emptied by find": "find DIR -mindepth 1 -delete",
    "files deleted": "find DIR ! -type d -delete",
    "FIFOs deleted": "find DIR -type p -delete",
    "locks and list deleted": "rm DIR/gpu.* DIR/devices",
    "locks deleted, list emptied": "rm DIR/gpu.*; : > DIR/devices",
    "moved away": "mv DIR ASIDE",
    "moved away and made again": "mv DIR ASIDE; mkdir -m 700 DIR",
    "its parent deleted": "rm -r UP",
    "its parent moved": "mv UP ASIDE",
    "its parent deleted and made again": "rm -r UP; mkdir -m 700 UP",
    "its parent moved, both made again": "mv UP ASIDE; mkdir -m 700 UP UP/$(basename DIR)",
    "a copy in its place": "cp -a DIR ASIDE/copy; rm -r DIR; mv ASIDE/copy DIR",
    "a copy in its place, itself aside": "cp -a DIR ASIDE/copy; mv DIR ASIDE/old; mv ASIDE/copy DIR",
    "a copy of its parent": "cp -a UP ASIDE/copy; rm -r UP; mv ASIDE/copy UP",
    "copied back over": "cp -a DIR ASIDE/copy; cp -a --remove-destination ASIDE/copy/. DIR/",
    "a lock made by hand": "for f in DIR/gpu.*; do rm $f; mkfifo -m 600 $f; done",
}


CLAIM = ("run", "-q", "--no-wait", "--", "echo", "mine")


class Machine:
    """Simulated GPUs; their directory is named, or lies in the personal directory."""

    def __init__(self, folder, kind, gpus=1):
        self.folder, self.up = folder, folder / "up"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("THOLE_", "XDG_", "CUDA_"))}
        self.environment = {**kept, "THOLE_MACHINE": f"{gpus}xA100", "THOLE_BIND": "none", "HOME": str(folder)}
        if kind == "named":
            self.directory = self.up / "state"
            self.up.mkdir(mode=0o700)
            self.environment.update(THOLE_STATE_DIR=str(self.directory), THOLE_PERSONAL_DIR=str(folder / "own"))
        else:
            self.directory = self.up / f"machine-{gpus}xA100"
            self.environment["THOLE_PERSONAL_DIR"] = str(self.up)
        (folder / "aside").mkdir()

    def thole(self, *words):
        return subprocess.run([THOLE, *words], env=self.environment, capture_output=True, text=True, timeout=120)

    def at_once(self, *commands):
        """Each waits a while for what may come back: together they wait no longer than one."""
        with ThreadPoolExecutor(len(commands)) as threads:
            return list(threads.map(lambda words: self.thole(*words), commands))

    def claim(self):
        return self.thole(*CLAIM)

    def hold(self):
        holder = Started([THOLE, "run", "-q", "--", "sh", "-c", "echo up; exec cat"], env=self.environment)
        assert holder.line() == "up", holder.process.stderr.read().decode()
        return holder

    def lose(self, way):
        script = WAYS[way].replace("DIR", str(self.directory)).replace("UP", str(self.up))
        subprocess.run(["sh", "-ec", script.replace("ASIDE", str(self.folder / "aside"))], check=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["named", "personal"])
def test_what_is_lost_under_a_claim_gets_no_second_owner(tmp_path, kind, way):
    machine = Machine(tmp_path, kind)
    with machine.hold():
        machine.lose(way)
        for done in machine.at_once(CLAIM, CLAIM, ("init", "--state-dir", machine.directory)):
            assert done.stdout == "" and done.returncode == 69, (way, done.stdout, done.stderr)
        assert machine.claim().returncode == 69, "init has made no way in"


# Claims inside, by no descriptor that was inherited: the locks around are copied from here.
CLAIMS_INSIDE = "import subprocess, sys; subprocess.run(sys.argv[1:])"


@pytest.mark.parametrize("way", ["deleted", "emptied", "its parent deleted"])
@pytest.mark.parametrize("kind", ["named", "personal"])
def test_what_is_lost_under_copied_locks_gets_no_second_owner(tmp_path, kind, way):
    """Whose own process was killed, and what claims inside keeps its GPU."""
    machine = Machine(tmp_path, kind)
    inside = (THOLE, "run", "-q", "--", "sh", "-c", "echo up; exec cat")
    with Started([THOLE, "run", "-q", "--no-supervisor", "--", sys.executable, "-c", CLAIMS_INSIDE, *inside],
                 env=machine.environment) as holder:
        assert holder.line() == "up"
        os.kill(holder.pid, signal.SIGKILL)
        eventually(lambda: state_of(holder.pid) in ("Z", None), "it has ended")
        assert machine.claim().returncode == 75
        machine.lose(way)
        done = machine.claim()
        assert done.stdout == "" and done.returncode == 69, (done.stdout, done.stderr)
        holder.process.stdin.close()
        eventually(lambda: machine.claim().returncode == 0, "what claims inside has ended")


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("FIFOs deleted",)])
@pytest.mark.parametrize("kind", ["named", "personal"])
def test_what_is_lost_without_a_claim_is_made_anew(tmp_path, kind, way):
    machine = Machine(tmp_path, kind)
    assert machine.claim().returncode == 0
    machine.lose(way)
    done = machine.claim()
    assert done.returncode == 0 and done.stdout == "mine\n", done.stderr


@pytest.mark.parametrize("way", ["emptied", "its parent moved", "a copy in its place"])
def test_the_processes_that_hold_are_named_and_when_they_have_ended_all_is_well(tmp_path, way):
    machine = Machine(tmp_path, "named")
    with machine.hold() as holder:
        machine.lose(way)
        done = machine.claim()
        assert str(holder.pid) in done.stderr and str(machine.directory) in done.stderr, done.stderr
    eventually(lambda: machine.claim().returncode == 0, "the claim has ended")
    with machine.hold():
        assert machine.claim().returncode == 75


@pytest.mark.parametrize("kind", ["named", "personal"])
@pytest.mark.parametrize("way", WAYS)
def test_who_looks_is_told_of_it_sees_no_idle_gpu_and_doctor_calls_it_a_problem(tmp_path, kind, way):
    machine = Machine(tmp_path, kind)
    with machine.hold():
        machine.lose(way)
        seen = machine.at_once(("status",), ("status", "--json"), ("why", "0"), ("doctor",))
        text, json_text, why, doctor = (look.stdout for look in seen)
        said = " ".join(text.split())
        # who keeps many locks on this machine meanwhile is told in place of what is missing
        assert "claims: " in said and ("missing" in said or "in use" in said or "keeps" in said), said
        assert "unknown" in said and "may be claimed" in said and "idle" not in said.lower(), text
        status = json.loads(json_text)
        assert [unit["state"] for unit in status["units"]] == ["unknown"] and status["claims_problem"], status
        assert "may be claimed" in status["units"][0]["why"]
        assert "may be claimed" in why and "free" not in why, why
        assert "problem" in doctor and "0 problems" not in doctor, doctor


ONE_LOCK = {"deleted": "rm NODE", "another file": "rm NODE; : > NODE", "a directory": "rm NODE; mkdir NODE"}
if os.geteuid() == 0:
    ONE_LOCK["another user's"] = "chown 12345 NODE"


@pytest.mark.parametrize("kind", ["named", "personal"])
@pytest.mark.parametrize("way", ONE_LOCK)
def test_a_gpu_without_its_lock_is_not_counted_as_free_and_keeps_nobody_from_the_others(tmp_path, kind, way):
    machine = Machine(tmp_path, kind, gpus=3)
    assert machine.claim().returncode == 0
    key = json.loads(machine.thole("status", "--json").stdout)["units"][0]["key"]
    script = ONE_LOCK[way].replace("NODE", str(machine.directory / f"gpu.{key}"))
    subprocess.run(["sh", "-ec", script], check=True)

    text, status, why = machine.at_once(("status",), ("status", "--json"), ("why", "0"))
    first, *others = json.loads(status.stdout)["units"]
    assert first["state"] == "unknown" and "claimed: " in first["why"], first
    free = 0 if way == "a directory" else 2                  # then nothing can be read
    assert [unit["state"] for unit in others] == ["idle" if free else "unknown"] * 2, others
    assert f"{free} free, {3 - free} unknown" in text.stdout and first["why"].split(":")[0] in text.stdout, text.stdout
    assert "claimed" in why.stdout and "is free" not in why.stdout, why.stdout

    any_one, two, all_three, itself = (machine.thole("run", "-q", "--no-wait", *wish, "--", "echo", "mine")
                                       for wish in ((), ("-g2",), ("-g3",), ("--on", "0")))
    assert any_one.stdout == "mine\n", any_one.stderr
    assert two.stdout == "mine\n", two.stderr
    for done in (all_three, itself):
        assert done.returncode == 69 and f"gpu.{key}" in done.stderr, done.stderr
    assert machine.thole("init").returncode == 0
    assert machine.thole("run", "-q", "--no-wait", "-g3", "--", "echo", "all").stdout == "all\n"


@in_one_surrounding
def test_a_gpu_that_a_directory_of_another_user_does_not_know_is_not_counted_as_free(lab):
    lab.set_gpus(2)
    directory = ("--state-dir", "/var/tmp/ours")
    lab.run("alice", "mkdir", "-m", "755", "/var/tmp/ours", check=True)
    assert lab.thole("alice", *directory, "run", "--no-wait", "--", "true").returncode == 0
    lab.set_gpus(3)
    status = json.loads(lab.thole("bob", *directory, "status", "--json").stdout)
    assert [unit["state"] for unit in status["units"]] == ["idle", "idle", "unknown"], status["units"]
    assert "cannot be claimed" in status["units"][2]["why"]
    assert lab.thole("bob", *directory, "run", "--no-wait", "-g3", "--", "true").returncode == 69
    assert lab.thole("bob", *directory, "run", "--no-wait", "-g2", "--", "true").returncode == 0


def test_shared_files_deleted_alone_cost_no_lock(tmp_path):
    """Who holds is still seen: nothing is lost."""
    machine = Machine(tmp_path, "named")
    with machine.hold():
        for name in ("queue", "devices", "alloc"):
            (machine.directory / name).unlink()
            assert machine.claim().returncode == 75, name


def test_another_directory_of_the_same_name_is_another(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = Machine(tmp_path / "one", "named"), Machine(tmp_path / "two", "named")
    with one.hold():
        assert two.claim().returncode == 0
        shutil.rmtree(two.up)
        assert two.claim().returncode == 0


# The fallback directory, between users.

FALLBACK_WAYS = ["rm -r /run/lock/thole", "rm -r /run/lock/thole/*", "find /run/lock -mindepth 2 -delete",
                 "find /run/lock/thole ! -type d -delete", "rm -r /run/lock/thole; install -d -m 755 -o alice /run/lock/thole",
                 "mv /run/lock /run/elsewhere", "rm -r /run/lock"]


@pytest.mark.parametrize("way", FALLBACK_WAYS)
@in_one_surrounding
def test_a_lost_fallback_gets_no_second_owner(lab, way):
    alice = lab.hold("alice", gpus=4)
    lab.run("root", "sh", "-ec", way, check=True)
    for user in ("alice", "bob"):
        done = claims_one(lab, user)
        assert done.returncode in (69, 75), (user, done.stdout, done.stderr)
        if user == "alice":
            assert "sudo thole init" in " ".join(done.stderr.split()) and str(alice.pid) in done.stderr, done.stderr
        if "rm -r /run/lock" == way or "mv" in way:
            break   # nobody else can see whose it was
    init = lab.thole("root", "init")
    assert init.returncode == 69 and "alice" in init.stderr and "--force" in init.stderr, init.stderr
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "-g", "4").returncode == 0


# What init finds in its place is not what is locked.
SWAPPED_WAYS = ["mv thole x; mkdir -m 755 thole", "cp -a thole y; mv thole x; mv y thole", "mv thole x; ln -s x thole",
                "mv thole x; : > thole", "mkdir z; mv thole/gpu.* z",
                "mkdir z; mv thole/gpu.* z; cd z; for f in gpu.*; do mkfifo -m 666 ../thole/$f; done",
                "cd thole; for f in gpu.*; do ln $f x$f; rm $f; done"]


@pytest.mark.parametrize("way", SWAPPED_WAYS)
@in_one_surrounding
def test_a_fallback_that_is_swapped_under_a_claim_gets_no_second_owner(lab, way):
    alice = lab.hold("alice")
    lab.run("root", "sh", "-ec", "cd /run/lock; " + way, check=True)
    for words in (["init"], ["run", "--no-wait", "--", "true"]):
        done = lab.thole("root", *words)
        assert done.returncode == 69 and "of alice has the lock of one that was deleted or moved" in done.stderr, done.stderr
    assert claims_one(lab, "bob", "-g", "4").returncode == 69
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "-g", "4").returncode == 0


@pytest.mark.parametrize("first", [False, True])
@in_one_surrounding
def test_a_second_fallback_lets_nobody_in_beside_claims_in_the_first(lab, first):
    def makes_another():
        assert lab.thole("mallory", "--state-dir", "/tmp/thole", "run", "-q", "--", "true").returncode == 0
    alice = lab.hold("alice")
    if first:
        makes_another()
    lab.run("root", "rm", "-r", "/run/lock/thole", check=True)
    if not first:
        makes_another()
    done = claims_one(lab, "bob", "-g", "4")
    assert done.returncode == 69 and "/run/lock/thole" in done.stderr, done.stderr
    end(alice)
    eventually(lambda: claims_one(lab, "bob", "-g", "4").returncode == 0, "alice has ended")


# A service with PrivateTmp, say: the fallback's parent is the same for all.
@in_one_surrounding
def test_a_fallback_lost_under_a_claim_with_mounts_of_its_own_gets_no_second_owner(lab):
    alone = ("mount -t tmpfs -o mode=1777 own /tmp; "
             f'exec setpriv --reuid={USERS["alice"]} --regid={USERS["alice"]} --init-groups -- "$@"')
    words = lab.command("root", "unshare", "-m", "sh", "-ec", alone, "sh", lab.program, "run", "-q", "--",
                        "sh", "-c", "echo up; exec cat")
    alice = Started(words, cwd="/", env=lab.environment("alice"))
    assert alice.line() == "up"
    lab.run("root", "rm", "-r", "/run/lock/thole", check=True)
    assert claims_one(lab, "bob", "-g", "4").returncode == 69
    init = lab.thole("root", "init")
    assert init.returncode == 69 and "of alice" in init.stderr, init.stderr
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "-g", "4").returncode == 0


# Who is in a list of processes may have ended when he is looked at, and his child is in none.
@pytest.mark.parametrize("pause", [0.005, 0.05])
def test_a_job_that_goes_on_in_its_child_again_and_again_keeps_its_claim(tmp_path, pause):
    machine = Machine(tmp_path, "personal")
    going_on = (f"import os, time\nprint('up', flush=True)\nwhile not os.path.exists({str(tmp_path / 'end')!r}):\n"
                f" time.sleep({pause})\n if os.fork(): os._exit(0)\n")
    with Started([THOLE, "run", "-q", "--no-supervisor", "--", sys.executable, "-c", going_on], env=machine.environment) as job:
        assert job.line() == "up"
        machine.lose("its parent moved")
        for _ in range(4):
            assert machine.claim().returncode == 69
        (tmp_path / "end").touch()
    eventually(lambda: machine.claim().returncode == 0, "it has ended")


# What its command leaves behind is reaped, or the kernel would have no number left for a process in the end.
REAPS = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)    # PR_SET_CHILD_SUBREAPER
subprocess.Popen(sys.argv[1:])
try:
    while True: os.wait()
except ChildProcessError: pass
"""


# `init` sees the processes of all, and of such a one mostly those that have ended.
@in_one_surrounding
def test_a_fallback_lost_under_a_job_that_goes_on_in_its_child_gets_no_second_owner(lab):
    going_on = ("import os\nprint('up', flush=True)\nwhile not os.path.exists('/tmp/end'):\n"
                " if os.fork(): os._exit(0)\n")
    alice = lab.start("alice", interpreter(), "-c", REAPS,
                      lab.program, "run", "-q", "-g", "4", "--no-supervisor", "--", interpreter(), "-c", going_on)
    try:
        assert alice.line() == "up"
        lab.run("root", "rm", "-r", "/run/lock/thole", check=True)
        for _ in range(60):
            init = lab.thole("root", "init")
            assert init.returncode == 69 and "--force" in init.stderr, (init.stdout, init.stderr)
        assert claims_one(lab, "bob").returncode == 69, "it lives"
    finally:
        lab.run("root", "touch", "/tmp/end", check=True)
    assert alice.process.wait() == 0


@in_one_surrounding
def test_a_fallback_deleted_under_a_claim_gives_way_to_no_better_one(lab):
    lab.run("root", "chmod", "755", "/run/lock", check=True)
    alice = lab.hold("alice")
    lab.run("root", "test", "-p", f"/tmp/thole/gpu.{key_of(lab)}", check=True)
    lab.run("root", "sh", "-ec", "chmod 1777 /run/lock; rm -r /tmp/thole", check=True)
    done = claims_one(lab, "bob")
    assert done.returncode == 69 and "/tmp/thole" in done.stderr, done.stderr
    end(alice)
    eventually(lambda: claims_one(lab, "bob").returncode == 0, "alice has ended")


@in_one_surrounding
def test_a_lock_on_bytes_of_ones_own_directory_keeps_nobody(lab):
    """Only what the kernel says of processes counts, and a stranger's are not seen."""
    mallory = lab.lock("mallory", "/home" if os.path.isdir("/home") else "/", "ofd-read", guard_byte("thole"))
    assert claims_one(lab, "alice").returncode == 0
    end(mallory)


@pytest.mark.parametrize("churning", [CHURN, SHORT_PAGES], ids=["long", "short pages"])
@pytest.mark.parametrize("kind", ["named", "personal"])
def test_locks_that_come_and_go_hide_no_guard(tmp_path, kind, churning):
    """What the kernel lists is read in pages, and what others give back between two of them moves the rest."""
    machine = Machine(tmp_path, kind)
    with machine.hold():
        machine.lose("its parent deleted and made again")
        with subprocess.Popen([sys.executable, "-c", churning, "400"], stdout=subprocess.PIPE) as churn:
            assert churn.stdout.readline() == b"up\n"
            try:
                for _ in range(8):
                    assert machine.claim().returncode == 69
            finally:
                churn.kill()

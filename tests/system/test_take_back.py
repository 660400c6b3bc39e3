# ctest: timeout 900
"""What `thole init --take-back` says, and its exit status. (Whom it takes from: test_hostile_group.py, take_back_test.cpp;
what Python begins then: test_take_back_python.py.)"""
import json
import os
import pathlib
import signal

import pytest

import hostile
from hostile import end, lab  # noqa: F401 (lab: a fixture)
from init_tools import claims_one, gate_of, in_one_surrounding, key_of
from run_tools import eventually


@in_one_surrounding
def test_a_gpu_that_nobody_holds_is_not_taken_back_and_that_is_said(lab):
    lab.init()
    mallory = lab.hold("mallory", "--on", "1")
    done = lab.thole("root", "init", "--take-back", "0")
    assert done.returncode == 69 and "is not taken back: nobody held it" in done.stderr, done.stderr
    both = lab.thole("root", "init", "--take-back", "0,1")
    assert both.returncode == 69 and both.stderr.count("nobody held it") == 1, both.stderr
    assert "is taken back; " in both.stderr and claims_one(lab, "bob", "-g", "4").returncode == 0
    end(mallory)
    told = lab.thole("root", "init", "--take-back", "0", "--json")
    assert told.returncode == 69 and json.loads(told.stdout)["not_taken_back"] == 1


@in_one_surrounding
def test_what_still_runs_in_a_claim_that_was_taken_back_is_named(lab):
    """By the lock that it has inherited, or by the claim that it was started in."""
    lab.init()
    script = lab.folder / "inside.py"
    script.write_text("import subprocess, sys\n"
                      "with_lock = subprocess.Popen(['sleep', '4711'], env={}, close_fds=False)\n"
                      "without = subprocess.Popen(['sleep', '4712'])\n"
                      "print(with_lock.pid, without.pid, flush=True)\n"
                      "sys.stdin.read(); with_lock.kill(); without.kill(); with_lock.wait(); without.wait()\n")
    os.chmod(script, 0o644)
    alice = lab.start("alice", lab.program, "run", "--on", "0", "--", hostile.interpreter(), script)
    pids = alice.line().split()
    bob = lab.hold("bob", "--on", "1")
    done = lab.init("--take-back", "0")
    [said] = [line for line in done.stderr.replace("\n  ", " ").splitlines() if "may use it still" in line]
    for pid in pids:
        assert f"pid {pid} (sleep) of alice" in said, done.stderr
    assert "bob" not in said, said
    end(alice)
    end(bob)


@in_one_surrounding
def test_who_had_a_gpu_that_was_taken_back_is_told_at_the_end(lab):
    """By what his own descriptor says. The status is the command's own, and whose lock was not replaced is told nothing."""
    lab.init()
    alice, bob = (lab.hold(user, "--on", gpu) for user, gpu in (("alice", "0"), ("bob", "1")))
    assert "is taken back; " in lab.init("--take-back", "0").stderr
    assert claims_one(lab, "bob", "--on", "0").returncode == 0
    assert [started.process.stdin.close() or started.wait() for started in (alice, bob)] == [0, 0]
    told = " ".join(alice.process.stderr.read().decode().split())
    assert told.count("GPU 0 was taken back by root: others may have claimed it since") == 1, told
    assert "taken back" not in bob.process.stderr.read().decode()
    for started in (alice, bob):
        started.__exit__()


@in_one_surrounding
def test_nothing_begins_in_a_claim_on_a_gpu_of_it_that_was_taken_back(lab):
    lab.init()
    claim = lab.thole("alice", "claim", "-g", "2", "--on", "2,3", "--time", "1h", check=True).stdout.strip()
    lab.init("--take-back", "3")
    bob = lab.hold("bob", "--on", "3")
    inside = {"THOLE_CLAIM": claim}
    for words in (["--on", "3"], ["-g", "2"]):
        done = lab.thole("alice", "run", *words, "--no-wait", "--", "true", **inside)
        assert done.returncode == 69 and "was taken back by root" in done.stderr, done.stderr
    done = lab.thole("alice", "run", "--in", claim, "--", "true")
    assert done.returncode == 69 and "was taken back by root" in done.stderr, done.stderr
    told = lab.thole("alice", "why", claim, check=True).stdout
    assert "GPU 3 was taken back by root: others may have claimed it since" in told and "the claim holds" not in told, told
    told = " ".join(lab.thole("alice", "extend", claim, "2h", check=True).stderr.split())
    assert f"{key_of(lab, 3)} was taken back by root" in told and key_of(lab, 2) not in told, told
    assert lab.thole("alice", "run", "--on", "2", "--no-wait", "--", "true", **inside).returncode == 0
    end(bob)
    lab.thole("alice", "release", claim, check=True)


def variables_of(started):
    lines = []
    while (line := started.line()) != "up":
        lines.append(line)
    return dict(line.split("=", 1) for line in lines if line.startswith(("THOLE_CLAIM=", "THOLE_GPUS=", "CUDA_")))


@in_one_surrounding
def test_nor_a_rank_that_a_launcher_starts_there(lab):
    """One that is bound next to another GPU of the claim begins."""
    lab.init()
    alice = lab.start("alice", lab.program, "run", "-g", "2", "--on", "2,3", "--", "sh", "-c", "env; echo up; exec cat")
    inside = variables_of(alice)
    ranks = [["bind", "--local-rank", rank, "--ranks", "2", "--", "sh", "-c", "echo began"] for rank in "01"]
    for words in ranks:
        assert lab.thole("alice", *words, check=True, **inside).stdout == "began\n"
    lab.init("--take-back", "3")
    bob = lab.hold("bob", "--on", "3")
    assert lab.thole("alice", *ranks[0], check=True, **inside).stdout == "began\n"
    refused = lab.thole("alice", *ranks[1], **inside)
    assert (refused.returncode, refused.stdout) == (69, "") and "GPU 3 was taken back by root" in refused.stderr, refused.stderr
    assert lab.thole("alice", *ranks[1][:5], "--dry-run", check=True, **inside).stdout
    end(bob)
    end(alice)


OF_ITS_OWN = """
import subprocess, sys, tholepin
with tholepin.claim(2, on=[2, 3]) as claim:
    print(claim.id, flush=True)
    sys.stdin.readline()
    with tholepin.claim(1, wait=0) as inner:
        print([gpu["index"] for gpu in inner.gpus], flush=True)
    print(subprocess.run([sys.argv[1], "run", "-q", "--no-wait", "--", "sh", "-c", "echo $THOLE_GPUS"], capture_output=True,
                         text=True).stdout.strip(), flush=True)
    sys.stdin.readline()
"""


@in_one_surrounding
def test_who_has_claimed_has_the_other_gpus_of_his_claim(lab):
    """He keeps it himself, and can be asked by nobody."""
    lab.init()
    with lab.start("alice", hostile.interpreter(), "-c", OF_ITS_OWN, lab.program) as alice:
        claim = alice.line()
        assert claim, alice.process.stderr.read()
        lab.init("--take-back", "3")
        bob = lab.hold("bob", "--on", "3")
        alice.process.stdin.write(b"\n")
        assert alice.line() == "[2]", alice.process.stderr.read()
        assert key_of(lab, 2) in alice.line()
        refused = lab.thole("alice", "run", "--in", claim, "--", "true")
        assert refused.returncode == 69 and "GPU 3 was taken back by root" in refused.stderr, refused.stderr
        end(bob)


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("container", [False, True])
@in_one_surrounding
def test_what_claims_within_has_the_other_gpus_of_the_claim(lab, container, supervised):
    """And an inner claim is said to have lost what was taken from the one around it."""
    lab.init()
    alone = [] if supervised else ["--no-supervisor"]
    alice = lab.start("alice", lab.program, "run", *alone, "-g", "3", "--on", "1,2,3", "--", "sh", "-c",
                      "echo $THOLE_CLAIM; exec cat", container=False)
    inside = {"THOLE_CLAIM": alice.line(), "container": container}
    inner = lab.thole("alice", "claim", "-g", "2", "--on", "1,3", check=True, **inside).stdout.strip()
    lab.init("--take-back", "1")
    bob = lab.hold("bob", "--on", "1")
    told = lab.thole("alice", "why", inner, check=True, **inside).stdout
    assert "GPU 1 was taken back by root" in told and "the claim holds" not in told, told
    told = " ".join(lab.thole("alice", "extend", inner, "2h", check=True, **inside).stderr.split())
    assert f"{key_of(lab, 1)} was taken back by root" in told, told
    lab.thole("alice", "release", inner, check=True, **inside)
    told = lab.thole("alice", "run", "--dry-run", "-g", "1", "true", check=True, **inside).stdout
    assert "GPU 2" in told and "GPU 1" not in told, told
    for words in (["run", "-q", "-g", "1", "--no-wait"], ["map", "-q", "-g", "1", "-j", "1"]):
        tasks = [":::", "1"] if words[0] == "map" else []
        shown = lab.thole("alice", *words, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", *tasks, check=True, **inside).stdout
        assert key_of(lab, 1) not in shown and shown.strip() != "1", (words, shown)
    both = lab.thole("alice", "claim", "-g", "2", "--no-wait", check=True, **inside)
    assert "GPU 2,3" in both.stderr, both.stderr
    for words in (["claim"], ["run"]):
        command = ["true"] if words == ["run"] else []
        done = lab.thole("alice", *words, "--on", "1", "--no-wait", *command, **inside)
        assert done.returncode == 69 and "GPU 1: it was taken back by root" in done.stderr, (words, done.stderr)
    end(bob)
    end(alice)


@pytest.mark.parametrize("keeper", [["run"], ["run", "--no-supervisor"], ["claim"]], ids=" ".join)
@in_one_surrounding
def test_who_waits_within_a_claim_begins_on_its_other_gpus_alone(lab, keeper):
    """Also where it was in line before the taking back, which only then gives it a GPU."""
    lab.init()
    on = ["-g", "2", "--on", "2,3"]
    if keeper == ["claim"]:
        inside = {"THOLE_CLAIM": lab.thole("alice", "claim", *on, check=True).stdout.strip()}
    else:
        alice = lab.start("alice", lab.program, *keeper, *on, "--", "sh", "-c", "echo $THOLE_CLAIM; exec cat")
        inside = {"THOLE_CLAIM": alice.line()}
    has = [lab.hold("alice", "--on", gpu, **inside) for gpu in "23"]
    waits = [lab.start("alice", lab.program, "run", "--wait", "100s", "--", "sh", "-c", "echo $THOLE_GPUS", **inside)
             for _ in range(4)]
    for wait in waits:
        wait.error_until("waiting")
    lab.init("--force", "--take-back", "3")
    bob = lab.hold("bob", "--on", "3")
    for one in has:
        end(one)
    for wait in waits:
        line = wait.line()
        assert key_of(lab, 2) in line and key_of(lab, 3) not in line, line
        assert wait.wait() == 0
        wait.__exit__()
    end(bob)


MEETS = """
import os, sys
node, before = sys.argv[1], int(sys.argv[2])
goal = (os.stat(node).st_ino - before) % 65535
name = "/run/thole/notes/64999-0000abcd"
number = None
while number is None or number % 65535 != goal:
    fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    number = os.fstat(fd).st_ino
    os.close(fd)
    os.unlink(name)
"""


@in_one_surrounding
def test_no_number_of_files_makes_a_gpus_new_file_look_like_the_old_one(lab):
    """The numbers of a tmpfs count up, and anybody may make files in notes/: bits of a number he can have again. Nor where
    another one of the claim was taken back as well."""
    lab.init()
    alice = lab.start("alice", lab.program, "run", "--no-supervisor", "-g", "2", "--on", "2,3", "--", "sh", "-c",
                      "echo $THOLE_CLAIM; exec cat", container=False)
    inside = {"THOLE_CLAIM": alice.line(), "container": True}
    lab.init("--force", "--take-back", "2")
    node = f"/run/thole/gpu.{key_of(lab, 3)}"
    number = lambda: int(lab.run("root", "stat", "-c", "%i", node, check=True).stdout)   # noqa: E731
    old, new = number(), 0
    for made_by_init in range(1, 8):
        lab.python("root", MEETS, node, str(made_by_init), timeout=300, check=True)
        lab.thole("root", "init", "--force", "--take-back", "3")
        new = number()
        done = lab.thole("alice", "run", "--on", "3", "--no-wait", "--", "true", **inside)
        assert done.returncode == 69 and "was taken back by root" in done.stderr, (old, new, done.stderr)
        if new % 65535 == old % 65535:
            break
        bob = lab.hold("bob", "--on", "3")     # who is there to be taken from
    else:
        pytest.skip("these numbers do not count up")
    assert new != old
    end(alice)


@in_one_surrounding
def test_map_begins_no_task_more_on_a_gpu_that_was_taken_back(lab):
    lab.init()
    gate = gate_of(lab)
    task = f'echo "$0"; [ "$0" = second ] || cat {gate}'
    alice = lab.start("alice", lab.program, "map", "-j", "1", "--on", "3", "sh", "-c", task, ":::", "first", "second")
    with open(gate, "w"):                     # opened: the first task reads
        lab.init("--take-back", "3")
        bob = lab.hold("bob", "--on", "3")
    alice.error_until("GPU 3 was taken back by root")
    eventually(lab.waiters, "it lines up again")
    end(bob)
    assert alice.wait() == 0
    assert alice.process.stdout.read().split() == [b"first", b"second"]
    alice.__exit__()


@in_one_surrounding
def test_nor_does_anything_where_the_locks_of_the_claim_cannot_be_had(lab):
    """Processes of a container see neither the claim's keeper nor who has its locks."""
    lab.init()
    gate = gate_of(lab)
    alice = lab.start("alice", lab.program, "run", "--no-supervisor", "-g", "2", "--on", "2,3", "--", "sh", "-c",
                      "echo $THOLE_CLAIM; exec cat", container=False)
    inside = {"THOLE_CLAIM": alice.line(), "container": True}
    one = lab.thole("alice", "run", "--on", "3", "--no-wait", "--", "true", **inside)
    assert one.returncode == 0 and "is seen from here" in one.stderr, one.stderr
    task = f'echo "$0"; [ "$0" = second ] || cat {gate}'
    tasks = lab.start("alice", lab.program, "map", "-j", "1", "--on", "3", "sh", "-c", task, ":::", "first", "second", **inside)
    with open(gate, "w"):                     # opened: the first task reads
        lab.init("--take-back", "3")
        bob = lab.hold("bob", "--on", "3")
    assert tasks.wait() == 69
    told = " ".join(tasks.process.stderr.read().decode().split())
    assert "GPU 3 was taken back by root" in told and tasks.process.stdout.read().split() == [b"first"], told
    tasks.__exit__()
    for words in (["--on", "3"], ["-g", "2"]):
        done = lab.thole("alice", "run", *words, "--no-wait", "--", "true", **inside)
        assert done.returncode == 69 and "was taken back by root" in done.stderr, done.stderr
    assert lab.thole("alice", "run", "--on", "2", "--no-wait", "--", "true", **inside).returncode == 0
    end(bob)
    end(alice)


def in_second_look(lab, number):
    """The process that has this GPU's lock, stopped while it asks the driver once more."""
    node = f"/proc/{lab.keeper.pid}/root/run/thole/gpu.{key_of(lab, number)}"
    about = os.stat(node)
    file = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"   # other tests have such files, too

    def holders():
        lines = [line.split() for line in pathlib.Path("/proc/locks").read_text().splitlines()]
        return [int(words[-4]) for words in lines if "FLOCK" in words and words[-3] == file]

    pid = eventually(holders, "somebody has its lock")[0]
    os.kill(pid, signal.SIGSTOP)
    return pid


CLAIMS = """
import tholepin
try: tholepin.claim(1, on="0", wait=0); print("began", flush=True)
except tholepin.NoneFree: raise SystemExit(75)
"""
STARTS = """
import tholepin
group = tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[0]), wait=0)
group.add_process(1, tholepin.ProcessTemplate("echo", ["began"]))
try: group.init(); group.start(); group.join()
except tholepin.NoneFree: raise SystemExit(75)
"""


@pytest.mark.parametrize("words", [("run", "--no-wait", "--on", "0", "--", "echo", "began"),
                                   ("run", "--no-supervisor", "--no-wait", "--on", "0", "--", "echo", "began"),
                                   ("claim", "--no-wait", "--on", "0", "--shell"), CLAIMS, STARTS],
                         ids=["run", "no supervisor", "claim", "library", "group"])
@in_one_surrounding
def test_who_is_about_to_begin_on_a_gpu_that_is_taken_back_does_not(lab, words):
    """He has its lock, and looks once more at the driver: he goes back into line."""
    lab.init()
    slow = [f"delay_us nvmlDeviceGetComputeRunningProcesses{way} 1000000" for way in ("", "_v2", "_v3")]
    lab.driver.configure("gpus 4", *slow)
    lab._open_driver()
    alice = lab.start("alice", hostile.interpreter(), "-c", words) if isinstance(words, str) else \
        lab.start("alice", lab.program, *words)
    pid = in_second_look(lab, 0)
    assert "is taken back; " in lab.init("--take-back", "0").stderr
    lab.driver.configure("gpus 4")
    lab._open_driver()
    bob = lab.hold("bob", "--on", "0")
    os.kill(pid, signal.SIGCONT)
    out, told = alice.process.communicate(timeout=60)
    assert alice.process.returncode == 75 and b"began" not in out and b"THOLE_CLAIM" not in out, (out, told)
    end(bob)
    alice.__exit__()


@pytest.mark.parametrize("loses", ["ln {0} notes/61003-00000001", "ln {0} notes/61003-00000001; rm {0}"],
                         ids=["linked", "linked and deleted"])
@in_one_surrounding
def test_a_second_name_of_a_gpus_file_hides_no_taking_back(lab, loses):
    """Anybody may be able to give it one (fs.protected_hardlinks)."""
    lab.init()
    alice = lab.hold("alice", "--on", "3")
    claim = lab.claims()[0]["id"]
    lab.run("root", "sh", "-ec", f"cd /run/thole; {loses.format('gpu.' + key_of(lab, 3))}", check=True)
    assert "is taken back; " in lab.init("--take-back", "3").stderr
    done = lab.thole("alice", "run", "-g", "1", "--no-wait", "--", "true", THOLE_CLAIM=claim)
    assert done.returncode == 69 and "was taken back by root" in done.stderr, done.stderr
    end(alice)


MANY_NOTES = """
import fcntl, os, resource, struct, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (18100, 18100))
kept = []
for number in range(18000):
    kept.append(os.open(f"/run/thole/notes/{os.getuid()}-{number:08x}", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
    os.ftruncate(kept[-1], 512 * 512)
    fcntl.fcntl(kept[-1], 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 512 * 512, 0))    # F_OFD_SETLK
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["taken back", "deleted", "beside many notes of another"])
@in_one_surrounding
def test_a_claim_whose_gpu_leaves_the_list_after_that_is_known_by_its_others(lab, how):
    lab.init()
    alice = lab.start("alice", lab.program, "run", "-g", "2", "--on", "2,3", "--", "sh", "-c", "echo $THOLE_CLAIM; exec cat")
    claim, gone = alice.line(), key_of(lab, 3)
    if how == "deleted":
        lab.run("root", "rm", f"/run/thole/gpu.{gone}", check=True)
        lab.init()
    else:
        lab.init("--take-back", "3")
    lab.set_gpus(3)
    if how.startswith("beside"):
        with lab.start("bob", hostile.interpreter(), "-c", MANY_NOTES) as bob:
            assert bob.line() == "up"
            lab.init()
    lab.init()
    told = lab.thole("alice", "why", claim, check=True).stdout
    assert "GPU 2, claimed by alice" in told and ("taken back by root" in told) == (how != "deleted"), told
    inside = lab.thole("alice", "run", "--no-wait", "-q", "-g", "1", "--", "sh", "-c", "echo $THOLE_CLAIM", check=True,
                       THOLE_CLAIM=claim).stdout
    assert inside.startswith(claim + "/"), inside
    lab.thole("alice", "release", claim, check=True)
    alice.__exit__()
    lab.init()
    assert gone not in lab.run("root", "cat", "/run/thole/devices").stdout


@in_one_surrounding
def test_a_claim_whose_only_gpu_was_deleted_and_leaves_the_list_is_known_when_that_is_back(lab):
    lab.init()
    alice = lab.start("alice", lab.program, "run", "--on", "3", "--", "sh", "-c", "echo $THOLE_CLAIM; exec cat")
    claim = alice.line()
    lab.run("root", "rm", f"/run/thole/gpu.{key_of(lab, 3)}", check=True)
    for gpus in (3, 4):
        lab.set_gpus(gpus)
        lab.init()
    assert lab.thole("bob", "run", "--on", "3", "--no-wait", "--", "true").returncode == 69
    lab.thole("alice", "release", claim, check=True)
    alice.__exit__()
    lab.init()
    assert claims_one(lab, "bob", "--on", "3").returncode == 0


@in_one_surrounding
def test_no_later_init_makes_a_taking_back_forgotten(lab):
    """The whole of a GPU that is partitioned is no unit any more when it was taken back: the next init deletes its file."""
    lab.init()
    alice = lab.hold("alice", "--on", "3")
    lab.partition(3)
    lab.init()
    assert "is taken back; " in lab.init("--take-back", "3:0").stderr
    lab.init()
    assert alice.process.stdin.close() or alice.wait() == 0
    assert "GPU 3 was taken back by root" in " ".join(alice.process.stderr.read().decode().split())
    alice.__exit__()
    lab.init()
    assert f"gpu.{key_of(lab, 2)}" in (left := lab.run("root", "ls", "/run/thole").stdout)
    assert left.count("gpu.GPU-") == 3, left


# The record of an init that was killed before it wrote what it has made: it has the files of the one before.
OLD_RECORD = """
import re, sys
with open("/run/thole.lock", "r+") as record:
    old, number = re.subn(r"(?m)^(node gpu[.]\\S+ \\d+ \\d+) \\d+.*$", r"\\1 4711", record.read())
    record.seek(0); record.write(old); record.truncate()
    assert number == 4, (number, old)
"""


@pytest.mark.parametrize("record", ["whole", "old"])
@in_one_surrounding
def test_from_whom_a_gpu_was_taken_back_its_place_is_kept(lab, record):
    """Else, when it has left the list and comes back, it has another: then his note would be understood by nobody."""
    lab.init()
    if record == "old":
        lab.python("root", OLD_RECORD, check=True)
    alice = lab.start("alice", lab.program, "run", "--on", "3", "--", "sh", "-c", "env; echo up; exec cat")
    inside = variables_of(alice)
    lab.init("--take-back", "3")
    lab.set_gpus(3)
    lab.init()
    lab.partition(0)        # and four GPUs again: two instances take the places that are free
    lab.init()
    bob = lab.hold("bob", "--on", "3")
    refused = lab.thole("alice", "bind", "--local-rank", "0", "--ranks", "1", "--", "echo", "began", **inside)
    assert (refused.returncode, refused.stdout) == (69, "") and "GPU 3 was taken back by root" in refused.stderr, refused
    assert "GPU 3 was taken back by root" in lab.thole("alice", "why", inside["THOLE_CLAIM"], check=True).stdout
    end(bob)
    end(alice)
    lab.set_gpus(3)
    lab.init()
    assert lab.run("root", "grep", "-c", "GPU-", "/run/thole/devices").stdout == "3\n", "nobody needs it any more"


LOCKS_LATER = """
import fcntl, os, sys
node = os.open(sys.argv[1], os.O_RDWR)
print("up", flush=True)
sys.stdin.readline()
fcntl.flock(node, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
"""


@in_one_surrounding
def test_who_locks_an_old_file_and_has_claimed_nothing_keeps_no_place(lab):
    """Or a stranger would keep all, by the files of each time that GPUs are taken back and others come."""
    lab.init()
    alice = lab.hold("alice", "--on", "3")
    with lab.start("mallory", hostile.interpreter(), "-c", LOCKS_LATER, f"/run/thole/gpu.{key_of(lab, 3)}") as mallory:
        assert mallory.line() == "up"
        lab.init("--take-back", "3")
        end(alice)
        mallory.process.stdin.write(b"\n")
        mallory.process.stdin.flush()
        assert mallory.line() == "locked"
        lab.set_gpus(3)
        lab.init()
        assert lab.run("root", "grep", "-c", "GPU-", "/run/thole/devices").stdout == "3\n"
        end(mallory)

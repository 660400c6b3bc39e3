# ctest: timeout 900
"""What a user says of his claims is believed from himself alone, and as long as his claim lives (src/host/claims/notes.hpp).

mallory writes whatever he can write; bob and alice are honest. Each test is one promise of docs/security.md.
"""
import json
import pathlib
import re
import signal

import pytest

from hostile import USERS, end, lab, supervisor_of  # noqa: F401 (lab: a fixture)
from run_tools import eventually

FORGING = pathlib.Path(__file__).with_name("forging.py").read_text()
SHARED, WITH_ANY, OVERDUE = 1, 2, 8
LATER = 4_000_000_000_000                                     # milliseconds, in the year 2096
in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# Carries out what it reads, and says with which status.
OBEDIENT = 'echo "up $THOLE_CLAIM $CUDA_VISIBLE_DEVICES"; while read -r line; do eval "$line"; echo "did $?"; done'
SHOW = "sh -c 'echo got $CUDA_VISIBLE_DEVICES'"


class Inside:
    """A claim with a shell inside that does as it is told."""

    def __init__(self, lab, user, *words):
        self.lab, self.program = lab, lab.program
        self.started = lab.start(user, lab.program, "run", *words, "--", "sh", "-c", OBEDIENT)
        up = (self.started.line() or "").split()
        assert up and up[0] == "up", self.started.process.stderr.read().decode()
        self.claim, self.gpus = up[1], up[2].split(",")

    def does(self, command):
        """Its output's lines, and its status."""
        self.started.write(command + "\n")
        lines = []
        while not (line := self.started.line() or "").startswith("did "):
            assert line or self.started.process.poll() is None, "the shell inside has ended"
            lines.append(line)
        return lines, int(line.split()[1])

    def claims(self, number):
        """The GPUs that a claim within gets at once, or the status with which it is refused."""
        lines, status = self.does(f"{self.program} run --no-wait -g {number} -- {SHOW} 2>&1")
        got = [line.split()[1].split(",") for line in lines if line.startswith("got")]
        return got[0] if got else status

    def end(self):
        end(self.started)


def forge(lab, *words):
    lab.python("mallory", FORGING, "who", *map(str, words), check=True)


def forge_notes(lab, claim="00000000deadbeef", pid=1, flags=0, memory=1, until=LATER, command="xmrig --coin"):
    return lab.start_python("mallory", FORGING, "notes", claim, str(pid), str(flags), str(memory), str(until), command)


def assert_at_home(inside):
    """Those who claim within get units of their own claim, and no other."""
    assert inside.claims(1) == inside.gpus
    assert inside.claims(2) == 64, "more than the claim has"


# Claims within claims.

@pytest.mark.parametrize("supervisors", ["alive", "killed"])
def test_no_record_lends_a_nested_claim_anothers_gpu(lab, supervisors):
    lab.init()
    alice, bob = Inside(lab, "alice", "-g", "1"), Inside(lab, "bob", "-g", "1")
    assert alice.gpus != bob.gpus
    if supervisors == "killed":
        for claimer in (alice, bob):
            lab.run("root", "kill", "-9", str(supervisor_of(claimer.started)), container=False, check=True)
    assert_at_home(alice)
    holder = supervisor_of(bob.started) if supervisors == "alive" else 1
    forge(lab, alice.claim, USERS["alice"], holder, 0, 0, LATER, "python train.py")
    assert_at_home(alice)
    mallory = forge_notes(lab, alice.claim, holder)
    assert_at_home(alice)
    assert_at_home(bob)
    end(mallory)
    if supervisors == "alive":
        bob.end(), alice.end()
        return
    for claimer in (alice, bob):
        claimer.started.process.stdin.close()
    eventually(lambda: not lab.claims(), "what went on without a supervisor has ended")


@pytest.mark.parametrize("damage", ["truncate -s 0", "sh -c 'head -c 70000 /dev/urandom >\"$0\"'"])
def test_nothing_that_anybody_does_to_who_touches_nested_claims(lab, damage):
    lab.init()
    alice = Inside(lab, "alice", "-g", "4")
    assert lab.run("mallory", "sh", "-c", f"{damage} /run/thole/who").returncode == 0
    assert len(alice.claims(1)) == 1 and len(alice.claims(4)) == 4
    alice.end()


def test_a_note_with_anothers_claim_id_adds_nothing_to_that_claim(lab):
    lab.init()
    alice = Inside(lab, "alice", "-g", "1")
    mallory_holds = lab.hold("mallory", "-g", "1")
    mallory = forge_notes(lab, alice.claim, 1)
    joined = lab.thole("alice", "run", "--in", alice.claim, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", check=True)
    assert joined.stdout.strip().split(",") == alice.gpus
    assert_at_home(alice)
    assert lab.thole("alice", "release", alice.claim).returncode == 0
    end(mallory)
    end(mallory_holds)
    alice.started.wait()


def test_a_claim_within_works_when_notes_are_full(lab):
    lab.init()
    first = Inside(lab, "alice", "-g", "1")
    total, free = map(int, lab.run("root", "stat", "-f", "-c", "%c %d", "/run", check=True).stdout.split())
    lab.run("root", "mount", "-o", f"remount,nr_inodes={total - free + 20}", "/run", check=True)
    full = lab.run("mallory", "sh", "-c", "i=0; while : > /run/thole/notes/61003-$i; do i=$((i+1)); done")
    assert "No space left" in full.stderr
    bob = Inside(lab, "bob", "-g", "2")                        # his first claim: he has no file yet
    assert len(bob.claims(1)) == 1 and len(bob.claims(2)) == 2 and bob.claims(3) == 64
    assert_at_home(first)
    refused = lab.thole("bob", "run", "--share", "--memory", "1G", "--no-wait", "--", "true")
    assert refused.returncode == 69 and "nothing is shared" in refused.stderr, refused.stderr
    assert lab.thole("bob", "release", bob.claim).returncode == 0, "its owner finds it all the same"
    bob.started.wait()
    first.end()


def test_full_bytes_cost_only_names_and_sharing(lab):
    lab.init()
    full = lab.run("mallory", "dd", "if=/dev/zero", "of=/run/thole/notes/61003-00000000", "bs=4k")
    assert "No space left" in full.stderr
    bob = Inside(lab, "bob", "-g", "1")
    assert_at_home(bob)
    assert lab.thole("alice", "run", "--no-wait", "-g", "3", "--", "true").returncode == 0
    bob.end()


def test_read_locks_on_every_file_stop_nobody(lab):
    lab.init()
    for user in ("alice", "bob"):
        lab.thole(user, "run", "--", "true", check=True)       # now they have files of notes, which he locks too
    mallory = lab.start_python("mallory", FORGING, "read-lock")
    alice = Inside(lab, "alice", "-g", "1")
    assert_at_home(alice)
    share = ["--share", "--share-with", "any", "--memory", "10G", "--no-wait"]
    bob = lab.hold("bob", *share)
    claims = lab.claims()
    assert all(claim["verified"] and not claim["shared"] for claim in claims), "bob has his alone: the places are read-locked"
    assert sorted(claim["user"] for claim in claims) == ["alice", "bob"]
    end(mallory)
    end(bob)
    alice.end()


# For each line that it reads: a read lock on all files of the user sys.argv[1], but for the bytes that their owner has locked.
READ_LOCKS = """
import fcntl, os, struct, sys
kept, whose, kind = {}, sys.argv[1] + "-", sys.argv[2]
def lock(fd, byte):
    if kind == "of a process": fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 0, byte)
    else: fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, byte, 0, 0))     # F_OFD_SETLK
print("up", flush=True)
for line in sys.stdin:
    for name in os.listdir("/run/thole/notes"):
        if not name.startswith(whose) or name in kept: continue
        kept[name] = os.open("/run/thole/notes/" + name, os.O_RDONLY | os.O_NONBLOCK)
        try: lock(kept[name], 0)
        except OSError: lock(kept[name], 2)
    print("did", flush=True)
"""


def read_lock_all(mallory):
    mallory.write("now\n")
    assert mallory.line() == "did"


BESIDE = ["run", "--share", "--share-with", "any", "--memory", "2G", "--no-wait", "--on"]


@in_one_surrounding
def test_files_that_somebody_read_locks_do_not_pile_up(lab):
    lab.init()
    bob = lab.hold("bob", "--share", "--share-with", "any", "--memory", "10G")
    on = str(lab.claims()[0]["gpu"])
    mallory = lab.start_python("mallory", READ_LOCKS, str(USERS["alice"]), "of an open file")
    for _ in range(20):
        lab.thole("alice", "run", "--no-wait", "--", "true", check=True)
        read_lock_all(mallory)
    assert lab.thole("root", *BESIDE, on, "--", "true").returncode == 0
    said = lab.thole("mallory", "status").stdout + lab.thole("mallory", "why", on).stdout + lab.thole("root", "doctor").stdout
    assert "alice" not in said, said
    assert lab.run("root", "sh", "-c", f"ls /run/thole/notes/{USERS['alice']}-* | wc -l").stdout.strip() == "1"
    end(mallory)
    end(bob)


@pytest.mark.parametrize("kind", ["of a process", "of an open file"])
@in_one_surrounding
def test_who_read_locks_anothers_files_stops_no_sharing(lab, kind):
    """Each claim of hers needs a file of its own, and so many files of one user nobody reads."""
    lab.init()
    bob = lab.hold("bob", "--share", "--share-with", "any", "--memory", "10G", "--on", "0")
    mallory = lab.start_python("mallory", READ_LOCKS, str(USERS["alice"]), kind)
    alices = []
    for number in range(17):
        alices.append(lab.hold("alice", "--share", "--memory", "1G", "--on", str(1 + number % 3)))
        read_lock_all(mallory)
    assert lab.thole("root", *BESIDE, "0", "--", "true").returncode == 0
    assert {claim["user"] for claim in lab.claims("bob") if claim["gpu"] == 0} == {"bob"}
    end(mallory)
    for held in [*alices, bob]:
        end(held)


@in_one_surrounding
def test_what_is_planted_among_the_notes_is_passed_over(lab):
    lab.init()
    uid = USERS["alice"]
    lab.run("mallory", "sh", "-ec", f"cd /run/thole/notes; mkfifo -m 666 {uid}-0000000a; ln -s /etc/passwd {uid}-0000000b; "
            f"mkdir {uid}-0000000c; echo x > {uid}-0000000d; chmod 666 {uid}-0000000d", check=True)
    alice = Inside(lab, "alice", "-g", "1")
    assert_at_home(alice)
    assert [claim["verified"] for claim in lab.claims("bob")] == [True]
    alice.end()


SECRET = "yes secret | head -c 3000"
COPY = "cat /run/thole/notes/61001-*"                          # looks like notes, and was never made as such


@pytest.mark.parametrize("content,mode", [(SECRET, "0600"), (SECRET, "0644"), (SECRET, "01644"),
                                          ("head -c 1024 /dev/zero", "01644"),
                                          ("true", "0600"), ("true", "01644"), (COPY, "0600")])
@in_one_surrounding
def test_a_file_of_mine_that_somebody_moves_among_the_notes_is_left_as_it_is(lab, content, mode):
    """Who owns a directory that another writes to can move the other's files."""
    lab.init()
    lab.thole("alice", "run", "--", "true", check=True)
    lab.run("mallory", "sh", "-ec", "mkdir /run/lock/m; chmod 777 /run/lock/m", check=True)
    lab.run("alice", "sh", "-ec", f"umask 077; {content} > /run/lock/m/mine; "
            f"chmod {mode} /run/lock/m/mine; rm /run/thole/notes/*", check=True)
    lab.run("mallory", "mv", "/run/lock/m/mine", "/run/thole/notes/61001-00000000", check=True)
    seen = "stat -c '%a %s %i' /run/thole/notes/61001-00000000; cksum < /run/thole/notes/61001-00000000"
    before = lab.run("root", "sh", "-ec", seen, check=True).stdout
    alice = lab.hold("alice")
    lab.thole("alice", "run", "--", "true", check=True)
    assert [claim["verified"] for claim in lab.claims("bob")] == [True], "she notes it elsewhere"
    assert lab.run("root", "sh", "-ec", seen, check=True).stdout == before
    end(alice)


# Names.

def test_a_forged_note_is_never_shown_as_verified(lab):
    lab.init()
    alice = lab.hold("alice", "-g", "1")
    pid = supervisor_of(alice)
    forge(lab, lab.claims()[0]["id"], USERS["alice"], pid, 0, 0, LATER, "xmrig --coin")
    mallory = forge_notes(lab, lab.claims()[0]["id"], pid)
    for user in ("bob", "root", "mallory"):
        claims = lab.claims(user)
        assert len(claims) == 1
        assert "xmrig" not in json.dumps(claims) and claims[0]["until"] is None
        if claims[0]["verified"]:
            assert claims[0]["user"] == "alice"
        shown = lab.thole(user, "status").stdout + lab.thole(user, "why", str(claims[0]["gpu"])).stdout
        assert "xmrig" not in shown
    end(mallory)
    assert [(claim["user"], claim["verified"]) for claim in lab.claims("bob")] == [("alice", True)]
    end(alice)


def test_nobody_is_made_to_look_overdue(lab):
    lab.init()
    forge(lab, "00000000deadbeef", USERS["alice"], 1, OVERDUE, 0, 1, "python train.py")
    mallory = forge_notes(lab, pid=1, flags=OVERDUE, until=1)
    status = lab.status("bob")
    assert not [claim for claim in status["claims"] if claim["overdue"]]
    assert lab.thole("bob", "run", "--no-wait", "-g", "4", "--", "true").returncode == 0
    assert not re.search(r"claimed by *($|;|,)", lab.thole("bob", "why", "-g", "4").stdout, re.MULTILINE)
    end(mallory)


def test_who_holds_without_a_note_is_unknown_or_unverified(lab):
    lab.init()
    node = lab.run("root", "sh", "-c", "ls /run/thole/gpu.* | head -1").stdout.strip()
    mallory = lab.lock("mallory", node)
    forged = lab.start_python("bob", FORGING, "notes", "00000000deadbeef", "1", "0", "0", str(LATER), "not mine")
    claim, = lab.claims("alice")
    if "container" in lab.words:                               # she sees nobody behind the lock, and one live note
        assert claim["user"] == "bob"
    else:
        assert not claim["verified"] and claim["user"] == "mallory", "the kernel knows who took it"
    shown = lab.thole("alice", "why", str(claim["gpu"])).stdout
    assert not re.search(r"claimed by *$", shown, re.MULTILINE), shown
    end(forged)
    claim, = lab.claims("alice")
    assert not claim["verified"] and not claim["id"]
    shown = lab.thole("alice", "why", str(claim["gpu"])).stdout
    assert not re.search(r"claimed by *$", shown, re.MULTILINE), shown
    end(mallory)


BECOMES = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
fcntl.flock(fd, fcntl.LOCK_EX)
os.set_inheritable(fd, True)
print("up", flush=True)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_who_runs_a_program_of_roots_with_a_lock_is_named_and_not_root(lab):
    """su that waits for a password, say."""
    lab.init()
    node = lab.run("root", "sh", "-c", "ls /run/thole/gpu.* | head -1").stdout.strip()
    program = lab.program + "-of-root"
    lab.run("root", "sh", "-ec", f"cp $(command -v cat) {program}; chmod 4755 {program}", check=True)
    mallory = lab.start_python("mallory", BECOMES, node, program)
    pid = lab.claims()[0]["pid"]
    eventually(lambda: lab.run("root", "stat", "-c", "%u", f"/proc/{pid}").stdout.strip() == "0", "it is root's")
    for user in ("root", "bob"):
        assert [(claim["user"], claim["verified"]) for claim in lab.claims(user)] == [("mallory", False)], user
    end(mallory)


@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_the_name_stays_when_the_supervisor_is_killed(lab):
    lab.init()
    alice = lab.hold("alice", "-g", "1")
    alice.kill(signal.SIGKILL)
    alice.wait()
    for user in ("bob", "root"):
        assert [(claim["user"], claim["verified"]) for claim in lab.claims(user)] == [("alice", True)]
    alice.process.stdin.close()
    eventually(lambda: not lab.claims(), "the command has ended")


# Sharing.

def test_nobody_agrees_to_share_for_another(lab):
    lab.init()
    alice = lab.hold("alice", "--share", "--memory", "40G")
    on = str(lab.claims()[0]["gpu"])
    beside = ["run", "--share", "--share-with", "any", "--memory", "2G", "--on", on, "--no-wait", "--", "true"]
    assert lab.thole("bob", *beside).returncode == 75
    forge(lab, "00000000deadbeef", USERS["alice"], supervisor_of(alice), WITH_ANY, 1, 0, "python train.py")
    assert lab.thole("bob", *beside).returncode == 75
    mallory = forge_notes(lab, flags=WITH_ANY)
    assert lab.thole("bob", *beside).returncode == 75
    lab.run("mallory", "truncate", "-s", "0", "/run/thole/who", check=True)
    assert lab.thole("bob", *beside).returncode == 75
    lab.thole("alice", "run", "--share", "--memory", "2G", "--on", on, "--no-wait", "--", "true", check=True)
    end(mallory)
    end(alice)


def test_nobody_makes_anothers_share_smaller(lab):
    lab.init()
    alice = lab.hold("alice", "--share", "--share-with", "any", "--memory", "40G")
    on = str(lab.claims()[0]["gpu"])
    large, small = (["run", "--share", "--share-with", "any", "--memory", size, "--on", on, "--no-wait", "--", "true"]
                    for size in ("75G", "2G"))
    assert (lab.thole("bob", *large).returncode, lab.thole("bob", *small).returncode) == (75, 0)
    forge(lab, "00000000deadbeef", USERS["alice"], supervisor_of(alice), WITH_ANY, 1, 0, "python train.py")
    assert lab.thole("bob", *large).returncode == 75
    mallory = forge_notes(lab, flags=WITH_ANY)
    assert lab.thole("bob", *large).returncode == 75
    assert lab.thole("bob", *small).returncode == 0
    assert {(claim["user"], claim["verified"]) for claim in lab.claims("bob")} == {("alice", True)}
    end(mallory)
    assert lab.thole("bob", *small).returncode == 0
    end(alice)


def test_whose_note_is_lost_has_nobody_beside_him_by_anothers(lab):
    lab.init()
    alice = lab.hold("alice", "--share", "--memory", "40G")
    on = str(lab.claims()[0]["gpu"])
    lab.run("root", "sh", "-c", "rm /run/thole/notes/*", check=True)
    mallory = forge_notes(lab, flags=WITH_ANY)
    beside = ["run", "--share", "--share-with", "any", "--memory", "2G", "--on", on, "--no-wait", "--", "true"]
    assert lab.thole("bob", *beside).returncode == 75
    end(mallory)
    end(alice)


MANY = """
import fcntl, os, struct, sys
for number in range(17):
    fd = os.open(f"/run/thole/notes/61003-{number:08x}", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(fd, b"x")
    fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))      # F_OFD_SETLK
print("up", flush=True); sys.stdin.read()
"""
LEASE = """
import fcntl, os, signal, sys
fd = os.open("/run/thole/notes/61003-00000001", os.O_RDWR | os.O_CREAT, 0o644)
os.write(fd, b"x")
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("up", flush=True); sys.stdin.read()
"""


@pytest.mark.parametrize("what", [MANY, LEASE], ids=["many", "leased"])
@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_notes_that_nobody_can_read_stop_no_sharing(lab, what):
    lab.init()
    alice = lab.hold("alice", "--share", "--share-with", "any", "--memory", "10G")
    on = str(lab.claims()[0]["gpu"])
    beside = ["run", "--share", "--share-with", "any", "--memory", "2G", "--on", on, "--no-wait", "--", "true"]
    assert lab.thole("bob", *beside).returncode == 0
    mallory = lab.start_python("mallory", what)
    for user in ("alice", "bob"):
        assert lab.thole(user, *beside).returncode == 0
    assert "leave room" in lab.thole("bob", "why", on).stdout
    end(mallory)
    end(alice)


def test_a_sharer_whose_supervisor_is_dead_is_counted_as_before(lab):
    lab.init()
    alice = lab.hold("alice", "--share", "--memory", "40G")
    on = str(lab.claims()[0]["gpu"])
    lab.run("root", "kill", "-9", str(supervisor_of(alice)), container=False, check=True)
    beside = ["run", "--share", "--share-with", "any", "--on", on, "--no-wait"]
    assert lab.thole("bob", *beside, "--memory", "2G", "--", "true").returncode == 75
    own = ["run", "--share", "--on", on, "--no-wait"]
    assert lab.thole("alice", *own, "--memory", "75G", "--", "true").returncode == 75
    assert lab.thole("alice", *own, "--memory", "2G", "--", "true").returncode == 0
    alice.process.stdin.close()
    eventually(lambda: not lab.claims(), "the command has ended")

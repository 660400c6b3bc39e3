# ctest: timeout 900
"""A personal directory that is lost under living claims while a stranger has its name, so that the next one has another: nobody
becomes a second owner, and all is well when the claims have ended."""
import json

import pytest

from hostile import USERS, end, lab  # noqa: F401 (lab: a fixture)
from init_tools import in_one_surrounding
from run_tools import eventually
from test_hostile_places import KINDS, plant

NAME = f"/tmp/thole-{USERS['alice']}"
OWN = ("find", "/tmp", "-maxdepth", "1", "-type", "d", "-user", "alice", "-name", f"thole-{USERS['alice']}*")
LOST = {"deleted": "rm -r {0}", "moved": "mv {0} /tmp/elsewhere",
        "emptied and deleted": "find {0} -mindepth 1 -delete; rmdir {0}"}
SIMULATED = ("--machine", "4xA100")
CLAIM = ("run", "-q", "--no-wait", "-g", "1", "--", "echo", "mine")


def own_directory(lab):
    (path,) = lab.run("root", *OWN, check=True).stdout.split()
    return path


def lose(lab, way="deleted"):
    lab.run("alice", "sh", "-ec", LOST[way].format(own_directory(lab)), check=True)


def hold(lab, *words, **variables):
    started = lab.start("alice", lab.program, *words, "--", "sh", "-c", "echo up; exec cat", **variables)
    assert started.line() == "up", started.process.stderr.read().decode()
    return started


def refused(lab, done, held=None):
    assert done.returncode == 69 and done.stdout == "" and "deleted while GPUs" in done.stderr, (done.stdout, done.stderr)
    if held and "container" not in lab.words:               # where its number is another
        assert str(held.pid) in done.stderr, done.stderr


def told_to_who_looks(lab):
    status = json.loads(lab.thole("alice", *SIMULATED, "status", "--json").stdout)
    assert "deleted while GPUs" in status["claims_problem"], status["claims_problem"]
    assert {unit["state"] for unit in status["units"]} == {"unknown"}, status["units"]


@pytest.mark.parametrize("way", LOST)
@pytest.mark.parametrize("kind", KINDS)
@in_one_surrounding
def test_what_is_lost_while_a_stranger_takes_the_name_gets_no_second_owner(lab, kind, way):
    lab.init()
    outer = lab.hold("alice", gpus=2)
    inside = {"THOLE_CLAIM": lab.claims()[0]["id"]}
    inner = hold(lab, "run", "-q", "-g", "1", **inside)
    simulated = hold(lab, *SIMULATED, "run", "-q", "-g", "1")
    lose(lab, way)
    plant(lab, "alice", kind)
    lab.run("mallory", "mkdir", f"{NAME}/machine-4xA100")   # where she can
    told_to_who_looks(lab)
    for _ in range(2):                                      # the second one finds what the first one has made
        refused(lab, lab.thole("alice", *CLAIM, **inside), inner)
        refused(lab, lab.thole("alice", *SIMULATED, *CLAIM), simulated)
    assert own_directory(lab).startswith(NAME + "-")
    assert lab.thole("alice", *CLAIM).stdout == "mine\n", "of the machine's other GPUs"
    told_to_who_looks(lab)
    end(inner)
    end(simulated)
    eventually(lambda: lab.thole("alice", *CLAIM, **inside).stdout == "mine\n", "the claim inside has ended")
    eventually(lambda: lab.thole("alice", *SIMULATED, *CLAIM).stdout == "mine\n", "the simulated one has ended")
    end(outer)


@pytest.mark.parametrize("given_back", [False, True])
@pytest.mark.parametrize("lab", ["plain runtime", "hidepid", "container"], indirect=True)
def test_what_is_lost_under_a_number_gets_no_second_owner(lab, given_back):
    lab.init()
    planted = plant(lab, "alice")
    outer = lab.hold("alice", gpus=2)
    inside = {"THOLE_CLAIM": lab.claims()[0]["id"]}
    inner = hold(lab, "run", "-q", "-g", "1", **inside)
    simulated = hold(lab, *SIMULATED, "run", "-q", "-g", "1")
    assert own_directory(lab).startswith(NAME + "-")
    lose(lab)
    if given_back:
        lab.run("mallory", "rmdir", planted, check=True)
    refused(lab, lab.thole("alice", *CLAIM, **inside), inner)
    refused(lab, lab.thole("alice", *SIMULATED, *CLAIM), simulated)
    assert (own_directory(lab) == NAME) == given_back
    end(inner)
    end(simulated)
    eventually(lambda: lab.thole("alice", *CLAIM, **inside).stdout == "mine\n", "the claim inside has ended")
    end(outer)


@pytest.mark.parametrize("lost", ["control", "directory"])
@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_who_keeps_a_claim_that_cannot_be_asked_is_named_and_his_end_ends_it(lab, lost):
    lab.init()
    claim = lab.thole("alice", "claim", "-q", "-g", "1", check=True).stdout.strip()
    gone = f"{NAME}/*/control" if lost == "control" else NAME
    lab.run("root", "sh", "-ec", f"rm -r {gone}", check=True)
    (pid,) = {kept["pid"] for kept in lab.claims()}
    for user, words in (("alice", ("extend", claim, "1h")), ("alice", ("release", claim)), ("root", ("release", claim))):
        done = lab.thole(user, *words)
        assert done.returncode == 69 and f"kill {pid} ends it" in done.stderr, done.stderr
    lab.run("alice", "kill", str(pid), check=True)
    eventually(lambda: lab.claims() == [], "the claim has ended")


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_why_says_that_a_beginning_of_an_id_is_too_short(lab):
    lab.init()
    held = lab.hold("alice")
    claim = lab.claims("alice")[0]["id"]
    assert f"claim {claim}" in lab.thole("bob", "why", claim[:6]).stdout
    for beginning in (claim[:digits] for digits in range(2, 6)):
        if beginning.isdigit() and int(beginning) < 4:
            continue                                        # a GPU's number
        done = lab.thole("bob", "why", beginning)
        assert done.returncode == 64 and "give at least 6 digits" in done.stderr, done.stderr
    end(held)


# A process of long life, which has looked where its directory is before that is lost.
LONG = """
import os, sys
import tholepin
os.environ["THOLE_MACHINE"] = "4xA100"
tholepin.claim(1, wait=0).release()
print("up")
for line in sys.stdin:
    try:
        claim = tholepin.claim(int(line), wait=0)
        print("claimed")
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("planted_first", [False, True])
@in_one_surrounding
def test_processes_of_before_and_after_meet_in_one_directory(lab, planted_first):
    if planted_first:
        plant(lab, "alice")
    before = lab.start_python("alice", LONG)
    lose(lab)
    if not planted_first:
        plant(lab, "alice")
    assert lab.thole("alice", *SIMULATED, *CLAIM).stdout == "mine\n"
    new = own_directory(lab)
    before.process.stdin.write(b"4\n")
    before.process.stdin.flush()
    assert before.line() == "claimed"
    assert own_directory(lab) == new, "and no second one"
    assert lab.thole("alice", *SIMULATED, *CLAIM).returncode == 75
    end(before)


# A stranger's directory that has our name, in which she has all locks that a claim of ours would have there.
GUARDED = """
import fcntl, os, struct, sys
def fnv(text):
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2 ** 64
    return value
root, name = sys.argv[1:]
os.mkdir(root, 0o700); os.chmod(root, 0o777)
begin, length = fnv(name) >> 2, 1 + fnv(root + "/" + name) % 2 ** 32
place = os.open(root, os.O_RDONLY)
fcntl.fcntl(place, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, begin, length, 0))   # F_OFD_SETLK
print("up")
sys.stdin.read()
"""


@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_a_guard_that_a_stranger_keeps_in_the_place_of_ones_directory_stops_nobody(lab):
    guard = lab.start_python("mallory", GUARDED, NAME, "machine-4xA100")
    status = json.loads(lab.thole("alice", *SIMULATED, "status", "--json", check=True).stdout)
    assert not status["claims_problem"] and {unit["state"] for unit in status["units"]} == {"idle"}, status
    assert lab.thole("alice", *SIMULATED, *CLAIM).stdout == "mine\n"
    lose(lab)
    assert lab.thole("alice", *SIMULATED, *CLAIM).stdout == "mine\n"
    end(guard)

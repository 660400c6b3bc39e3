"""Which claim a word means: a GPU's number is never the beginning of somebody's id, and a note with another's id names nobody
else's."""
import pathlib

import pytest

from hostile import USERS, end, lab, supervisor_of  # noqa: F401 (the fixture)
from init_tools import IN_A_SOCKET, key_of

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# A live note with the id sys.argv[1] over GPU 3, which is really held by who writes it.
SAME_ID = pathlib.Path(__file__).with_name("forging.py").read_text().split("if __name__")[0] + """
gpu = os.open("/run/thole/gpu." + devices()[3], os.O_RDWR | os.O_NONBLOCK)
fcntl.flock(gpu, fcntl.LOCK_EX)
forge_notes([note(sys.argv[1], os.getpid(), 0, 0, 4102444800000, "train", 0)])
"""

# The same of a place of GPU 0, which is shared: its locks, too, say that it is of the claim sys.argv[1]
# (src/host/claims/share_terms.hpp).
SAME_ID_BESIDE = pathlib.Path(__file__).with_name("forging.py").read_text().split("if __name__")[0] + """
import glob
key, berth = devices()[0], 4
gpu = os.open("/run/thole/gpu." + key, os.O_RDWR | os.O_NONBLOCK)
fcntl.flock(gpu, fcntl.LOCK_SH)
fcntl.fcntl(gpu, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, berth - 1, 1, 0))            # F_OFD_SETLK
place = os.open(glob.glob(f"/run/thole/share.*{key}*.{berth - 1}")[0], os.O_RDWR | os.O_NONBLOCK)
fcntl.flock(place, fcntl.LOCK_EX)
claim = 14695981039346656037
for byte in sys.argv[1].encode(): claim = ((claim ^ byte) * 1099511628211) & MASK
fcntl.fcntl(place, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, (((claim >> 34) << 1) | 1) << 32, 1024, 0))
forge_notes([note(sys.argv[1], os.getpid(), WITH_ANY, 1024, 4102444800000, "train", berth)])
"""


def hold_with_an_id_that_begins_like(lab, user, gpu, digits):
    """Ids are random: a claim on this GPU is made until one begins so."""
    for _ in range(400):
        held = lab.hold(user, "--on", str(gpu))
        claim = next(claim for claim in lab.claims() if claim["gpu"] == gpu)
        if claim["id"][0] in digits:
            return held, claim
        end(held)
    raise AssertionError("no id begins so")


@in_one_surrounding
@pytest.mark.parametrize("who", ["root", "alice"])
def test_a_gpus_number_names_the_claim_on_that_gpu_and_no_id_that_begins_so(lab, who):
    lab.init()
    alice, hers = hold_with_an_id_that_begins_like(lab, "alice", 3, "012")
    digit = hers["id"][0]
    for words in (["release", digit], ["extend", digit, "2h"], ["run", "--in", digit, "--", "true"]):
        done = lab.thole(who, *words)
        assert done.returncode == 64 and "no such claim" in done.stderr, (words, done.stderr)
    assert [claim["id"] for claim in lab.claims()] == [hers["id"]]
    bob = lab.hold("bob", "--on", digit)
    there = next(claim for claim in lab.claims() if claim["user"] == "bob")
    done = lab.thole(who, "release", digit)
    assert done.returncode == (0 if who == "root" else 69), done.stderr
    assert there["id"] in done.stderr and hers["id"] not in done.stderr, "the claim on that GPU is meant"
    assert hers["id"] in [claim["id"] for claim in lab.claims()]
    for name in (hers["id"][:6], "3"):
        done = lab.thole(who, "extend", name, "2h")
        assert done.returncode == 0 and hers["id"] in done.stderr, (name, done.stderr)
    assert lab.thole(who, "release", hers["id"][:5]).returncode == 64
    assert lab.thole(who, "release", hers["id"][:6]).returncode == 0
    assert hers["id"] not in [claim["id"] for claim in lab.claims()]
    alice.__exit__()
    bob.__exit__()


@in_one_surrounding
def test_a_note_with_anothers_id_keeps_root_from_nothing(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "0")
    hers = lab.claims()[0]
    mallory = lab.start_python("mallory", SAME_ID, hers["id"])
    assert [claim["user"] for claim in lab.claims() if claim["id"] == hers["id"]] == ["alice", "mallory"]
    done = lab.thole("root", "release", hers["id"])
    assert done.returncode == 64, done.stderr
    assert "alice" in done.stderr and "mallory" in done.stderr and "CLAIM@USER" in done.stderr
    assert lab.thole("root", "release", "0").returncode == 0
    assert [claim["user"] for claim in lab.claims()] == ["mallory"]
    end(mallory)
    alice.__exit__()


@in_one_surrounding
def test_a_sharers_claim_is_named_with_its_user_where_another_sharer_has_its_id(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "0", "--share", "--share-with", "any", "--memory", "4G", "--time", "1h")
    hers = lab.claims()[0]
    mallory = lab.start_python("mallory", SAME_ID_BESIDE, hers["id"])
    assert [claim["user"] for claim in lab.claims() if claim["id"] == hers["id"]] == ["alice", "mallory"]
    for word in (hers["id"], "0"):
        done = lab.thole("root", "release", word)
        assert done.returncode == 64 and "CLAIM@USER" in done.stderr, done.stderr
    assert "no such claim" in lab.thole("root", "release", f"{hers['id']}@bob").stderr
    for word in (f"{hers['id']}@alice", f"0@{USERS['alice']}"):
        assert lab.thole("root", "extend", word, "2h").returncode == 0
    for word, user in ((f"{hers['id']}@alice", "alice"), ("0@mallory", "mallory"), (f"0@{USERS['alice']}", "alice")):
        said = lab.thole("bob", "why", word)
        assert said.returncode == 0 and f"claim {hers['id']}: GPU 0, shared by {user}" in said.stdout, (word, said)
    said = lab.thole("bob", "why", "0@bob")
    assert said.returncode == 64 and "no such claim: 0@bob" in said.stderr, said.stderr
    done = lab.thole("bob", "release", "0@alice")
    assert done.returncode == 69 and "is alice's" in done.stderr, done.stderr
    assert lab.thole("root", "release", f"{hers['id'][:8]}@alice").returncode == 0
    assert [claim["user"] for claim in lab.claims()] == ["mallory"]
    end(mallory)
    alice.__exit__()


@in_one_surrounding
def test_who_would_release_a_lock_without_a_note_is_told_who_to_ask(lab):
    lab.init()
    mallory = lab.lock("mallory", f"/run/thole/gpu.{key_of(lab)}")
    for user in ("root", "alice"):
        done = lab.thole(user, "release", "0")
        assert done.returncode == 64 and "0 is held, and nothing says by which claim: thole why 0" in done.stderr, done.stderr
    assert str(supervisor_of(mallory)) in lab.thole("root", "why", "0").stdout
    end(mallory)


def socket_of(lab, user, gpu):
    claim = next(claim for claim in lab.claims(user) if claim["gpu"] == gpu)
    return f"/tmp/thole-{USERS[user]}/{claim['id']}/control"


@pytest.mark.parametrize("words", [("release", "3"), ("extend", "3", "99h"), ("run", "--in", "3", "--", "true")],
                         ids=lambda words: words[0])
@in_one_surrounding
def test_a_link_in_the_place_of_a_socket_leads_root_to_nobody_elses(lab, words):
    lab.init()
    alice = lab.hold("alice", "--on", "0", "--time", "1h")
    mallory = lab.hold("mallory", "--on", "3")
    hers, mine = socket_of(lab, "alice", 0), socket_of(lab, "mallory", 3)
    lab.run("mallory", "sh", "-c", f"rm {mine}; ln -s {hers} {mine}", check=True)
    until = [claim["until"] for claim in lab.claims() if claim["user"] == "alice"]
    done = lab.thole("root", *words)
    assert done.returncode == 69 and "not the socket of the claim's owner" in done.stderr, done.stderr
    assert [claim["until"] for claim in lab.claims() if claim["user"] == "alice"] == until
    assert alice.process.poll() is None
    end(alice)
    end(mallory)


@in_one_surrounding
def test_a_socket_whose_queue_is_full_keeps_root_for_seconds(lab):
    lab.init()
    mallory = lab.hold("mallory", "--on", "3")
    full = lab.start_python("mallory", """
import os, socket, sys
path = sys.argv[1]
os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(0)
waiting = []
while True:
    waiting.append(socket.socket(socket.AF_UNIX))
    waiting[-1].setblocking(False)
    try: waiting[-1].connect(path)
    except BlockingIOError: break
print("up", flush=True)
sys.stdin.read()
""", socket_of(lab, "mallory", 3))
    done = lab.thole("root", "extend", "3", "1h")
    assert done.returncode == 69 and "does not answer" in done.stderr, done.stderr
    end(full)
    end(mallory)


@pytest.mark.parametrize("lab", ["plain", "hidepid runtime", "container"], indirect=True)
def test_who_shares_a_gpu_without_a_place_is_shown_as_its_holder(lab):
    lab.init()
    sharer = lab.start_python("mallory", """
import fcntl, glob, os, sys
nodes = [os.open(node, os.O_RDONLY | os.O_NONBLOCK) for node in glob.glob("/run/thole/gpu.*")]
for node in nodes: fcntl.flock(node, fcntl.LOCK_SH)
print("up")
sys.stdin.read()
""")
    for user in ("alice", "root"):
        assert lab.thole(user, "run", "--no-wait", "--", "true").returncode == 75
        claims = lab.claims(user)
        assert [claim["gpu"] for claim in claims] == [0, 1, 2, 3], claims
        assert not any(claim["verified"] for claim in claims) or {claim["user"] for claim in claims} == {"mallory"}
        assert "free: nobody" not in lab.thole(user, "why", "0").stdout
    if "container" not in lab.words:
        assert "mallory" in lab.thole("root", "why", "0").stdout
    end(sharer)
    assert lab.thole("alice", "run", "--no-wait", "-g", "4", "--", "true").returncode == 0


ANY_IN_A_SOCKET = """
import socket, sys
away, here = socket.socketpair()
socket.send_fds(away, [b"x"], [0])
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("taker", ["itself", "child"])
def test_who_has_a_lock_on_its_way_in_a_socket_is_named_to_root(lab, taker):
    lab.init()
    alice = lab.start_python("alice", ANY_IN_A_SOCKET) if taker == "child" else None
    mallory = lab.start_python("mallory", IN_A_SOCKET, f"/run/thole/gpu.{key_of(lab)}", taker)
    [held] = lab.claims("root")
    why = lab.thole("root", "why", "0", check=True).stdout
    if taker == "itself":
        assert held["user"] == "mallory" and str(supervisor_of(mallory)) in why, (held, why)
    else:                                        # or of whom else processes beside this test have some coming
        assert held["user"].startswith("perhaps ") and "claimed by perhaps" in why, (held, why)
        assert {"alice", "mallory"} <= set(held["user"].removeprefix("perhaps ").split(" or ")), held
    end(mallory)
    if alice:
        end(alice)

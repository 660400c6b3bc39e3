"""A claim's keeper answers its owner and root. What he says of locks is looked up in the kernel, and what he hands out is
looked at before it goes on to a job."""
import json

import pytest

from hostile import end, lab  # noqa: F401 (the fixture)
from run_tools import eventually

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# Answers in the place of the keeper of claim argv[1]: argv[2] is the answer, the rest says
# with which descriptors.
LIAR = r"""
import fcntl, glob, os, socket, sys
claim, answer, kinds = sys.argv[1], sys.argv[2], sys.argv[3:]
gpu = "/run/thole/gpu." + open("/run/thole/devices").read().split("\n")[3].split()[1]
other = "/run/thole/gpu." + open("/run/thole/devices").read().split("\n")[2].split()[1]
def opened(kind):
    if kind == "file":
        return os.open("/tmp/mallorys", os.O_RDWR | os.O_CREAT)
    if kind == "pipe":
        return os.pipe()[0]
    if kind == "socket":
        return socket.socket(socket.AF_UNIX).detach()
    if kind == "directory":
        return os.open("/tmp", os.O_RDONLY)
    if kind == "device":
        return os.open("/dev/null", os.O_RDWR)
    if kind == "unlocked":
        return os.open(gpu, os.O_RDWR | os.O_NONBLOCK)
    if kind == "other":
        return os.open(other, os.O_RDWR | os.O_NONBLOCK)
    if kind == "fifo":
        os.mkfifo("/tmp/" + os.path.basename(gpu))
        return os.open("/tmp/" + os.path.basename(gpu), os.O_RDWR)
    if kind.startswith("/"):
        return os.open(kind, os.O_RDONLY)
    raise ValueError(kind)
place = f"/tmp/thole-{os.getuid()}/{claim}"
honest = socket.socket(socket.AF_UNIX)
honest.connect(place + "/control")
honest.sendall(b"descriptors\n")
_, locks, _, _ = socket.recv_fds(honest, 4096, 64)
os.unlink(place + "/control")
listener = socket.socket(socket.AF_UNIX)
listener.bind(place + "/control")
listener.listen()
fds = [fd for kind in kinds for fd in (locks if kind == "locks" else [opened(kind)])]
print("up", flush=True)
while True:
    client, _ = listener.accept()
    client.recv(4096)
    socket.send_fds(client, [(answer + "\n").encode()], fds) if fds else client.sendall((answer + "\n").encode())
    client.close()
"""


def claim_on_3(lab, user):
    held = lab.hold(user, "--on", "3")
    [claim] = [claim for claim in lab.claims(user) if claim["gpu"] == 3]
    return held, claim


@in_one_surrounding
def test_what_a_keeper_says_of_a_release_is_looked_up(lab):
    lab.init()
    mallory, claim = claim_on_3(lab, "mallory")
    liar = lab.start_python("mallory", LIAR, claim["id"], "ok released")
    for who in ("root", "mallory"):
        done = lab.thole(who, "release", "3")
        assert done.returncode == 69 and claim["id"] in done.stderr and "released" not in done.stderr, done.stderr
        assert "is still held: claim " in done.stderr and "kill" in done.stderr, done.stderr
        done = lab.thole(who, "--json", "release", "3")
        assert done.returncode == 69 and json.loads(done.stdout)["error"]["exit_status"] == 69, done.stdout
    assert [claim["user"] for claim in lab.claims()] == ["mallory"]
    end(mallory)
    liar.__exit__()


# Takes the place of the keeper of the claim argv[1], and writes an answer that has no end: a byte for each line it is told.
TRICKLE = r"""
import contextlib, os, socket, sys
place = f"/tmp/thole-{os.getuid()}/{sys.argv[1]}/control"
os.unlink(place)
listener = socket.socket(socket.AF_UNIX)
listener.bind(place)
listener.listen()
print("up", flush=True)
client, _ = listener.accept()
client.recv(4096)
print("asked", flush=True)
for line in sys.stdin:
    with contextlib.suppress(OSError):
        client.send(b"o")
"""


@in_one_surrounding
def test_an_answer_that_does_not_end_is_not_waited_for_as_a_release_is(lab):
    lab.init()
    mallory, claim = claim_on_3(lab, "mallory")
    liar = lab.start_python("mallory", TRICKLE, claim["id"])
    asking = lab.start("root", lab.program, "release", "3")
    assert liar.line() == "asked"

    def is_left():
        liar.write("more\n")
        return asking.process.poll() is not None
    eventually(is_left, "root is let go before a release has had its time", 40)
    assert asking.wait() == 69
    assert "does not answer" in asking.process.stderr.read().decode()
    liar.__exit__()
    end(mallory)


@in_one_surrounding
def test_a_release_that_is_followed_by_the_next_claim_of_the_same_user_is_one(lab):
    lab.init()
    held, claim = claim_on_3(lab, "alice")
    following = lab.hold_later("alice", "--on", "3")
    eventually(lambda: lab.waiters("alice"), "the next one waits")
    done = lab.thole("alice", "release", claim["id"])
    assert done.returncode == 0 and f"released {claim['id']}" in done.stderr, done.stderr
    assert following.line() == "up"
    end(following)
    held.__exit__()


@in_one_surrounding
@pytest.mark.parametrize("kind", ["file", "pipe", "socket", "directory", "device", "other", "fifo"])
def test_a_keepers_file_that_is_no_lock_goes_on_to_no_job(lab, kind):
    lab.init()
    mallory, claim = claim_on_3(lab, "mallory")
    liar = lab.start_python("mallory", LIAR, claim["id"], "ok 9", "locks", kind)
    for who in ("root", "mallory"):
        done = lab.thole(who, "run", "--in", "3", "--", "sh", "-c", "echo ran")
        assert done.returncode == 69 and not done.stdout, done.stdout
        assert "a file that is no lock of this claim" in done.stderr and claim["id"] in done.stderr, done.stderr
    end(mallory)
    liar.__exit__()


@in_one_surrounding
@pytest.mark.parametrize("kinds", [[], ["unlocked"]], ids=["nothing", "unlocked"])
def test_a_keeper_who_hands_out_no_lock_lends_nothing(lab, kinds):
    lab.init()
    mallory, claim = claim_on_3(lab, "mallory")
    liar = lab.start_python("mallory", LIAR, claim["id"], "ok 1", *kinds)
    done = lab.thole("root", "run", "--in", "3", "--", "sh", "-c", "echo ran")
    assert done.returncode == 69 and not done.stdout and "no lock of GPU-" in done.stderr, done.stderr
    end(mallory)
    liar.__exit__()


@in_one_surrounding
@pytest.mark.parametrize("who", ["mallory", "root"])
@pytest.mark.parametrize("share", [[], ["--share", "--memory", "2G"]], ids=["exclusive", "shared"])
def test_what_an_honest_keeper_hands_out_is_taken(lab, who, share):
    lab.init()
    held = lab.hold("mallory", "--on", "3", *share)
    done = lab.thole(who, "run", "--in", "3", "--", "sh", "-c", "echo ran")
    assert done.returncode == 0 and done.stdout == "ran\n", done.stderr
    end(held)

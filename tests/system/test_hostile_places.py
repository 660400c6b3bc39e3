# ctest: timeout 900
"""Directories that a stranger made first, under the names that thole's own would have: nothing of the user stops, and nothing
goes into them."""
import json
import re
import socket

import pytest

from hostile import USERS, end, lab  # noqa: F401 (lab: a fixture)

KINDS = {
    "directory": "mkdir {path}",
    "open directory": "mkdir {path}; chmod 1777 {path}",
    "link": "mkdir -p /tmp/mallorys; chmod 1777 /tmp/mallorys; ln -s /tmp/mallorys {path}",
    "file": "touch {path}; chmod 666 {path}",
}


def plant(lab, user, kind="directory", base="/tmp"):
    path = f"{base}/thole-{USERS[user]}"
    lab.run("mallory", "sh", "-ec", KINDS[kind].format(path=path), check=True)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_directory_in_tmp_stops_nothing(lab, kind):
    lab.init()
    planted = plant(lab, "alice", kind)
    claim = lab.thole("alice", "claim", "-q", "-g", "1", "--time", "1h", check=True).stdout.strip()
    assert [c["id"] for c in lab.claims("alice")] == [claim]
    assert lab.thole("alice", "extend", claim, "2h").returncode == 0
    done = lab.thole(
        "alice",
        "run",
        "-g",
        "2",
        "--",
        "sh",
        "-ec",
        "{0} run -q --no-wait -g 1 -- sh -c 'echo first $CUDA_VISIBLE_DEVICES; {0} run -q --no-wait -g 1 -- true'; "
        "{0} run -q --no-wait -g 3 -- true || echo refused $?".format(lab.program),
    )
    assert done.returncode == 0 and "first" in done.stdout and "refused" in done.stdout, done.stdout + done.stderr
    assert "will not reach" not in done.stderr, done.stderr
    assert lab.thole("alice", "release", claim).returncode == 0
    assert lab.claims() == []
    held = lab.start("alice", lab.program, "--machine", "4xA100", "run", "-q", "-g", "4", "--", "sh", "-c", "echo up; exec cat")
    assert held.line() == "up"
    assert lab.thole("alice", "--machine", "4xA100", "run", "-q", "--no-wait", "--", "true").returncode == 75
    lab.run("mallory", "sh", "-c", f"rmdir {planted} 2>/dev/null || rm {planted}")     # given back: nothing changes
    assert lab.thole("alice", "--machine", "4xA100", "run", "-q", "--no-wait", "--", "true").returncode == 75
    end(held)
    there = lab.run("root", "sh", "-c", "ls -A /tmp/mallorys 2>/dev/null").stdout
    assert there == "", "nothing was written through the link"


@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_a_planted_queue_in_var_tmp_stops_nothing(lab):
    lab.init()
    folder = f"/var/tmp/thole-{USERS['alice']}/queue/{socket.gethostname()}"
    lab.run("mallory", "sh", "-ec", f"mkdir -p {folder}; touch {folder}/queue.db", check=True)
    for home in ({}, {"HOME": "/nonexistent"}):
        done = lab.thole("alice", "submit", "-q", "-g", "0", "--", "true", **home)
        assert done.returncode == 0, done.stderr
        assert ("cannot be written, so the queue of this host lies in" in done.stderr) == bool(home), done.stderr
        assert lab.thole("alice", "wait", "-q", done.stdout.strip(), **home).returncode == 0
        (job,) = json.loads(lab.thole("alice", "jobs", "--json", check=True, **home).stdout)["jobs"]
        assert job["state"] == "done"
    assert lab.run("root", "find", folder, "-type", "f", "-size", "+0").stdout == "", "nothing went into it"


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_doctor_names_no_directory_that_a_stranger_has(lab, kind):
    lab.init()
    home = {"HOME": "/nonexistent"}
    plant(lab, "alice", kind)
    taken = plant(lab, "alice", kind, "/var/tmp")

    def told():
        shown = "".join(lab.thole("alice", "doctor", **home).stdout.split())
        return json.loads(lab.thole("alice", "doctor", "--json", **home).stdout)["directories"], shown

    numbered = f"/thole-{USERS['alice']}-[0-9a-f]{{8}}"
    directories, shown = told()
    assert directories["queue"].startswith(f"{taken}-XXXXXXXX/queue/"), directories
    assert f"withanumberforXXXXXXXX,assomebodyelsehas{taken}" in shown, shown
    assert re.fullmatch(f"/tmp{numbered}", directories["personal"]), "what the driver said is remembered there already"
    assert lab.run("root", "find", "/var/tmp", "-maxdepth", "1", "-user", "alice").stdout == "", "looking makes no queue"
    job = lab.thole("alice", "submit", "-q", "-g", "0", "--", "true", check=True, **home).stdout.strip()
    lab.thole("alice", "wait", "-q", job, check=True, **home)
    directories, shown = told()
    assert re.match(f"/var/tmp{numbered}/queue/", directories["queue"]), directories
    assert "XXXXXXXX" not in shown, shown


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("group", [(), ("--group", "gpuusers")])
def test_where_a_user_namespace_hides_the_owner_nothing_is_claimed_and_nothing_is_called_idle(lab, group):
    if lab.run("alice", "unshare", "-r", "true").returncode != 0:
        pytest.skip("users may make no user namespaces here")
    lab.init(*group)
    for words in (("run", "--no-wait", "--", "true"), ("status",), ("status", "--json"), ("why", "0"), ("why",)):
        done = lab.run("alice", "unshare", "-r", lab.program, *words)
        assert done.returncode == 69, done.stdout + done.stderr
        assert "user namespace" in done.stderr and "/run/thole" in done.stderr and "administrator" not in done.stderr
        assert "IDLE" not in done.stdout and "idle" not in done.stdout
    doctor = lab.run("alice", "unshare", "-r", lab.program, "doctor")
    assert doctor.returncode == 0 and "user namespace" in doctor.stdout
    assert lab.thole("alice", "run", "-q", "--no-wait", "--", "true").returncode == 0, "outside all is well"


@pytest.mark.parametrize("lab", ["plain", "plain runtime"], indirect=True)
def test_root_reaches_a_claim_whatever_name_its_owners_directory_has(lab):
    lab.init()
    plant(lab, "alice")
    claim = lab.thole("alice", "claim", "-q", "-g", "1", check=True).stdout.strip()
    done = lab.thole("root", "release", claim)
    assert done.returncode == 0, done.stderr
    assert lab.claims() == []


# Of all processes, root sees the descriptors: one of mallory's that keeps the guard of a directory of root's own (guard.hpp),
# on a directory of hers.
GUARDS = """
import fcntl, os, struct, sys
def fnv(text):
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2 ** 64
    return value
os.makedirs("/tmp/mallory")
place = os.open("/tmp/mallory", os.O_RDONLY)
# And locks of root's FIFOs, as who claims in the directory has them: of a node for all, and of the pipe we were started with.
fcntl.flock(os.open("/run/thole/turn.0", os.O_RDWR), fcntl.LOCK_SH)
fcntl.flock(0, fcntl.LOCK_EX)
for path in sys.argv[1:]:
    begin, length = fnv(path.rsplit("/", 1)[1]) >> 2, 1 + fnv(path) % 2 ** 32
    fcntl.fcntl(place, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, begin, length, 0))   # F_OFD_SETLK
print("up")
sys.stdin.read()
"""


@pytest.mark.parametrize("lab", ["plain", "hidepid runtime"], indirect=True)
def test_a_guard_that_a_stranger_keeps_of_a_directory_of_ones_own_stops_nobody(lab):
    lab.init()
    outer = lab.hold("root", gpus=2)
    claim = lab.claims("mallory")[0]["id"]
    inside = ("run", "-g", "1", "--no-wait", "--", "true")
    simulated = ("--machine", "8xA100", "run", "--no-wait", "--", "true")
    assert lab.thole("root", *simulated).returncode == 0
    own = lab.run("root", "find", "/tmp", "/run/user", "-name", "machine-*", "-type", "d").stdout.split()
    guards = lab.start_python("mallory", GUARDS, own[0].rsplit("/", 1)[0] + "/" + claim, own[0])
    lab.run("root", "rm", "-r", *own, check=True)
    for words, more in ((inside, {"THOLE_CLAIM": claim}), (simulated, {})):
        done = lab.thole("root", *words, **more)
        assert done.returncode == 0, (words, done.stderr)
    end(guards)
    end(outer)

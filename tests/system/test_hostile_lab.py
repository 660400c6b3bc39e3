"""The lab of the tests between hostile users (hostile.py) is what it says: otherwise those tests would prove nothing."""
import pytest

from hostile import SITE_GROUP, USERS, end, lab, supervisor_of  # noqa: F401 (lab: a fixture)
from run_tools import BUILD, gone


def test_the_surrounding_is_what_its_words_say(lab):
    lab.init()
    alice = lab.hold("alice")
    pid = str(supervisor_of(alice))
    assert (lab.run("bob", "test", "-e", f"/proc/{pid}").returncode != 0) == ("hidepid" in lab.words)
    outside = lab.run("root", "readlink", "/proc/self/ns/pid").stdout
    assert (lab.run("alice", "readlink", "/proc/self/ns/pid").stdout != outside) == ("container" in lab.words)
    assert ("XDG_RUNTIME_DIR=" in lab.run("alice", "env").stdout) == ("runtime" in lab.words)
    assert lab.claims("bob"), "one directory of claims for all of them"
    end(alice)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_users_are_who_they_are(lab):
    for user, uid in USERS.items():
        assert lab.run(user, "id", "-u").stdout == f"{uid}\n"
        assert (SITE_GROUP in lab.run(user, "id", "-Gn").stdout) == (user in ("alice", "bob"))
    held = lab.lock("mallory", "/etc/passwd")
    assert lab.run("bob", "flock", "-n", "/etc/passwd", "true").returncode == 1
    end(held)
    assert lab.run("bob", "flock", "-n", "/etc/passwd", "true").returncode == 0


@pytest.mark.parametrize("lab", ["plain", "plain container"], indirect=True)
def test_what_is_started_can_be_killed_by_its_pid(lab):
    lab.init()
    alice = lab.hold("alice")
    pid = supervisor_of(alice)
    lab.run("root", "kill", "-9", str(pid), container=False)
    alice.wait()
    assert gone(pid)


@pytest.mark.skipif(not (BUILD / "libthole.so.0").exists(), reason="the library is not built")
def test_a_python_program_claims_in_it(lab):
    lab.init()
    package = "tholepin" if (lab.folder / "python/tholepin").is_dir() else "thole"
    code = f"import {package}\nwith {package}.claim(1, wait=0) as claim: print(len(claim.gpus))"
    assert lab.python("alice", code).stdout == "1\n"

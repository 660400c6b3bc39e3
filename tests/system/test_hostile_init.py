# ctest: timeout 900
"""`thole init` and the machine's directory: while claims live, while others lock and plant what they can, and over a
restart. What the group does is in test_hostile_group.py, what becomes of units that vanish and of locks that root deletes
in test_hostile_units.py."""
import pathlib
import signal

import pytest

from hostile import SITE_GROUP, end, lab  # noqa: F401 (lab: a fixture)
from init_tools import claims_one, guard_byte, in_one_surrounding, key_of, nodes
from run_tools import eventually


# Locks a file, and ends: its descriptor stays in a socket that another process has, and that nobody reads.
SENT = """
import fcntl, os, socket, sys
here, there = socket.socketpair()
sender = os.fork()
if sender == 0:
    fd = os.open(sys.argv[1], os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    socket.send_fds(here, [b"x"], [fd])
    os._exit(0)
os.waitpid(sender, 0)
print("up", flush=True)
sys.stdin.read()
"""


# While claims live, and against locks that anybody can take.

@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_an_alloc_that_no_process_has_is_told_and_made_anew(lab):
    lab.init()
    bob = lab.hold("bob")
    mallory = lab.start_python("mallory", SENT, "/run/thole/alloc")
    told = " ".join(lab.thole("root", "doctor").stdout.split())
    listed = "its owner has ended or is in another container" not in told   # the kernel names nobody in a pid namespace
    if listed:
        assert "no process is seen to have it: its descriptor is on its way in a socket" in told, told
        assert "perhaps one of pid " in told and "of mallory" in told and "if none has it: sudo thole init" in told, told
        waiter = lab.hold_later("alice", gpus=4)
        waiter.error_until("keeps the claims locked")
        assert "/run/thole/alloc is made anew: pid " in " ".join(lab.init().stderr.split())
        assert "keeps the claims locked" not in lab.thole("root", "status").stdout
        eventually(lab.waiters, "who waits is in order again, in the new one")
        end(bob)
        assert waiter.line() == "up"
        end(waiter)
    end(mallory)
    if not listed:
        pytest.skip("who took a lock and has ended is not listed in a pid namespace")


@in_one_surrounding
def test_init_leaves_an_alloc_that_a_process_has(lab):
    """It may be stopped in the middle of a decision."""
    lab.init()
    alloc = lab.run("root", "stat", "-c", "%i", "/run/thole/alloc").stdout
    mallory = lab.lock("mallory", "/run/thole/alloc")
    lab.init()
    assert lab.run("root", "stat", "-c", "%i", "/run/thole/alloc").stdout == alloc
    end(mallory)


def test_init_works_while_a_claim_lives(lab):
    lab.init()
    alice = lab.hold("alice")
    mine = lab.claims()[0]["key"]
    done = lab.thole("root", "init")
    assert done.returncode == 0, done.stderr
    assert [claim["key"] for claim in lab.claims("bob")] == [mine]
    assert claims_one(lab, "bob", "--on", str(lab.claims()[0]["gpu"])).returncode == 75
    assert claims_one(lab, "bob").returncode == 0
    end(alice)


def test_a_gpu_that_appears_stops_nobody_and_is_claimable_after_init(lab):
    lab.init()
    alice = lab.hold("alice")
    lab.set_gpus(5)
    assert claims_one(lab, "bob").returncode == 0
    assert claims_one(lab, "bob", "-g", "3").returncode == 0
    new = claims_one(lab, "bob", "--on", "4")
    assert new.returncode == 69 and "sudo thole init" in new.stderr, new.stderr
    lab.init()
    assert claims_one(lab, "bob", "--on", "4").returncode == 0
    assert claims_one(lab, "bob", "-g", "4").returncode == 0
    assert claims_one(lab, "bob", "-g", "5").returncode == 75, "alice has one"
    end(alice)


def test_a_gpu_that_nobody_can_claim_yet_is_said(lab):
    lab.init()
    lab.set_gpus(5)
    assert "cannot be claimed before: sudo thole init" in " ".join(lab.thole("bob", "doctor").stdout.split())


@pytest.mark.parametrize("kind", ["flock", "flock-shared", "ofd-read"])
@pytest.mark.parametrize("path", ["/run/thole", "/run", "/run/thole/alloc", "/run/thole/devices"])
@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_no_lock_of_a_stranger_stops_init(lab, path, kind):
    lab.init()
    alice = lab.hold("alice")
    mallory = lab.lock("mallory", path, kind, guard_byte("thole"))
    lab.set_gpus(5)
    done = lab.thole("root", "init")
    assert done.returncode == 0 and "5 GPUs" in done.stdout, done.stdout + done.stderr
    end(mallory)
    assert claims_one(lab, "bob", "--on", "4").returncode == 0
    end(alice)


def test_nobody_can_take_the_lock_of_init(lab):
    lab.init()
    for words in (["flock", "/run/thole.lock", "true"], ["cat", "/run/thole.lock"], ["rm", "-f", "/run/thole.lock"]):
        assert lab.run("mallory", *words).returncode != 0, words


@pytest.mark.parametrize("kind", ["flock", "flock-shared", "ofd-read"])
@pytest.mark.parametrize("path", ["/run/thole", "/run"])
def test_no_lock_of_a_directory_stops_claims(lab, path, kind):
    lab.init()
    mallory = lab.lock("mallory", path, kind, guard_byte("thole"))
    done = claims_one(lab, "alice")
    assert done.returncode == 0, done.stderr
    end(mallory)


@pytest.mark.parametrize("kind", ["flock", "ofd-read"])
@pytest.mark.parametrize("path", ["/run/lock/thole", "/run/lock"])
@in_one_surrounding
def test_nor_where_a_fallback_is_there(lab, path, kind):
    assert claims_one(lab, "bob").returncode == 0       # makes it
    mallory = lab.lock("mallory", path, kind, guard_byte("thole"))
    done = claims_one(lab, "alice")
    assert done.returncode == 0, done.stderr
    end(mallory)


@in_one_surrounding
def test_a_waiter_outlives_init(lab):
    """What init replaces under a waiter is noticed by it: also the shared files, when the access changes."""
    lab.init()
    alice = lab.hold("alice", gpus=4)
    bob = lab.hold_later("bob", gpus=4)
    eventually(lab.waiters, "bob waits")
    lab.set_gpus(5)
    lab.init("--group", SITE_GROUP)
    end(alice)
    assert bob.line() == "up"
    end(bob)


# Planted fallbacks, and directories that were not finished.

PLANT = "mkdir {0}; mkfifo -m 666 {0}/gpu.{1}"


@pytest.mark.parametrize("what", ["/tmp/thole", "/tmp/thole/queue", "/tmp"])
@in_one_surrounding
def test_a_planted_fallback_does_not_stop_init(lab, what):
    plant = f"mkdir /tmp/thole; cd /tmp/thole; touch queue alloc; ln -s /etc/shadow gpu.{key_of(lab)}"
    lab.run("mallory", "sh", "-c", plant, check=True)
    mallory = lab.lock("mallory", what, "flock", guard_byte("thole"))
    lab.init()
    assert claims_one(lab, "alice").returncode == 0
    end(mallory)


@in_one_surrounding
def test_init_by_hand_names_who_has_a_gpu_in_a_fallback_and_force_goes_on(lab):
    lab.run("mallory", "sh", "-c", PLANT.format("/tmp/thole", key_of(lab)), check=True)
    mallory = lab.lock("mallory", f"/tmp/thole/gpu.{key_of(lab)}")
    done = lab.thole("root", "init")
    assert done.returncode == 69, done.stderr
    for word in ("/tmp/thole", key_of(lab), str(mallory.pid), "mallory", "sudo thole init --force"):
        assert word in done.stderr, (word, done.stderr)
    forced = lab.thole("root", "init", "--force")
    assert forced.returncode == 0, forced.stderr
    assert claims_one(lab, "alice", "-g", "4").returncode == 0
    lab.init()    # it is complete: nobody asks the fallbacks any more
    end(mallory)


@in_one_surrounding
def test_after_a_refused_init_the_fallback_goes_on(lab):
    alice = lab.hold("alice")
    assert lab.thole("root", "init").returncode == 69
    gpu = str(lab.claims("bob")[0]["gpu"])
    assert claims_one(lab, "bob", "--on", gpu).returncode == 75
    assert claims_one(lab, "bob").returncode == 0
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "--on", gpu).returncode == 0


def until_it_looks(lab, init):
    """Until an init that finds claims in a fallback is about to look there, or has ended: with no directory that counts."""
    made = pathlib.Path(f"/proc/{lab.keeper.pid}/root/run/thole")
    while init.process.poll() is None and not (made / "completing").exists():
        assert not (made / "queue").exists()
    return made


@in_one_surrounding
@pytest.mark.parametrize("how", [None, signal.SIGKILL, signal.SIGINT], ids=["refused", "killed", "interrupted"])
def test_an_init_that_refuses_or_is_ended_before_it_has_looked_has_changed_nothing(lab, how):
    alice = lab.hold("alice", "--on", "3")
    with lab.start("root", lab.program, "init") as init:
        made = until_it_looks(lab, init)
        if how:
            init.kill(how)
        while init.process.poll() is None:
            assert not (made / "queue").exists(), "whoever claimed there just now would be a second owner"
        assert init.process.returncode == (-how if how else 69)
    assert claims_one(lab, "bob", "--on", "3").returncode == 75
    again = lab.thole("root", "init")
    assert again.returncode == 69 and "alice" in again.stderr, again.stderr
    assert claims_one(lab, "bob").returncode == 0
    end(alice)
    lab.init()


@in_one_surrounding
def test_an_init_that_is_ended_says_at_no_moment_that_the_directory_was_complete_before_it_is(lab):
    """By the lock file beside it, which keeps everybody from claiming when the directory is gone."""
    run = pathlib.Path(f"/proc/{lab.keeper.pid}/root/run")
    for _ in range(10):
        with lab.start("root", lab.program, "init") as init:
            while init.process.poll() is None:
                said = (run / "thole.lock").exists() and (run / "thole.lock").stat().st_size > 0
                assert not said or (run / "thole/queue").exists()
            assert init.process.returncode == 0
        lab.run("root", "sh", "-c", "umount /run/thole 2> /dev/null; rm -r /run/thole /run/thole.lock", check=True)


@in_one_surrounding
def test_what_a_killed_init_has_left_closed_is_no_gate(lab):
    lab.run("root", "sh", "-ec", "mkdir -m 755 /run/thole; umask 077; touch /run/thole/alloc", check=True)
    assert claims_one(lab, "alice").returncode == 0, "in a fallback"
    assert "members" not in lab.init().stdout
    assert claims_one(lab, "bob").returncode == 0


@in_one_surrounding
def test_nobody_claims_in_a_fallback_while_init_looks_there(lab):
    alice = lab.hold("alice", "--on", "3")
    with lab.start("root", lab.program, "init") as init:
        until_it_looks(lab, init)
        init.kill(signal.SIGSTOP)
        waits = lab.run("bob", "timeout", "2", lab.program, "run", "--no-wait", "--", "true")
        assert waits.returncode == 124, "he is not to have one behind init's look"
        bob = lab.hold_later("bob", "--on", "2")
        init.kill(signal.SIGCONT)
        assert init.process.wait(60) == 69
    assert bob.line() == "up"
    end(bob)
    end(alice)


@in_one_surrounding
def test_an_unfinished_directory_stops_nobody(lab):
    """What tmpfiles of an older package made, or an init that was killed: nobody waits for it."""
    lab.run("root", "mkdir", "-m", "0755", "/run/thole", check=True)
    alice = lab.hold("alice")
    assert lab.claims("bob")[0]["held"]
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "-g", "4").returncode == 0


@in_one_surrounding
def test_claims_follow_from_a_fallback_to_the_finished_directory(lab):
    mallory = lab.hold("mallory", gpus=4)
    bob = lab.hold_later("bob")
    eventually(lab.waiters, "bob waits")
    assert lab.thole("root", "init", "--force").returncode == 0
    assert bob.line() == "up", "he waits no more for those who stayed behind"
    assert "/run/thole" in lab.thole("bob", "doctor").stdout
    end(bob)
    end(mallory)


@in_one_surrounding
def test_root_heeds_no_settings_of_who_called_sudo(lab):
    """Where sudo keeps the caller's HOME."""
    home = lab.folder / "home/mallory"
    settings = "mkdir -p $0/.config/thole; echo 'state_dir = \"/var/tmp/hers\"' > $0/.config/thole/config.toml"
    lab.run("mallory", "sh", "-c", settings, str(home), check=True)
    lab.run("root", "env", f"HOME={home}", lab.program, "init", check=True)
    assert lab.run("root", "test", "-e", "/var/tmp/hers").returncode != 0
    assert nodes(lab)

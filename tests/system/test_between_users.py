# ctest: timeout 900
"""Users of one machine who do not trust each other, and state directories in every bad condition.

Each test has a machine of its own (hostile.py), in several surroundings where that makes a difference.
"""
import os
import time

import pytest

from hostile import SITE_GROUP, USERS, end, lab  # noqa: F401 (a fixture)
from run_tools import Started, eventually

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)


# Between users, with `thole init`: each sentence of docs/security.md.

def test_nobody_frees_anothers_claim(lab):
    lab.init()
    alice = lab.hold("alice")
    claim = lab.claims()[0]
    done = lab.thole("bob", "release", claim["id"])
    assert done.returncode not in (0, 125), done.stderr
    lab.run("bob", "sh", "-c", "exec 9<>/run/thole/gpu.%s; flock -u 9" % claim["key"])
    assert [c["id"] for c in lab.claims("bob")] == [claim["id"]]
    end(alice)


def test_nobody_becomes_a_second_owner(lab):
    lab.init()
    alice = lab.hold("alice")
    gpu = str(lab.claims()[0]["gpu"])
    done = lab.thole("bob", "run", "--no-wait", "--on", gpu, "--", "true")
    assert done.returncode == 75, done.stderr
    end(alice)


@in_one_surrounding
def test_the_user_nobody_claims_within_claims_like_any_other(lab):
    """Only in a user namespace is that number the one of everybody from outside."""
    lab.init()
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    inner = f"{lab.program} run -q --no-wait -g 1 -- printenv THOLE_CLAIM"
    done = lab.run("root", *nobody, lab.program, "run", "-q", "-g", "2", "--", "sh", "-c", inner, HOME="/tmp")
    assert done.returncode == 0 and done.stderr == "" and "/" in done.stdout, done.stdout + done.stderr


def test_nobody_reads_or_alters_anothers_files(lab):
    lab.init()
    alice = lab.hold("alice")
    private = f"/tmp/thole-{USERS['alice']}"
    assert lab.run("root", "ls", private).returncode == 0          # it is there …
    assert lab.run("bob", "ls", private).returncode != 0        # … and closed
    for change in ("rm -f /run/thole/alloc", "touch /run/thole/new", "mv /run/thole/queue /run/thole/q",
                   "ln -s /etc /run/thole/x"):
        assert lab.run("bob", "sh", "-c", change).returncode != 0, change
    end(alice)


def test_nobody_writes_to_anothers_terminal(lab):
    lab.init()
    alice = lab.start("alice", lab.program, "run", "--", "sh", "-c", "echo up; exec cat", "\x1b]0;owned\x07\x1b[31m\u202eevil")
    assert alice.line() == "up"
    for words in (("status",), ("status", "0"), ("why", "0")):
        shown = lab.thole("bob", *words).stdout
        assert "CLAIMED" in shown or "claimed" in shown.lower()
        assert not any(c in shown for c in "\x1b\x07\u202e"), repr(shown)
    end(alice)


@pytest.mark.parametrize("record", ["queue", "who"])
@pytest.mark.parametrize("damage", ["truncate -s 0", "truncate -s 100", "sh -c 'head -c 70000 /dev/urandom >\"$0\"'"])
def test_damaged_records_cost_order_never_exclusion_or_a_crash(lab, record, damage):
    lab.init()
    alice = lab.hold("alice")
    gpu = lab.claims()[0]["gpu"]
    assert lab.run("bob", "sh", "-c", f"{damage} /run/thole/{record}").returncode == 0, "the records are shared and writable"
    assert lab.thole("bob", "run", "--no-wait", "--on", str(gpu), "--", "true").returncode == 75
    assert lab.thole("bob", "run", "--no-wait", "--", "true").returncode == 0
    status = lab.thole("bob", "status")
    assert status.returncode == 0 and "CLAIMED" in status.stdout, status.stdout + status.stderr
    waiter = lab.start("bob", lab.program, "run", "--on", str(gpu), "--", "true")
    eventually(lab.waiters, "bob waits")
    end(alice)
    assert waiter.wait() == 0


def test_who_holds_without_use_is_named_by_why(lab):
    lab.init()
    alice = lab.hold("alice")
    text = lab.thole("bob", "why", str(lab.claims()[0]["gpu"])).stdout
    assert "alice" in text and "no process uses it" in text, text
    end(alice)


def test_the_gate_is_a_group(lab):
    lab.init("--group", SITE_GROUP)
    done = lab.thole("mallory", "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and SITE_GROUP in done.stderr, done.stderr
    member = lab.thole("alice", "run", "--no-wait", "--", "true")
    assert member.returncode == 0, member.stderr


# Without init: friendly users in a directory made by the first of them.

def test_a_fallback_directory_serves_two_users_and_says_what_it_is_worth(lab):
    alice = lab.hold("alice")
    claim = lab.claims("bob")[0]
    assert lab.thole("bob", "run", "--no-wait", "--on", str(claim["gpu"]), "--", "true").returncode == 75
    assert lab.thole("bob", "run", "--no-wait", "--", "true").returncode == 0
    assert "advisory between friendly users" in lab.thole("bob", "doctor").stdout.replace("\n", " ")
    end(alice)


def test_init_refuses_while_a_claim_lives_in_a_fallback_directory(lab):
    alice = lab.hold("alice")
    done = lab.thole("root", "init")
    assert done.returncode == 69, done.stderr
    end(alice)
    lab.init()


# State directories in bad condition.

@in_one_surrounding
def test_a_directory_deleted_in_use_gets_no_second_owner(lab):
    lab.init()
    alice = lab.hold("alice", gpus=4)
    assert lab.run("root", "rm", "-rf", "/run/thole").returncode == 0
    for user in ("root", "bob"):
        done = lab.thole(user, "run", "--no-wait", "--", "true")
        assert done.returncode in (69, 75), done.stderr
    end(alice)


@in_one_surrounding
def test_unlinked_nodes_get_no_second_owner(lab):
    lab.init()
    alice = lab.hold("alice", gpus=4)
    assert lab.run("root", "sh", "-c", "rm -f /run/thole/gpu.*").returncode == 0
    for user in ("root", "bob"):
        done = lab.thole(user, "run", "--no-wait", "--", "true")
        assert done.returncode in (69, 75), done.stderr
    end(alice)


@in_one_surrounding
def test_a_missing_device_node_names_the_fix(lab):
    lab.init()
    assert lab.run("root", "sh", "-c", "rm -f /run/thole/gpu.*").returncode == 0
    done = lab.thole("bob", "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "sudo thole init" in done.stderr, done.stderr
    lab.init()
    assert lab.thole("bob", "run", "--no-wait", "--", "true").returncode == 0


@in_one_surrounding
def test_a_directory_of_the_wrong_owner_is_refused(lab):
    assert lab.run("root", "sh", "-c", "mkdir /run/thole; chown bob /run/thole").returncode == 0
    done = lab.thole("alice", "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "/run/thole" in done.stderr, done.stderr


@in_one_surrounding
def test_planted_links_are_refused(lab):
    lab.run("root", "sh", "-c", "mount -t tmpfs -o mode=0755 tmpfs /run")    # no /run/lock: the fallback is /tmp
    lab.run("bob", "sh", "-c", "mkdir /tmp/trap; ln -s /tmp/trap /tmp/thole")
    done = lab.thole("alice", "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "/tmp/thole" in done.stderr, done.stderr
    assert lab.run("root", "sh", "-c", "ls -A /tmp/trap").stdout == ""


@in_one_surrounding
def test_a_read_only_directory_is_named(lab):
    lab.init()
    lab.run("root", "mount", "-o", "remount,ro", "/run")
    done = lab.thole("bob", "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "/run/thole" in done.stderr, done.stderr
    status = lab.thole("bob", "status")
    assert status.returncode == 0, status.stderr


@in_one_surrounding
def test_a_full_disk_costs_order_not_claims(lab):
    lab.init()
    assert "No space left" in lab.run("root", "dd", "if=/dev/zero", "of=/run/fill", "bs=1k").stderr
    alice = lab.hold("alice", gpus=4)
    assert lab.thole("bob", "run", "--no-wait", "--", "true").returncode == 75
    end(alice)
    assert lab.thole("bob", "run", "--no-wait", "--", "true").returncode == 0


@in_one_surrounding
def test_a_queue_below_what_another_account_may_rename_is_refused(lab):
    """By her own group, which is the first one of that account, too: no line in /etc/group says so."""
    folder = lab.folder / "project"
    folder.mkdir()
    os.chown(folder, USERS["alice"], USERS["alice"])
    folder.chmod(0o775)
    words = ["submit", "--on", "0", "--", "true"]
    assert lab.thole("alice", *words, THOLE_QUEUE_DIR=str(folder / "queue")).returncode == 0
    with open(lab.folder / "etc/passwd", "a") as accounts:
        accounts.write(f"service:x:61099:{USERS['alice']}::/:/bin/sh\n")
    done = lab.thole("alice", *words, THOLE_QUEUE_DIR=str(folder / "queue"))
    assert done.returncode == 69 and "others can put another directory in the place of the queue's" in done.stderr, done.stderr


@pytest.mark.parametrize("ahead", [86400, -int(time.clock_gettime(time.CLOCK_BOOTTIME) * 0.8)], ids=["ahead", "behind"])
@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_the_clocks_of_a_time_namespace_change_no_order(lab, ahead):
    """A container's are its own: who waits there stands in line as he came."""
    lab.init()
    elsewhere = ("unshare", "-T", "--boottime", str(ahead), "--monotonic", str(ahead), "--fork", "--", "setpriv",
                 f"--reuid={USERS['alice']}", f"--regid={USERS['alice']}", "--init-groups", "--")
    have = lab.hold("bob", "--on", "1")

    def in_line():
        return [waiting["user"] for waiting in lab.status()["queue"]]

    come = [("mallory", ()), ("alice", elsewhere), ("bob", ())]
    waiting = []
    for user, around in come:
        words = (*around, lab.program, "run", "--on", "1", "--", "sh", "-c", "echo up; exec cat")
        command = lab.command("root" if around else user, *words)
        waiting.append(Started(command, cwd="/", env=lab.environment(user)))
        eventually(lambda: in_line() == [user for user, _ in come[:len(waiting)]], lambda: f"{user} waits: {in_line()}")
    end(have)
    for started in waiting:
        assert started.line() == "up"
        end(started)

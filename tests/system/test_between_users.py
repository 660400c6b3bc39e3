"""Users of one machine who do not trust each other, and state directories in every bad condition.

Each test has /run and /tmp of its own: a mount namespace with fresh file systems, entered by nsenter
(with its root: these tests may run in a chroot). The GPUs are a faked NVIDIA driver's.
"""
import grp
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from run_tools import BUILD, THOLE, eventually
from fake_nvidia import Driver

ANNA, BEN = 60001, 60002


def needs():
    if os.geteuid() != 0:
        return "two users and mounts need root"
    if not all(map(shutil.which, ("unshare", "nsenter", "setpriv"))):
        return "unshare, nsenter and setpriv (util-linux) are missing"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        return "no mount namespaces here"
    return ""


class Machine:
    def __init__(self, folder, gpus=2):
        self.folder = folder
        self.driver = Driver(folder, gpus)
        for name in ("thole", "libnvidia-ml.so.1"):      # a build folder may be closed to others
            shutil.copy(THOLE if name == "thole" else BUILD / "fake/full/libnvidia-ml.so.1", folder / name)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        # The folder must stay visible in the namespace, so it lies outside /tmp and /run.
        self.keeper = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", "sh", "-ec",
             "mount -t tmpfs -o mode=0755,size=4m tmpfs /run; mount -t tmpfs -o mode=1777 tmpfs /tmp; mkdir -m 1777 /run/lock; echo up; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.keeper.stdout.readline() == b"up\n"
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "NO_COLOR": "1",
                            "THOLE_SYSROOT": str(self.driver.root), "THOLE_NVML": str(folder / "libnvidia-ml.so.1"),
                            "THOLE_FAKE_NVML": str(self.driver.conf)}

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait(timeout=20)

    def command(self, uid, *words):
        enter = ["nsenter", "-t", str(self.keeper.pid), "-m", "-r", "--wd=/", "--"]
        become = [] if uid == 0 else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
        return [*enter, *become, *words]

    def run(self, uid, *words):
        return subprocess.run(self.command(uid, *words), capture_output=True, text=True, env=self.environment, cwd="/", timeout=60)

    def thole(self, uid, *words):
        return self.run(uid, str(self.folder / "thole"), *words)

    def init(self, *words):
        done = self.thole(0, "init", *words)
        assert done.returncode == 0, done.stderr

    def hold(self, uid, *words, gpus=1):
        """Starts a run that holds until it is closed; returns once it has its GPUs."""
        process = subprocess.Popen(self.command(uid, str(self.folder / "thole"), "run", "-g", str(gpus), *words, "--",
                                                "sh", "-c", "echo up; exec cat"),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment, cwd="/")
        line = process.stdout.readline()
        if line != b"up\n":
            raise AssertionError(process.communicate()[1].decode())
        return process

    def claims(self, uid=0):
        done = self.thole(uid, "status", "--json")
        assert done.returncode == 0, done.stderr
        return [claim for claim in json.loads(done.stdout)["claims"] if claim["held"]]


@pytest.fixture
def machine():
    reason = needs()
    if reason:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="thole-users-", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        machine = Machine(pathlib.Path(folder))
        yield machine
        machine.close()


def end(process):
    process.stdin.close()
    assert process.wait(timeout=30) == 0
    process.stdout.close()
    process.stderr.close()


# Between users, with `thole init`: each sentence of docs/security.md.

def test_nobody_frees_anothers_claim(machine):
    machine.init()
    anna = machine.hold(ANNA)
    claim = machine.claims()[0]
    done = machine.thole(BEN, "release", claim["id"])
    assert done.returncode not in (0, 125), done.stderr
    machine.run(BEN, "sh", "-c", "exec 9<>/run/thole/gpu.%s; flock -u 9" % claim["key"])
    assert [c["id"] for c in machine.claims(BEN)] == [claim["id"]]
    end(anna)


def test_nobody_becomes_a_second_owner(machine):
    machine.init()
    anna = machine.hold(ANNA)
    gpu = str(machine.claims()[0]["gpu"])
    done = machine.thole(BEN, "run", "--no-wait", "--on", gpu, "--", "true")
    assert done.returncode == 75, done.stderr
    end(anna)


def test_nobody_reads_or_alters_anothers_files(machine):
    machine.init()
    anna = machine.hold(ANNA)
    private = f"/tmp/thole-{ANNA}"
    assert machine.run(0, "ls", private).returncode == 0          # it is there …
    assert machine.run(BEN, "ls", private).returncode != 0        # … and closed
    for change in ("rm -f /run/thole/alloc", "touch /run/thole/new", "mv /run/thole/queue /run/thole/q", "ln -s /etc /run/thole/x"):
        assert machine.run(BEN, "sh", "-c", change).returncode != 0, change
    end(anna)


def test_nobody_writes_to_anothers_terminal(machine):
    machine.init()
    process = subprocess.Popen(machine.command(ANNA, str(machine.folder / "thole"), "run", "--", "sh", "-c",
                                               "echo up; exec cat", "\x1b]0;owned\x07\x1b[31m\u202eevil"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=machine.environment, cwd="/")
    assert process.stdout.readline() == b"up\n"
    for words in (("status",), ("status", "0"), ("why", "0")):
        shown = machine.thole(BEN, *words).stdout
        assert "CLAIMED" in shown or "claimed" in shown.lower()
        assert not any(c in shown for c in "\x1b\x07\u202e"), repr(shown)
    end(process)


@pytest.mark.parametrize("record", ["queue", "who"])
@pytest.mark.parametrize("damage", ["truncate -s 0", "truncate -s 100", "sh -c 'head -c 70000 /dev/urandom >\"$0\"'"])
def test_damaged_records_cost_order_never_exclusion_or_a_crash(machine, record, damage):
    machine.init()
    anna = machine.hold(ANNA)
    gpu = machine.claims()[0]["gpu"]
    assert machine.run(BEN, "sh", "-c", f"{damage} /run/thole/{record}").returncode == 0, "the records are shared and writable"
    assert machine.thole(BEN, "run", "--no-wait", "--on", str(gpu), "--", "true").returncode == 75
    assert machine.thole(BEN, "run", "--no-wait", "--", "true").returncode == 0
    status = machine.thole(BEN, "status")
    assert status.returncode == 0 and "CLAIMED" in status.stdout, status.stdout + status.stderr
    waiter = subprocess.Popen(machine.command(BEN, str(machine.folder / "thole"), "run", "--on", str(gpu), "--", "true"),
                              stderr=subprocess.PIPE, env=machine.environment, cwd="/")
    eventually(lambda: json.loads(machine.thole(0, "status", "--json").stdout)["queue"], "ben waits")
    end(anna)
    assert waiter.wait(timeout=30) == 0
    waiter.stderr.close()


def test_who_holds_without_use_is_named_by_why(machine):
    machine.init()
    anna = machine.hold(ANNA)
    text = machine.thole(BEN, "why", str(machine.claims()[0]["gpu"])).stdout
    assert str(ANNA) in text and "no process uses it" in text, text
    end(anna)


def test_the_gate_is_a_group(machine):
    machine.init("--group", "video")
    done = machine.thole(BEN, "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "video" in done.stderr, done.stderr
    member = subprocess.run(["nsenter", "-t", str(machine.keeper.pid), "-m", "-r", "--wd=/", "--", "setpriv", f"--reuid={BEN}", f"--regid={BEN}",
                             "--groups=" + str(grp.getgrnam("video").gr_gid), "--",
                             str(machine.folder / "thole"), "run", "--no-wait", "--", "true"],
                            capture_output=True, text=True, env=machine.environment, cwd="/", timeout=60)
    assert member.returncode == 0, member.stderr


# Without init: friendly users in a directory made by the first of them.

def test_a_fallback_directory_serves_two_users_and_says_what_it_is_worth(machine):
    anna = machine.hold(ANNA)
    claim = machine.claims(BEN)[0]
    assert machine.thole(BEN, "run", "--no-wait", "--on", str(claim["gpu"]), "--", "true").returncode == 75
    assert machine.thole(BEN, "run", "--no-wait", "--", "true").returncode == 0
    assert "advisory between friendly users" in machine.thole(BEN, "doctor").stdout.replace("\n", " ")
    end(anna)


def test_init_refuses_while_a_claim_lives_in_a_fallback_directory(machine):
    anna = machine.hold(ANNA)
    done = machine.thole(0, "init")
    assert done.returncode == 69, done.stderr
    assert machine.run(0, "test", "-e", "/run/thole").returncode != 0
    end(anna)
    machine.init()


# State directories in bad condition.

def test_a_directory_deleted_in_use_gets_no_second_owner(machine):
    machine.init()
    anna = machine.hold(ANNA, gpus=2)
    assert machine.run(0, "rm", "-rf", "/run/thole").returncode == 0
    for user in (0, BEN):
        done = machine.thole(user, "run", "--no-wait", "--", "true")
        assert done.returncode in (69, 75), done.stderr
    end(anna)


def test_unlinked_nodes_get_no_second_owner(machine):
    machine.init()
    anna = machine.hold(ANNA, gpus=2)
    assert machine.run(0, "sh", "-c", "rm -f /run/thole/gpu.*").returncode == 0
    for user in (0, BEN):
        done = machine.thole(user, "run", "--no-wait", "--", "true")
        assert done.returncode in (69, 75), done.stderr
    end(anna)


def test_a_missing_device_node_names_the_fix(machine):
    machine.init()
    assert machine.run(0, "sh", "-c", "rm -f /run/thole/gpu.*").returncode == 0
    done = machine.thole(BEN, "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "sudo thole init" in done.stderr, done.stderr
    machine.init()
    assert machine.thole(BEN, "run", "--no-wait", "--", "true").returncode == 0


def test_a_directory_of_the_wrong_owner_is_refused(machine):
    assert machine.run(0, "sh", "-c", f"mkdir /run/thole; chown {BEN} /run/thole").returncode == 0
    done = machine.thole(ANNA, "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "/run/thole" in done.stderr, done.stderr


def test_planted_links_are_refused(machine):
    machine.run(0, "sh", "-c", "mount -t tmpfs -o mode=0755 tmpfs /run")    # no /run/lock: the fallback is /tmp
    machine.run(BEN, "sh", "-c", "mkdir /tmp/trap; ln -s /tmp/trap /tmp/thole")
    done = machine.thole(ANNA, "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "/tmp/thole" in done.stderr, done.stderr
    assert machine.run(0, "sh", "-c", "ls -A /tmp/trap").stdout == ""


def test_a_read_only_directory_is_named(machine):
    machine.init()
    machine.run(0, "mount", "-o", "remount,ro", "/run")
    done = machine.thole(BEN, "run", "--no-wait", "--", "true")
    assert done.returncode == 69 and "/run/thole" in done.stderr, done.stderr
    status = machine.thole(BEN, "status")
    assert status.returncode == 0, status.stderr


def test_a_full_disk_costs_order_not_claims(machine):
    machine.init()
    assert "No space left" in machine.run(0, "dd", "if=/dev/zero", "of=/run/fill", "bs=1k").stderr
    anna = machine.hold(ANNA, gpus=2)
    assert machine.thole(BEN, "run", "--no-wait", "--", "true").returncode == 75
    end(anna)
    assert machine.thole(BEN, "run", "--no-wait", "--", "true").returncode == 0

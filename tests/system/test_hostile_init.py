# ctest: timeout 900
"""`thole init` and the machine's directory: while claims live, while others lock and plant what they can, and over a
restart."""
import json
import stat

import pytest

from hostile import SITE_GID, SITE_GROUP, USERS, end, lab, supervisor_of  # noqa: F401 (lab: a fixture)
from run_tools import Started, eventually

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)
CONFIG = "/etc/thole/config.toml"

# The byte of a directory that stands for the one of this name in it.
def guard_byte(name):
    value = 14695981039346656037
    for byte in name.encode():
        value = ((value ^ byte) * 1099511628211) & ((1 << 64) - 1)
    return value >> 2


def nodes(lab, folder="/run/thole"):
    """Name -> (mode, gid) of what is in the directory, devices (which is for reading) left out."""
    found = {}
    listing = lab.run("root", "find", folder, "-mindepth", "1", "-maxdepth", "1", "-printf", r"%f %m %G %y\n", check=True)
    for line in listing.stdout.splitlines():
        name, mode, gid, kind = line.split()
        if name != "devices":
            found[name] = (int(mode, 8), int(gid), kind)
    return found


def access(lab):
    return {(mode, gid) for mode, gid, kind in nodes(lab).values() if kind != "d"}


def claims_one(lab, user, *words):
    return lab.thole(user, "run", "--no-wait", *words, "--", "true")


# While claims live, and against locks that anybody can take.

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
def test_a_vanished_gpu_is_forgotten_unless_it_is_held(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "3")
    for gpus, left in ((2, "3 GPUs"), (4, "4 GPUs")):
        lab.set_gpus(gpus)
        done = lab.init()
        assert left in done.stdout, done.stdout
        assert claims_one(lab, "bob", "-g", "2").returncode == 0
    assert claims_one(lab, "bob", "--on", "3").returncode == 75
    end(alice)
    assert claims_one(lab, "bob", "-g", "4").returncode == 0


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


# The group.

@pytest.mark.parametrize("first", [(), ("--group", "alice")])
def test_a_group_is_set_where_the_directory_is_there(lab, first):
    lab.init(*first)
    lab.init("--group", SITE_GROUP)
    assert access(lab) == {(0o660, SITE_GID)}
    done = claims_one(lab, "mallory")
    assert done.returncode == 69 and SITE_GROUP in done.stderr, done.stderr
    assert claims_one(lab, "alice").returncode == 0
    assert nodes(lab)["notes"] == (0o1770, SITE_GID, "d")


@in_one_surrounding
def test_an_old_descriptor_does_not_pass_the_gate(lab):
    """mallory has every node open, from before there was a group: what she locks is nobody's lock any more."""
    lab.init()
    mallory = lab.start_python("mallory", """
import fcntl, glob, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
nodes = [path for path in glob.glob("/run/thole/*") if not path.endswith(("devices", "notes"))]
fds = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in nodes]
print("up"); sys.stdin.readline()
for fd in fds: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked"); sys.stdin.read()
""")
    lab.init("--group", SITE_GROUP)
    mallory.write("go\n")
    assert mallory.line() == "locked"
    done = claims_one(lab, "alice", "-g", "4")
    assert done.returncode == 0, done.stderr
    end(mallory)


@in_one_surrounding
def test_what_is_held_when_the_group_comes_is_made_anew_later(lab):
    lab.init()
    inode = lab.run("root", "sh", "-c", "stat -c %i /run/thole/gpu.*").stdout
    alice = lab.hold("alice")
    mallory = lab.hold("mallory")
    assert "2 nodes are held" in lab.init("--group", SITE_GROUP).stdout
    assert all(mode & 0o777 == 0o660 and gid == SITE_GID for mode, gid in access(lab)), "closed to newcomers at once"
    assert len(lab.claims()) == 2, "nobody lost his claim"
    end(mallory)
    end(alice)
    assert "held" not in lab.init().stdout
    assert access(lab) == {(0o660, SITE_GID)}
    now = lab.run("root", "sh", "-c", "stat -c %i /run/thole/gpu.*").stdout
    assert not set(inode.split()) & set(now.split())


# Locks every node of a GPU that she has open from before, as soon as she can.
GRAB = """
import fcntl, glob, os, sys, time
fds = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in glob.glob("/run/thole/gpu.*")]
kind = fcntl.LOCK_SH if sys.argv[1] == "shared" else fcntl.LOCK_EX
end, of_mine = os.pipe()
if os.fork():
    os.close(end)
    print("up", flush=True)
    sys.stdin.read()
    os._exit(0)
os.close(of_mine)
while fds:
    for fd in list(fds):
        try: fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError: continue
        fds.remove(fd)
    time.sleep(0.01)
open("/var/tmp/grabbed", "w").close()
if sys.argv[1] == "child" and os.fork(): os._exit(0)             # who took the locks has ended, a child has them
os.read(end, 1)
"""


@pytest.mark.parametrize("how", ["exclusive", "shared", "child"])
@in_one_surrounding
def test_who_grabs_with_old_descriptors_what_was_held_is_named_by_init(lab, how):
    """mallory never held any: what she has open since before there was a group she locks when alice ends. Nothing is taken from
    a living holder, whoever he seems to be; root ends her process."""
    lab.init()
    alice = lab.hold("alice", gpus=4)
    mallory = lab.start_python("mallory", GRAB, how)
    assert "4 nodes are held" in lab.init("--group", SITE_GROUP).stdout
    end(alice)
    eventually(lambda: lab.run("root", "test", "-e", "/var/tmp/grabbed").returncode == 0, "she has them all")
    assert claims_one(lab, "alice").returncode == 75
    done = lab.init()
    assert "4 nodes are held" in done.stdout and f"user {USERS['mallory']}" in done.stderr, done.stdout + done.stderr
    assert claims_one(lab, "alice").returncode == 75
    end(mallory)
    assert "held" not in lab.init().stdout
    assert claims_one(lab, "alice", "-g", "4").returncode == 0
    assert access(lab) == {(0o660, SITE_GID)}


@in_one_surrounding
def test_who_holds_when_the_group_comes_keeps_it_over_every_init(lab):
    """Member or not, also without a supervisor; and who comes after him is a member."""
    lab.init()
    mallory, other = lab.hold("mallory"), lab.hold("mallory")
    alice = lab.hold("alice", "--share", "--memory", "1G")
    lab.init("--group", SITE_GROUP)
    lab.run("root", "kill", "-9", str(supervisor_of(other)), check=True)
    for _ in range(2):
        assert "nodes are held" in lab.init().stdout
        assert len(lab.claims("bob")) == 3
        assert claims_one(lab, "bob", "-g", "2").returncode == 75
    end(mallory)
    bob = lab.hold("bob", gpus=2)
    for _ in range(2):
        lab.init()
        assert claims_one(lab, "alice").returncode == 75
    end(bob)
    end(alice)
    other.process.stdin.close()
    eventually(lambda: not lab.claims(), "all have ended")
    assert "held" not in lab.init().stdout
    assert claims_one(lab, "alice", "-g", "4").returncode == 0


# Notes.

READ_LOCK_ALICES = """
import fcntl, os, struct, sys, time
seen, folder = {}, "/run/thole/notes/"
print("up", flush=True)
while True:
    for name in os.listdir(folder):
        if not name.startswith("61001-") or name in seen: continue
        try:
            fd = os.open(folder + name, os.O_RDONLY)
            fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 2, 0, 0))    # F_OFD_SETLK
        except OSError: continue
        seen[name] = fd
        open("/var/tmp/locked-" + name, "w").close()
    time.sleep(0.005)
"""


@in_one_surrounding
def test_init_leaves_every_live_note_however_many_files_somebody_causes(lab):
    lab.init()
    mallory = lab.start_python("mallory", READ_LOCK_ALICES)
    holders = []
    for number in range(1, 19):
        holders.append(lab.hold("alice", "--share", "--memory", "1G"))
        locked = ["sh", "-c", "ls /var/tmp/locked-* | wc -l"]
        eventually(lambda: lab.run("root", *locked).stdout.strip() == str(number), "she locks each")
    ids = {claim["id"] for claim in lab.claims("alice")}
    assert len(ids) == 18 and all(ids)
    lab.init()
    assert {claim["id"] for claim in lab.claims("alice")} == ids
    for claim in sorted(ids)[:2]:
        assert lab.thole("alice", "release", claim).returncode == 0
    mallory.kill(9)
    for holder in holders:
        holder.process.stdin.close()
        holder.wait()


@in_one_surrounding
def test_init_leaves_the_note_of_who_is_a_member_by_his_process_alone(lab):
    """As in a container with --group-add. What claims within needs the note."""
    lab.init("--group", SITE_GROUP)
    words = lab.command("mallory", "x")[:-1]
    become = words.index("setpriv")
    ids = ["setpriv", "--reuid=61003", "--regid=61003", f"--groups=61003,{SITE_GID}", "--"]
    inside = f"echo up; read go; {lab.program} run -g 1 --no-wait -- echo within; exec cat"
    command = [*words[:become], *ids, lab.program, "run", "-g", "2", "--", "sh", "-c", inside]
    with Started(command, cwd="/", env=lab.environment("mallory")) as mallory:
        assert mallory.line() == "up"
        lab.init()
        assert [(claim["user"], claim["verified"]) for claim in lab.claims("bob")] == [("mallory", True)] * 2
        mallory.write("go\n")
        assert mallory.line() == "within"


@in_one_surrounding
def test_the_note_of_who_holds_when_the_group_comes_stays(lab):
    lab.init()
    mallory = lab.hold("mallory")
    lab.run("mallory", "sh", "-c", "for i in 1 2 3; do cp /run/thole/notes/61003-* /run/thole/notes/61003-0000000$i; done")
    for _ in range(2):
        lab.init("--group", SITE_GROUP)
        assert [(claim["user"], claim["verified"]) for claim in lab.claims("bob")] == [("mallory", True)]
        assert lab.run("root", "sh", "-c", "ls /run/thole/notes | wc -l").stdout.strip() == "1"
    end(mallory)
    lab.init()
    assert lab.run("root", "ls", "/run/thole/notes").stdout == ""


@in_one_surrounding
def test_plain_init_opens_no_gate_and_no_group_does(lab):
    lab.init("--group", SITE_GROUP)
    lab.run("root", "rm", CONFIG, check=True)
    lab.init()
    assert access(lab) == {(0o660, SITE_GID)}
    lab.init("--no-group")
    assert access(lab) == {(0o666, 0)}
    assert claims_one(lab, "mallory").returncode == 0
    assert nodes(lab)["notes"] == (0o1777, 0, "d")


def restart(lab):
    """/run is empty after a start of the machine."""
    lab.run("root", "sh", "-c", "rm -rf /run/thole /run/thole.lock /run/lock/thole", check=True)


@in_one_surrounding
def test_the_group_survives_a_restart(lab):
    lab.init()
    lab.init("--group", SITE_GROUP)
    restart(lab)
    lab.init()
    assert access(lab) == {(0o660, SITE_GID)}
    lab.init("--no-group")
    restart(lab)
    lab.init()
    assert access(lab) == {(0o666, 0)}


@in_one_surrounding
def test_before_init_nobody_goes_around_the_gate(lab):
    """After a restart, before the unit has run: no fallback directory, and what root's own claim makes is gated too."""
    lab.init("--group", SITE_GROUP)
    restart(lab)
    done = claims_one(lab, "mallory")
    assert done.returncode == 69 and "thole init" in done.stderr, done.stderr
    assert lab.run("root", "test", "-e", "/run/lock/thole").returncode != 0
    assert claims_one(lab, "root").returncode == 0
    assert access(lab) == {(0o660, SITE_GID)}


@in_one_surrounding
def test_a_node_is_never_seen_open_on_a_gated_machine(lab):
    """By a process that looks at the directory all the while."""
    lab.init("--group", SITE_GROUP)
    restart(lab)
    watcher = lab.start_python("mallory", """
import os, sys, select
seen, rounds = set(), 0
print("up", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        for entry in os.scandir("/run/thole"):
            if entry.name == "devices" or entry.is_dir(): continue
            try: status = os.lstat(entry.path)
            except FileNotFoundError: continue
            if status.st_mode & 0o006 or (status.st_mode & 0o060 and status.st_gid != int(sys.argv[1])): seen.add(entry.name)
    except (FileNotFoundError, PermissionError): pass    # not made yet, or still closed
    rounds += 1
print(rounds > 0, sorted(seen))
""", str(SITE_GID))
    lab.init()
    watcher.write("end\n")
    assert watcher.line() == "True []"
    end(watcher)


@in_one_surrounding
def test_the_sites_file_keeps_what_else_it_says(lab):
    site = '# ours\n[request]\nwait = "1h" # long\n[state]\n# gate\n'
    lab.run("root", "sh", "-c", f"mkdir -p /etc/thole; cat > {CONFIG}", input=site, check=True)
    lab.init("--group", SITE_GROUP)
    text = lab.run("root", "cat", CONFIG).stdout
    assert "# ours" in text and 'wait = "1h" # long' in text and f'group = "{SITE_GROUP}"' in text, text
    lab.init("--no-group")
    assert lab.run("root", "cat", CONFIG).stdout == site


@in_one_surrounding
def test_only_the_sites_file_names_the_group(lab):
    home = lab.folder / "home/alice/.config/thole"
    lab.run("alice", "sh", "-c", f"mkdir -p {home}; printf '[state]\\ngroup = \"alice\"\\n' > {home}/config.toml", check=True)
    done = lab.thole("alice", "status")
    assert done.returncode == 64 and CONFIG in done.stderr, done.stderr


# Planted fallbacks, and directories that were not finished.

PLANT = "mkdir {0}; mkfifo -m 666 {0}/gpu.{1}"


def key_of(lab, gpu=0):
    return lab.status()["gpus"][gpu]["uuid"]


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


# Deleted by root's hand under a living claim.

@pytest.mark.parametrize("what", ["/run/thole", "/run/thole/*", "/run/thole/gpu.*", "/run/thole/queue"])
def test_what_root_deletes_under_a_claim_gets_no_second_owner(lab, what):
    lab.init()
    alice = lab.hold("alice")
    gpu = str(lab.claims()[0]["gpu"])
    lab.run("root", "sh", "-c", f"rm -rf {what}", check=True)
    for _ in ("before init", "after init"):
        for user in ("bob", "root"):
            done = claims_one(lab, user, "--on", gpu)
            assert done.returncode in (69, 75), (user, done.stderr)
        again = lab.thole("root", "init")
        assert again.returncode == 0, again.stderr
    if "queue" not in what:
        assert str(supervisor_of(alice)) in again.stderr and "left out" in again.stderr, again.stderr
    assert claims_one(lab, "bob", "-g", "3").returncode == 0, "the others go on"
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "--on", gpu).returncode == 0


@in_one_surrounding
def test_who_locks_what_init_has_deleted_keeps_nothing_from_coming_back(lab):
    lab.init()
    mallory = lab.start_python("mallory", """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
print("up"); sys.stdin.readline()
fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked"); sys.stdin.read()
""", f"/run/thole/gpu.{key_of(lab, 3)}")
    lab.set_gpus(3)
    lab.init()
    mallory.write("go\n")
    assert mallory.line() == "locked"
    lab.set_gpus(4)
    assert "4 GPUs" in lab.init().stdout
    assert claims_one(lab, "bob", "--on", "3").returncode == 0
    end(mallory)


@in_one_surrounding
def test_no_node_of_a_namespace_of_ones_own_keeps_a_gpu_from_coming_back(lab):
    """Its path reads like that of a deleted node, and nobody but its maker is behind it."""
    if lab.run("mallory", "unshare", "-U", "-r", "-m", "true").returncode != 0:
        pytest.skip("no user namespaces for users here")
    lab.init()
    key = key_of(lab, 3)
    lab.set_gpus(3)
    lab.init()
    mallory = lab.start("mallory", "unshare", "-U", "-r", "-m", "sh", "-c",
                        f"mount -t tmpfs none /run/thole && mkfifo /run/thole/gpu.{key} && exec 9<>/run/thole/gpu.{key} && "
                        f"flock -x 9 && rm /run/thole/gpu.{key} && echo up && exec cat")
    assert mallory.line() == "up", mallory.process.stderr.read().decode()
    lab.set_gpus(4)
    done = lab.init()
    assert "left out" not in done.stderr and "4 GPUs" in done.stdout, done.stdout + done.stderr
    assert claims_one(lab, "alice", "-g", "4").returncode == 0
    end(mallory)


@in_one_surrounding
def test_what_root_unmounts_under_a_claim_gets_no_second_owner(lab):
    lab.run("root", "sh", "-ec", "mkdir /run/thole; mount -t tmpfs -o mode=0755 thole /run/thole", check=True)
    lab.init()
    alice = lab.hold("alice")
    gpu = str(lab.claims()[0]["gpu"])
    lab.run("root", "umount", "-l", "/run/thole", check=True)
    for _ in range(2):
        again = lab.init()
        assert str(supervisor_of(alice)) in again.stderr and "left out" in again.stderr, again.stderr
        for user in ("bob", "root"):
            assert claims_one(lab, user, "--on", gpu).returncode in (69, 75)
    assert claims_one(lab, "bob", "-g", "3").returncode == 0
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "--on", gpu).returncode == 0

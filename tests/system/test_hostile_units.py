# ctest: timeout 900
"""Units that vanish and come back, and locks that root deletes or unmounts, while somebody has them or claims to."""
import pytest

import hostile
from fake_nvidia import Driver
from hostile import SITE_GROUP, end, interpreter, lab  # noqa: F401 (lab: a fixture)
from init_tools import CHURN, IN_A_SOCKET, SHORT_PAGES, claims_one, in_one_surrounding, key_of, nodes

# Units that vanish.


@in_one_surrounding
def test_a_vanished_gpu_is_forgotten_unless_it_is_held(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "3")
    for gpus, left in ((2, "2 GPUs"), (4, "4 GPUs")):
        lab.set_gpus(gpus)
        done = lab.init()
        assert left in done.stdout, done.stdout
        assert claims_one(lab, "bob", "-g", "2").returncode == 0
    assert claims_one(lab, "bob", "--on", "3").returncode == 75
    end(alice)
    assert claims_one(lab, "bob", "-g", "4").returncode == 0


LOCK_ALL = """
import fcntl, glob, os, sys
kept = []
for path in glob.glob("/run/thole/gpu.*"):
    kept.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    try: fcntl.flock(kept[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError: kept.pop()
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def next_generation(monkeypatch):
    """Makes the 16 GPUs of a lab all others, those of the generation asked for (at the start: 0), and tells `init` of them."""
    now = 0
    monkeypatch.setattr(Driver, "uuid", staticmethod(
        lambda gpu: f"GPU-{0xfa4e0000 + 100 * now + gpu:08x}-0000-4000-8000-{gpu:012x}"))

    def change(lab, generation):
        nonlocal now
        now = generation
        lab.set_gpus(16)
        return lab.init()
    return change


def test_locks_of_units_that_are_gone_use_up_no_room(next_generation):
    """A machine whose MIG instances are made anew again and again, while somebody keeps the locks of all that were."""
    with hostile.make("plain", 16) as lab:
        lab.init()
        kept = []
        for generation in range(1, 9):
            kept.append(lab.start_python("mallory", LOCK_ALL))
            done = next_generation(lab, generation)
            assert "16 GPUs can be claimed" in done.stdout, done.stdout
            assert claims_one(lab, "alice", "-g", "16").returncode == 0
        assert "of mallory keeps the locks of" in done.stderr, done.stderr
        lab.init("--group", SITE_GROUP)
        assert nodes(lab)["alloc"][0] == 0o660 and claims_one(lab, "alice", "-g", "16").returncode == 0
        next_generation(lab, 0)                                     # what was held comes back, and is held
        assert claims_one(lab, "alice").returncode == 75
        for locker in kept:
            end(locker)
        assert "112 that vanished forgotten" in lab.init().stdout
        assert claims_one(lab, "alice", "-g", "16").returncode == 0


def test_a_claim_on_a_unit_that_is_gone_keeps_its_slot(next_generation):
    """Those that somebody merely locks are given to others first: without a slot the claim's note says nothing to anybody."""
    with hostile.make("plain", 16) as lab:
        lab.init()
        alice = lab.hold("alice", "--on", "0", gpus=1)
        bob = lab.hold("bob", "--share", "--memory", "1G", "--on", "1")
        ids = {claim["user"]: claim["id"] for claim in lab.claims()}
        kept = []
        for generation in range(1, 10):
            kept.append(lab.start_python("mallory", LOCK_ALL))
            assert "16 GPUs can be claimed" in next_generation(lab, generation).stdout
        assert lab.thole("alice", "release", ids["alice"]).returncode == 0
        assert alice.wait() != 0, "it was ended"
        assert lab.thole("root", "release", ids["bob"]).returncode == 0
        assert bob.wait() != 0
        for ended in (alice, bob):
            ended.__exit__()
        for locker in kept:
            end(locker)


def test_units_that_find_all_slots_claimed_are_left_out_and_their_claimers_named(next_generation):
    with hostile.make("plain", 16) as lab:
        lab.init()
        holders = []
        for generation in range(1, 9):
            holders.append(lab.hold("alice", gpus=16))
            done = next_generation(lab, generation)
        assert done.stderr.count("is left out") == 16 and "those that are gone are claimed" in done.stderr, done.stderr
        assert "of alice keeps the lock" in done.stderr, done.stderr
        end(holders.pop())
        assert "16 GPUs can be claimed" in lab.init().stdout
        for holder in holders:
            end(holder)


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
        assert "of alice has it still" in again.stderr and "left out" in again.stderr, again.stderr
    assert claims_one(lab, "bob", "-g", "3").returncode == 0, "the others go on"
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "--on", gpu).returncode == 0


@in_one_surrounding
def test_a_deleted_lock_is_not_forgotten_while_its_gpu_is_away(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "1")
    lab.run("root", "rm", f"/run/thole/gpu.{key_of(lab, 1)}", check=True)
    lab.set_gpus(1)
    lab.init()
    lab.set_gpus(2)
    assert "left out" in lab.init().stderr
    assert claims_one(lab, "bob", "--on", "1").returncode in (69, 75)
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "--on", "1").returncode == 0


# Holds a GPU where /proc/PID/fd shows nothing: in a thread whose process's first has ended, or on the way through a socket.
HIDDEN = """
import ctypes, fcntl, os, pathlib, socket, sys, threading
def hold():
    fd = os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd
if sys.argv[2] == "sent":
    here, there = socket.socketpair()
    fd = hold()
    socket.send_fds(here, [b"x"], [fd])
    os.close(fd)
    print("up")
    sys.stdin.read()
else:
    def work():
        while list(main.iterdir()): pass          # of the process's first thread, until it has ended
        hold()
        print("up")
        sys.stdin.read()
        os._exit(0)
    main = pathlib.Path(f"/proc/{os.getpid()}/fd")
    threading.Thread(target=work).start()
    ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.parametrize("how", ["thread", "sent"])
@in_one_surrounding
def test_what_root_deletes_under_a_hidden_holder_gets_no_second_owner(lab, how):
    lab.init()
    alice = lab.start_python("alice", HIDDEN, f"/run/thole/gpu.{key_of(lab, 2)}", how)
    lab.run("root", "sh", "-c", "rm /run/thole/gpu.*", check=True)
    for _ in range(2):
        done = lab.init()
        assert "left out: its lock was deleted" in done.stderr and "3 GPUs" in done.stdout, done.stdout + done.stderr
        assert claims_one(lab, "bob", "--on", "2").returncode in (69, 75)
    assert claims_one(lab, "bob", "-g", "3").returncode == 0
    alice.process.stdin.close()
    alice.wait()
    lab.init()
    assert claims_one(lab, "bob", "--on", "2").returncode == 0


@in_one_surrounding
def test_a_claim_whose_lock_root_has_deleted_is_claimed_within_and_released(lab):
    """What its holder notes is understood: the unit keeps its slot over every init."""
    lab.init()
    claim = lab.thole("alice", "-q", "claim", "-g", "2", "--on", "1,2").stdout.strip()
    lab.run("root", "rm", f"/run/thole/gpu.{key_of(lab, 2)}", check=True)
    for _ in range(2):
        assert "left out" in lab.init().stderr
        assert claims_one(lab, "bob", "--on", "2").returncode in (69, 75)
    one = ["run", "-q", "--no-wait", "--on", "2", "--", "printenv", "THOLE_CLAIM"]
    inside = lab.thole("alice", *one, THOLE_CLAIM=claim)
    assert inside.stdout.startswith(claim + "/"), inside.stdout + inside.stderr
    assert lab.thole("alice", "extend", claim, "1h").returncode == 0
    done = lab.thole("alice", "release", claim)
    assert done.returncode == 0, done.stderr
    assert "left out" not in lab.init().stderr and claims_one(lab, "bob", "--on", "2").returncode == 0


@pytest.mark.parametrize("churning", [(CHURN, 2), (SHORT_PAGES, 1)], ids=["long", "short pages"])
@in_one_surrounding
def test_locks_that_come_and_go_hide_no_hidden_holder(lab, churning):
    """What the kernel lists is read in pages, and what others give back between two of them moves the rest."""
    lab.init()
    alice = lab.start_python("alice", HIDDEN, f"/run/thole/gpu.{key_of(lab, 2)}", "sent")
    lab.run("root", "sh", "-c", "rm /run/thole/gpu.*", check=True)
    churns = [lab.start_python("mallory", churning[0], "2000") for _ in range(churning[1])]
    for _ in range(12):
        assert f"{key_of(lab, 2)} is left out: its lock was deleted" in lab.init().stderr
    assert claims_one(lab, "bob", "--on", "2").returncode in (69, 75)
    for churn in churns:
        churn.kill(9)
    for churn in churns:
        churn.wait()   # its locks come and go until it has ended
    end(alice)
    assert "4 GPUs" in lab.init().stdout


@in_one_surrounding
def test_a_number_that_is_used_again_keeps_no_gpu_from_coming_back(lab):
    """After an umount the device's number is free, and a new file system counts its inodes anew."""
    def mount():
        lab.run("root", "sh", "-ec", "mkdir -p /run/thole; mount -t tmpfs -o mode=0755 thole /run/thole", check=True)

    mount()
    lab.init()
    key = key_of(lab, 3)
    number = int(lab.run("root", "stat", "-c", "%i", f"/run/thole/gpu.{key}").stdout)
    lab.run("root", "umount", "/run/thole", check=True)
    mount()
    lab.set_gpus(1)
    lab.init()
    mallory = lab.start_python("mallory", """
import fcntl, os, sys
wanted, got, k = int(sys.argv[1]), 0, 0
while got < wanted:
    path = f"/run/thole/notes/x{k}"
    os.mkfifo(path)
    got, k = os.stat(path).st_ino, k + 1
    if got != wanted: os.unlink(path)
assert got == wanted, (got, wanted)
fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
fcntl.flock(fd, fcntl.LOCK_EX)
print("up"); sys.stdin.read()
""", str(number))
    lab.set_gpus(4)
    done = lab.init()
    assert "left out" not in done.stderr and "4 GPUs" in done.stdout, done.stdout + done.stderr
    end(mallory)


@in_one_surrounding
def test_no_number_of_a_lock_is_used_again_in_a_file_system_of_its_own(lab):
    lab.run("root", "sh", "-ec", "mkdir -p /run/thole; mount -t tmpfs -o mode=0755,inode32 thole /run/thole", check=True)
    size = "df --output=size,itotal /run/thole"
    before = lab.run("root", "sh", "-c", size).stdout
    lab.init()
    [options] = [line.split()[3] for line in lab.run("root", "cat", "/proc/mounts").stdout.splitlines()
                 if line.split()[1] == "/run/thole"]
    assert "inode64" in options.split(",") and lab.run("root", "sh", "-c", size).stdout == before, options


@in_one_surrounding
def test_a_lock_of_a_vanished_gpu_that_cannot_be_opened_is_not_forgotten(lab):
    lab.init()
    key = key_of(lab, 3)
    node = f"/run/thole/gpu.{key}"
    code = f"import os, socket; os.unlink('{node}'); socket.socket(socket.AF_UNIX).bind('{node}')"    # opening it fails
    lab.run("root", interpreter(), "-c", code, check=True)
    lab.set_gpus(3)
    lab.init()
    assert key in lab.run("root", "cat", "/run/thole/devices").stdout
    assert lab.run("root", "test", "-e", node).returncode == 0


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


def gpu_3_comes_back_beside(lab, script):
    """GPU 3 (its name is {0}) vanishes, and comes back while mallory has run the script in namespaces of her own."""
    if lab.run("mallory", "unshare", "-U", "-r", "-m", "true").returncode != 0:
        pytest.skip("no user namespaces for users here")
    lab.init()
    script = script.format(key_of(lab, 3))
    lab.set_gpus(3)
    lab.init()
    mallory = lab.start("mallory", "unshare", "-U", "-r", "-m", "sh", "-c", f"{script} && echo up && exec cat")
    assert mallory.line() == "up", mallory.process.stderr.read().decode()
    lab.set_gpus(4)
    done = lab.init()
    assert "left out" not in done.stderr and "4 GPUs" in done.stdout, done.stdout + done.stderr
    assert claims_one(lab, "alice", "-g", "4").returncode == 0
    end(mallory)


@in_one_surrounding
def test_no_node_of_a_namespace_of_ones_own_keeps_a_gpu_from_coming_back(lab):
    """Its path reads like that of a deleted node, and nobody but its maker is behind it."""
    gpu_3_comes_back_beside(lab, "mount -t tmpfs none /run/thole && mkfifo /run/thole/gpu.{0} && "
                                 "exec 9<>/run/thole/gpu.{0} && flock -x 9 && rm /run/thole/gpu.{0}")


@in_one_surrounding
def test_no_name_that_anybody_gives_a_node_keeps_a_gpu_from_coming_back(lab):
    """A FIFO of the line is root's and in the same file system; bound to another name it reads like a deleted node."""
    name = "'/var/tmp/gpu.{0} (deleted)'"
    gpu_3_comes_back_beside(lab, f"touch {name}; mount --bind /run/thole/turn.900 {name} && exec 9<>{name} && flock -x 9")


@in_one_surrounding
def test_root_takes_back_a_gpu_whose_lock_was_deleted(lab):
    lab.init()
    alice = lab.hold("alice", "--on", "1")
    lab.run("root", "sh", "-c", "rm /run/thole/gpu.*", check=True)
    assert "left out" in lab.init().stderr
    done = lab.init("--take-back", "1")
    assert "left out" not in done.stderr and "4 GPUs" in done.stdout, done.stdout + done.stderr
    assert claims_one(lab, "bob", "--on", "1").returncode == 0
    end(alice)


@in_one_surrounding
@pytest.mark.parametrize("how", ["alone", "shared", "in a socket"])
def test_root_takes_back_a_gpu_that_was_partitioned_under_its_lock(lab, how):
    lab.init()
    if how == "in a socket":
        held = lab.start_python("mallory", IN_A_SOCKET, f"/run/thole/gpu.{lab.driver.uuid(3)}", "child")
    else:
        held = lab.hold("mallory", *(["--share", "--memory", "1G"] if how == "shared" else []), "--on", "3")
    lab.partition(3)
    init = lab.init()
    assert "5 GPUs" in init.stdout and f"all of {lab.driver.uuid(3)} was locked before it was partitioned" in init.stderr
    assert "mallory" in init.stderr and "another user" not in init.stderr, init.stderr
    refused = claims_one(lab, "bob", "--on", "3:0")
    assert refused.returncode == 75 and "3:0" in refused.stderr, refused.stderr
    done = lab.init("--take-back", "3:1")
    assert "is taken back; " in done.stderr and "nobody held it" not in done.stderr, done.stderr
    assert ("what had MIG-aaaaaaa2" in done.stderr) == (how != "in a socket"), done.stderr
    for instance in ("3:0", "3:1"):
        assert claims_one(lab, "bob", "--on", instance).returncode == 0
    again = lab.thole("root", "init", "--take-back", "3")
    assert again.returncode == 69 and again.stderr.count("nobody held it") == 2, again.stderr
    assert "partitioned" not in again.stderr, again.stderr
    held.__exit__()


@in_one_surrounding
@pytest.mark.parametrize("says", ["init 999", "init 18", "rc nvmlDeviceGetCount_v2 999", "rc nvmlDeviceGetMigMode 999",
                                  "rc nvmlDeviceGetMigDeviceHandleByIndex 999"])
def test_an_init_while_the_driver_fails_forgets_nothing_and_adds_no_whole_beside_its_parts(lab, says):
    lab.partition(1)
    lab.init()
    alice = lab.hold("alice", "--on", "1:0")
    lab.partition(1, says)
    told = lab.init()
    assert "forgotten" not in told.stdout, told.stdout
    if "HandleByIndex" not in says:               # there it is known that it is partitioned
        assert "is left out: the driver does not tell whether it is partitioned" in told.stderr, told.stderr
    for words in (["--on", "1"], ["--on", "1", "--trust-claims"]):
        assert lab.thole("bob", "run", *words, "--no-wait", "--", "true").returncode == 69
    lab.partition(1)
    assert claims_one(lab, "bob", "--on", "1:1").returncode == 0, "it was forgotten"
    assert claims_one(lab, "bob", "--on", "1:0").returncode == 75
    end(alice)


@in_one_surrounding
def test_what_root_unmounts_under_a_claim_gets_no_second_owner(lab):
    lab.run("root", "sh", "-ec", "mkdir /run/thole; mount -t tmpfs -o mode=0755 thole /run/thole", check=True)
    lab.init()
    alice = lab.hold("alice")
    gpu = str(lab.claims()[0]["gpu"])
    lab.run("root", "umount", "-l", "/run/thole", check=True)
    for _ in range(2):
        again = lab.init()
        assert "of alice has it still" in again.stderr and "left out" in again.stderr, again.stderr
        for user in ("bob", "root"):
            assert claims_one(lab, user, "--on", gpu).returncode in (69, 75)
    assert claims_one(lab, "bob", "-g", "3").returncode == 0
    end(alice)
    lab.init()
    assert claims_one(lab, "bob", "--on", gpu).returncode == 0

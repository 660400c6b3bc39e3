"""The space of /run/thole: what strangers write there fills nothing else, and costs no claim."""
import pytest

from hostile import SITE_GROUP, end, interpreter, lab, supervisor_of  # noqa: F401 (lab: a fixture)
from run_tools import eventually

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# The first process of a machine of its own, as far as mounts go: `thole init` mounts only where pid 1 sees it too.
AS_PID_1 = ["unshare", "-m", "-p", "-f", "--mount-proc", "--propagation", "private", "sh", "-ec"]


def on_a_machine(lab, script):
    done = lab.run("root", *AS_PID_1, script.replace("THOLE", lab.program))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


MOUNTED = "grep -c ' /run/thole tmpfs ' /proc/mounts || true\n"


@in_one_surrounding
def test_init_gives_the_directory_a_small_file_system_of_its_own(lab):
    seen = on_a_machine(lab, "THOLE init; grep ' /run/thole ' /proc/mounts; THOLE init; " + MOUNTED).splitlines()
    mount = seen[1].split()
    assert mount[2] == "tmpfs" and {"nosuid", "nodev", "noexec", "size=4096k", "nr_inodes=8192"} <= set(
        mount[3].split(",")
    ), mount
    assert seen[-1] == "1", "once"


@in_one_surrounding
def test_it_is_never_mounted_over_locks(lab):
    lab.init()    # not in the namespace of pid 1: no mount
    assert lab.run("root", "grep", "-c", " /run/thole ", "/proc/mounts").stdout == "0\n"
    alice = lab.hold("alice")
    told, mounted = on_a_machine(lab, "THOLE init 2>&1 | tr '\\n' ' '; echo; " + MOUNTED).splitlines()
    assert mounted == "0" and "gets no file system of its own (its locks are there already" in " ".join(told.split()), told
    gpu = str(lab.claims()[0]["gpu"])
    assert lab.thole("bob", "run", "--no-wait", "--on", gpu, "--", "true").returncode == 75
    end(alice)


@in_one_surrounding
def test_on_a_file_system_that_becomes_read_only_nobody_is_sent_to_another_directory(lab):
    """There he would know nothing of who keeps GPUs here."""
    lab.init()
    alice = lab.hold("alice", "--on", "0")
    read_only = "mount --bind /run/thole /run/thole && mount -o remount,bind,ro /run/thole"
    assert lab.run("root", "sh", "-c", read_only).returncode == 0
    done = lab.thole("bob", "run", "--no-wait", "-g", "1", "--", "true")
    assert done.returncode == 69 and "mount it writable again" in done.stderr, done.stderr
    assert "--state-dir" not in done.stderr, done.stderr
    assert lab.run("root", "umount", "/run/thole").returncode == 0
    assert lab.thole("bob", "run", "--no-wait", "-g", "1", "--", "true").returncode == 0
    assert [claim["user"] for claim in lab.claims()] == ["alice"]
    alice.__exit__()


@in_one_surrounding
def test_init_in_a_mount_namespace_of_its_own_is_seen_outside(lab):
    """That of a service with ProtectSystem=: what were mounted there would stay there."""
    done = lab.run("root", "unshare", "-m", "--propagation", "slave", lab.program, "init")
    assert done.returncode == 0, done.stderr
    assert lab.thole("alice", "run", "--no-wait", "-g", "4", "--", "true").returncode == 0
    assert "(system)" in lab.thole("alice", "doctor").stdout


def own_file_system(lab):
    """What run-thole.mount does, before init."""
    lab.run(
        "root", "sh", "-ec", "mkdir /run/thole; mount -t tmpfs -o size=4m,nr_inodes=8k,mode=0755 thole /run/thole", check=True
    )
    lab.init()


@in_one_surrounding
def test_what_is_written_to_the_shared_files_fills_nothing_else_and_is_cut_back(lab):
    own_file_system(lab)
    for name in ("who", "queue"):
        lab.run("mallory", "dd", "if=/dev/zero", f"of=/run/thole/{name}", "bs=1M", "seek=1", "count=64", "conv=notrunc")
    assert lab.run("root", "sh", "-c", "echo x > /run/daemon.pid").returncode == 0
    assert lab.thole("alice", "run", "--no-wait", "-g", "4", "--", "true").returncode == 0
    lab.init()
    sizes = lab.run("root", "stat", "-c", "%s", "/run/thole/who", "/run/thole/queue").stdout.split()
    assert all(int(size) < 2 << 20 for size in sizes), sizes
    assert lab.run("alice", "sh", "-c", "echo x > /run/thole/notes/probe").returncode == 0, "there is space again"


@in_one_surrounding
def test_a_directory_full_of_files_costs_no_claim_and_its_filler_is_named(lab):
    own_file_system(lab)
    lab.run("mallory", "sh", "-c", "cd /run/thole/notes; i=0; while : > 61003-$i; do i=$((i+1)); done")
    assert lab.run("alice", "touch", "/run/thole/notes/x").returncode != 0, "it is full"
    alice = lab.hold("alice", gpus=2)
    assert lab.thole("bob", "run", "--no-wait", "-g", "3", "--", "true").returncode == 75
    assert lab.thole("bob", "run", "--no-wait", "-g", "2", "--", "true").returncode == 0
    said = " ".join(lab.thole("bob", "doctor").stdout.split())
    assert "nearly full" in said and "user 61003 has most of it" in said, said
    lab.set_gpus(5)
    lab.init()
    assert lab.thole("bob", "run", "--no-wait", "--on", "4", "--", "true").returncode == 0
    assert "nearly full" not in lab.thole("bob", "doctor").stdout
    end(alice)


FILL = {"nested": "mkdir -p notes/d/e; cd notes/d/e; i=0; while true > x$i; do i=$((i+1)); done",
        "hidden": "cd notes; i=0; while true > .x$i; do i=$((i+1)); done",
        "shared": "cat /dev/zero >> queue",
        "deleted": "exec 3> notes/61003-a; rm notes/61003-a; cat /dev/zero >&3"}


@pytest.mark.parametrize("how", FILL)
@in_one_surrounding
def test_however_it_is_filled_init_works_and_no_innocent_is_named(lab, how):
    own_file_system(lab)
    lab.thole("alice", "run", "--", "true", check=True)
    mallory = lab.start("mallory", "sh", "-c", f"cd /run/thole; {{ {FILL[how]}; }} 2> /dev/null; echo full; exec cat")
    assert mallory.line() == "full"
    said = " ".join(lab.thole("bob", "doctor").stdout.split())
    assert "nearly full" in said and "user 61001" not in said, said
    named = {"nested": "user 61003 has most", "hidden": "user 61003 has most", "shared": "somebody has written",
             "deleted": "deleted and still open"}[how]
    assert named in said, said
    lab.set_gpus(6)
    done = lab.thole("root", "init")
    assert done.returncode == 0, done.stderr
    if how == "deleted":
        assert f"pid {mallory.pid}" in done.stderr or "of user 61003" in done.stderr, done.stderr
    else:
        assert "nearly full" not in lab.thole("bob", "doctor").stdout
    assert lab.thole("alice", "run", "-g", "6", "--no-wait", "--", "true").returncode == 0
    end(mallory)


# As many as there is room for, by who need not stay.
ATTRIBUTES = """
import errno, os, sys
count = 0
if sys.argv[1:] == ["long names"]:     # more than the kernel lists
    for name in ("queue", "alloc", "who"):
        try:
            for i in range(300): os.setxattr(f"/run/thole/{name}", f"user.{i:0250}", b"")
        except OSError: pass
for size in (60000, 1000, 1):
    try:
        while True:
            os.setxattr(f"/run/thole/{('queue', 'alloc', 'who')[count % 3]}", f"user.a{count}", b"x" * size)
            count += 1
    except OSError as error: why = error.errno
print("cannot" if why == errno.ENOTSUP else "up", flush=True)
"""


@pytest.mark.parametrize("names", ["short names", "long names"])
@in_one_surrounding
def test_what_attributes_take_of_the_shared_files_init_gives_back(lab, names):
    own_file_system(lab)
    done = lab.run("mallory", interpreter(), "-c", ATTRIBUTES, names)
    if done.stdout == "cannot\n":
        pytest.skip("this kernel's tmpfs has no attributes of users (Linux 6.6)")
    shares = ["run", "--share", "--memory", "1G", "--no-wait", "--", "true"]
    assert lab.thole("bob", *shares).returncode == 69, "there is no room for a note"
    assert "attributes of files" in " ".join(lab.thole("bob", "doctor").stdout.split())
    lab.init()
    assert lab.thole("bob", *shares).returncode == 0


KEEPS_DIRECTORIES = """
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
os.chdir("/run/thole/notes")
kept = []
try:
    while True:
        os.mkdir("61003-d")
        kept.append(os.open("61003-d", os.O_RDONLY))
        os.rmdir("61003-d")
except OSError: print("up", flush=True)
sys.stdin.read()
"""


KEEPS_ATTRIBUTES = """
import os, sys
path = "/run/thole/notes/61003-a"
file = os.open(path, os.O_RDWR | os.O_CREAT)
try:
    for i in range(1000000): os.setxattr(file, f"user.a{i}", b"x" * 60000)
except OSError: os.unlink(path)
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("keeps", [KEEPS_DIRECTORIES, KEEPS_ATTRIBUTES], ids=["directories", "attributes"])
@in_one_surrounding
def test_who_keeps_deleted_directories_is_named(lab, keeps):
    own_file_system(lab)
    mallory = lab.start_python("mallory", keeps)
    if "nearly full" not in lab.thole("root", "doctor").stdout:
        pytest.skip("this kernel's tmpfs has no attributes of users (Linux 6.6)")
    said = lab.thole("root", "init").stderr
    assert f"pid {supervisor_of(mallory)} " in said and "deleted files of it open" in said, said
    end(mallory)


@in_one_surrounding
def test_who_claimed_before_there_was_a_group_is_not_named_as_who_fills_the_directory(lab):
    own_file_system(lab)
    alice = lab.hold("alice")
    lab.init("--group", SITE_GROUP)
    lab.run("root", "sh", "-c", "cat /dev/zero > /run/thole/full")
    assert "nearly full" in lab.thole("root", "doctor").stdout
    done = lab.thole("root", "init")
    assert done.returncode == 0 and "alice" not in done.stderr, done.stderr
    end(alice)


# A deleted file of mallory's with as many attributes as there is room for, again at each line that is read.
FILLER = """
import array, os, socket, sys
path = f"/run/thole/notes/{os.getuid()}-0bad0000"
file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
os.unlink(path)
count = 0
def fill(file):
    global count
    for size in (60000, 1000, 1):
        try:
            while True:
                os.setxattr(file, f"user.a{count}", b"x" * size)
                count += 1
        except OSError: pass
fill(file)
if sys.argv[1] == "in flight":
    ends = socket.socketpair()
    socket.send_fds(ends[0], [b"x"], [file])
    os.close(file)
print("up", flush=True)
for line in sys.stdin:
    if sys.argv[1] == "in flight":
        _, [file], _, _ = socket.recv_fds(ends[1], 1, 1)
        fill(file)
        socket.send_fds(ends[0], [b"x"], [file])
        os.close(file)
    else:
        fill(file)
    print("full", flush=True)
"""


@pytest.mark.parametrize("how", ["open", "in flight"])
@in_one_surrounding
def test_root_gets_room_however_often_the_directory_is_filled(lab, how):
    own_file_system(lab)
    lab.run("root", "mount", "-o", "remount,nr_inodes=65536", "/run/thole", check=True)   # as after many an init
    held = [lab.hold("mallory", "--on", gpu) for gpu in "01"]
    mallory = lab.start_python("mallory", FILLER, how)
    named = f"pid {mallory.pid}" if how == "open" else "no process is seen to have it open"
    for words in (["--take-back", "1"], ["--group", SITE_GROUP], [], ["--take-back", "0"]):
        mallory.write("again\n")
        assert mallory.line() == "full"
        if not words:
            lab.set_gpus(6)
        done = lab.thole("root", "init", *words)
        said = " ".join(done.stderr.split())
        assert done.returncode == 0 and named in said, (words, said)
    assert lab.thole("bob", "run", "--on", "5", "--no-wait", "--", "true").returncode == 0
    for claim in held:
        claim.__exit__()
    end(mallory)


@in_one_surrounding
def test_init_deletes_directories_however_deep(lab):
    lab.init()
    lab.run("mallory", "sh", "-c", "cd /run/thole/notes; for k in $(seq 1000); do mkdir d e && cd d && : > f; done")
    lab.init()
    assert lab.run("root", "ls", "-A", "/run/thole/notes").stdout == ""


@in_one_surrounding
def test_a_full_tmp_costs_a_sockets_place_and_is_said_in_one_sentence(lab):
    lab.init()
    lab.run("root", "mount", "-o", "remount,nr_inodes=200", "/tmp", check=True)
    lab.run("mallory", "sh", "-c", "mkdir /tmp/x; cd /tmp/x; i=0; while : > $i; do i=$((i+1)); done")
    done = lab.thole("alice", "run", "--no-wait", "--", "echo", "ran")
    assert done.returncode == 0 and done.stdout == "ran\n", done.stderr
    assert "will not reach this claim" in done.stderr and "x0a" not in done.stderr, done.stderr
    assert lab.thole("alice", "claim", "--no-wait").returncode == 69, "its holder is reached through a socket"


@in_one_surrounding
def test_init_deletes_what_is_no_note(lab):
    lab.init()
    lab.run(
        "mallory",
        "sh",
        "-ec",
        "cd /run/thole/notes; mkdir 61003-d; mkfifo 61003-f; echo x > 61001-a; ln -s /etc/passwd 61003-l; "
        "echo x > 61003-00000001; truncate -s 1G 61003-00000002",
        check=True,
    )
    lab.run("alice", "sh", "-c", "echo x > /run/thole/notes/61001-0000000b", check=True)
    said = lab.init().stderr
    assert "notes/61001-a of mallory is no note, but stays" in said and said.count("stays") == 1, said
    assert lab.run("root", "ls", "/run/thole/notes").stdout.split() == ["61001-0000000b", "61001-a", "61003-00000001"]
    lab.init("--group", "gpuusers")
    assert lab.run("root", "ls", "/run/thole/notes").stdout.split() == [
        "61001-0000000b", "61001-a"
    ], "who may not claim says nothing of claims"


# How mallory moves what is alice's among the notes, where they share a file system with /run/lock: by whom what is done.
SWAP = "mkdir -m 777 /run/lock/swap; chmod 777 /run/lock/swap"
IN_IT = "cd /run/lock/swap; mkdir -m 700 alice; echo precious > alice/data"
IN_HERS = "cd /run/lock/swap; mkdir -m 700 hers hers/in; echo precious > hers/in/data; chmod 777 hers"
CLOSE = "cd /run/lock/swap; mkdir -p deep/er; touch mine deep/er/f; chmod 0 deep/er; chmod 755 ."
MOVED = {
    "open directory": (SWAP, IN_IT, "mv /run/lock/swap /run/thole/notes/61003-d", "61003-d/alice/data"),
    "closed directory": (SWAP, IN_IT, f"{CLOSE}; mv /run/lock/swap /run/thole/notes/61003-d", "61003-d/alice/data"),
    "alice's directory": (SWAP, IN_HERS, "mv /run/lock/swap/hers /run/thole/notes/61001-d", "61001-d/in/data"),
    "file": (SWAP, "echo precious > /run/lock/swap/data", "mv /run/lock/swap/data /run/thole/notes/61003-a", "61003-a"),
}


@pytest.mark.parametrize("words", [[], ["--group", SITE_GROUP]], ids=["open", "group"])
@pytest.mark.parametrize("how", MOVED)
@in_one_surrounding
def test_init_deletes_nothing_of_others_that_somebody_moves_among_the_notes(lab, how, words):
    lab.init()
    make, fill, move, data = MOVED[how]
    for user, script in (("mallory", make), ("alice", fill), ("mallory", move)):
        lab.run(user, "sh", "-ec", script, check=True)
    done = lab.init(*words)
    assert lab.run("root", "cat", f"/run/thole/notes/{data}").stdout == "precious\n"
    assert f"notes/{data.split('/')[0]} of " in done.stderr and "but stays" in done.stderr, done.stderr
    if how == "closed directory":
        assert "(alice)" in done.stderr, done.stderr
        assert lab.run("root", "ls", "/run/thole/notes/61003-d").stdout.split() == ["alice"], "what is mallory's has gone"


@in_one_surrounding
def test_in_a_file_system_of_its_own_init_deletes_whatever_is_no_note(lab):
    """Nobody can move anything there from elsewhere; else two users who act together could fill it for good."""
    own_file_system(lab)
    lab.run("mallory", "sh", "-ec", "mkdir /run/thole/notes/d; chmod 777 /run/thole/notes/d", check=True)
    lab.run("bob", "sh", "-ec", "cd /run/thole/notes; mkdir -m 700 d/e; touch d/e/f x", check=True)
    assert lab.init().stderr == ""
    assert lab.run("root", "ls", "-A", "/run/thole/notes").stdout == ""


# mallory's files, as notes are named, of the size that a notes file may have; with a lock on every record of theirs, or none.
FULL_NOTES = """
import fcntl, os, struct, sys
kept = []
for number in range(16):
    fd = os.open(f"/run/thole/notes/61003-{number:08x}", os.O_RDWR | os.O_CREAT, 0o644)
    try: os.write(fd, bytes(256 << 10))
    except OSError: pass
    if sys.argv[1] == "locked": fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)); kept.append(fd)
    else: os.close(fd)
print("up", flush=True); sys.stdin.read()
"""


@in_one_surrounding
def test_a_note_of_a_claim_that_is_over_is_no_reason_to_delete_a_live_one(lab):
    own_file_system(lab)

    def files():
        return [name for name in lab.run("root", "ls", "/run/thole/notes").stdout.split() if "line" not in name]

    def kept_from(name):                                   # so that alice makes another file
        return [lab.lock("mallory", f"/run/thole/notes/{name}", "ofd-read", byte) for byte in (512, 513)]

    first = lab.hold("alice", "--on", "2")
    [older] = files()
    no_more = kept_from(older)
    process = lab.start("alice", "sh", "-c", "echo $$; exec sleep 600")
    lab.thole("alice", "claim", "--on", "1", "--time", "1s", "--pid", process.line().strip(), check=True)
    [newer] = [name for name in files() if name != older]
    neither = kept_from(newer)
    for lock in no_more:
        lock.__exit__()
    eventually(lambda: len(lab.claims()) == 1, "it is over, and its process runs")
    held = lab.hold("alice", "--on", "1", "--trust-claims")
    end(first)
    assert sorted(files()) == sorted([older, newer])
    lab.run("mallory", "sh", "-c", "head -c 8000000 /dev/zero > /run/thole/notes/61003-00000000")
    lab.init()
    assert [(claim["user"], claim["verified"]) for claim in lab.claims("bob") if claim["id"]] == [("alice", True)]
    for lock in neither:
        lock.__exit__()
    process.__exit__()
    end(held)


@pytest.mark.parametrize("how", ["idle", "locked"])
@in_one_surrounding
def test_init_cuts_back_notes_that_speak_of_no_lock_of_their_users(lab, how):
    own_file_system(lab)
    bob = lab.hold("bob")
    mallory = lab.start_python("mallory", FULL_NOTES, how)
    share = ["run", "--share", "--memory", "1G", "--no-wait", "--", "true"]
    assert lab.thole("alice", *share).returncode == 69, "it is full"
    if how == "idle":
        end(mallory)
    lab.init()
    assert lab.run("root", "sh", "-c", "ls /run/thole/notes | grep -c ^61003-").stdout == "0\n"
    if how == "locked":
        end(mallory)   # until then what she has open takes the space; init has made it larger for root alone
        lab.init()
    assert "nearly full" not in lab.thole("bob", "doctor").stdout
    assert lab.thole("alice", *share).returncode == 0
    assert [(claim["user"], claim["verified"]) for claim in lab.claims("alice")] == [("bob", True)], "a live note stays"
    end(bob)

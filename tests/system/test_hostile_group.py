# ctest: timeout 900
"""`thole init --group`: who may claim, who could before, and his notes."""
import ctypes
import os
import signal

import pytest

import hostile
from hostile import SITE_GID, SITE_GROUP, end, lab, supervisor_of  # noqa: F401 (lab: a fixture)
from init_tools import access, claims_one, in_one_surrounding, key_of, nodes
from run_tools import Started, eventually, state_of

CONFIG = "/etc/thole/config.toml"


# The gate.

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


# Waits with what the library has opened before there was a group.
WAITING_PROGRAM = """
import tholepin
print("up", flush=True)
try:
    tholepin.claim(4)
except tholepin.Error as error:
    print(error.code, str(error).replace("\\n", " "))
"""


@in_one_surrounding
def test_who_waits_when_a_group_shuts_him_out_is_told_so(lab):
    lab.init()
    everything = lab.hold("alice", gpus=4)
    waiter = lab.start("mallory", lab.program, "run", "-g", "1", "--", "true")
    program = lab.start_python("mallory", WAITING_PROGRAM)
    eventually(lambda: len(lab.waiters()) == 2, "both stand in line")
    lab.init("--group", SITE_GROUP)
    end(everything)
    assert waiter.wait() == 69
    said = waiter.process.stderr.read().decode()
    assert SITE_GROUP in said and "/run/thole/alloc" in said, said
    said = program.line()
    assert said.startswith("69 ") and SITE_GROUP in said, said
    assert program.wait() == 0
    assert not lab.waiters()


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
import fcntl, glob, os, socket, sys, time
fds = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in glob.glob("/run/thole/gpu.*")]
kind = fcntl.LOCK_SH if sys.argv[1] == "shared" else fcntl.LOCK_EX
end, of_mine = os.pipe()
there, here = socket.socketpair()
if os.fork():
    os.close(end)
    for fd in fds: os.close(fd)
    print("up", flush=True)
    sys.stdin.read()
    os._exit(0)
os.close(of_mine)
free = list(fds)
while free:
    for fd in list(free):
        try: fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError: continue
        free.remove(fd)
    time.sleep(0.01)
if sys.argv[1] == "sent": socket.send_fds(here, [b"x"], fds)      # no process has them, they are on their way to one
open("/var/tmp/grabbed", "w").close()
if sys.argv[1] == "sent": os._exit(0)
if sys.argv[1] == "child" and os.fork(): os._exit(0)             # who took the locks has ended, a child has them
os.read(end, 1)
"""


def grabbed(lab, how):
    """mallory never held any: what she has open since before there was a group she locks when alice ends."""
    lab.init()
    alice = lab.hold("alice", gpus=4)
    mallory = lab.start_python("mallory", GRAB, how)
    assert "4 nodes are held" in lab.init("--group", SITE_GROUP).stdout
    end(alice)
    eventually(lambda: lab.run("root", "test", "-e", "/var/tmp/grabbed").returncode == 0, "she has them all")
    assert claims_one(lab, "alice").returncode == 75
    return mallory


@pytest.mark.parametrize("how", ["exclusive", "shared", "child"])
@in_one_surrounding
def test_who_grabs_with_old_descriptors_what_was_held_is_named_by_init(lab, how):
    """Nothing is taken from a living holder, whoever he seems to be; root ends her process."""
    mallory = grabbed(lab, how)
    done = lab.init()
    assert "4 nodes are held" in done.stdout, done.stdout
    assert "mallory, who is no member, has gpu." in done.stderr, done.stderr
    assert claims_one(lab, "alice").returncode == 75
    end(mallory)
    eventually(lambda: "held" not in lab.init().stdout, "her child, which has them, has ended too")
    assert claims_one(lab, "alice", "-g", "4").returncode == 0
    assert access(lab) == {(0o660, SITE_GID)}


@pytest.mark.parametrize("how", ["exclusive", "sent"])
@in_one_surrounding
def test_root_takes_back_what_is_kept_from_the_group(lab, how):
    """By his word for each GPU, also where nobody can be named who could be ended."""
    mallory = grabbed(lab, how)
    done = lab.init("--take-back", "0,2")
    assert done.stderr.count("is taken back; ") == 2 and "2 nodes are held" in done.stdout, done.stdout + done.stderr
    assert claims_one(lab, "alice", "-g", "3").returncode == 75
    alice = lab.hold("alice", gpus=2)
    assert {claim["gpu"] for claim in lab.claims() if claim["user"] == "alice"} == {0, 2}
    lab.init("--take-back", "1,3")
    assert len([claim for claim in lab.claims() if claim["user"] == "alice"]) == 2, "whom nobody named keeps his"
    assert claims_one(lab, "bob", "-g", "2").returncode == 0
    end(alice)
    end(mallory)
    assert access(lab) == {(0o660, SITE_GID)}


# mallory's lock is handed among processes of subordinate uids of hers (newuidmap gives them to everybody; here root stands in
# for it): whenever somebody opens the node, the next of them locks what they all have open, so that the kernel names that one.
HANDED_ON = """
import ctypes, fcntl, glob, os, select, sys
node, = glob.glob("/run/thole/gpu.*")
fd = os.open(node, os.O_RDWR | os.O_NONBLOCK)
done, say_done = os.pipe()
helpers = []
for uid in range(200001, 200010):
    asked, ask = os.pipe()
    if os.fork() == 0:
        os.close(ask)
        for other in helpers: os.close(other)
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
        while kind := os.read(asked, 1):
            fcntl.flock(fd, fcntl.LOCK_SH if kind == b"s" else fcntl.LOCK_EX)
            os.write(say_done, b"x")
        os._exit(0)
    os.close(asked)
    helpers.append(ask)
os.setgroups([]); os.setgid(61003); os.setuid(61003)
fcntl.flock(fd, fcntl.LOCK_EX)
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_CLOEXEC)
assert libc.inotify_add_watch(watch, node.encode(), 0x20) > 0      # IN_OPEN
print("up", flush=True)
turn = 0
while sys.stdin not in (ready := select.select([watch, sys.stdin], [], [])[0]):
    os.read(watch, 65536)
    os.write(helpers[turn % len(helpers)], b"es"[1 - turn % 2:][:1])
    os.read(done, 1)
    turn += 1
"""


@pytest.mark.parametrize("words", [[], ["--group", SITE_GROUP]], ids=["open", "group"])
def test_a_lock_that_is_handed_among_uids_of_one_user_is_taken_back(words):
    with hostile.make("plain", 1) as lab:
        lab.init()
        mallory = lab.start_python("root", HANDED_ON)
        lab.init(*words)
        done = lab.init("--take-back", "0")
        assert "is taken back" in done.stderr and "is not taken back" not in done.stderr, done.stderr
        assert claims_one(lab, "alice").returncode == 0
        end(mallory)


@in_one_surrounding
def test_only_root_takes_back_and_only_what_is_there(lab):
    lab.init()
    assert lab.thole("alice", "init", "--take-back", "0").returncode == 69
    wrong = lab.thole("root", "init", "--take-back", "9")
    assert wrong.returncode == 64 and "9" in wrong.stderr, wrong.stderr


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
    """By a process that looks at the directory all the while. What is there to be read by all is no node: `devices`, and what
    init says of itself meanwhile."""
    lab.init("--group", SITE_GROUP)
    restart(lab)
    watcher = lab.start_python("mallory", """
import os, sys, select
seen, rounds = set(), 0
print("up", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        for entry in os.scandir("/run/thole"):
            if entry.name.removeprefix("new.") in ("devices", "completing", "taking") or entry.is_dir(): continue
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


# Notes of members and others.

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
def test_take_back_spares_who_has_got_the_gpu_honestly_meanwhile(lab):
    """Init sees who has it, then opens its lock: there it is stopped, before it marks the node, and the GPU changes hands."""
    lab.init()
    there = f"/proc/{lab.keeper.pid}/root/run/thole"
    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(50):                                             # until init was stopped early enough
        mallory = lab.hold("mallory", "--on", "0")
        node = os.stat(f"{there}/gpu.{key_of(lab)}").st_ino
        watch = libc.inotify_init1(os.O_CLOEXEC)
        assert libc.inotify_add_watch(watch, os.fsencode(f"{there}.lock"), 0x20) > 0    # IN_OPEN
        init = lab.start("root", lab.program, "init", "--take-back", "0")
        assert os.read(watch, 4096)
        os.kill(init.pid, signal.SIGSTOP)
        os.close(watch)
        eventually(lambda: state_of(init.pid) in ("T", "Z"), "it is stopped, or over")
        now = os.stat(f"{there}/gpu.{key_of(lab)}")
        early = state_of(init.pid) == "T" and now.st_ino == node and not now.st_mode & 0o4000
        end(mallory)
        alice = lab.hold("alice", "--on", "0") if early else None
        if state_of(init.pid) == "T":
            os.kill(init.pid, signal.SIGCONT)
        status = init.wait()
        assert status == 69 or not early, status
        if early:
            break
        init.__exit__()
    assert early, "init was never stopped before it took the GPU"
    said = init.process.stderr.read().decode()
    assert "is not taken back" in said and "alice has got it just now" in said, said
    assert os.stat(f"{there}/gpu.{key_of(lab)}").st_ino == node
    assert claims_one(lab, "bob", "--on", "0").returncode == 75
    assert [claim["user"] for claim in lab.claims() if claim["gpu"] == 0] == ["alice"]
    end(alice)

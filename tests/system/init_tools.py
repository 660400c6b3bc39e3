"""What the tests of `thole init` between users have in common."""
import os

import pytest

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)


def guard_byte(name):
    """The byte of a directory that stands for the one of this name in it."""
    value = 14695981039346656037
    for byte in name.encode():
        value = ((value ^ byte) * 1099511628211) & ((1 << 64) - 1)
    return value >> 2


def nodes(lab, folder="/run/thole"):
    """Name -> (mode, gid, kind) of what is in the directory, devices (which is for reading) left out."""
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


def key_of(lab, gpu=0):
    return lab.status()["gpus"][gpu]["uuid"]


# Takes and gives back locks without end, as many as it is told: the pages of the kernel's list move under who reads them.
CHURN = """
import fcntl, sys, tempfile
files = [tempfile.TemporaryFile() for _ in range(int(sys.argv[1]))]
for file in files: fcntl.flock(file, fcntl.LOCK_EX)
print("up", flush=True)
while True:
    for file in files: fcntl.flock(file, fcntl.LOCK_UN)
    for file in files: fcntl.flock(file, fcntl.LOCK_EX)
"""

# A lock with many waiters, a line for each, ends a page of the kernel's list before it is full; what stands before it is given
# back in one call, which waits as long as the list is read, so that the next page is empty. All on one processor: each has a
# list.
SHORT_PAGES = """
import fcntl, os, struct, threading
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
threading.stack_size(65536)
waited_for, moved = os.memfd_create("waited for"), os.memfd_create("moved")
fcntl.flock(waited_for, fcntl.LOCK_EX)
def wait(): fcntl.flock(os.open(f"/proc/self/fd/{waited_for}", os.O_RDWR), fcntl.LOCK_EX)
for _ in range(60): threading.Thread(target=wait, daemon=True).start()
lock = [struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 2 * i, 1, 0) for i in range(60)]
unlock = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
print("up", flush=True)
while True:
    for one in lock: fcntl.fcntl(moved, 37, one)     # F_OFD_SETLK
    fcntl.fcntl(moved, 37, unlock)
"""

# Has the lock of the node sys.argv[1] on its way in a socket of its own: taken by itself, or by a child that has ended.
IN_A_SOCKET = """
import fcntl, os, socket, sys
away, here = socket.socketpair()
child = os.fork() if sys.argv[2] == "child" else 0
if child == 0:
    gpu = os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
    fcntl.flock(gpu, fcntl.LOCK_EX)
    socket.send_fds(away, [b"x"], [gpu])
    if sys.argv[2] == "child": os._exit(0)
    os.close(gpu)
else:
    os.waitpid(child, 0)
print("up", flush=True)
sys.stdin.read()
"""


def gate_of(lab):
    """A FIFO: what reads it waits until somebody has opened it to write, and closed it."""
    gate = lab.folder / "gate"
    os.mkfifo(gate, 0o666)
    gate.chmod(0o666)
    return gate

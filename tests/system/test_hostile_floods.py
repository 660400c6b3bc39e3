"""What strangers can write or lock without end keeps nobody: not from his deadline, not from Ctrl-C, not from a free GPU."""
import os
import signal

import pytest

from hostile import lab, supervisor_of  # noqa: F401 (the fixture)
from run_tools import eventually

PATIENCE = 60
in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# Fills the FIFO sys.argv[1] from sys.argv[2] processes, as fast as the kernel takes it: pages are given, not copied.
FLOOD = """
import ctypes, fcntl, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
text = ctypes.create_string_buffer(b"!" * (1 << 20))
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.fcntl(fd, 1031, 1 << 20)                        # F_SETPIPE_SZ
except OSError:
    pass
parent = os.getpid()
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        libc.prctl(1, signal.SIGKILL)                     # PR_SET_PDEATHSIG
        if os.getppid() != parent: os._exit(0)
        piece = Piece(ctypes.addressof(text), 1 << 20)
        while True: libc.vmsplice(fd, ctypes.byref(piece), ctypes.c_ulong(1), 0)
print("up", flush=True)
sys.stdin.read()
"""


@in_one_surrounding
@pytest.mark.parametrize("how", ["deadline", "interrupt"])
def test_a_flooded_waiter_keeps_his_deadline_and_can_be_interrupted(lab, how):
    lab.init()
    every = lab.hold("bob", gpus=4)
    waits = ["--wait", "5s"] if how == "deadline" else []
    waiter = lab.start("alice", lab.program, "run", *waits, "--", "true")
    eventually(lambda: len(lab.waiters()) == 1, "in line")
    mallory = lab.start_python("mallory", FLOOD, "/run/thole/turn.0", "16")
    if how == "interrupt":
        os.kill(supervisor_of(waiter), signal.SIGINT)
    assert (
        waiter.process.wait(PATIENCE) == {"deadline": 124, "interrupt": -signal.SIGINT}[how]
    ), waiter.process.stderr.read().decode()
    mallory.__exit__()
    every.__exit__()

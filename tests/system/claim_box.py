"""Claims of a test's own on a simulated machine, in directories of its own."""
import contextlib
import os
import pathlib
import signal
import subprocess

from run_tools import THOLE


@contextlib.contextmanager
def made(folder, machine, **more):
    """The environment for it. What of it a failed test has left running is ended."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("THOLE", "CUDA_"))}
    environment.update(THOLE_MACHINE=machine, THOLE_STATE_DIR=str(folder / "state"), THOLE_PERSONAL_DIR=str(folder / "run"),
                       THOLE_QUEUE_DIR=str(folder / "queue"), thole=THOLE, **more)
    (folder / "run").mkdir(mode=0o700)
    yield environment
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"THOLE_STATE_DIR={folder}/".encode() in pathlib.Path(f"/proc/{entry}/environ").read_bytes():
                os.kill(int(entry), signal.SIGKILL)
        except OSError:
            pass


def thole(box, *words, **more):
    return subprocess.run([THOLE, *words], env={**box, **more}, capture_output=True, text=True, timeout=60)

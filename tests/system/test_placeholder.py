"""`thole claim --placeholder` over a faked CUDA: the claimed GPUs look used as long as the claim lasts, and never longer."""
import fcntl
import os
import pathlib
import signal

import pytest

from fake_nvidia import BUILD, THOLE, Driver
from run_tools import Started, eventually, gone, is_locked


class Machine(Driver):
    def __init__(self, directory):
        super().__init__(directory, 4)
        self.cuda = directory / "cuda.conf"
        self.environment |= {"THOLE_CUDA": str(BUILD / "fake/full/libcuda.so.1"), "THOLE_FAKE_CUDA": str(self.cuda)}

    def fake_cuda(self, *lines):
        self.cuda.write_text("\n".join(lines) + "\n")

    def claim(self, *words):
        """Claims with a placeholder; returns the id and what was said."""
        done = self.thole("claim", "--placeholder", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr

    def contexts(self):
        """What the placeholder holds: UUID -> pid."""
        file = pathlib.Path(str(self.cuda) + ".contexts")
        return dict(line.split() for line in file.read_text().splitlines()) if file.exists() else {}

    def occupier(self):
        """The one process behind all contexts."""
        pids = {int(pid) for pid in self.contexts().values()}
        assert len(pids) == 1
        return pids.pop()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_it_is_on_the_claimed_gpus_and_goes_before_release_returns(machine):
    claim, said = machine.claim("--on", "1,3", "-g", "2")
    assert set(machine.contexts()) == {machine.uuid(1), machine.uuid(3)}
    assert "no placeholder" not in said
    occupier = machine.occupier()
    command = pathlib.Path(f"/proc/{occupier}/cmdline").read_bytes().split(b"\0")
    assert command[:2] == [b"thole-placeholder", b"__placeholder"]
    assert os.getsid(occupier) == occupier
    assert not [
        fd for fd in os.listdir(f"/proc/{occupier}/fd") if "state" in os.readlink(f"/proc/{occupier}/fd/{fd}")
    ], "no lock of the claim"
    assert machine.thole("release", claim).returncode == 0
    assert gone(occupier)


def test_without_being_asked_for_there_is_none(machine):
    assert machine.thole("claim", "--on", "1").returncode == 0
    assert machine.contexts() == {}


def test_it_is_nobody_s_foreign_use(machine):
    claim, _ = machine.claim("--on", "0,1", "-g", "2")
    occupier = machine.occupier()
    machine.write(f"/proc/{occupier}/cmdline", pathlib.Path(f"/proc/{occupier}/cmdline").read_text(errors="replace"))
    machine.configure("gpus 4", *(f"gpu {i} process compute {occupier} 518" for i in (0, 1)),
                      *(f"gpu {i} memory 81920 596 518" for i in (0, 1)))
    status = machine.status()
    assert [unit["state"] for unit in status["units"]] == ["claimed", "claimed", "idle", "idle"]
    machine.environment["THOLE_CLAIM"] = claim
    inside = machine.thole("run", "--no-wait", "-g", "1", "--ids", "uuid", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert inside.returncode == 0, inside.stderr
    assert inside.stdout.strip() in (machine.uuid(0), machine.uuid(1))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_keeper(machine, number):
    machine.claim("--on", "1")
    occupier = machine.occupier()
    holder = machine.status()["claims"][0]["pid"]
    os.kill(holder, number)
    eventually(lambda: gone(occupier), "the placeholder ends")
    eventually(lambda: not machine.status()["claims"], "the claim ends")


def test_it_ends_at_the_end_of_the_claim(machine):
    machine.claim("--on", "1", "--time", "1s")
    occupier = machine.occupier()
    eventually(lambda: gone(occupier), "the placeholder ends")


def test_it_ends_with_the_process_it_was_claimed_for(machine):
    with Started(["cat"]) as adopted:
        machine.claim("--on", "1", "--pid", str(adopted.pid))
        occupier = machine.occupier()
        assert not gone(occupier)
        adopted.process.stdin.close()
        adopted.wait()
        eventually(lambda: gone(occupier), "the placeholder ends")


@pytest.mark.parametrize("library, lines, said", [
    ("full/libcuda.so.1", ["rc cuInit 34"], "stub"),
    ("full/libcuda.so.1", ["rc cuInit 803"], "do not match"),
    ("full/libcuda.so.1", ["rc cuInit 802"], "fabric manager"),
    ("full/libcuda.so.1", ["rc cuDevicePrimaryCtxRetain 2"], "no memory left"),
    ("full/libcuda.so.1", ["rc cuDevicePrimaryCtxRetain 46"], "compute mode"),
    ("full/libcuda.so.1", ["rc cuInit 4711"], "CUDA error 4711"),
    ("full/libcuda.so.1", ["show 0"], "0 of the 1 claimed"),
    ("full/libcuda.so.1", ["hang cuInit"], "does not answer"),
    ("full/libcuda.so.1", ["crash cuInit"], "crashed"),
    ("full/libnvidia-ml.so.1", [], "no cuInit"),
    ("no/libcuda.so.1", [], "cannot be loaded"),
])
def test_where_it_cannot_be_had_the_reason_is_said_and_the_claim_stays(machine, library, lines, said):
    machine.environment["THOLE_CUDA"] = str(BUILD / "fake" / library)
    if said == "does not answer":
        machine.environment["THOLE_PROBE_PATIENCE"] = "2s"
    machine.fake_cuda(*lines)
    claim, warning = machine.claim("--on", "2")
    assert "no placeholder on GPU 2" in warning and said in warning
    assert [holding["id"] for holding in machine.status()["claims"]] == [claim]
    assert not processes_named("thole-placeholder", machine), "nothing of it is left"


def processes_named(name, machine):
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            mine = str(machine.cuda).encode() in pathlib.Path(f"/proc/{entry}/environ").read_bytes()
            if mine and pathlib.Path(f"/proc/{entry}/cmdline").read_text(errors="replace").startswith(name):
                found.append(int(entry))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("lines, said", [
    (["gpu 2 mode 3"], "compute mode admits one process"),
    (["gpu 2 mig 1", f"gpu 2 instance MIG-{Driver.uuid(2)[4:]} 1 0 1 1 9728 0 1g.10gb"], "MIG instance"),
])
def test_gpus_that_it_would_spoil_get_none(machine, lines, said):
    machine.configure("gpus 4", *lines)
    _, warning = machine.claim("--on", "2")
    assert said in warning and machine.contexts() == {}


def test_a_simulated_gpu_has_none(machine):
    done = machine.thole("--machine", "2xA100", "claim", "--placeholder")
    assert done.returncode == 0 and "a simulated GPU has no driver" in done.stderr


def test_a_share_s_budget_has_no_room_for_it(machine):
    done = machine.thole("claim", "--placeholder", "--share", "--memory", "8G")
    assert done.returncode == 64 and "--placeholder" in done.stderr


# ---- Beside safe-gpu, whose users lock a file, look at processes, and unlock when theirs are on the GPUs ----

SAFE_GPU = "tmp/safe_gpu/gpu-lock-magic-RaNdOM-This_Name-NEED_BE-THE_SAME-Across_Users"


@pytest.fixture
def lock(machine):
    """Their file, on this machine of the test's own."""
    path = machine.root / SAFE_GPU
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def start_claim(machine):
    return Started([THOLE, "claim", "--placeholder", "--on", "1,3", "-g", "1"], env=machine.environment)


def test_nobody_of_safe_gpu_chooses_between_the_claim_and_its_placeholder(machine, lock):
    slow = machine.cuda.with_suffix(".fifo")
    os.mkfifo(slow)
    machine.fake_cuda(f"wait cuInit {slow}")
    claim = start_claim(machine)
    eventually(lambda: machine.status()["claims"], "the claim is made")
    for _ in range(3):
        assert is_locked(lock, fcntl.lockf)
    os.close(os.open(slow, os.O_WRONLY))                    # which opens when the placeholder waits for it
    assert claim.process.wait(timeout=60) == 0
    assert machine.contexts() and not is_locked(lock, fcntl.lockf)


def test_while_safe_gpu_chooses_claims_come_from_the_other_end(machine, lock):
    """It takes the first ones; who keeps its lock is not waited for without end."""

    def gets(*words):
        done = machine.thole("run", "--no-wait", *words, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert done.returncode == 0, done.stderr
        return [int(index) for index in done.stdout.split(",")], " ".join(done.stderr.split())

    assert gets()[0] == [0]
    with open(lock, "w") as theirs:
        fcntl.lockf(theirs, fcntl.LOCK_EX)
        got, said = gets()
        assert got == [3] and "claims take the last GPUs" in said
        assert gets("-g", "2")[0] == [2, 3]
        assert gets("--pick", "first")[0] == [0], "as the request says"
        assert gets("--order", "1,2")[0] == [1]
    assert gets()[0] == [0]


def test_a_gpu_that_safe_gpu_chose_at_the_same_moment_is_given_back(machine, lock):
    with open(lock, "w") as theirs:
        fcntl.lockf(theirs, fcntl.LOCK_EX)                 # has looked, and makes its process on GPU 3
        claim = start_claim(machine)
        eventually(lambda: machine.status()["claims"], "the claim is made, of the last one that would do")
        machine.configure("gpus 4", f"gpu 3 process compute {os.getpid()} 500", "gpu 3 memory 81920 596 500")
    assert claim.process.wait(timeout=60) == 0
    assert set(machine.contexts()) == {machine.uuid(1)}
    assert [held["gpu"] for held in machine.status()["claims"]] == [1]

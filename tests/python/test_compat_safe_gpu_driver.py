# ctest: timeout 900
"""safe_gpu's drop-in on a faked driver that shows what placeholders do: beside safe-gpu itself, when the driver fails, claimed
twice.

What safe-gpu's users see of a program is its processes on the GPUs and the lock that it holds until these are there. The
original itself takes part where THOLE_TEST_SAFE_GPU names a folder with it: pip install --target FOLDER safe-gpu==2.0.0
"""

import fcntl
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys

import pytest
from compat_tools import LIMIT, end, run, start
from driver_tools import faked_driver

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "system"))
import fake_nvidia  # noqa: E402
from run_tools import eventually, is_locked  # noqa: E402

ORIGINAL = os.environ.get("THOLE_TEST_SAFE_GPU")

# A placeholder that the driver shows; it takes until a line comes, if there is a second argument.
OCCUPY = """
import fcntl, os, sys
def occupy(device_no):
    gpu = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[device_no]
    if len(sys.argv) > 1:
        print("choosing", gpu, flush=True)
        sys.stdin.readline()
    conf = os.environ["THOLE_FAKE_NVML"]
    with open(conf + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(conf) as file:
            text = file.read()
        with open(conf + ".new", "w") as file:
            file.write(text + f"gpu {gpu} process compute {os.getpid()} 500\\n")
        os.rename(conf + ".new", conf)
    return gpu
from safe_gpu import safe_gpu
safe_gpu.LOCK_FILENAME = os.environ.get("LOCK", safe_gpu.LOCK_FILENAME)
"""
CLAIMS = (
    OCCUPY + "safe_gpu.claim_gpus(1, occupy)\nprint('has', *safe_gpu.gpu_owner.devices_taken, flush=True)\nsys.stdin.read()\n"
)


@pytest.fixture
def driver(tmp_path, monkeypatch):
    return faked_driver(tmp_path, monkeypatch, 3)


@pytest.fixture
def lock(tmp_path, monkeypatch, request):
    """A lock file as safe-gpu leaves it, which is this test's own; where it was in safe-gpu 1, for the parameter 1."""
    path = tmp_path / "safe_gpu" / "lock"
    monkeypatch.setenv("LOCK", str(path))
    if getattr(request, "param", 2) == 1:
        path = tmp_path / "lock"
    else:
        path.parent.mkdir()
    path.touch(mode=0o666)
    return path


of_both_versions = pytest.mark.parametrize("lock", [1, 2], indirect=True)


# ---- Beside safe-gpu itself ----


@of_both_versions
def test_the_lock_of_safe_gpu_is_held_until_the_placeholder_is_there(driver, lock):
    program = start(CLAIMS, "slowly")
    assert program.stdout.readline() == "choosing 0\n"
    assert is_locked(lock, fcntl.lockf)
    program.stdin.write("\n")
    program.stdin.flush()
    assert program.stdout.readline() == "has 0\n"
    assert not is_locked(lock, fcntl.lockf)
    end(program)


@pytest.mark.parametrize("fails", ["raise RuntimeError('full')", "os._exit(3)"])
def test_a_placeholder_that_fails_keeps_no_lock(driver, lock, fails):
    program = start(OCCUPY + f"def failing(device_no):\n    {fails}\nsafe_gpu.claim_gpus(1, failing)")
    program.communicate(timeout=LIMIT)
    assert program.returncode != 0
    assert not is_locked(lock, fcntl.lockf)


def test_without_safe_gpu_no_lock_is_made(driver, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCK", str(tmp_path / "nobody" / "lock"))
    assert run(CLAIMS) == "has 0\n"
    assert not (tmp_path / "nobody").exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may open any file")
def test_a_lock_that_is_not_ours_to_take_is_a_line_in_the_log(driver, lock):
    lock.chmod(0)
    program = start("import logging; logging.basicConfig(level=logging.INFO)\n" + CLAIMS)
    assert program.stdout.readline() == "has 0\n"
    assert "Users of safe-gpu may choose at the same moment" in end(program)


@of_both_versions
def test_who_chose_at_the_same_moment_and_was_first_keeps_the_gpu(driver, lock):
    """He holds the lock and has looked; our claim is made meanwhile, and given back when his process is seen."""
    with open(lock, "w") as his:
        fcntl.lockf(his, fcntl.LOCK_EX)
        program = start("import logging; logging.basicConfig(level=logging.INFO)\n" + CLAIMS)
        assert "acquiring lock" in program.stderr.readline()
        eventually(lambda: 0 in claims_of(driver), "our claim is made")
        driver.configure("gpus 3", f"gpu 0 process compute {os.getpid()} 500")
        fcntl.lockf(his, fcntl.LOCK_UN)
        assert program.stdout.readline() == "has 1\n"
    end(program)


def test_a_child_of_a_program_that_is_killed_keeps_no_lock(driver, lock):
    program = start(OCCUPY + """
def forks(device_no):
    child = os.fork()
    if child == 0:
        try:
            print(os.getpid(), flush=True)      # from here on it is a process of its own, with what it closes closed
            sys.stdin.read()
        finally:
            os._exit(0)
    sys.stdin.read()
safe_gpu.claim_gpus(1, forks)
""")
    child = int(program.stdout.readline())
    assert is_locked(lock, fcntl.lockf)
    os.kill(program.pid, signal.SIGKILL)
    program.wait(LIMIT)
    with open(f"/proc/{child}/stat") as file:
        assert file.read().rpartition(")")[2].split()[0] not in "ZX", "it lives"
    assert not is_locked(lock, fcntl.lockf)
    program.stdin.close()


def test_a_child_that_leaves_its_placeholder_leaves_the_lock_to_its_parent(driver, lock):
    program = start(OCCUPY + """
def forks(device_no):
    if os.fork() == 0:
        raise SystemExit(0)
    os.wait()
    print("ended", flush=True)
    sys.stdin.readline()
safe_gpu.claim_gpus(1, forks)
""")
    assert program.stdout.readline() == "ended\n"
    assert is_locked(lock, fcntl.lockf)
    program.communicate("\n", timeout=LIMIT)
    assert program.returncode == 0 and not is_locked(lock, fcntl.lockf)


# Does not wait for the lock, but for us where the end of that wait would be.
IMPATIENT = """
import sys
from safe_gpu import _neighbours
_neighbours._PATIENCE = 0
acquire = _neighbours.Neighbours.acquire
def acquire_and_say(self):
    acquire(self)
    print("not waiting", flush=True)
    sys.stdin.readline()
_neighbours.Neighbours.acquire = acquire_and_say
""" + CLAIMS


def test_who_keeps_the_lock_for_longer_is_told_and_left_the_first_gpus(driver, monkeypatch):
    """He has not come to the GPU that he chose, the first; he is not waited for, and what he has on ours by now is seen."""

    def go_on():
        assert program.stdout.readline() == "not waiting\n"
        taken.append(claims_of(driver))

    taken = []
    lock = driver.root / "tmp/safe_gpu/gpu-lock-magic-RaNdOM-This_Name-NEED_BE-THE_SAME-Across_Users"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setenv("LOCK", str(lock))
    with open(lock, "w") as his:
        fcntl.lockf(his, fcntl.LOCK_EX)
        program = start(IMPATIENT)
        go_on()
        driver.configure("gpus 3", f"gpu 2 process compute {os.getpid()} 500")
        program.stdin.write("\n")
        program.stdin.flush()
        go_on()
        out, err = program.communicate("\n", timeout=LIMIT)
    assert taken == [[2], [1]] and out == "has 1\n", err
    assert "WARNING:root:Users of safe-gpu have been choosing for 0 s; not waiting" in err
    assert f"process {os.getpid()} keeps {lock}" in err


def original(*arguments):
    """The same program on the original, which asks nvidia-smi."""
    environment = {**os.environ, "PYTHONPATH": ORIGINAL, "PATH": f"{fake_nvidia.BUILD / 'fake'}:{os.environ['PATH']}"}
    return subprocess.Popen([sys.executable, "-c", CLAIMS, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment)  # fmt: skip


def has_spoken(program):
    return bool(select.select([program.stdout], [], [], 0)[0])


def waits_for_the_lock(program, driver):
    """The original sleeps in the kernel; we have a claim by then."""
    sleeps = any(
        f" {program.pid} " in line
        for line in pathlib.Path("/proc/locks").read_text(errors="replace").splitlines()
        if "->" in line
    )
    return sleeps or any(claim["pid"] == program.pid for claim in driver.status()["claims"])


@pytest.mark.skipif(not ORIGINAL, reason="THOLE_TEST_SAFE_GPU does not name a folder with safe-gpu 2.0.0")
@pytest.mark.parametrize("first_is_ours", [True, False])
def test_the_original_and_we_never_have_the_same_gpu(driver, lock, first_is_ours):
    kinds = [lambda *words: start(CLAIMS, *words), original]
    first, second = kinds if first_is_ours else kinds[::-1]
    with first("slowly") as one:
        assert one.stdout.readline() == "choosing 0\n"
        with second() as other:
            eventually(lambda: has_spoken(other) or waits_for_the_lock(other, driver), "the other has come to the lock")
            assert not has_spoken(other)
            one.stdin.write("\n")
            one.stdin.flush()
            assert one.stdout.readline() == "has 0\n"
            assert other.stdout.readline() == "has 1\n"
            end(other)
        end(one)


# ---- When the driver, or the state, fails ----

RECIPE = """
import subprocess
from safe_gpu import safe_gpu
try:
    {call}
except {caught} as problem:
    print("on the CPU", isinstance(problem, safe_gpu.NvidiasmiError), len(str(problem)) > 20)
"""


@pytest.mark.parametrize("how", ["init 18", "init 9", "init 999"])
@pytest.mark.parametrize("call, caught", [
    ("safe_gpu.claim_gpus(1, lambda n: n)", "safe_gpu.NvidiasmiError"),
    ("safe_gpu.GPUOwner(2, lambda n: n)", "safe_gpu.NvidiasmiError"),
    ("safe_gpu.get_free_gpus()", "subprocess.CalledProcessError"),
    ("safe_gpu.is_single_gpu_display_mode()", "safe_gpu.NvidiasmiError"),
])  # fmt: skip
def test_a_driver_that_fails_is_nvidiasmierror(driver, how, call, caught):
    driver.configure("gpus 3", how)
    assert run(RECIPE.format(call=call, caught=caught)) == "on the CPU True True\n"


def test_gpus_that_are_all_lost_are_nvidiasmierror(monkeypatch, tmp_path):
    machine = tmp_path / "lost.json"
    machine.write_text('{"schema": "thole/machine/1", "gpus": [{"uuid": "GPU-1", "vendor": "nvidia", "health": "lost"}]}')
    monkeypatch.setenv("THOLE_MACHINE", str(machine))
    assert (
        run(RECIPE.format(call="safe_gpu.claim_gpus(1, lambda n: n)", caught="safe_gpu.NvidiasmiError"))
        == "on the CPU True True\n"
    )


@pytest.mark.parametrize("caught", ["safe_gpu.NvidiasmiError", "PermissionError"])
def test_a_state_directory_that_cannot_be_used_is_nvidiasmierror(monkeypatch, tmp_path, caught):
    nowhere = tmp_path / "a file"
    nowhere.write_text("")
    monkeypatch.setenv("THOLE_STATE_DIR", str(nowhere / "state"))
    assert run(RECIPE.format(call="safe_gpu.claim_gpus(1, lambda n: n)", caught=caught)) == "on the CPU True True\n"


@pytest.mark.parametrize(
    "wanted, kind", [("'2'", "TypeError"), ("2.0", "TypeError"), ("None", "TypeError"), ("-1", "ValueError")]
)
def test_a_wrong_number_is_pythons_own_error(monkeypatch, wanted, kind):
    monkeypatch.setenv("THOLE_MACHINE", "4xA100")
    program = f"import safe_gpu\ntry:\n    safe_gpu.claim_gpus({wanted}, lambda n: n)\nexcept {kind}:\n    print('refused')"
    assert run(program) == "refused\n"


# ---- Dropped, and claimed again, with placeholders that use the GPU ----


def claims_of(driver):
    return sorted(claim["gpu"] for claim in driver.status()["claims"])


def test_a_dropped_owner_leaves_the_claim_and_its_variables(driver):
    program = start(OCCUPY + """
import gc, subprocess
def setup():
    owner = safe_gpu.GPUOwner(2, occupy)
setup()
gc.collect()
show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
print(os.environ["CUDA_VISIBLE_DEVICES"],
      subprocess.run([sys.executable, "-c", show], capture_output=True, text=True).stdout.strip(), flush=True)
sys.stdin.read()
""")
    assert program.stdout.readline() == "0,1 0,1\n"
    assert claims_of(driver) == [0, 1]
    end(program)
    assert claims_of(driver) == []


def test_a_second_claim_of_a_process_that_computes_is_of_the_same_gpus(driver):
    program = start(OCCUPY + """
for _ in range(4):
    safe_gpu.claim_gpus(2, occupy)
    print(safe_gpu.gpu_owner.devices_taken, os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
""")
    assert [program.stdout.readline() for _ in range(4)] == ["[0, 1] 0,1\n"] * 4
    assert claims_of(driver) == [0, 1]
    end(program)


@pytest.mark.parametrize("second", [2, 3, 9])
def test_a_second_claim_that_fails_changes_nothing(driver, second):
    program = start(OCCUPY + f"""
safe_gpu.claim_gpus(1, occupy)
first = safe_gpu.gpu_owner
try:
    safe_gpu.claim_gpus({second}, occupy)
except RuntimeError as problem:
    print(safe_gpu.gpu_owner is first, safe_gpu.gpu_owner.devices_taken, os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
""")
    assert program.stdout.readline() == "True [0] 0\n"
    assert claims_of(driver) == [0]
    end(program)


def test_a_second_claim_whose_placeholder_fails_keeps_the_first(driver):
    program = start(OCCUPY + """
def fails(device_no):
    raise RuntimeError("out of memory")
for nb_gpus in (1, 2, 3):
    safe_gpu.claim_gpus(2, lambda device_no: None)
    try:
        safe_gpu.claim_gpus(nb_gpus, fails)
    except RuntimeError:
        print(safe_gpu.gpu_owner.devices_taken, os.environ["CUDA_VISIBLE_DEVICES"])
sys.stdout.flush()
sys.stdin.read()
""")
    assert [program.stdout.readline() for _ in range(3)] == ["[0, 1] 0,1\n"] * 3
    assert claims_of(driver) == [0, 1]
    end(program)


def test_the_demonstration_needs_nothing_that_is_not_there(driver, lock):
    """The original is not needed for any of this: the drop-in is what is imported."""
    said = run(OCCUPY + "print('tholepin' in safe_gpu.__file__, safe_gpu.LOCK_FILENAME)")
    assert said == f"True {lock}\n"
    assert shutil.which("nvidia-smi", path=str(fake_nvidia.BUILD / "fake"))

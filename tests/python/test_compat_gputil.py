# ctest: timeout 600
"""GPUtil's drop-in: the same answers and tables on the same driver, and what it hands out is claimed."""

import difflib
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from compat_tools import LIMIT, end, run, start

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "system"))
import fake_nvidia  # noqa: E402

PROBE = HERE / "compat/gputil_probe.py"
GOLDEN = (HERE / "compat/gputil_1.4.0.txt").read_text()
DRIVER = (HERE / "compat/gputil_driver.conf").read_text().splitlines()
ORIGINAL = os.environ.get("THOLE_TEST_GPUTIL")  # a folder with GPUtil 1.4.0

# The line of the READMEs and blogs, then held until stdin ends.
PICKS_ONE = """
import os, sys
import GPUtil
os.environ["CUDA_VISIBLE_DEVICES"] = str(GPUtil.getFirstAvailable()[0])
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """The faked driver that the golden text was made on."""
    library = fake_nvidia.BUILD / "fake/full/libnvidia-ml.so.1"
    if not library.exists():
        pytest.skip(f"needs the fake driver library of a build: {library} (THOLE_BUILD_DIR)")
    made = fake_nvidia.Driver(tmp_path, 4)
    made.set_gpus(4, models={2: "NVIDIA GeForce RTX 4090"})
    made.configure(*DRIVER)
    monkeypatch.delenv("THOLE_MACHINE")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setenv("THOLE_MACHINE", "4xA100")


def test_answers_and_tables_are_those_of_the_original_on_the_same_driver(driver):
    ours = run(PROBE)
    assert ours == GOLDEN, "\n".join(
        difflib.unified_diff(GOLDEN.splitlines(), ours.splitlines(), "GPUtil 1.4.0", "thole", lineterm="")
    )


def test_the_golden_text_is_what_the_original_says(driver):
    if not ORIGINAL:
        pytest.skip(
            "THOLE_TEST_GPUTIL does not name a folder with GPUtil 1.4.0: pip install --target FOLDER gputil==1.4.0 setuptools"
        )
    if not (fake_nvidia.BUILD / "fake/nvidia-smi").exists():
        pytest.skip(
            f"needs the stand-in for nvidia-smi of a build: {fake_nvidia.BUILD}/fake/nvidia-smi (target fake_nvidia_smi)"
        )
    answer = subprocess.run(
        [sys.executable, str(PROBE)], capture_output=True, text=True, timeout=LIMIT, check=True,
        env={**os.environ, "PYTHONPATH": ORIGINAL, "PATH": f"{fake_nvidia.BUILD / 'fake'}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert answer.stdout == GOLDEN


def test_a_gpu_without_memory_of_its_own_has_the_hosts(driver):
    driver.configure("gpus 4", "gpu 0 rc nvmlDeviceGetMemoryInfo_v2 3", "gpu 0 rc nvmlDeviceGetMemoryInfo 3")
    assert (
        run("""
import GPUtil
gpu = GPUtil.getGPUs()[0]
print(0 < gpu.memoryUsed < gpu.memoryTotal, gpu.memoryFree == gpu.memoryTotal - gpu.memoryUsed,
      GPUtil.getAvailable(maxMemory=1))
""")
        == "True True [0]\n"
    )


def test_columns_of_ones_own():
    # The original accepts attrList and prints its default columns all the same.
    assert (
        run(
            """
import GPUtil
GPUtil.showUtilization(attrList=[
    [{"attr": "id", "name": "Number of the GPU"}, {"attr": "name", "name": "N", "suffix": "!"}],
    [{"attr": "memoryTotal", "name": "GiB", "transform": lambda mib: mib / 1024, "precision": 2, "suffix": "G"}],
])
try:
    GPUtil.showUtilization(attrList=[[{"attr": "id", "name": "I", "transform": lambda number: None}]])
except TypeError as problem:
    print(problem)
""",
            environment={"THOLE_MACHINE": "2xA100"},
        )
        == """\
| Number of the GPU | N                      || GiB    |
--------------------------------------------------------
|                 0 | NVIDIA A100-SXM4-80GB! || 80.00G |
|                 1 | NVIDIA A100-SXM4-80GB! || 80.00G |
Unhandled object type (<class 'NoneType'>) for attribute 'I'
"""
    )


def test_four_programs_at_once_get_four_gpus(four_gpus):
    programs = [start(PICKS_ONE) for _ in range(4)]
    assert sorted(program.stdout.readline() for program in programs) == ["0\n", "1\n", "2\n", "3\n"]
    fifth = start(PICKS_ONE)
    assert (
        "RuntimeError: Could not find an available GPU after 1 attempts with 900 seconds interval."
        in fifth.communicate(timeout=LIMIT)[1]
    )
    for program in programs:
        end(program)


def test_what_was_handed_out_is_free_when_the_program_is_killed(four_gpus):
    holder, other = start(PICKS_ONE), start(PICKS_ONE)
    had = holder.stdout.readline()
    other.stdout.readline()
    holder.send_signal(signal.SIGKILL)
    holder.communicate(timeout=LIMIT)
    heir = start(PICKS_ONE)
    assert heir.stdout.readline() == had
    end(heir)
    end(other)


def test_what_thole_run_has_is_not_available(four_gpus):
    from tholepin import _native

    holding = [_native.program(), "run", "-q", "--on", "0,2", "-g", "2", sys.executable, "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        holder.stdout.readline()
        assert run("import GPUtil; print(GPUtil.getAvailable(limit=4), GPUtil.getAvailable('last', 4))") == "[1, 3] [3, 1]\n"
        holder.communicate("\n", timeout=LIMIT)


def test_a_look_claims_nothing(four_gpus):
    looker = start(
        "import GPUtil, sys; print(GPUtil.getAvailability(GPUtil.getGPUs())); GPUtil.showUtilization();"
        "sys.stdout.flush(); sys.stdin.read()"
    )
    assert looker.stdout.readline() == "[1, 1, 1, 1]\n"
    looker.stdout.readline()
    assert run("import GPUtil; print(GPUtil.getAvailable(limit=4))") == "[0, 1, 2, 3]\n"
    end(looker)


def test_the_pick_names_the_card_that_nvidia_smi_counts_and_hides_nothing(four_gpus):
    assert (
        run("""
import os, GPUtil
GPUtil.getFirstAvailable("last")
print(os.environ["CUDA_DEVICE_ORDER"], "CUDA_VISIBLE_DEVICES" in os.environ, "THOLE_CLAIM" in os.environ)
""")
        == "PCI_BUS_ID False False\n"
    )


def test_what_was_allotted_from_outside_is_not_left(four_gpus):
    assert run("import GPUtil; print(GPUtil.getAvailable(limit=4))", environment={"CUDA_VISIBLE_DEVICES": "3,1"}) == "[1, 3]\n"


def test_between_attempts_it_stands_in_line_and_starts_when_its_turn_comes(monkeypatch):
    monkeypatch.setenv("THOLE_MACHINE", "1xA100")
    holder = start(PICKS_ONE)
    assert holder.stdout.readline() == "0\n"
    waiter = start("import GPUtil; print('waits', flush=True); print(GPUtil.getFirstAvailable(attempts=2, interval=3600))")
    assert waiter.stdout.readline() == "waits\n"
    end(holder)
    assert end(waiter) == "[0]\n"


def test_a_forked_child_gets_a_gpu_of_its_own(four_gpus):
    assert (
        run("""
import os, GPUtil
print(GPUtil.getFirstAvailable(), flush=True)
if os.fork() == 0:
    print(GPUtil.getFirstAvailable(), flush=True)
    os._exit(0)
os.wait()
""")
        == "[0]\n[1]\n"
    )


@pytest.mark.parametrize("machine, answer", [("2xMI250X", "[0, 1]"), ("none", "[]")])
def test_machines_without_nvidia(monkeypatch, machine, answer):
    monkeypatch.setenv("THOLE_MACHINE", machine)
    assert run("import GPUtil; print([gpu.id for gpu in GPUtil.getGPUs()])") == answer + "\n"

# ctest: timeout 900
"""safe_gpu's drop-in: names, log and exceptions of the original, on claims that wait in line."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from compat_tools import LIMIT, end, run, start

from tholepin import _native

ACQUISITOR = pathlib.Path(__file__).parents[2] / "examples/gpu-acquisitor.py"

# What the frameworks do that a placeholder asks of them; each says so on stdout. Computing goes on when stdin ends: until then
# the GPUs are held.
STUBS = {
    "torch.py": """
import sys
def zeros(shape, device):
    print('torch', shape, device)
    return device
class ones:
    def __init__(self, shape, device):
        sys.stdin.read()
    def sum(self):
        return self
    def item(self):
        return 1
""",
    "tensorflow.py": """
import contextlib
import sys
def ones(shape):
    sys.stdin.read()
def reduce_sum(values):
    pass
def constant(value):
    print('tensorflow constant', value)
    return value
@contextlib.contextmanager
def device(name):
    print('tensorflow device', name)
    yield
""",
    "pycuda/__init__.py": "",
    "pycuda/driver.py": """
import sys
def init():
    print('pycuda init')
class Device:
    def __init__(self, number):
        self.number = number
    def make_context(self):
        print('pycuda context', self.number)
        return self
    def detach(self):
        sys.stdin.read()
        print('pycuda detach', self.number)
""",
}

HOLDS_TWO = """
import sys
from safe_gpu import safe_gpu
safe_gpu.claim_gpus(2, placeholder_fn=lambda device_no: None)
print(sorted(safe_gpu.gpu_owner.devices_taken), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch):
    monkeypatch.setenv("THOLE_MACHINE", "4xA100")


@pytest.fixture
def frameworks(tmp_path):
    folder = tmp_path / "frameworks"
    for name, text in STUBS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {"PYTHONPATH": str(folder)}


LOGGED = "import logging, sys\nlogging.basicConfig(level=logging.INFO, format='%(levelname)s %(message)s', stream=sys.stdout)\n"


def test_the_log_of_a_claim_and_of_its_end(frameworks):
    assert (
        run(
            LOGGED
            + """
from safe_gpu import safe_gpu
safe_gpu.claim_gpus(2)
safe_gpu.release_gpus()
""",
            environment=frameworks,
        )
        == """\
INFO acquiring lock
INFO lock acquired
INFO Set CUDA_VISIBLE_DEVICES=0,1
torch 1 cuda:0
torch 1 cuda:1
INFO lock released
INFO Releasing placeholder on CUDA device: 0
INFO Did nothing, PyTorch doesn't expose interface for releasing GPUs
INFO Releasing placeholder on CUDA device: 1
INFO Did nothing, PyTorch doesn't expose interface for releasing GPUs
"""
    )


@pytest.mark.parametrize(
    "placeholder, said",
    [
        ("safe_gpu.TensorflowPlaceholder()", ["tensorflow device GPU:0", "tensorflow constant [1.0]"]),
        ("safe_gpu.PyCudaPlaceholder()", ["pycuda init", "pycuda context 0", "pycuda detach 0"]),
        ("safe_gpu.pytorch_placeholder", ["torch 1 cuda:0"]),
        ("safe_gpu.tensorflow_placeholder", ["tensorflow device GPU:0", "tensorflow constant [1.0]"]),
        ("lambda device_no: print('own', device_no)", ["own 0"]),
    ],
)
def test_every_placeholder_is_made_on_the_devices_of_the_claim(frameworks, placeholder, said):
    assert (
        run(
            f"from safe_gpu import safe_gpu\nsafe_gpu.claim_gpus(1, {placeholder})\nsafe_gpu.release_gpus()",
            environment=frameworks,
        ).splitlines()
        == said
    )


def test_a_framework_that_is_not_installed_is_no_error(tmp_path):
    nothing = tmp_path / "torch"
    nothing.mkdir()
    (nothing / "__init__.py").write_text("raise ModuleNotFoundError('no torch here', name='torch')")
    said = run(
        LOGGED + "import safe_gpu; safe_gpu.claim_gpus(); safe_gpu.release_gpus()", environment={"PYTHONPATH": str(tmp_path)}
    )
    assert "INFO No placeholder: torch is not installed; the claim holds without one" in said


def test_a_placeholder_that_fails_gives_the_gpus_back():
    assert (
        run("""
from safe_gpu import safe_gpu
def fails(device_no):
    raise RuntimeError("out of memory")
try:
    safe_gpu.claim_gpus(2, fails)
except RuntimeError as problem:
    print(problem, safe_gpu.get_free_gpus(), safe_gpu.gpu_owner)
""")
        == "out of memory ['0', '1', '2', '3'] None\n"
    )


def test_a_claim_of_its_own_object_outlives_it():
    assert (
        run("""
from safe_gpu import safe_gpu
owner = safe_gpu.GPUOwner(3, lambda device_no: device_no * 10)
print(owner.devices_taken, owner.placeholders, safe_gpu.get_free_gpus())
del owner
print(safe_gpu.get_free_gpus())
owner = safe_gpu.GPUOwner(3, lambda device_no: None)
print(owner.devices_taken)
""")
        == "[0, 1, 2] [0, 10, 20] ['3']\n['3']\n[0, 1, 2]\n"
    )


def test_claiming_again_takes_of_the_first_gpus_or_more_when_they_are_free():
    assert (
        run("""
from safe_gpu import safe_gpu
def claims(*numbers):
    for n in numbers:
        try:
            safe_gpu.claim_gpus(n, lambda device_no: None)
        except RuntimeError as problem:
            print(str(problem)[:14], end=" ")
        print(safe_gpu.gpu_owner.devices_taken, safe_gpu.get_free_gpus())
    safe_gpu.release_gpus()
    print(safe_gpu.get_free_gpus())
claims(4, 2, 2, 4, 3, 0, 1)
claims(1, 2, 3, 1)
""")
        == """\
[0, 1, 2, 3] []
[0, 1] []
[0, 1] []
[0, 1, 2, 3] []
[0, 1, 2] []
[] []
[0] []
['0', '1', '2', '3']
[0] ['1', '2', '3']
[1, 2] ['0', '3']
Required 3 GPU [1, 2] ['0', '3']
[1] ['0', '3']
['0', '1', '2', '3']
"""
    )


def test_releasing_what_is_not_there_is_no_error():
    run(
        "import safe_gpu; safe_gpu.release_gpus(); safe_gpu.claim_gpus(1, lambda n: n); safe_gpu.release_gpus(); "
        "safe_gpu.release_gpus()"
    )


def test_who_finds_too_few_waits_and_says_so():
    holders = [start(HOLDS_TWO), start(HOLDS_TWO)]
    assert sorted(holder.stdout.readline() for holder in holders) == ["[0, 1]\n", "[2, 3]\n"]
    waiter = start(LOGGED.replace("stream=sys.stdout", "stream=sys.stdout, force=True") + HOLDS_TWO)
    assert [waiter.stdout.readline() for _ in range(2)] == [
        "INFO acquiring lock\n",
        "INFO Waiting for 2 GPUs, only found these free: []\n",
    ]
    end(holders[1])
    assert "INFO lock acquired\n" in end(waiter)
    end(holders[0])


@pytest.mark.parametrize("wanted, options", [(2, ["--no-wait"]), (2, ["--wait", "1s"]), (5, [])])
def test_not_enough_and_no_time_to_wait_is_the_originals_error(wanted, options):
    with start(HOLDS_TWO) as first, start(HOLDS_TWO.replace("(2,", "(1,")) as second:
        first.stdout.readline()
        second.stdout.readline()
        refused = start(f"import safe_gpu; safe_gpu.claim_gpus({wanted}, lambda n: n)", options=options)
        assert f"RuntimeError: Required {wanted} GPUs, only found these free: ['" in refused.communicate(timeout=LIMIT)[1]
        for holder in (first, second):
            holder.stdin.close()


def test_a_machine_whose_one_gpu_has_the_display(monkeypatch, tmp_path):
    machine = tmp_path / "desk.json"
    machine.write_text("""{"schema": "thole/machine/1",
                           "gpus": [{"uuid": "GPU-d", "vendor": "nvidia", "model": "GeForce", "memory_mib": 8192,
        "display": true, "monitor": true,
        "use": {"memory_used_mib": 400, "processes": [{"pid": 4711, "kind": "graphics", "memory_mib": 400}]}}]}""")
    monkeypatch.setenv("THOLE_MACHINE", str(machine))
    assert (
        run(
            LOGGED
            + """
from safe_gpu import safe_gpu
print(safe_gpu.is_single_gpu_display_mode())
try:
    safe_gpu.claim_gpus(2, lambda n: n)
except ValueError as problem:
    print(problem)
safe_gpu.claim_gpus(1, lambda n: n)
import subprocess
again = [sys.executable, "-c", "import safe_gpu; safe_gpu.claim_gpus(1, lambda n: n)"]
import os
other = {name: value for name, value in os.environ.items() if name not in ("THOLE_CLAIM", "THOLE_GPUS", "CUDA_VISIBLE_DEVICES")}
print(subprocess.run(again, env={**other, "THOLE_WAIT": "0"}, capture_output=True, text=True).stderr.splitlines()[-1])
"""
        )
        == """\
True
INFO Running on a machine with single GPU used for actual display
Requested 2 GPUs on a machine with single one.
INFO Running on a machine with single GPU used for actual display
INFO Set CUDA_VISIBLE_DEVICES=0
RuntimeError: Required 1 GPUs, only found these free: []. Somebody didn't properly declare their resources?
"""
    )


@pytest.mark.parametrize("caught", ["safe_gpu.NvidiasmiError", "FileNotFoundError"])
def test_a_machine_without_a_gpu(monkeypatch, caught):
    monkeypatch.setenv("THOLE_MACHINE", "none")
    assert (
        run(f"""
from safe_gpu import safe_gpu
try:
    safe_gpu.claim_gpus()
except {caught}:
    print("on the CPU")
""")
        == "on the CPU\n"
    )


def test_too_late_is_told():
    pytest.importorskip("tholepin._late", reason="the check for CUDA that runs already is not there yet")
    program = start("""
import sys, types
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, is_available=lambda: True)
torch._C = types.SimpleNamespace()
import safe_gpu
safe_gpu.claim_gpus(1, lambda device_no: None)
""")
    told = program.communicate(timeout=LIMIT)[1]
    assert re.search(r"RuntimeError: .*torch", told, re.I | re.S), told


HOROVOD_STYLE = """
import subprocess, sys
ranks = [subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
print(sorted(rank.stdout.readline().strip() for rank in ranks))
for rank in ranks:
    rank.communicate()
"""


@pytest.mark.parametrize(
    "ask",
    ["safe_gpu.claim_gpus(1, lambda n: n); print(*safe_gpu.gpu_owner.devices_taken)", "print(*GPUtil.getFirstAvailable())"],
)
def test_ranks_inside_a_claim_get_a_gpu_of_it_each(ask):
    rank = f"import sys, GPUtil\nfrom safe_gpu import safe_gpu\n{ask}\nsys.stdout.flush()\nsys.stdin.read()"
    words = [_native.program(), "run", "-q", "--on", "1,3", "-g", "2", sys.executable, "-c", HOROVOD_STYLE]
    words += [_native.program(), "compat", "--", sys.executable, "-c", rank]
    assert subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=True).stdout == "['1', '3']\n"


def test_never_the_same_gpu_as_thole_run(tmp_path, monkeypatch):
    monkeypatch.setenv("THOLE_QUIET", "1")  # nothing but problems on stderr
    # Each holder of a GPU makes a file of its number, which must not be there, and takes it away again.
    holding = """
import os, sys
folder = sys.argv[1]
def hold(gpus):
    for gpu in gpus:
        os.close(os.open(os.path.join(folder, gpu), os.O_CREAT | os.O_EXCL))
    for gpu in gpus:
        os.unlink(os.path.join(folder, gpu))
"""
    by_run = tmp_path / "by_run.py"
    by_run.write_text(holding + "hold(os.environ['CUDA_VISIBLE_DEVICES'].split(','))")
    by_claim = tmp_path / "by_claim.py"
    by_claim.write_text(
        holding
        + """
from safe_gpu import safe_gpu
for _ in range(15):
    safe_gpu.claim_gpus(2, lambda device_no: None)
    hold(os.environ['CUDA_VISIBLE_DEVICES'].split(','))
    safe_gpu.release_gpus()
"""
    )
    folder = tmp_path / "held"
    folder.mkdir()
    running = [_native.program(), "run", "-q", "-g", "2", sys.executable, str(by_run), str(folder)]
    loop = f"for i in $(seq 15); do {' '.join(running)} || exit 1; done"
    programs = [subprocess.Popen(["sh", "-c", loop], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    programs += [start(by_claim, folder) for _ in range(2)]
    for program in programs:
        assert program.communicate(timeout=LIMIT)[1] == ""
        assert program.returncode == 0
    assert os.listdir(folder) == []


@pytest.mark.parametrize("options", [[], ["--explicit-owner-object"], ["--backend", "pycuda"], ["--backend", "tf"]])
def test_the_demonstration_of_the_race(frameworks, options):
    first, second = (
        start(ACQUISITOR, "--sleep", "0", "--id", n, "--nb-gpus", n, *options, environment=frameworks) for n in (1, 2)
    )
    for program in (first, second):
        while "Namespace(" not in (line := program.stdout.readline()):  # it has its GPUs, and keeps them until its stdin ends
            assert line, program.stderr.read()
    said = [program.communicate(timeout=LIMIT) for program in (first, second)]
    assert first.returncode == second.returncode == 0, said
    taken = []
    for number, (_, err) in enumerate(said, 1):
        lines = [re.sub(r"\d{4}-\S+ \S+ ", "", line) for line in err.splitlines()]
        devices = re.search(r"Allocated devices: \[(.*)\]", err).group(1).split(", ")
        taken += devices
        name = f"GPUOwner{number} [INFO] "
        assert lines[:5] == [
            name + "acquiring lock", name + "lock acquired", name + f"Set CUDA_VISIBLE_DEVICES={','.join(devices)}",
            name + "lock released", name + f"Allocated devices: [{', '.join(devices)}]",
        ]  # fmt: skip
        assert lines[-1] == name + "Finished"
    assert len(set(taken)) == 3, "two programs have one GPU"

# ctest: timeout 600
"""gpu_affinity's drop-in: its own published tests, its recorded results, its sample under a launcher's variables."""

import gzip
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from compat_tools import run

import tholepin.compat
from tholepin import words as thole_words

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = json.loads(gzip.open(ROOT / "tests/golden/gpu_affinity/gpu_affinity.json.gz").read())
CHECKOUT = os.environ.get("THOLE_TEST_GPU_AFFINITY")
EXACT = sorted(name for name, one in RECORDED["topologies"].items() if one["smt_max"] <= 2 and not one["mask_truncated"])


@pytest.fixture
def checkout():
    if not CHECKOUT:
        pytest.skip("THOLE_TEST_GPU_AFFINITY names no checkout of github.com/NVIDIA/gpu_affinity (commit 5d5e28b)")
    return pathlib.Path(CHECKOUT)


def test_its_own_published_tests(checkout, tmp_path):
    # They need an importable pynvml, of which they replace one function.
    (tmp_path / "pynvml.py").write_text("class NVMLError(Exception):\n    pass\ndef nvmlInit():\n    raise NVMLError\n")
    program = tholepin._native.program()
    tests = [str(checkout / "tests/test.py"), str(checkout / "tests/test_dgx.py")]
    loads = [program, "compat", "--", sys.executable, "-m"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    which = subprocess.run(
        [*loads[:-1], "-c", "import gpu_affinity; print(gpu_affinity.__file__)"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "tholepin/compat" in which.stdout, (
        which.stderr
    )  # not the one of the checkout, although it lies in the working directory
    for test in tests:
        result = subprocess.run(
            [*loads, "unittest", test], cwd=checkout, env=environment, capture_output=True, text=True, timeout=300
        )
        assert result.returncode == 0, result.stderr
        assert f"Ran {15 if test.endswith('test.py') else 24} tests" in result.stderr


class Recorded:
    """A recorded machine under the names that gpu_affinity asks, in this process."""

    def __init__(self, monkeypatch, name):
        tholepin.compat.enable()
        from gpu_affinity import gpu_affinity

        self.module, self.machine, self.mask = gpu_affinity, RECORDED["topologies"][name], set()
        cores = {}
        for cpu, core, *_ in self.machine["cpus"]:
            cores.setdefault(core, []).append(cpu)
        siblings = [tuple(cpus) for cpus in cores.values() if len(cpus) > 1]
        monkeypatch.setattr(gpu_affinity, "get_thread_siblings_list", lambda: siblings)
        monkeypatch.setattr(gpu_affinity, "Device", self.device)
        monkeypatch.setattr(gpu_affinity, "_narrowed", None)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: self.mask)
        monkeypatch.setattr(os, "sched_setaffinity", self.narrow)

    def device(self, index):
        if index >= len(self.machine["gpus"]):
            raise self.module.GPUAffinityError("no such GPU")
        gpu = self.machine["gpus"][index]
        return type("Device", (), {"get_cpu_affinity": lambda self, scope: sorted(thole_words.cpus(gpu[scope.value]))})()

    def narrow(self, pid, cpus):
        self.mask = set(cpus)

    def answer(self, gpu_id, allowed, case):
        _, nproc, mode, scope, multithreading, balanced, least, most, _ = case
        words = {"balanced": balanced, "min_physical_cores": least}
        self.module._narrowed, self.mask = None, set(thole_words.cpus(allowed))
        try:
            return self.module.set_affinity(
                gpu_id, nproc, mode=self.module.Mode(mode), scope=self.module.Scope(scope), max_physical_cores=most,
                multithreading=self.module.Multithreading(multithreading),
                **{word: value for word, value in words.items() if value is not None},
            )  # fmt: skip
        except self.module.GPUAffinityError:
            return "!GPUAffinityError"


@pytest.mark.parametrize("name", EXACT)
def test_the_sets_of_the_original_on_recorded_machines(monkeypatch, name):
    recorded = Recorded(monkeypatch, name)
    topology = recorded.machine
    whole = [case for case in topology["cases"] if len({topology["sets"][one].startswith("!") for one in case[8]}) == 1]
    compared = 0
    for case in random.Random(name).sample(whole, 60):
        for gpu_id, one in enumerate(case[8]):
            told = topology["sets"][one]
            if told == "!IndexError":
                continue
            expected = told if told.startswith("!") else set(thole_words.cpus(told))
            assert recorded.answer(gpu_id, topology["cpusets"][case[0]]["cpus"], case) == expected, (case[:8], gpu_id)
            compared += 1
    assert compared > 60


def test_a_second_call_starts_from_the_first_mask(monkeypatch):
    recorded = Recorded(monkeypatch, "dgxa100")
    recorded.mask = set(range(256))
    single = recorded.module.set_affinity(0, 8, mode=recorded.module.Mode.SINGLE)
    assert recorded.module.set_affinity(0, 8) == set(thole_words.cpus("48-55,176-183")) > single


def test_every_thread_of_a_core_of_four(monkeypatch):
    recorded = Recorded(monkeypatch, "lassen_4v100_smt4")
    recorded.mask = set(range(160))
    first = recorded.module.set_affinity(0, 4, mode=recorded.module.Mode.SINGLE)
    assert first == {8, 9, 10, 11}  # the original takes 8 and 9 for a core


RANK = """
import json, os, runpy, sys, types
from gpu_affinity import gpu_affinity
cores = json.loads(sys.argv[1])
sys.argv = sys.argv[2:]
mask = [set(range(sum(map(len, cores))))]
gpu_affinity.get_thread_siblings_list = lambda: [tuple(core) for core in cores]
os.sched_getaffinity = lambda pid: mask[0]
os.sched_setaffinity = lambda pid, cpus: mask.__setitem__(0, set(cpus))
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(device_count=lambda: int(os.environ["LOCAL_WORLD_SIZE"]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    "mode, scope",
    [("unique_contiguous", "node"), ("unique_interleaved", "socket"), ("single_unique", "node"), ("all", "socket")],
)
def test_its_sample_under_the_variables_of_torchrun(checkout, mode, scope):
    # The shipped DGX A100 names the CPUs near its GPUs as the recorded one does.
    topology = RECORDED["topologies"]["dgxa100"]
    words = {"single_unique": [None, None, None], "all": [None, 1, None]}.get(mode, [True, 1, None])
    case = next(case for case in topology["cases"] if case[:8] == [0, 8, mode, scope, "all_logical", *words])
    cores = {}
    for cpu, core, *_ in topology["cpus"]:
        cores.setdefault(core, []).append(cpu)
    for rank in (0, 1, 5, 7):
        environment = {**os.environ, "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "8", "RANK": str(rank), "WORLD_SIZE": "8"}
        sample = [str(checkout / "examples/sample/sample.py"), "--mode", mode, "--scope", scope]
        said = subprocess.run(
            [tholepin._native.program(), "compat", "--", sys.executable, "-c", RANK, json.dumps(list(cores.values())), *sample],
            env=environment, capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
        expected = sorted(thole_words.cpus(topology["sets"][case[8][rank]]))
        assert said.stdout.splitlines()[-1] == f"rank {rank}: core affinity: {expected}, num logical cores: {len(expected)}"


def machine_of(tmp_path, uuids):
    file = tmp_path / "machine.json"
    gpus = [
        {"uuid": uuid, "vendor": "nvidia", "near_cpus": {"node": str(i), "package": str(i)}} for i, uuid in enumerate(uuids)
    ]
    file.write_text(json.dumps({"schema": "thole/machine/1", "gpus": gpus}))
    return str(file)


# Here each entry stands for itself. The original takes all for UUIDs as soon as one is not a number, and finds nothing.
CORRECTED = {"0,,1": {0: 0, 2: 1}, "0,1,": {0: 0, 1: 1}, "0,GPU-2222": {0: 0}, "GPU-2222,0": {1: 0}}


@pytest.mark.parametrize(
    "row", RECORDED["cuda_visible_devices"], ids=lambda row: f"{row['CUDA_VISIBLE_DEVICES']}-of-{len(row['uuids'])}"
)
def test_visible_devices_as_the_original_reads_them(monkeypatch, tmp_path, row):
    visible = row["CUDA_VISIBLE_DEVICES"]
    monkeypatch.setenv("THOLE_MACHINE", machine_of(tmp_path, row["uuids"]))
    tholepin.compat.enable()
    from gpu_affinity import gpu_affinity

    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    answers = []
    for position in range(len(row["resolved_physical_index_for_position_0_to_8"])):
        try:
            answers.append(gpu_affinity.Device(position).get_cpu_affinity(gpu_affinity.Scope.NODE)[0])
        except gpu_affinity.GPUAffinityError:
            answers.append("!GPUAffinityError")
    expected = list(row["resolved_physical_index_for_position_0_to_8"])
    for position, index in CORRECTED.get(visible, {}).items():
        expected[position] = index
    assert answers == expected


def test_without_the_variable_devices_are_counted_as_cuda_counts(monkeypatch, tmp_path):
    file = tmp_path / "machine.json"
    gpus = [{"uuid": f"GPU-{i}", "vendor": "nvidia", "cuda_index": 1 - i, "near_cpus": {"node": str(i)}} for i in range(2)]
    file.write_text(json.dumps({"schema": "thole/machine/1", "gpus": gpus}))
    monkeypatch.setenv("THOLE_MACHINE", str(file))
    tholepin.compat.enable()
    from gpu_affinity import gpu_affinity

    assert [gpu_affinity.Device(i).get_uuid() for i in range(2)] == ["GPU-1", "GPU-0"]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert [gpu_affinity.Device(i).get_uuid() for i in range(2)] == ["GPU-0", "GPU-1"]


@pytest.mark.parametrize(
    "words", RECORDED["argument_edges_dgxa100"], ids=lambda words: "-".join(map(str, list(words.values())[:-1]))
)
def test_odd_arguments(monkeypatch, words):
    if words["max_physical_cores"] == -1:
        pytest.skip("a negative most is an error here; the original cuts the last core off")
    recorded = Recorded(monkeypatch, "dgxa100")
    order = ("nproc_per_node", "mode", "scope", "multithreading", "balanced", "min_physical_cores", "max_physical_cores")
    told = words["out"] if words["out"].startswith("!") else set(thole_words.cpus(words["out"]))
    assert recorded.answer(words["gpu_id"], "0-255", [0, *(words[word] for word in order), []]) == told


@pytest.mark.parametrize("own, then", [(None, "disabled"), ("compact", "compact")])
def test_intels_openmp_is_told_not_to_bind_anew(tmp_path, monkeypatch, own, then):
    machine = tmp_path / "here.json"
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    gpu = {"uuid": "GPU-1", "vendor": "nvidia", "near_cpus": {"node": cpus, "package": cpus}}
    machine.write_text(json.dumps({"schema": "thole/machine/1", "gpus": [gpu]}))
    monkeypatch.setenv("THOLE_MACHINE", str(machine))
    monkeypatch.delenv("KMP_AFFINITY", raising=False)
    said = run(
        "import os, gpu_affinity; gpu_affinity.set_affinity(0, 1, mode=gpu_affinity.Mode.ALL); "
        "print(os.environ['KMP_AFFINITY'])",
        environment={} if own is None else {"KMP_AFFINITY": own},
    )
    assert said == then + "\n"

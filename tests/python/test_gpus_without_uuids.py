# ctest: timeout 900
"""GPUs that have no UUID, and go by number only: the package names them by what stands for one."""
import asyncio
import json
import os
import subprocess
import sys

import pytest

import tholepin
from tholepin import Policy, _native

LONG = 200  # seconds, that no test takes unless something is wrong


class Machine:
    """A simulated machine whose GPUs may leave the driver's list and come back."""

    def __init__(self, file, base):
        self.file = file
        command = [_native.program(), "--machine", base, "capture"]
        self.all = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        self.gpus = self.all["gpus"]

    def lists(self, *gpus):
        """From now on these only."""
        there = [self.gpus[i] for i in gpus]
        addresses = [gpu["pci"] for gpu in there]
        listed = []
        for gpu in there:
            links = [link for link in gpu.get("links", []) if link.get("to") in addresses]
            listed.append({**gpu, "links": links})
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({**self.all, "gpus": listed}))
        os.replace(new, self.file)

    def lists_all(self):
        self.lists(*range(len(self.gpus)))


def made(kind, tmp_path, monkeypatch):
    machine = Machine(tmp_path / "machine.json", "intel-max" if kind == "intel" else "mi250x")
    for gpu in machine.gpus if kind == "amd" else ():
        gpu.pop("uuid")
    if kind == "parts":  # of one card: they share its address, and its unique id
        for number, gpu in enumerate(machine.gpus):
            gpu.update(uuid=None, pci=machine.gpus[0]["pci"], part=number)
            gpu.pop("links", None)
    machine.lists_all()
    monkeypatch.setenv("THOLE_MACHINE", str(machine.file))
    monkeypatch.setenv("THOLE_BIND", "none")
    machine.mask = "ZE_AFFINITY_MASK" if kind == "intel" else "ROCR_VISIBLE_DEVICES"
    return machine


@pytest.fixture(params=["intel", "amd", "parts"])
def machine(request, tmp_path, monkeypatch):
    return made(request.param, tmp_path, monkeypatch)


@pytest.fixture
def other():
    """Another process has the first GPU."""
    text = "import tholepin; print(tholepin.claim(1, on=[0], wait=0).uuids[0], flush=True); input()"
    program = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program.key = program.stdout.readline().strip()
    yield program
    program.communicate("\n", timeout=LONG)


def key_of(number):
    return tholepin.gpus()[number].units[0].uuid


def test_a_claim_tells_names_that_every_other_one_takes(machine, other):
    assert other.key == key_of(0) and other.key.startswith("pci-")
    with tholepin.claim(2, pick="first") as claim:
        assert claim.uuids == [key_of(1), key_of(2)] and claim.indices == [1, 2]
        assert [gpu["key"] for gpu in claim.gpus] == claim.uuids and claim.gpus[0]["uuid"] is None
        with tholepin.claim(1, on=claim.uuids[1]) as inner:
            assert inner.indices == [2] and os.environ[machine.mask] == "2"
    with pytest.raises(tholepin.NoneFree):
        tholepin.claim(1, on=other.key, wait=0)

    async def in_coroutine():
        async with tholepin.aclaim(1, on=claim.uuids[0]) as claimed:
            return claimed.uuids

    assert asyncio.run(in_coroutine()) == [claim.uuids[0]]


def note(mask, folder):
    (folder / str(os.getpid())).write_text(os.environ[mask])


def shown(kind, machine, folder, **what):
    """What each worker of such a pool is shown."""
    folder = folder / str(len(list(folder.iterdir())))
    folder.mkdir()
    with kind(initializer=note, initargs=(machine.mask, folder), **what) as pool:
        assert pool.wait_until_ready(LONG)
        return sorted(file.read_text() for file in folder.iterdir())


def test_pools_have_workers_on_each(machine, other, tmp_path):
    others = [str(number) for number in range(1, len(machine.gpus))]
    assert set(two := shown(tholepin.Pool, machine, tmp_path, gpus=2)) < set(others) and len(set(two)) == 2
    assert set(two := shown(tholepin.Executor, machine, tmp_path, gpus=2)) < set(others) and len(set(two)) == 2
    assert shown(tholepin.Pool, machine, tmp_path, gpus="free", processes_per_policy=2) == sorted(others * 2)
    with tholepin.Pool(gpus="free", retries=0) as pool:
        keys = pool.apply(claimed_within)
        assert len(keys) == 1 and keys[0] != other.key, "a claim made in a worker is its GPU"


def claimed_within():
    with tholepin.claim(1, wait=0) as claim:
        return claim.uuids


def test_policies_name_them(machine, other, tmp_path):
    named = [Policy(gpu_affinity=[1]), Policy(gpu_affinity=[key_of(2)]), Policy(gpu_affinity=[key_of(3).upper(), 1])]
    assert shown(tholepin.Pool, machine, tmp_path, policy=named) == ["1", "2", "3,1"]
    assert shown(tholepin.Pool, machine, tmp_path, policy=tholepin.System().gpu_policies()[1:]) == [
        str(number) for number in range(1, len(machine.gpus))]
    with pytest.raises(tholepin.NoneFree):
        tholepin.Pool(policy=[Policy(gpu_affinity=[other.key])], wait=0)
    address = machine.gpus[1]["pci"]
    if len({gpu["pci"] for gpu in machine.gpus}) == 1:
        with pytest.raises(tholepin.NeverPossible, match="several GPUs are called so"):
            tholepin.Pool(policy=[Policy(gpu_affinity=[address])], wait=0)
    else:
        with tholepin.Pool(policy=[Policy(gpu_affinity=[address])], wait=0) as pool:
            assert pool.apply(os.getenv, (machine.mask,)) == "1"


def test_groups_and_processes_are_shown_them(machine, other):
    said = tholepin.ProcessTemplate("sh", ["-c", f"echo ${machine.mask}"], stdout=tholepin.Process.PIPE)
    with tholepin.ProcessGroup(policy=Policy(gpu_affinity=[key_of(4)])) as group:
        group.add_process(1, said)
        group.init()
        group.start()
        group.join(LONG)
        (pipes,) = group.pipes().values()
        assert pipes[1].read().split() == [b"4"]
    process = tholepin.Process.from_template(said)
    process.start()
    assert process.join(LONG) == 0

# ctest: timeout 900
"""GPUs that have no UUID, and go by number only: the package names them by what stands for one.

The number of such a GPU is another's once it has left the driver's list. What is to begin later waits until it is back.
"""
import asyncio
import json
import logging
import os
import pathlib
import subprocess
import sys
import threading

import pytest
from claim_tools import claims, eventually

import pool_work as work
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
    machine = Machine(tmp_path / "machine.json", {"intel": "intel-max", "nvidia": "4xA100"}.get(kind, "mi250x"))
    for gpu in machine.gpus if kind == "amd" else ():
        gpu.pop("uuid")
    if kind == "parts":  # of one card: they share its address, and its unique id
        for number, gpu in enumerate(machine.gpus):
            gpu.update(uuid=None, pci=machine.gpus[0]["pci"], part=number)
            gpu.pop("links", None)
    machine.lists_all()
    monkeypatch.setenv("THOLE_MACHINE", str(machine.file))
    monkeypatch.setenv("THOLE_BIND", "none")
    machine.mask = {"intel": "ZE_AFFINITY_MASK", "nvidia": "CUDA_VISIBLE_DEVICES"}.get(kind, "ROCR_VISIBLE_DEVICES")
    return machine


@pytest.fixture(params=["intel", "amd", "parts"])
def machine(request, tmp_path, monkeypatch):
    return made(request.param, tmp_path, monkeypatch)


@pytest.fixture
def intel(tmp_path, monkeypatch):
    return made("intel", tmp_path, monkeypatch)


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


# ---- What begins when its GPU is not there ----


class Told(list):
    """An on_wait."""

    def __init__(self):
        self.came = threading.Event()

    def __call__(self, told):
        self.append(told)
        self.came.set()


def ends(pool):
    """Has a worker end."""
    with pytest.raises(tholepin.WorkerDied):
        pool.apply(work.end_with, (1,))


@pytest.mark.parametrize("kind", ["intel", "amd", "parts"])
def test_a_worker_that_comes_later_is_never_shown_the_old_number(kind, tmp_path, monkeypatch, caplog):
    machine, told = made(kind, tmp_path, monkeypatch), Told()
    caplog.set_level(logging.INFO, "tholepin")
    with tholepin.Pool(policy=[Policy(gpu_affinity=[1])], retries=0, on_wait=told) as pool:
        assert pool.apply(os.getenv, (machine.mask,)) == "1"
        key = pool.apply(claimed_within)[0]
        machine.lists(0, 2, 3)
        ends(pool)
        later = pool.apply_async(os.getenv, (machine.mask,))
        assert told.came.wait(LONG)
        assert pool._crew.pids() == [] and not later.ready()
        assert told == [{"gpus": 1, "position": None, "promise": None,
                         "why": ["to start a process again", f"GPU {key}: the driver no longer lists it"]}]
        assert f"waiting, to start a process again; GPU {key}: the driver no longer lists it" in caplog.messages
        machine.lists(1, 2, 3)
        assert later.get(LONG) == "0", "by its number now"
        assert pool.apply(claimed_within) == [key]


def test_the_other_workers_go_on_meanwhile(intel):
    told = Told()
    with tholepin.Pool(policy=[Policy(gpu_affinity=[1]), Policy(gpu_affinity=[2])], retries=0, on_wait=told) as pool:
        assert pool.wait_until_ready(LONG)
        intel.lists(0, 1, 3)
        while not told:
            ends(pool)
            told.came.wait(2)
        assert pool.map(os.getenv, [intel.mask] * 20, chunksize=1) == ["1"] * 20


@pytest.mark.parametrize("kind, name", [("dgx-a100", "CUDA_VISIBLE_DEVICES"), ("mi250x", "ROCR_VISIBLE_DEVICES")])
def test_where_a_name_is_nobody_elses_a_worker_begins_with_that(kind, name, tmp_path, monkeypatch):
    machine = Machine(tmp_path / "machine.json", kind)
    machine.lists_all()
    monkeypatch.setenv("THOLE_MACHINE", str(machine.file))
    with tholepin.Pool(policy=[Policy(gpu_affinity=[1])], retries=0) as pool:
        pool.apply(abs, (1,))
        machine.lists(0, 2)
        ends(pool)
        assert pool.apply(os.getenv, (name,)) == machine.gpus[1]["uuid"]


@pytest.mark.parametrize("how", ["terminate", "close", "with", "executor", "cancelled"])
def test_a_pool_ends_while_a_worker_waits_for_its_gpu(intel, how):
    told = Told()
    several = dict(policy=[Policy(gpu_affinity=[1])], retries=0, on_wait=told)

    def lose_worker(submit):
        intel.lists(0, 2)
        with pytest.raises((tholepin.WorkerDied, Exception)):
            submit()

    if how == "executor":
        executor = tholepin.Executor(**several)
        lose_worker(lambda: executor.submit(work.end_with, 1).result(LONG))
        assert told.came.wait(LONG)
        executor.shutdown()
    elif how == "cancelled":
        asyncio.run(cancelled(intel, several))
    else:
        pool = tholepin.Pool(**several)
        lose_worker(lambda: pool.apply(work.end_with, (1,)))
        assert told.came.wait(LONG)
        if how == "with":
            with pool:
                pass
        else:
            getattr(pool, how)()
        pool.join(LONG)
    eventually(lambda: not claims())


async def cancelled(machine, several):
    came = asyncio.Event()

    async def works():
        async with tholepin.Pool.aopen(**{**several, "on_wait": lambda told: came.set()}) as pool:
            machine.lists(0, 2)
            pool.apply_async(work.end_with, (1,))
            await asyncio.sleep(LONG)

    task = asyncio.ensure_future(works())
    await asyncio.wait_for(came.wait(), LONG)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_was_submitted_before_the_close_is_done_when_the_gpu_is_back(intel):
    told = Told()
    pool = tholepin.Pool(policy=[Policy(gpu_affinity=[1])], retries=0, on_wait=told)
    intel.lists(0, 2)
    ends(pool)
    later = pool.apply_async(os.getenv, (intel.mask,))
    pool.close()
    assert told.came.wait(LONG)
    intel.lists_all()
    pool.join(LONG)
    assert later.get(0) == "1"


def test_a_hook_that_fails_ends_no_pool(intel, caplog):
    came = threading.Event()

    def fails(told):
        came.set()
        raise ValueError("of the hook")

    with tholepin.Pool(policy=[Policy(gpu_affinity=[1])], retries=0, on_wait=fails) as pool:
        intel.lists(0, 2)
        ends(pool)
        assert came.wait(LONG)
        intel.lists_all()
        assert pool.apply(os.getenv, (intel.mask,)) == "1"
    assert any(record.exc_info for record in caplog.records)


def group_of_one(machine, tmp_path, told):
    """Restarts a process that says its number, and ends when it is told to."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    group = tholepin.ProcessGroup(restart=True, policy=Policy(gpu_affinity=[1]), on_wait=told)
    group.add_process(1, tholepin.ProcessTemplate("sh", ["-c", f"echo ${machine.mask} >> {tmp_path}/said; cat {fifo}"]))
    group.init()
    group.start()
    machine.lists(0, 2)
    fifo.write_text("")  # waits for who reads
    assert told.came.wait(LONG) and group.state == "RUNNING" and group.puids == []
    return group


def test_a_process_of_a_group_waits_likewise(intel, tmp_path):
    with group_of_one(intel, tmp_path, Told()) as group:
        intel.lists(1, 2)
        eventually(lambda: (tmp_path / "said").read_text().split() == ["1", "0"])
        group.stop(0)


@pytest.mark.parametrize("how", ["stop", "kill", "stop_restart", "close"])
def test_a_group_ends_while_a_process_waits(intel, tmp_path, how):
    group = group_of_one(intel, tmp_path, Told())
    getattr(group, how)()
    if how != "close":
        group.join(LONG)
    group.close()
    assert not claims() and pathlib.Path(tmp_path / "said").read_text().split() == ["1"]


def test_a_group_that_is_started_later_is_shown_the_number_of_now(intel, tmp_path):
    with tholepin.ProcessGroup(policy=Policy(gpu_affinity=[1])) as group:
        group.add_process(1, tholepin.ProcessTemplate("sh", ["-c", f"echo ${intel.mask} >> {tmp_path}/said"]))
        group.init()
        for there in (None, (1, 2), (0, 2)):
            if there:
                intel.lists(*there)
                group._shares._shown_at -= 60  # that was a minute ago
            if there == (0, 2):
                with pytest.raises(tholepin.DriverError, match="no longer lists it"):
                    group.start()
            else:
                group.start()
                group.join(LONG)
        assert (tmp_path / "said").read_text().split() == ["1", "0"]

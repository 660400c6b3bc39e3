# ctest: timeout 600
"""Pools and groups inside of a claim, while GPUs that are not its own leave the driver's list: numbers mean others then."""
import os

import pytest
import tholepin
from tholepin import Policy

import pool_work as work
from test_gpus_without_uuids import made


@pytest.fixture(params=["nvidia", "intel"])
def machine(request, tmp_path, monkeypatch):
    return made(request.param, tmp_path, monkeypatch)


@pytest.fixture
def around(machine):
    with tholepin.claim(1, on=[1], wait=0):
        yield


@pytest.mark.usefixtures("around")
@pytest.mark.parametrize("words", [{}, {"policy": Policy()}, {"policy": [Policy()]}], ids=["none", "one", "a list"])
def test_a_worker_that_sees_what_its_pool_sees_is_shown_it_by_the_numbers_of_then(machine, words):
    number = {} if "policy" in words and isinstance(words["policy"], list) else {"processes": 1}
    with tholepin.Pool(**number, **words, maxtasksperchild=1) as pool:
        assert pool.apply(os.getenv, [machine.mask]) == "1"
        machine.lists(1, 2, 3)
        pool.apply(os.getenv, [machine.mask])      # by a worker that may have begun before
        assert pool.apply(os.getenv, [machine.mask]) == "0"
    with tholepin.Pool(**number, **words) as pool:
        assert pool.apply(os.getenv, [machine.mask]) == "0"


@pytest.mark.usefixtures("around")
def test_executors_and_processes_begin_by_the_numbers_of_then(machine):
    machine.lists(1, 2, 3)
    with tholepin.Executor(1) as executor:
        assert executor.submit(os.getenv, machine.mask).result() == "0"
    process = tholepin.Process("sh", ["-c", f"printf %s ${machine.mask}"], stdout=tholepin.Process.PIPE)
    process.start()
    assert (process.stdout_conn.read(), process.join()) == (b"0", 0)


@pytest.mark.usefixtures("around")
def test_a_list_of_ones_own_stays_as_it_is(machine, monkeypatch):
    monkeypatch.setenv(machine.mask, "")
    machine.lists(1, 2, 3)
    with tholepin.Pool(1) as pool:
        assert pool.apply(os.getenv, [machine.mask]) == ""


def test_what_a_worker_claims_is_of_its_own_gpus_whatever_their_numbers_are_now(machine):
    with tholepin.Pool(policy=[Policy(gpu_affinity=[1]), Policy(gpu_affinity=[2])]) as pool:
        machine.lists(1, 2, 3)
        told = pool.map(work.claims_one, range(8), chunksize=1)
    assert all(own == claimed for own, claimed in told), told


@pytest.mark.parametrize("own", ["HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"])
def test_what_divides_a_claim_further_stays_as_it_is(tmp_path, monkeypatch, own):
    made("amd", tmp_path, monkeypatch)
    with tholepin.claim(2, wait=0):
        monkeypatch.setenv(own, "1")
        with tholepin.Pool(1) as pool:
            assert pool.apply(os.getenv, [own]) == "1"


@pytest.mark.usefixtures("around")
@pytest.mark.parametrize("told", ["[" * 8000, '[{"key": 5}]', '[{"key": "x", "vendor": "amd", "listed_as": "1", "uuid": 5}]'])
def test_what_nobody_has_told_is_passed_over(monkeypatch, told):
    monkeypatch.setenv("THOLE_GPUS", told)
    with tholepin.Pool(1) as pool:
        assert pool.apply(os.getenv, ["THOLE_GPUS"]) == told


def test_a_pool_outlasts_the_claim_that_was_around(machine):
    with tholepin.claim(1, on=[1], wait=0):
        pool = tholepin.Pool(1, maxtasksperchild=1)
    with pool, tholepin.claim(1, on=[2], wait=0):
        assert [pool.apply(abs, [-n]) for n in range(4)] == [0, 1, 2, 3]

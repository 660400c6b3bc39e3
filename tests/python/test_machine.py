"""tholepin.gpus, status, why, topo, plan, bind: the machine as data."""
import json
import os
import subprocess
import sys

import pytest

import tholepin


def test_gpus_tell_who_has_them():
    with tholepin.claim(on=3, command="a test"):
        taken = tholepin.gpus()[3]
        assert not taken.free and taken.units[0].state == "claimed" and taken.units[0].mine
        assert [claim["command"] for claim in taken.claims] == ["a test"]
        # What allots GPUs to this process hides the others: here the claim itself.
        assert [gpu.index for gpu in tholepin.gpus() if gpu.free] == []
    assert all(gpu.free for gpu in tholepin.gpus())


def test_figures_that_the_driver_does_not_give_are_none(monkeypatch, tmp_path):
    gpu = {
        "uuid": "GPU-1",
        "vendor": "nvidia",
        "model": "T4",
        "use": {"unsupported": ["processes", "memory_used_mib", "temperature_c"]},
    }
    machine = {"schema": "thole/machine/1", "name": "bare", "gpus": [gpu]}
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(machine))
    monkeypatch.setenv("THOLE_MACHINE", str(path))
    (gpu,) = tholepin.gpus()
    assert (gpu.memory_mib, gpu.temperature_c, gpu.processes, gpu.free) == (None, None, None, False)
    assert tholepin.gpus()[0].units[0].state == "unknown"


def test_an_instance_is_a_unit_of_its_gpu(monkeypatch):
    monkeypatch.setenv("THOLE_MACHINE", "mig-a100")
    assert [unit.name for gpu in tholepin.gpus() for unit in gpu.units][:3] == ["0:0", "0:1", "0:2"]


def test_a_machine_without_gpus_is_no_error(monkeypatch, tmp_path):
    path = tmp_path / "none.json"
    path.write_text('{"schema": "thole/machine/1", "name": "none", "gpus": []}')
    monkeypatch.setenv("THOLE_MACHINE", str(path))
    assert tholepin.gpus() == []
    with pytest.raises(tholepin.NeverPossible):
        tholepin.claim(1)


def test_an_unknown_machine_is_named(monkeypatch):
    monkeypatch.setenv("THOLE_MACHINE", "nonesuch")
    with pytest.raises(tholepin.Error) as caught:
        tholepin.status()
    assert "nonesuch" in str(caught.value)


def test_why_is_for_gpus_and_requests():
    assert [unit["unit"] for unit in tholepin.why(0, "3")["units"]] == ["0", "3"]
    with tholepin.claim(8):
        assert tholepin.why(5)["units"][0]["state"] == "claimed"
    assert tholepin.why(gpus=9)["refused"]
    with pytest.raises(tholepin.Error) as caught:
        tholepin.why(99)
    assert caught.value.code == 64 and "99" in str(caught.value)


def test_topo_draws_text_pictures_and_tables():
    assert max(map(len, tholepin.topo().splitlines())) <= 80
    assert "</svg>" in tholepin.topo("svg")
    assert tholepin.topo("matrix").startswith("\tGPU0")
    with pytest.raises(tholepin.Error, match="form: expected text, svg or matrix"):
        tholepin.topo("html")


def test_a_plan_is_for_any_machine():
    plan = tholepin.plan(ranks=8, machine="dgx-a100", bind={"mode": "exclusive", "lend": True})
    cpus = [rank.cpus for rank in plan.ranks]
    assert len(cpus) == 8 and not any(a & b for a in cpus for b in cpus if a is not b)
    assert tholepin.plan(2, machine="8xA100").gpus == [0, 1]
    own = {"gpus": [{}, {}], "cpus": [{"id": "0-3", "core": "0-3", "numa": 0, "package": 0}], "numa": [{"id": 0}]}
    assert tholepin.plan(2, machine=own).gpus == [0, 1]


def test_a_plan_that_cannot_be_is_refused():
    with pytest.raises(tholepin.NeverPossible):
        tholepin.plan(9)
    with pytest.raises(tholepin.Error) as caught:
        tholepin.plan(1, bind="sideways")
    assert isinstance(caught.value, ValueError)


BIND = ("import json, os, tholepin; b = tholepin.bind(%s); print(json.dumps([sorted(b.cpus), "
        "sorted(os.sched_getaffinity(0)), b.rank, b.gpus]))")


@pytest.fixture
def this_host_with_four_gpus(monkeypatch, tmp_path):
    """A machine with the CPUs of this host and four GPUs near all of them."""
    cpus = sorted(os.sched_getaffinity(0))
    machine = {
        "schema": "thole/machine/1",
        "name": "here",
        "cpus": [{"id": cpu, "core": cpu, "l3": 0, "numa": 0, "package": 0} for cpu in cpus],
        "numa": [{"id": 0, "memory_mib": 4096}],
        "gpus": [
            {"uuid": f"GPU-{n}", "vendor": "nvidia", "model": "T4", "memory_mib": 16384, "numa": 0, "use": {"processes": []}}
            for n in range(4)
        ],
    }
    path = tmp_path / "here.json"
    path.write_text(json.dumps(machine))
    monkeypatch.setenv("THOLE_MACHINE", str(path))
    return cpus


def bound_in_a_process(arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", BIND % arguments], env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def test_a_rank_binds_itself(this_host_with_four_gpus):
    got, has, rank, gpus = bound_in_a_process("1, 4, how='core:1'")
    assert got == has and len(got) == 1 and (rank, gpus) == (1, [1])


def test_the_launchers_variables_say_which_rank_it_is(this_host_with_four_gpus):
    assert bound_in_a_process("", LOCAL_RANK="2", LOCAL_WORLD_SIZE="4")[2:] == [2, [2]]


def test_without_a_launcher_it_is_one_process_with_all_it_may_see(this_host_with_four_gpus):
    assert bound_in_a_process("", CUDA_VISIBLE_DEVICES="1,3")[2:] == [0, [1, 3]]


def test_a_rank_that_cannot_be_is_refused(this_host_with_four_gpus):
    for words in ((4, 4), (0,)):
        with pytest.raises(tholepin.Error) as caught:
            tholepin.bind(*words)
        assert caught.value.code == 64
    with pytest.raises(tholepin.Error, match="mem"):
        tholepin.bind(how={"mem": "bind"})


# ---- Looking first ----


@pytest.mark.parametrize("look", ["gpus()", "status()", "System().gpu_policies()", "why()", "plan(1)"])
def test_after_a_look_units_that_are_new_can_be_claimed(monkeypatch, look):
    """The state was made when the machine had fewer: a GPU was put in, or instances were made."""
    monkeypatch.setenv("THOLE_MACHINE", "2xA100")
    tholepin.claim(2).release()
    monkeypatch.setenv("THOLE_MACHINE", "4xA100")
    eval(f"tholepin.{look}")
    assert len(tholepin.claim(4).indices) == 4

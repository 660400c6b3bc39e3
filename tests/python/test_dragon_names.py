"""Names, types and order that Dragon's users know, on one host: what a program written for Dragon 0.15 reads and passes."""
import ipaddress
import json
import os
import pickle
import signal
import threading

import pytest

import tholepin
from tholepin import Policy, Process, ProcessGroup, ProcessTemplate

LONG = 120

pytestmark = pytest.mark.usefixtures("all_claims_end")


def visible(_=None):
    return os.environ.get("CUDA_VISIBLE_DEVICES")


# ---- Policies around ----


def shown_by(**more):
    process = Process("sh", ["-c", "echo $CUDA_VISIBLE_DEVICES"], stdout=Process.PIPE, **more)
    process.start()
    shown = process.stdout_conn.read().decode().strip()
    process.join(LONG)
    return shown


def test_a_policy_around_is_below_that_of_what_is_made_inside():
    with Policy(gpu_affinity=[3]) as outer:
        assert Policy.thread_policy() == outer
        assert shown_by() == "3"
        assert shown_by(policy=Policy(gpu_affinity=[5])) == "5"
        with Policy(cpu_affinity=[0]):
            assert Policy.thread_policy() == Policy(gpu_affinity=[3], cpu_affinity=[0])
        with tholepin.Pool(processes=1) as pool:
            assert pool.apply(visible) == "3"
        with tholepin.Pool(policy=[Policy(gpu_affinity=[6]), Policy()]) as pool:
            assert sorted(pool.map(visible, range(8), chunksize=1))[-1] == "6"
        group = ProcessGroup()
        group.add_process(1, ProcessTemplate("sh", ["-c", 'test "$CUDA_VISIBLE_DEVICES" = 3']))
        group.init()
        group.start()
        group.join(LONG)
        group.close()
        made = Process.from_template(ProcessTemplate("sh", ["-c", 'exec test "$CUDA_VISIBLE_DEVICES" = 3']))
    made.start()
    assert made.join(LONG) == 0, "what is around when it is made counts"
    assert Policy.thread_policy() == Policy.global_policy() == Policy()
    assert shown_by() == os.environ.get("CUDA_VISIBLE_DEVICES", "")


def test_a_policy_around_is_that_of_its_thread_and_goes_with_an_error():
    seen = []
    with pytest.raises(KeyError), Policy(gpu_affinity=[3]):
        other = threading.Thread(target=lambda: seen.append(Policy.thread_policy()))
        other.start()
        other.join()
        raise KeyError
    assert seen == [Policy()] and Policy.thread_policy() == Policy()


def test_a_policy_is_a_dict_and_back():
    policy = Policy(
        Policy.Placement.HOST_ID, host_id=0, gpu_affinity=["0:1", 2], cpu_affinity=[4], wait_mode=Policy.WaitMode.SPIN
    )
    sdict = policy.get_sdict()
    assert json.loads(json.dumps(sdict)) == sdict and type(sdict["placement"]) is int
    assert Policy.from_sdict(sdict) == policy
    with pytest.raises(ValueError, match="sdict: a Policy has no no_such_field"):
        Policy.from_sdict({"no_such_field": 1})


# ---- The order of the GPUs ----


@pytest.mark.parametrize("wanted", [[3, 1], [1, 3], ["5", 0, "0000:0f:00.0"]])
def test_the_order_of_gpu_affinity_is_the_order_of_the_devices(wanted):
    policy = Policy(gpu_affinity=wanted)
    with tholepin.Pool(policy=[policy]) as pool:
        shown = pool.apply(visible)
    process = Process("sh", ["-c", "echo $CUDA_VISIBLE_DEVICES"], stdout=Process.PIPE, policy=policy)
    process.start()
    assert process.stdout_conn.read().decode().strip() == shown
    process.join(LONG)
    assert shown.startswith(",".join(map(str, wanted[:2])))


def claimed_within(gpus):
    with tholepin.claim(gpus) as claim:
        return claim.indices, visible()


def test_a_claim_within_keeps_the_order():
    with tholepin.Pool(policy=[Policy(gpu_affinity=[6, 1, 4])]) as pool:
        assert pool.apply(claimed_within, (3,)) == ([6, 1, 4], "6,1,4")
        indices, shown = pool.apply(claimed_within, (2,))
        assert indices == sorted(indices, key=[6, 1, 4].index) and shown == ",".join(map(str, indices))


def test_a_claim_numbers_them_in_the_order_that_it_names():
    with tholepin.claim(3, order=[6, 2, 0]) as claim:
        assert (claim.indices, visible()) == ([6, 2, 0], "6,2,0")
        with tholepin.claim(3) as again:
            assert (again.uuids, visible()) == (claim.uuids, "6,2,0")
        with tholepin.claim(2, order=[0, 6]):
            assert visible() == "0,6"
    with tholepin.claim(3, on=[6, 2, 0]):
        assert visible() == "0,2,6"


# ---- Policy ----


def test_policy_takes_dragons_words_in_dragons_order():
    policy = Policy(
        Policy.Placement.HOST_NAME, os.uname().nodename, -1, 1, [0], "CUDA_VISIBLE_DEVICES", [3], Policy.WaitMode.SPIN, False
    )
    assert (policy.distribution, policy.gpu_affinity, policy.wait_mode) == (
        Policy.Distribution.ROUNDROBIN,
        (3,),
        Policy.WaitMode.SPIN,
    )
    assert pickle.loads(pickle.dumps(policy)) == policy == Policy.merge(Policy(), policy)
    assert repr(Policy.Placement.HOST_NAME) == "<Placement.HOST_NAME: -3>"
    assert "_Placement" not in repr(policy) and "_Distribution" not in repr(policy)


@pytest.mark.parametrize("wrong", [1.5, None, True, "", -1, b"0"])
def test_what_is_no_gpu_is_refused_at_once(wrong):
    with pytest.raises(tholepin.Error, match="gpu_affinity"):
        Policy(gpu_affinity=[wrong])


# ---- Node, System ----


def test_the_gpus_of_a_node_are_numbers():
    node = tholepin.Node()
    assert node.gpus == list(range(8)) and all(type(gpu) is int for gpu in node.gpus)
    assert [policy.gpu_affinity for policy in tholepin.System().gpu_policies()] == [(gpu,) for gpu in range(8)]
    assert tholepin.System.cpu_count() == node.num_cpus
    assert ipaddress.IPv4Address(node.ip) == ipaddress.ip_address(node.ip)


def test_instances_have_names(monkeypatch, tmp_path):
    machine = tmp_path / "mig.json"
    machine.write_text("""{"schema": "thole/machine/1",
                           "gpus": [{"uuid": "GPU-a", "vendor": "nvidia", "mig_mode": true, "memory_mib": 81920, "mig": [
        {"gi": 1, "uuid": "MIG-1", "profile": "3g.40gb", "memory_mib": 40000},
        {"gi": 2, "uuid": "MIG-2", "profile": "3g.40gb", "memory_mib": 40000}]},
        {"uuid": "GPU-b", "vendor": "nvidia", "memory_mib": 81920}]}""")
    monkeypatch.setenv("THOLE_MACHINE", str(machine))
    assert tholepin.Node().gpus == ["0:0", "0:1", 1]
    monkeypatch.setenv("THOLE_MACHINE", "dgx-a100")


# ---- Process, ProcessGroup, Pool ----


def test_is_alive_is_a_property_as_dragons():
    process = Process("sleep", ["1000"], ident="sleeper")
    assert not process.is_alive and process.exitcode is None
    process.start()
    assert process.is_alive is True
    process.kill()
    process.join(LONG)
    assert process.is_alive is False
    assert process.exitcode == process.returncode == -signal.SIGKILL
    assert (process.name, process.ident, process.node, process.h_uid) == ("sleeper", "sleeper", 0, 0)


def test_the_name_of_a_process_is_its_puid_if_none_was_given():
    process = Process.from_template(ProcessTemplate("true", options=None))
    process.start()
    assert process.name == str(process.puid)
    process.join(LONG)
    assert Process.from_template(ProcessTemplate("true"), "named").name == "named"


def test_a_group_takes_dragons_arguments_in_dragons_order():
    group = ProcessGroup(False, True, None, 60, Policy(), False, "named")
    assert group.name == "named"
    group.add_process(2, ProcessTemplate("sleep", ["1000"]))
    group.init()
    group.start()
    group.terminate(hide_stderr=True)
    group.join(LONG)
    assert [status for _, status in group.exit_status] == [-signal.SIGTERM] * 2
    group.close()


def test_ranks_of_mpi_are_refused_in_words():
    with pytest.raises(tholepin.NeverPossible, match="pmi.*MPI"):
        ProcessGroup(pmi="cray")


def test_a_pool_is_killed_and_its_tasks_fail():
    pool = tholepin.Pool(2)
    assert pool.wait_until_ready(LONG)
    result = pool.apply_async(signal.pause)
    pool.kill()
    pool.join(LONG)
    with pytest.raises(tholepin.Error, match="terminated"):
        result.get(LONG)


def test_patience_ends_what_does_not_end():
    pool = tholepin.Pool(2)
    assert pool.wait_until_ready(LONG)
    result = pool.apply_async(signal.pause)
    pool.close()
    pool.join(patience=0.1)
    with pytest.raises(tholepin.Error, match="terminated"):
        result.get(LONG)
    quick = tholepin.Pool(2)
    done = quick.map_async(abs, range(-3, 0))
    quick.close()
    quick.join(patience=LONG)
    assert done.get() == [3, 2, 1]


def test_a_policy_shows_what_was_said():
    policy = tholepin.Policy(gpu_affinity=[1], placement=tholepin.Policy.Placement.HOST_ID, host_id=0)
    assert repr(policy) == "Policy(placement=Policy.Placement.HOST_ID, host_id=0, gpu_affinity=(1,))"
    assert eval(repr(policy), {"Policy": tholepin.Policy}) == policy and repr(tholepin.Policy()) == "Policy()"

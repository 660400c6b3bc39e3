"""Binding through the program: what its processes get of CPUs and memory policy, and what is said where that is less than
asked. A process that runs, and real cpusets: test_binding_running.py.
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from binding_tools import ALLOWED, SHOW, Site, cpus_in, needs_two_cpus, site, two_node_machine  # noqa: F401 (site: a fixture)
from run_tools import BUILD

WITHOUT = str(BUILD / "without_calls")
pytestmark = needs_two_cpus


@pytest.mark.parametrize("words", [(), ("--no-supervisor",)], ids=["supervised", "replaced"])
@pytest.mark.parametrize("which", [0, 1])
def test_run_binds_to_the_cpus_next_to_its_gpu(site, words, which):
    assert site.cpus("run", "--on", str(which), *words) == [ALLOWED[which]]


def test_run_of_both_gpus_gets_the_cpus_of_both(site):
    assert site.cpus("run", "-g", "2") == ALLOWED[:2]


@pytest.mark.parametrize("words", [("--no-bind",), ("--bind", "none"), ("-g", "0")])
def test_what_is_not_to_be_bound_is_left_alone(site, words):
    assert site.cpus("run", *words) == ALLOWED


def test_a_plain_run_says_nothing_about_what_went_well(site):
    done = site.run("run", "--on", "1", "true")
    assert done.stderr == "thole: GPU 1 (A100-SXM4-80GB)\n"


def test_verbose_says_what_was_planned_and_read_back(site):
    said = site.run("run", "-v", "--on", "1", "true").stderr
    assert f"CPUs {ALLOWED[1]} (1 core)" in said
    assert f"read back: CPUs {ALLOWED[1]}" in said


def test_dry_run_shows_the_whole_plan(site):
    text = site.run("run", "--on", "1", "--dry-run", "true").stdout
    for part in (
        "would claim GPU 1",
        f"CPUs {ALLOWED[1]} (1 core)",
        "memory where it is first touched",
        "CUDA_VISIBLE_DEVICES=1",
    ):
        assert part in text
    plan = json.loads(site.run("run", "--on", "1", "--dry-run", "--json", "true").stdout)
    rank, = plan["binding"]["ranks"]
    assert (rank["cpus"], rank["degraded"], rank["asked"]["cpus"]) == (str(ALLOWED[1]), False, str(ALLOWED[1]))
    assert plan["binding"]["mode"] == "node"


def test_json_says_what_was_asked_and_got(site):
    events = [json.loads(line) for line in site.run("run", "--json", "--on", "1", "true").stderr.splitlines()]
    bound, = (event for event in events if event["event"] == "bound")
    assert bound["got"]["cpus"] == bound["binding"]["ranks"][0]["asked"]["cpus"] == str(ALLOWED[1])
    assert bound["differences"] == []


# Inside a claim: narrower, never wider.


def test_a_command_in_a_claim_is_bound_by_the_gpu_it_takes(site):
    outer = ["run", "-g", "2", "--", *site.words]
    assert site.cpus(*outer, "run", "--on", "1") == [ALLOWED[1]]
    assert site.cpus(*outer, "run", "-g", "2") == ALLOWED[:2]


def test_nothing_inside_a_claim_is_wider_than_the_claim(site):
    assert site.cpus("run", "--on", "0", "--", *site.words, "run", "--bind", "package") == [ALLOWED[0]]
    assert site.cpus("run", "--on", "0", "--", *site.words, "run") == [ALLOWED[0]]


def test_run_in_a_claim_of_another_is_bound_by_its_gpus(site):
    claim = site.run("claim", "--on", "1").stdout.strip()
    try:
        assert site.cpus("run", "--in", claim) == [ALLOWED[1]]
    finally:
        site.run("release", claim)


def test_a_run_in_a_shell_that_claimed_is_bound(site):
    script = f'eval "$("$@" claim --on 1 --shell)"; "$@" -q run {" ".join(SHOW)}; "$@" release'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *site.words], capture_output=True, text=True, env=site.environment, timeout=60
    )
    assert cpus_in(done.stdout) == [ALLOWED[1]], done.stderr


# Where less is to be had.


def taskset(*cpus):
    if not shutil.which("taskset"):
        pytest.skip("taskset (util-linux) is missing")
    return ["taskset", "-c", ",".join(map(str, cpus))]


def without(calls):
    words = [WITHOUT, calls]
    if subprocess.run([*words, "true"], capture_output=True).returncode == 77:
        pytest.skip("this system lets nobody filter system calls")
    return words


def memory_policies():
    return (
        subprocess.run([*without("sched_setaffinity=0"), "true"]).returncode == 0
        and pathlib.Path("/sys/devices/system/node").exists()
    )


def test_a_simulated_machine_gets_only_the_cpus_we_were_started_with(site):
    before = taskset(ALLOWED[0])
    assert site.cpus("run", "--on", "0", before=before) == [ALLOWED[0]]
    assert site.cpus("run", "--on", "1", before=before) == [ALLOWED[0]], "none of its own: left as it was"
    said = site.run("run", "-v", "--on", "1", "--strict", "true", before=before)
    assert said.returncode == 0, "what the host lacks of a simulated machine is no failure"
    assert f"simulated: CPUs {ALLOWED[1]} is not on this host" in said.stderr


def test_a_kernel_that_gives_something_else_is_told_of(site):
    done = site.run("run", "--on", "1", *SHOW, before=without("sched_setaffinity=0"))
    assert done.returncode == 0 and cpus_in(done.stdout) == ALLOWED
    said = " ".join(done.stderr.split())
    assert f"CPU {ALLOWED[1]} asked for, the kernel gave" in said


def test_a_kernel_that_refuses_is_told_of(site):
    done = site.run("run", "--on", "1", *SHOW, before=without("sched_setaffinity=1"))
    assert done.returncode == 0 and cpus_in(done.stdout) == ALLOWED
    assert f"CPU {ALLOWED[1]} refused: Operation not permitted" in " ".join(done.stderr.split())


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("calls", ["sched_setaffinity=0", "sched_setaffinity=1"])
def test_strict_turns_a_difference_into_an_error_before_the_command_starts(site, tmp_path, calls, supervised):
    words = ["--strict"] + ([] if supervised else ["--no-supervisor"])
    done = site.run("run", "--on", "1", *words, "touch", str(tmp_path / "started"), before=without(calls))
    assert done.returncode == 69
    assert f"cannot bind the command to CPUs {ALLOWED[1]}" in done.stderr and "--strict" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    "calls, says",
    [
        (
            "set_mempolicy=1,get_mempolicy=1",
            "the memory policy is not set: not permitted here; in a container it takes --cap-add SYS_NICE",
        ),
        ("set_mempolicy=38,get_mempolicy=38", "the memory policy is not set: this kernel has none"),
        (
            "set_mempolicy=1",
            "memory policy bind on node 0 refused: Operation not permitted (in a container it takes --cap-add SYS_NICE)",
        ),
    ],
)
def test_a_forbidden_memory_policy_is_said_once_and_ends_nothing(site, calls, says):
    done = site.run("run", "--on", "0", "--mem", "bind:0", "echo", "ran", before=without(calls))
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert " ".join(done.stderr.split()).count(says) == 1
    strict = site.run("run", "--on", "0", "--mem", "bind:0", "--strict", "echo", "ran", before=without(calls))
    assert (strict.returncode, strict.stdout) == (69, "")


@pytest.mark.parametrize("policy, shown", [("bind", "bind:0"), ("preferred", "prefer:0"), ("interleave", "interleave:0")])
def test_a_memory_policy_reaches_the_command(site, policy, shown):
    if subprocess.run(["sh", "-c", "grep -q . /proc/self/numa_maps"], capture_output=True).returncode != 0:
        pytest.skip("this kernel shows no memory policies")
    maps = site.run("run", "--on", "0", "--mem", f"{policy}:0", "cat", "/proc/self/numa_maps").stdout
    assert f" {shown} " in maps
    assert shown not in site.run("run", "--on", "0", "cat", "/proc/self/numa_maps").stdout, "first touch sets none"


def test_an_offline_cpu_is_not_planned_with(tmp_path):
    machine = two_node_machine()
    machine["gpus"][0]["near_cpus"] = {"node": f"{ALLOWED[0]},{ALLOWED[1]}"}
    machine["gpus"][1]["near_cpus"] = {"node": str(ALLOWED[1])}
    del machine["cpus"][1]                       # online are those that the machine lists
    site = Site(tmp_path, machine)
    assert site.cpus("run", "--on", "0") == [ALLOWED[0]]
    wider = site.run("run", "--on", "1", *SHOW)
    assert cpus_in(wider.stdout) == [ALLOWED[0]]
    assert "no CPU near GPU 1 is online" in " ".join(wider.stderr.split())
    strict = site.run("run", "--on", "1", "--strict", "echo", "ran")
    assert (strict.returncode, strict.stdout) == (69, "") and "without --strict" in strict.stderr


# Variables.


THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if line.startswith(THREADS))


def test_run_leaves_thread_counts_to_torchrun(site, tmp_path):
    torchrun = tmp_path / "torchrun"
    torchrun.write_text("#!/bin/sh\nexec env\n")
    torchrun.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert variables(site.run("run", "-g", "2", "--", "torchrun", "--nproc-per-node", "2", "train.py", env=path).stdout) == {}
    kept = site.run("run", "-g", "2", "--", "torchrun", env={**path, "OMP_NUM_THREADS": "3"}).stdout
    assert variables(kept) == {"OMP_NUM_THREADS": "3"}


def test_threads_sets_what_is_unset_and_nothing_else(site):
    auto = variables(site.run("run", "-g", "2", "--threads", "auto", "env").stdout)
    assert auto == dict.fromkeys(THREADS, "2")
    own = site.run("run", "--threads", "7", "-v", "env", env={"OMP_NUM_THREADS": "3"})
    assert variables(own.stdout) | {"OMP_NUM_THREADS": "3"} == variables(own.stdout)
    assert variables(own.stdout)["MKL_NUM_THREADS"] == "7"
    assert "OMP_NUM_THREADS=3 was set already and is kept" in own.stderr


@pytest.mark.parametrize("words", [("run",), ("bind",), ("run", "-g", "2")])
def test_intels_openmp_does_not_bind_anew(site, words):
    """It would, in the children that a data loader forks."""
    def shown(*more, env={}):
        ranks = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"} if words == ("bind",) else {}
        return [
            line for line in site.run(*words, *more, "env", env={**ranks, **env}).stdout.splitlines() if line.startswith("KMP_")
        ]

    assert shown() == ["KMP_AFFINITY=disabled"]
    assert shown(env={"KMP_AFFINITY": "compact"}) == ["KMP_AFFINITY=compact"]
    assert shown("--bind", "none") == []


def test_the_near_nics_are_named_to_ucx_and_nccl(tmp_path):
    machine = two_node_machine()
    machine["nics"] = [{"name": f"mlx5_{i}", "pci": f"0000:{0x40 + i:02x}:00.0", "numa": i, "rate_gbps": 200} for i in (0, 1)]
    machine["nics"].append({"name": "eth0", "pci": "0000:50:00.0", "numa": 0, "rate_gbps": 100})
    site = Site(tmp_path, machine)

    def named(*words, env=None):
        text = site.run(*words, "env", env=env).stdout
        return sorted(line for line in text.splitlines() if line.startswith(("UCX_NET", "NCCL_IB")))

    assert named("run", "--on", "1") == ["NCCL_IB_HCA==mlx5_1", "UCX_NET_DEVICES=mlx5_1:1"]
    ranks = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert named("bind", env=ranks) == ["NCCL_IB_HCA==mlx5_0,mlx5_1", "UCX_NET_DEVICES=mlx5_1:1"]
    assert named("run", "--on", "1", "--nic", "none") == named("run", "--on", "1", "--no-bind") == []
    own = {"NCCL_IB_HCA": "mlx5_9", "UCX_NET_DEVICES": "all"}
    assert named("run", "--on", "1", env=own) == ["NCCL_IB_HCA=mlx5_9", "UCX_NET_DEVICES=all"]


def test_a_site_can_have_its_own_defaults(site, tmp_path):
    assert site.cpus("run", "--on", "1", env={"THOLE_BIND": "none"}) == ALLOWED
    assert site.cpus("run", "--on", "1", "--bind", "node", env={"THOLE_BIND": "none"}) == [ALLOWED[1]]
    (tmp_path / "thole").mkdir()
    (tmp_path / "thole" / "config.toml").write_text('[bind]\nmode = "none"\n')
    assert site.cpus("run", "--on", "1", env={"XDG_CONFIG_HOME": str(tmp_path)}) == ALLOWED
    wrong = site.run("run", "true", env={"THOLE_BIND": "socket"})
    assert wrong.returncode == 64 and "THOLE_BIND" in wrong.stderr and "package" in wrong.stderr


# thole bind: ranks of other launchers.


LAUNCHERS = [
    {"LOCAL_RANK": "{}", "LOCAL_WORLD_SIZE": "2"},
    {"OMPI_COMM_WORLD_LOCAL_RANK": "{}", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
    {"MPI_LOCALRANKID": "{}", "MPI_LOCALNRANKS": "2"},
    {"SLURM_LOCALID": "{}", "SLURM_STEP_TASKS_PER_NODE": "2(x4)", "SLURM_NODEID": "3"},
    {"SLURM_LOCALID": "{}", "SLURM_NTASKS_PER_NODE": "2"},
]


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=lambda launcher: next(iter(launcher)) + "-" + str(len(launcher)))
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_is_bound_to_the_gpu_of_its_number(site, launcher, rank):
    env = {name: value.format(rank) for name, value in launcher.items()}
    assert site.cpus("bind", env=env) == [ALLOWED[rank]]


def test_a_rank_can_be_named_by_hand(site):
    assert site.cpus("bind", "--local-rank", "1", "--ranks", "2") == [ALLOWED[1]]
    assert site.cpus("bind", "--local-rank", "1", env={"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}) == [ALLOWED[1]]


def test_ranks_count_the_gpus_that_are_visible_in_their_order(site):
    rank = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    assert site.cpus("bind", env=rank | {"CUDA_VISIBLE_DEVICES": "1,0"}) == [ALLOWED[1]]
    assert site.cpus("bind", env=rank | {"CUDA_VISIBLE_DEVICES": "1"}) == [ALLOWED[1]]
    assert site.cpus("bind", "--on", "1", env=rank) == [ALLOWED[1]]
    assert site.cpus("bind", "-g", "2", env=rank) == ALLOWED[:2]
    none = site.run("bind", "true", env=rank | {"CUDA_VISIBLE_DEVICES": ""})
    assert none.returncode == 64 and "CUDA_VISIBLE_DEVICES" in none.stderr


def test_bind_leaves_the_visible_gpus_alone_and_claims_none(site):
    rank = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    text = site.run("bind", "env", env=rank).stdout
    assert "CUDA_VISIBLE_DEVICES" not in text and "THOLE_CLAIM" not in text
    assert site.run("bind", *site.words, "run", "-g", "2", "--no-wait", "true", env=rank).returncode == 0


@pytest.mark.parametrize("words, env, says", [
    ((), {}, "--local-rank R --ranks N"),
    ((), {"LOCAL_RANK": "1"}, "--ranks N"),
    ((), {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, "ranks count from 0"),
    ((), {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "10000000"}, "LOCAL_RANK says 10000000 ranks on this machine: at most 65536"),
    ((), {"LOCAL_RANK": "two"}, "LOCAL_RANK: expected a number"),
    (("--local-rank", "0"), {}, "--ranks N"),
    (("--on", "7"), {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, "7"),
])
def test_a_rank_that_nobody_names_is_a_usage_error(site, words, env, says):
    done = site.run("bind", *words, "echo", "ran", env=env)
    assert (done.returncode, done.stdout) == (64, "")
    assert says in done.stderr


def test_bind_shows_the_plan_of_all_ranks(site):
    text = site.run("bind", "--ranks", "2", "--dry-run").stdout
    assert f"rank 1, GPU 1\n  CPUs {ALLOWED[1]} (1 core)" in text
    plan = json.loads(site.run("bind", "--ranks", "2", "--dry-run", "--json").stdout)
    assert plan["schema"] == "thole/binding/1"
    assert [rank["cpus"] for rank in plan["ranks"]] == [str(cpu) for cpu in ALLOWED[:2]]


def test_bind_becomes_the_command(site):
    rank = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    assert site.run("bind", "sh", "-c", "exit 7", env=rank).returncode == 7
    assert site.run("bind", "no-such-command", env=rank).returncode == 127

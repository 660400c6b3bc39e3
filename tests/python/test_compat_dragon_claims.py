"""Dragon's programs on claims: what others see of them, waiting, errors, and what Dragon has no word for."""
import subprocess
import textwrap

import pytest
from compat_tools import LIMIT, end, run, start

import tholepin

pytestmark = pytest.mark.usefixtures("all_claims_end")

BEGIN = """
import os, signal, sys
from dragon.infrastructure.policy import Policy
from dragon.native.machine import Node, System
from dragon.native.pool import Pool
from dragon.native.process import Process, ProcessTemplate
from dragon.native.process_group import *
def told(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except Exception as problem:
        print(type(problem).__name__, isinstance(problem, ValueError), str(problem).splitlines()[0])
"""


def program(text):
    return BEGIN + textwrap.dedent(text)


def claimed():
    return {claim["gpu"] for claim in tholepin.status()["claims"]}


@pytest.mark.parametrize(
    "made, gone",
    [
        ("pool = Pool(policy=[Policy(gpu_affinity=[3]), Policy(gpu_affinity=[1])])", "pool.close(); pool.join()"),
        ("pool = Pool(policy=Policy(gpu_affinity=[3, 1]), processes_per_policy=1)", "pool.terminate(); pool.join()"),
        ("pool = Pool(1, policy=Policy(gpu_affinity=[3, 1]))", "pool.kill(); pool.join()"),
        (
            "group = ProcessGroup(critical=True, policy=Policy(gpu_affinity=[3, 1]))\n"
            "group.add_process(1, ProcessTemplate('sleep', ['1000'])); group.init(); group.start()",
            "group.close()",
        ),
        ("with Policy(gpu_affinity=[3, 1]):\n    process = Process('cat', stdin=Process.PIPE); process.start()",
         "process.stdin_conn.close(); process.join()"),
    ],
)  # fmt: skip
def test_what_policies_name_is_claimed_until_the_end(made, gone):
    process = start(program(f"{made}\nprint(flush=True); input()\n{gone}\nprint(flush=True); sys.stdin.read()"))
    process.stdout.readline()
    assert claimed() == {1, 3}
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "\n"
    assert claimed() == set(), "the program goes on, its GPUs are free"
    end(process)


def test_what_of_a_program_names_the_same_gpus_shares_its_claim():
    """As below Dragon; the claim ends with the last of them."""
    process = start(program("""
        def meet(_):
            return os.environ["CUDA_VISIBLE_DEVICES"]
        pool = Pool(policy=System().gpu_policies()[:4], processes_per_policy=1)
        beside = Pool(policy=Policy(gpu_affinity=[2, 0]), processes_per_policy=1)
        some = [Process("cat", stdin=Process.PIPE, policy=Policy(gpu_affinity=[number % 4])) for number in range(8)]
        for one in some:
            one.start()
        print([one.is_alive for one in some] == [True] * 8, beside.map_async(meet, [0]).get(), flush=True)
        group = ProcessGroup(policy=Policy(gpu_affinity=[5]))
        group.add_process(2, ProcessTemplate("true", policy=Policy(gpu_affinity=[1])))
        group.add_process(1, ProcessTemplate("true"))
        group.init(); group.start(); group.join()
        for each in (pool, beside):
            each.close(); each.join()
        for one in some[1:]:
            one.stdin_conn.close(); one.join()
        print(flush=True); input()
        told(Process("true", policy=Policy(gpu_affinity=[0, 6])).start)
        group.close()
        print(flush=True); input()
        some[0].stdin_conn.close(); some[0].join()
        again = Process("true", policy=Policy(gpu_affinity=[0, 6]))
        again.start()
        print(again.join(), flush=True); sys.stdin.read()
    """))
    assert process.stdout.readline() == "True ['2,0']\n"
    assert process.stdout.readline() == "\n"
    assert claimed() == {0, 1, 2, 3, 5}
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith("NeverPossible True Policy.gpu_affinity: of 2 GPUs this program has claimed")
    assert process.stdout.readline() == "\n"
    assert claimed() == {0, 1, 2, 3}, "what one process has left of them"
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "0\n"
    assert claimed() == set()
    end(process)


def test_a_pool_waits_for_its_gpus_or_does_not(everything_taken):
    waits = "pool = Pool(policy=System().gpu_policies(), processes_per_policy=1); print(pool.map_async(abs, [-1]).get())"
    text = program(f"told(lambda: exec({waits!r}, globals()))")
    assert run(text, options=("--no-wait",)).startswith("NoneFree False ")
    process = start(program(waits + "; pool.terminate(); pool.join()"))
    assert process.stderr.readline().startswith("thole: waiting")
    everything_taken()
    assert end(process) == "[1]\n"


def test_wrong_words_are_errors_that_name_them():
    said = run(program("""
        told(Pool, policy=Policy(gpu_affinity=[9]), processes_per_policy=1)
        told(Pool, policy=Policy(host_name="far", placement=Policy.Placement.HOST_NAME), processes_per_policy=1)
        told(Pool, policy=3)
        told(Process, "true", policy=Policy(cpu_affinity="0"))
        told(ProcessGroup, pmi="cray")
        told(ProcessGroup().add_process, 1, "true")
        told(Process, None, ident="nobody")
        told(Node, "far")
        told(ProcessTemplate("true").get_original_python_parameters)
        told(Process("true").join)
    """))
    expected = [
        "NeverPossible True ",
        "NeverPossible True Policy.host_name: 'far' is not this host",
        "PolicyError False expected a dragon.infrastructure.policy.Policy, got 3",
        "PolicyError False Policy.cpu_affinity: expected a list, got '0'",
        "NeverPossible True ProcessGroup.pmi: ",
        "WrongType True template: expected a ProcessTemplate, got 'true'",
        "WrongRequest True ident: there is no process 'nobody'",
        "WrongRequest True ident: there is no host 'far'",
        "TypeError False ",
        "RuntimeError False the process was not started",
    ]
    lines = said.splitlines()
    assert [line[: len(part)] for line, part in zip(lines, expected)] == expected and len(lines) == len(expected)


def test_exceptions_of_groups():
    said = run(program("""
        group = ProcessGroup()
        told(group.start)
        group.add_process(1, ProcessTemplate("sh", ["-c", "exit 3"]))
        group.init()
        told(group.init)
        told(group.add_process, 1, ProcessTemplate("true"))
        told(group.terminate)
        group.start()
        told(group.join)
        print(group.in_error_state, group._state)
        group.close()
        told(group.stop)
        told(group.stop_restart)
        told(group.send_signal, signal.SIGINT)
        print(issubclass(DragonUserCodeError, DragonProcessGroupError))
    """))
    assert [line.split()[0] for line in said.splitlines()] == [
        "DragonProcessGroupStartError", "DragonProcessGroupAlreadyInitialized", "DragonProcessGroupAlreadyInitialized",
        "DragonProcessGroupSignalError", "DragonUserCodeError", "True", "DragonProcessGroupRunningError",
        "DragonProcessGroupRunningError", "DragonProcessGroupSignalError", "True",
    ]  # fmt: skip
    assert "resulted in exit codes: [3]" in said and "True State.ERROR" in said


def test_the_pipes_of_a_groups_processes():
    """By the number of each, as Dragon's documentation does it, also when it has ended."""
    assert run(program("""
        group = ProcessGroup()
        for word in ("one", "two"):
            group.add_process(1, ProcessTemplate("echo", [word], stdout=ProcessTemplate.PIPE))
        group.init()
        group.start()
        group.join()
        found = []
        for puid, _ in group.inactive_puids:
            process = Process(None, ident=puid)
            found.append((process.stdout_conn.recv(), process.returncode, process.is_alive, process.stdin_conn))
        print(sorted(found))
        group.close()
    """)) == "[('one\\n', 0, False, None), ('two\\n', 0, False, None)]\n"


def test_names_and_numbers_of_processes():
    assert run(program("""
        process = Process("sleep", ["1000"], ident=1)
        process.start()
        print(process.puid > 1, process.name, process.ident, Process(None, ident=1).puid == process.puid)
        told(Process.from_template, ProcessTemplate("true"), 1)
        stranger = Process(None, ident=os.getppid())
        print(stranger.is_alive, stranger.puid == os.getppid(), stranger.join(timeout=0), stranger.returncode)
        found, = [one for one in Process(None, ident=os.getpid()).children() if one.puid == process.puid]
        found.kill()
        print(process.join(), found.returncode)
    """)) == "True 1 1 True\nWrongRequest True ident: a process 1 already exists\nTrue True None None\n-9 -9\n"


def test_patience_ends_what_does_not_end():
    assert run(program("""
        pool = Pool(1)
        result = pool.apply_async(signal.pause)
        pool.close()
        pool.join(patience=0.1)
        told(result.get)
    """)).startswith("Error ")


def test_a_host_without_gpus(monkeypatch, tmp_path):
    machine = tmp_path / "machine.json"
    machine.write_text('{"schema": "thole/machine/1", "gpus": []}')
    monkeypatch.setenv("THOLE_MACHINE", str(machine))
    said = run(program("node = System().primary_node; print(node.gpus, node.num_gpus, node.gpu_vendor, node.gpu_env_str)"))
    assert said == "None 0 None None\n"
    assert run(program("print(System().gpu_policies())")) == "[]\n"
    monkeypatch.setenv("THOLE_MACHINE", "dgx-a100")


def test_gpus_that_are_not_ours_get_no_policy(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,2")
    assert run(program("print([one.gpu_affinity for one in System().gpu_policies()])")) in ("[[2], [5]]\n", "[[5], [2]]\n")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")


def test_thole_runs_a_program_of_dragon_on_what_it_claims():
    done = subprocess.run(
        [tholepin._native.program(), "run", "-q", "--on", "6,7", "-g", "2", "--", tholepin._native.program(), "compat", "--",
         "python3", "-c", program("print([one.gpu_affinity for one in System().gpu_policies()])")],
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert done.stdout == "[[6], [7]]\n", done.stderr

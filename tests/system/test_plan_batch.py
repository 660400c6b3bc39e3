"""`thole plan --batch`: one answer a line, in order, whatever the line; and gpu_affinity's results through the real program."""
# ctest: timeout 600
import gzip
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
THOLE = os.environ.get("THOLE", str(ROOT / "build" / "thole"))

CPUS = [{"id": i, "core": i % 8, "l3": i % 8 // 4, "numa": i % 8 // 4, "package": 0} for i in range(16)]
BOX = {
    "schema": "thole/machine/1",
    "name": "box",
    "cpus": CPUS,
    "numa": [{"id": 0, "memory_mib": 1000}, {"id": 1, "memory_mib": 1000}],
    "gpus": [
        {
            "uuid": f"GPU-{i}",
            "vendor": "nvidia",
            "pci": f"0000:0{i + 1}:00.0",
            "numa": i // 2,
            "links": [{"to": f"0000:0{(i ^ 1) + 1}:00.0", "kind": "nvlink", "count": 4}],
        }
        for i in range(4)
    ],
}


def batch(lines, cwd=None, *words):
    """The answers to these lines (objects or texts)."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "THOLE_MACHINES": str(ROOT / "machines")}
    result = subprocess.run(
        [THOLE, *words, "plan", "--batch"], input=text, env=environment, cwd=cwd, capture_output=True, text=True, timeout=560
    )
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_answer_has_exactly_the_fields_of_the_schema():
    [answer] = batch(
        [
            {
                "machine": BOX,
                "allowed": "0-15",
                "busy": [0],
                "gpus": 2,
                "shape": "collective",
                "ranks": 2,
                "on": None,
                "bind": {"mode": "exclusive", "smt": "all", "balanced": False, "strict": False, "reserve": None, "lend": False},
            }
        ]
    )
    assert answer == {
        "gpus": [2, 3],
        "score": 420,
        "ranks": [
            {
                "rank": 0,
                "gpus": [2],
                "cpus": "4,5,12,13",
                "degraded": False,
                "why": "node 1: 2 of 4 cores, divided among GPUs 2,3",
            },
            {
                "rank": 1,
                "gpus": [3],
                "cpus": "6,7,14,15",
                "degraded": False,
                "why": "node 1: 2 of 4 cores, divided among GPUs 2,3",
            },
        ],
        "explain": "2,3: NV4 pair on node 1; leaves one free",
    }


def test_a_machine_comes_as_path_name_shorthand_or_object(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(BOX))
    answers = batch(
        [
            {"machine": machine, "gpus": 2, "ranks": 2}
            for machine in ("./mine.json", str(tmp_path / "mine.json"), "dgx-a100", "8xA100", BOX)
        ],
        tmp_path,
    )
    assert [answer["gpus"] for answer in answers] == [[0, 1]] * 5
    [named] = batch([{"gpus": 1}], tmp_path, "--machine", "mine.json")
    assert named["gpus"] == [0]


def test_a_machine_that_is_an_object_needs_only_what_a_plan_needs():
    bare = {"cpus": [{"id": 0}, {"id": 1}], "gpus": [{"near_cpus": {"node": "0"}}, {}]}
    [answer] = batch([{"machine": bare, "gpus": 2, "ranks": 2, "bind": {"mode": "node"}}])
    assert [rank["cpus"] for rank in answer["ranks"]] == ["0", "0,1"]


def test_a_bad_line_gets_an_error_and_the_next_is_read():
    bad = [
        "",
        "{",
        "[]",
        "7",
        '{"machine": 3}',
        '{"machine": "no-such-machine"}',
        '{"machine": "dgx-a100", "gpu": 1}',
        '{"machine": "dgx-a100", "gpus": -1}',
        '{"machine": "dgx-a100", "allowed": "3-1"}',
        '{"machine": "dgx-a100", "bind": {"mode": "nude"}}',
        '{"machine": "dgx-a100", "bind": {"mode": "core:0"}}',
        '{"machine": "dgx-a100", "bind": 1}',
        '{"machine": {"cpus": 1}}',
        '{"machine": "dgx-a100", "gpus": 99999999999999999999}',
        "\x00",
        '{"machine": "dgx-a100", "on": ["x"]}',
        "[" * 100000,
    ]
    good = {"machine": BOX, "gpus": 1}
    answers = batch([line for wrong in bad for line in (wrong, good)])
    assert len(answers) == 2 * len(bad)
    for wrong, answer in zip(bad, answers[::2]):
        assert answer["error"]["code"] == "usage" and answer["error"]["message"], wrong
    assert all(answer["gpus"] == [0] for answer in answers[1::2])
    assert 'did you mean "gpus"?' in answers[2 * 6]["error"]["message"]


def test_the_last_line_needs_no_end():
    result = subprocess.run(
        [THOLE, "plan", "--batch"], input=json.dumps({"machine": BOX, "gpus": 1}), capture_output=True, text=True, timeout=60
    )
    assert json.loads(result.stdout)["gpus"] == [0]


def test_each_answer_comes_before_the_next_question_is_needed():
    with subprocess.Popen([THOLE, "plan", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        for count in (1, 2, 3):
            program.stdin.write(json.dumps({"machine": BOX, "gpus": count}) + "\n")
            program.stdin.flush()
            assert len(json.loads(program.stdout.readline())["gpus"]) == count
        program.stdin.close()


@pytest.mark.parametrize("request_,message", [
    ({"gpus": 5}, "5 GPUs asked for; 4 of 4 can be had"),
    ({"gpus": 3, "busy": [0, 1]}, "3 GPUs asked for; 2 of 4 can be had"),
    ({"gpus": 2, "on": [1]}, "2 GPUs asked for; 1 of 4 can be had"),
    ({"gpus": 1, "busy": [4]}, "busy: there is no GPU 4; this machine has 4"),
    ({"gpus": 1, "ranks": 0}, "ranks: 0 asked for; at least 1 is needed"),
    ({"ranks": 5, "bind": {"mode": "compat"}}, "5 ranks for 4 GPUs"),
])
def test_what_cannot_be_is_unsatisfiable(request_, message):
    [answer] = batch([{"machine": BOX, **request_}])
    assert answer == {"error": {"code": "unsatisfiable", "message": message}}


def test_strict_names_the_rank():
    request = {"machine": BOX, "allowed": "0-3", "gpus": 4, "ranks": 4, "bind": {"mode": "node", "strict": True}}
    [answer] = batch([request])
    assert answer["error"]["code"] == "unsatisfiable" and answer["error"]["rank"] == 2
    request["bind"]["strict"] = False
    [answer] = batch([request])
    assert [rank["degraded"] for rank in answer["ranks"]] == [False, False, True, True]


def test_ranks_and_gpus_in_any_proportion():
    def gpus(**request):
        [answer] = batch([{"machine": BOX, "bind": {"mode": "exclusive"}, **request}])
        return [rank["gpus"] for rank in answer["ranks"]]
    assert gpus(gpus=4) == [[0, 1, 2, 3]]
    assert gpus(gpus=4, ranks=2) == [[0, 1], [2, 3]]
    assert gpus(gpus=1, ranks=2) == [[0], [0]]
    assert gpus(gpus=0, ranks=2) == [[], []]
    assert gpus(ranks=3) == [[0], [1], [2]]
    assert gpus(on=[3, 2]) == [[2, 3]]
    assert gpus(order=[3], gpus=1) == [[3]]
    assert gpus(order=[3, 1, 0], gpus=3, ranks=3) == [[3], [1], [0]]
    assert gpus(order=[2], gpus=3, ranks=3) == [[2], [0], [1]]
    assert gpus(must=[3], gpus=2) == [[2, 3]]
    assert gpus(must=[3, 0], gpus=2) == [[0, 3]]


def test_run_answers_as_plan_does(tmp_path):
    """Also where the request leaves GPUs out: what stays whole for others is seen among all that are free."""
    machine = {**BOX, "gpus": [dict(gpu) for gpu in BOX["gpus"]]}
    machine["gpus"][3]["health"] = "lost"                        # so that GPU 2 has no partner, and 0 and 1 are a pair
    (tmp_path / "box.json").write_text(json.dumps(machine))

    def both(asked, *words):
        [answer] = batch([{"machine": machine, **asked}])
        command = [THOLE, "--machine", str(tmp_path / "box.json"), "--state-dir", str(tmp_path / "state"), "run", *words,
                   "--dry-run", "--json", "true"]
        shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert (answer["gpus"], answer["explain"]) == ([int(gpu["gpu"]) for gpu in shown["gpus"]], shown["why"])
        return answer["gpus"]

    assert both({"gpus": 1, "on": [1, 2]}, "--on", "1,2") == [2]
    assert both({"gpus": 1}, "-g", "1") == [2]
    assert both({"gpus": 3, "order": [2, 1, 0]}, "-g", "3", "--order", "2,1,0") == [2, 1, 0]


def test_what_must_be_in_and_cannot_is_named():
    def error(**request):
        [answer] = batch([{"machine": BOX, **request}])
        return answer["error"]["code"], answer["error"]["message"]
    assert error(must=[2], busy=[2], gpus=2) == (
        "unsatisfiable", "must: GPU 2 cannot be had: it is busy, partitioned, not healthy, or not among those allowed")
    assert error(must=[2], on=[0, 1], gpus=2)[0] == "unsatisfiable"
    assert error(must=[0, 1, 2], gpus=2) == ("unsatisfiable", "must: 3 GPUs named, and 2 asked for")
    assert error(must=[9], gpus=2) == ("unsatisfiable", "must: there is no GPU 9; this machine has 4")
    code, message = error(must="0", gpus=2)
    assert code == "usage" and "request.must" in message


def test_an_unbound_rank_has_no_cpus():
    [answer] = batch([{"machine": BOX, "gpus": 1, "bind": {"mode": "none"}}])
    assert answer["ranks"][0]["cpus"] is None and answer["ranks"][0]["why"]


def test_compat_takes_the_first_ranks_of_on_in_their_order():
    def ranks(**request):
        [answer] = batch([{"machine": BOX, "bind": {"mode": "compat"}, **request}])
        return [(rank["gpus"], rank["cpus"]) for rank in answer["ranks"]]
    assert ranks(on=[3, 0, 1], ranks=2) == [([3], "4-7,12-15"), ([0], "0-3,8-11")]
    assert ranks(on=[3, 99], ranks=1) == [([3], "4-7,12-15")]
    assert len(ranks()) == 4


def cpus_of(text):
    numbers = set()
    for piece in filter(None, text.split(",")):
        first, _, last = piece.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def machine_of(topology):
    return {
        "schema": "thole/machine/1",
        "cpus": [{"id": i, "core": c, "package": s, "numa": n} for i, c, s, n in topology["cpus"]],
        "gpus": [
            {"uuid": f"GPU-{gpu['index']}", "vendor": "nvidia", "near_cpus": {"node": gpu["node"], "package": gpu["socket"]}}
            for gpu in topology["gpus"]
        ],
    }


def test_compat_equals_gpu_affinity(tmp_path):
    """Every fifth case; tests/golden/compat_test.cpp has all of them."""
    with gzip.open(ROOT / "tests/golden/gpu_affinity/gpu_affinity.json.gz") as file:
        topologies = json.load(file)["topologies"]
    requests, expected = [], []
    for name, topology in topologies.items():
        if topology["smt_max"] > 2 or topology["mask_truncated"]:
            continue
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(machine_of(topology)))
        for cpuset, ranks, mode, scope, threading, balanced, least, most, sets in topology["cases"][::5]:
            sets = [topology["sets"][number] for number in sets]
            if mode == "single_unique" and any(
                found == "!IndexError"
                or not found.startswith("!")
                and not cpus_of(found) <= cpus_of(topology["gpus"][gpu][scope])
                for gpu, found in enumerate(sets)
            ):
                continue
            bind = {"mode": "compat", "affinity": mode, "scope": scope, "smt": "all" if threading == "all_logical" else "one",
                    "balanced": balanced, "min_cores": least, "max_cores": most}
            requests.append(
                {"machine": str(path), "allowed": topology["cpusets"][cpuset]["cpus"], "ranks": ranks, "bind": bind}
            )
            expected.append("error" if any(found.startswith("!") for found in sets) else [cpus_of(found) for found in sets])
    answers = batch(requests)
    found = ["error" if "error" in answer else [cpus_of(rank["cpus"]) for rank in answer["ranks"]] for answer in answers]
    assert len(found) > 8000
    for request, is_, should in zip(requests, found, expected):
        assert is_ == should, request

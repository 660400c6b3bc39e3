#!/usr/bin/env python3
"""`thole plan --batch` against NVIDIA gpu_affinity on the same inputs: equal answers, and how much faster.

Usage: bench/plan_batch.py GPU_AFFINITY [--thole build/thole] [--cases 2000] [--seed 1]
GPU_AFFINITY is a checkout of github.com/NVIDIA/gpu_affinity (made against commit 5d5e28b); nothing of it is part of thole.

The inputs are the machines of tests/golden/gpu_affinity and as many random ones with odd near sets, CPUs offline and narrow
masks. The original gets a stand-in for pynvml that cuts masks to the words NVML would give, the siblings as a list instead of
from /sys, and the kernel's rules for affinity; so its own computing is timed, not its reading. In a job every rank computes
everything again: "a rank" is one call of set_affinity, "a job" the calls of all ranks one after the other.
"""
import argparse
import gzip
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Original:
    """gpu_affinity on a machine that is made up."""

    def __init__(self, checkout):
        sys.path.insert(0, str(checkout))
        stand_in = types.ModuleType("pynvml")
        stand_in.nvmlInit = lambda: None
        stand_in.NVMLError = type("NVMLError", (Exception,), {})
        sys.modules["pynvml"] = stand_in
        import gpu_affinity
        self.api = gpu_affinity
        module = sys.modules["gpu_affinity.gpu_affinity"]
        original = self

        class Device:
            def __init__(self, index):
                if index >= len(original.gpus):
                    raise gpu_affinity.GPUAffinityError("no such device")
                self.index = index

            def get_cpu_affinity(self, scope):
                return original.gpus[self.index]["socket" if scope == gpu_affinity.Scope.SOCKET else "node"]

        module.Device = Device
        module.get_thread_siblings_list = lambda: self.siblings
        module.os = types.SimpleNamespace(sched_getaffinity=lambda _: set(self.current), sched_setaffinity=self.set, environ={})

    def set(self, _, cpus):
        self.current = set(cpus) & self.current
        if not self.current:
            raise OSError(22, "EINVAL")

    def on(self, machine):
        words = 64 * math.ceil(len(machine["cpus"]) / 64)
        cores = {}
        for cpu in machine["cpus"]:
            cores.setdefault(cpu["core"], []).append(cpu["id"])
        self.siblings = [tuple(sorted(cpus)) for cpus in cores.values() if len(cpus) == 2]
        self.gpus = [{"node": [c for c in cpus_of(gpu["near_cpus"]["node"]) if c < words],
                      "socket": [c for c in cpus_of(gpu["near_cpus"]["package"]) if c < words]} for gpu in machine["gpus"]]

    def rank(self, number, case):
        self.current = set(case["mask"])
        api, bind = self.api, case["bind"]
        try:
            return api.set_affinity(
                number,
                case["ranks"],
                mode=api.Mode(bind["affinity"]),
                scope=api.Scope(bind["scope"]),
                multithreading=api.Multithreading("all_logical" if bind["smt"] == "all" else "single_logical"),
                balanced=bind["balanced"],
                min_physical_cores=bind["min_cores"],
                max_physical_cores=bind["max_cores"],
            )
        except api.GPUAffinityError:
            return "error"
        except IndexError:
            return "wrong"  # single_unique lost count of its ranks


def cpus_of(text):
    numbers = []
    for piece in filter(None, (text or "").split(",")):
        first, _, last = piece.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def list_of(cpus):
    return ",".join(map(str, sorted(cpus)))


def known_machines():
    with gzip.open(ROOT / "tests/golden/gpu_affinity/gpu_affinity.json.gz") as file:
        topologies = json.load(file)["topologies"]
    for name, topology in topologies.items():
        if topology["smt_max"] <= 2:
            yield name, {"schema": "thole/machine/1",
                         "cpus": [{"id": i, "core": c, "package": s, "numa": n} for i, c, s, n in topology["cpus"]],
                         "gpus": [{"uuid": f"GPU-{gpu['index']}", "vendor": "nvidia",
                                   "near_cpus": {"node": gpu["node"], "package": gpu["socket"]}} for gpu in topology["gpus"]]}


def random_machine(dice):
    packages, nodes, cores, threads = (
        dice.choice([1, 2, 2, 4]),
        dice.choice([1, 2, 3]),
        dice.randint(1, 6),
        dice.choice([1, 2, 2]),
    )
    total, base, adjacent = packages * nodes * cores, dice.choice([0, 0, 0, 40, 60]), dice.random() < 0.5
    cpus = [{"id": base + (core * threads + thread if adjacent else thread * total + core), "core": core,
             "numa": core // cores, "package": core // cores // nodes} for thread in range(threads) for core in range(total)]
    if dice.random() < 0.3:
        cpus = [cpu for cpu in cpus if dice.random() < 0.8] or cpus[:1]
    online = [cpu["id"] for cpu in cpus]
    gpus, odd = [], dice.random()
    for number in range(dice.choice([1, 2, 3, 4, 5, 8])):
        at = dice.choice(cpus)
        node = [cpu["id"] for cpu in cpus if cpu["numa"] == at["numa"]]
        package = [cpu["id"] for cpu in cpus if cpu["package"] == at["package"]]
        if odd < 0.12:
            node = dice.sample(online, dice.randint(0, min(6, len(online))))
        elif odd < 0.2:
            package = [cpu["id"] for cpu in cpus if cpu["package"] == dice.choice(cpus)["package"]]
        elif odd < 0.24:
            node = node[::2]
        elif odd < 0.28:
            package = online
        gpus.append(
            {"uuid": f"GPU-{number}", "vendor": "nvidia", "near_cpus": {"node": list_of(node), "package": list_of(package)}}
        )
    return {"schema": "thole/machine/1", "cpus": cpus, "gpus": gpus}


def random_case(machine, dice):
    online = [cpu["id"] for cpu in machine["cpus"]]
    mask = dice.choice([online, online, [cpu for cpu in online if dice.random() < 0.6] or online[:1]])
    bind = {
        "mode": "compat",
        "affinity": dice.choice(["all", "single", "single_unique", "unique_interleaved", "unique_contiguous"]),
        "scope": dice.choice(["node", "socket"]),
        "smt": dice.choice(["all", "one"]),
        "balanced": dice.random() < 0.5,
        "min_cores": dice.choice([0, 1, 1, 1, 2]),
        "max_cores": dice.choice([None, None, 0, 1, 2, 50]),
    }
    gpus = len(machine["gpus"])
    return {"machine": machine, "mask": mask, "ranks": dice.choice([gpus, gpus, max(1, gpus - 1), gpus + 1]), "bind": bind}


def measure(title, original, cases, paths, thole):
    lines = "".join(json.dumps({"machine": path or case["machine"], "allowed": list_of(case["mask"]), "ranks": case["ranks"],
                                "bind": case["bind"]}) + "\n" for case, path in zip(cases, paths))
    before = time.perf_counter()
    output = subprocess.run([thole, "plan", "--batch"], input=lines, capture_output=True, text=True, check=True).stdout
    ours = time.perf_counter() - before
    answers = [json.loads(line) for line in output.splitlines()]
    theirs, calls, compared, different = 0.0, 0, 0, 0
    for case, answer in zip(cases, answers, strict=True):
        original.on(case["machine"])
        before = time.perf_counter()
        sets = [original.rank(number, case) for number in range(case["ranks"])]
        theirs += time.perf_counter() - before
        calls += len(sets)
        if "wrong" in sets:
            continue
        compared += 1
        found = "error" if "error" in answer else [set(cpus_of(rank["cpus"])) for rank in answer["ranks"]]
        different += found != ("error" if "error" in sets else sets)
    a_rank, a_job, an_answer = theirs / calls * 1e6, theirs / len(cases) * 1e6, ours / len(cases) * 1e6
    print(f"{title:<30} {a_rank:9.0f} us {a_job:9.0f} us {an_answer:9.0f} us {a_rank / an_answer:7.1f} {a_job / an_answer:7.1f}"
          f" {len(cases) / ours:9.0f}/s {different:4} of {compared}")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu_affinity", type=pathlib.Path)
    parser.add_argument("--thole", default=str(ROOT / "build/thole"))
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    original = Original(options.gpu_affinity.resolve())
    dice = random.Random(options.seed)
    print(
        f"{'':<30} {'gpu_affinity':^25} {'thole':>12} {'times faster':^15}\n{'machine':<30} {'a rank':>12} {'a job':>12} "
        f"{'a job':>12}"
        f" {'rank':>7} {'job':>7} {'answers':>11} different"
    )
    different = 0
    folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"thole-plan-{os.getpid()}"
    folder.mkdir()
    try:
        for name, machine in known_machines():
            path = folder / f"{name}.json"
            path.write_text(json.dumps(machine))
            cases = [random_case(machine, dice) for _ in range(max(1, options.cases // 10))]
            different += measure(name, original, cases, [str(path)] * len(cases), options.thole)
        cases = [random_case(random_machine(dice), dice) for _ in range(options.cases)]
        different += measure("random ones, as objects", original, cases, [None] * len(cases), options.thole)
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()

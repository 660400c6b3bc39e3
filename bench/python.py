#!/usr/bin/env python3
"""What the Python package costs: its import, a claim, a look; beside what one would do without it.

Usage: bench/python.py [--rounds 40] [--claims 400]
Measures the thole that this interpreter imports, on a simulated DGX A100 with claims in a folder of its own. Interpreters are
started in turn, so that all see the same machine; printed are medians and 95th percentiles. The package's own starts leave out
the interpreter's by a difference of medians.
"""
import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time

# What an interpreter is asked to do. The first is what the others are compared with.
STARTS = {
    "bare interpreter": "pass",
    "import tholepin": "import tholepin",
    "import tholepin; tholepin.Error": "import tholepin; tholepin.Error",
    "tholepin.claim(1)": "import tholepin; tholepin.claim(1)",
    "import multiprocessing": "import multiprocessing",
}
IMPORT_LIMIT_MS, CLAIM_LIMIT_US = 15, 150


def p95(values):
    return statistics.quantiles(values, n=20)[18]


def start_ms(statement):
    begin = time.perf_counter_ns()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter_ns() - begin) / 1e6


def measure_starts(rounds):
    times = {name: [] for name in STARTS}
    for _ in range(rounds):
        for name, statement in STARTS.items():
            times[name].append(start_ms(statement))
    bare = statistics.median(times["bare interpreter"])
    print(f"{'':30} {'p50 ms':>8} {'p95 ms':>8} {'over bare':>10}   {rounds} rounds, interleaved")
    for name, values in times.items():
        print(f"{name:30} {statistics.median(values):8.2f} {p95(values):8.2f} {statistics.median(values) - bare:10.2f}")
    return statistics.median(times["import tholepin"]) - bare


def measure_calls(claims):
    import tholepin
    from tholepin import _native as native

    machine = native.machine()

    def by_the_library():
        native.libthole.thole_claim_release(native.call("thole_claim_gpus", machine, b'{"command": "x"}', 0, -1))

    calls = {
        "claim + release": lambda: tholepin.claim(1).release(),
        "with claim(8)": lambda: tholepin.claim(8).release(),
        "the library's part of the first": by_the_library,
        "gpus()": tholepin.gpus,
        "plan(2)": lambda: tholepin.plan(2),
        "why(3), by the program": lambda: tholepin.why(3),
    }
    times = {name: [] for name in calls}
    for round_number in range(claims // 10 + 1):
        for name, call in calls.items():
            for _ in range(1 if "program" in name else 10):
                begin = time.perf_counter_ns()
                call()
                times[name].append((time.perf_counter_ns() - begin) / 1e3)
    print(f"\n{'':32} {'p50 us':>8} {'p95 us':>8}   {claims // 10} rounds of 10 calls, interleaved")
    for name, values in times.items():
        del values[0]
        print(f"{name:32} {statistics.median(values):8.1f} {p95(values):8.1f}")
    return statistics.median(times["claim + release"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--claims", type=int, default=400)
    arguments = parser.parse_args()
    if not importlib.util.find_spec("tholepin"):
        sys.exit(
            "tholepin cannot be imported here: install the wheel, or set PYTHONPATH, THOLE_LIBRARY and THOLE_PROGRAM "
            "(docs/python.md)"
        )
    with tempfile.TemporaryDirectory() as folder:
        for name in [
            name
            for name in os.environ
            if name.startswith(("CUDA_", "THOLE_")) and name not in ("THOLE_LIBRARY", "THOLE_PROGRAM")
        ]:
            del os.environ[name]
        os.environ.update(THOLE_MACHINE="dgx-a100", THOLE_STATE_DIR=f"{folder}/state")
        import_ms = measure_starts(arguments.rounds)
        claim_us = measure_calls(arguments.claims)
    print(f"\nimport thole     {import_ms:8.2f} ms over a bare interpreter (at most {IMPORT_LIMIT_MS})")
    print(f"claim + release  {claim_us:8.1f} us (at most {CLAIM_LIMIT_US})")


if __name__ == "__main__":
    main()

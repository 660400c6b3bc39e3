#!/usr/bin/env python3
"""What the program costs: its start, `thole run -- true` beside bare `true`, the supervisor's memory.

Usage: bench/program.py [--thole build/thole] [--rounds 300]
Each round starts every command once, in turn, so that they see the same machine; printed are medians and 95th percentiles of
the time from spawn to the reaping of the child, and the differences of the medians that docs/performance.md bounds.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def spawn_ms(command, environment, null):
    """Milliseconds from spawning the command to its end."""
    begin = time.perf_counter_ns()
    pid = os.posix_spawn(command[0], command, environment,
                         file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
    _, status = os.waitpid(pid, 0)
    end = time.perf_counter_ns()
    if status != 0:
        sys.exit(f"{command}: status {status}")
    return (end - begin) / 1e6


def supervisor_pss_kib(thole, environment):
    """Proportional set size of `thole run` while its command runs."""
    run = subprocess.Popen([thole, "run", "sh", "-c", "echo up; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           env=environment)
    run.stdout.readline()
    rollup = pathlib.Path(f"/proc/{run.pid}/smaps_rollup").read_text()
    run.communicate(b"\n")
    return int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thole", default=str(ROOT / "build/thole"))
    parser.add_argument("--rounds", type=int, default=300)
    arguments = parser.parse_args()
    true = shutil.which("true")
    null = os.open("/dev/null", os.O_RDWR)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": "/usr/bin:/bin", "THOLE_MACHINE": "dgx-a100", "THOLE_STATE_DIR": f"{folder}/state"}
        thole = os.path.abspath(arguments.thole)
        commands = {
            "true": [true],
            "thole --version": [thole, "--version"],
            "thole run -- true": [thole, "run", "--", true],
            "thole run --no-bind -- true": [thole, "run", "--no-bind", "--", true],
            "thole run -g 8 -- true": [thole, "run", "-g", "8", "--", true],
            "thole status": [thole, "status"],
        }
        times = {name: [] for name in commands}
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                times[name].append(spawn_ms(command, environment, null))
        pss = supervisor_pss_kib(thole, environment)
    print(f"{'':28} {'p50 ms':>8} {'p95 ms':>8}   {arguments.rounds} rounds, interleaved")
    median = {}
    for name, values in times.items():
        median[name] = statistics.median(values)
        print(f"{name:28} {median[name]:8.2f} {statistics.quantiles(values, n=20)[18]:8.2f}")
    print(f"start of the program       {median['thole --version'] - median['true']:6.2f} ms more than true")
    print(f"thole run -- true          {median['thole run -- true'] - median['true']:6.2f} ms more than true")
    print(
        f"binding                    {median['thole run -- true'] - median['thole run --no-bind -- true']:6.2f} ms more "
        f"than --no-bind"
    )
    print(f"supervisor                 {pss / 1024:6.2f} MiB (PSS)")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What the program costs: `thole run -- true` beside what everybody would use without it, `flock FILE true` of util-linux; its
start; the supervisor's memory.

Usage: bench/program.py [--thole build/thole] [--rounds 300]
Each round starts every command once, in turn, so that they see the same machine; printed are medians and 95th percentiles of
the time from spawn to the reaping of the child, and the ratios of the medians that docs/performance.md bounds.
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


BOUNDS = {"thole run -- true, 8xA100": 1.5, "thole run -- true, dgx-a100": 1.6}


def memory():
    """A directory whose files are in memory, as those of /run are."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def surroundings(folder, machine):
    environment = {"PATH": "/usr/bin:/bin"}
    if machine:
        runtime = pathlib.Path(folder, "runtime")
        runtime.mkdir(mode=0o700, exist_ok=True)
        environment |= {"THOLE_MACHINE": machine, "THOLE_STATE_DIR": f"{folder}/{machine}", "XDG_RUNTIME_DIR": str(runtime)}
    return environment


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
    true, flock = shutil.which("true"), shutil.which("flock")
    null = os.open("/dev/null", os.O_RDWR)
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        thole = os.path.abspath(arguments.thole)
        commands = {
            "true": (None, [true]),
            "flock FILE true": (None, [flock, f"{folder}/file", true]),
            "thole --version": (None, [thole, "--version"]),
            "thole run -- true, 8xA100": ("8xA100", [thole, "run", "--", true]),
            "thole run -- true, dgx-a100": ("dgx-a100", [thole, "run", "--", true]),
            "thole run --no-bind -- true": ("dgx-a100", [thole, "run", "--no-bind", "--", true]),
            "thole run -g 8 -- true": ("dgx-a100", [thole, "run", "-g", "8", "--", true]),
            "thole status": ("dgx-a100", [thole, "status"]),
        }
        times = {name: [] for name in commands}
        for _ in range(arguments.rounds):
            for name, (machine, command) in commands.items():
                times[name].append(spawn_ms(command, surroundings(folder, machine), null))
        pss = supervisor_pss_kib(thole, surroundings(folder, "dgx-a100"))
    print(f"{'':28} {'p50 ms':>8} {'p95 ms':>8}   {arguments.rounds} rounds, interleaved")
    median = {}
    for name, values in times.items():
        median[name] = statistics.median(values)
        print(f"{name:28} {median[name]:8.2f} {statistics.quantiles(values, n=20)[18]:8.2f}")
    print()
    for name, bound in BOUNDS.items():
        ratio = median[name] / median["flock FILE true"]
        print(f"{name:28} {ratio:8.2f} x flock; bound {bound}: {'met' if ratio <= bound else 'MISSED'}")
    print(f"{'supervisor':28} {pss / 1024:8.2f} MiB (PSS)")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What it costs an array that a task is on the disk before it begins: an array of tasks that do nothing, from the submission to
the last end, with syncs and with syncs that do nothing (a preloaded library, in both), in turn.

Usage: bench/queue_takes.py --thole build/thole [--folder DIR] [--tasks 2000] [--rounds 9] [--gpus 2] [--task COMMAND]
"""
import argparse
import os
import pathlib
import shlex
import statistics
import subprocess
import tempfile
import time

SYNCS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int fdatasync(int fd) { return getenv("NO_SYNC") ? 0 : ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
int fsync(int fd) { return getenv("NO_SYNC") ? 0 : ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
"""


def library(folder):
    source, made = folder / "syncs.c", folder / "syncs.so"
    source.write_text(SYNCS)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


def array(args, folder, preload, synced):
    """Seconds of one array on a queue and a simulated machine of its own."""
    own = pathlib.Path(tempfile.mkdtemp(dir=folder))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("THOLE_", "CUDA_", "LD_PRELOAD"))}
    environment = dict(kept, THOLE_QUEUE_DIR=str(own / "queue"), THOLE_PERSONAL_DIR=str(own), LD_PRELOAD=str(preload))
    if not synced:
        environment["NO_SYNC"] = "1"
    words = [args.thole, "--machine", f"{args.gpus}xA100", "--state-dir", str(own / "state")]

    def thole(*more):
        subprocess.run([*words, *more], env=environment, check=True, stdout=subprocess.DEVNULL)

    thole("submit", "-q", "true")
    thole("wait", "-q")                            # the runner is there
    begin = time.perf_counter()
    thole("submit", "-q", "--array", f"0-{args.tasks - 1}", *shlex.split(args.task))
    thole("wait", "-q")
    return time.perf_counter() - begin


def sync_ms(folder):
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(50):
            file.write(os.urandom(8192))
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thole", required=True, type=os.path.abspath)
    parser.add_argument("--folder", default=".", help="where the queues lie: on a real disk")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--task", default="/bin/true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="takes-") as name:
        folder = pathlib.Path(name)
        preload = library(folder)
        kind = subprocess.run(["stat", "-f", "-c", "%T", name], capture_output=True, text=True).stdout.strip()
        print(f"{args.tasks} tasks of {args.task} on {args.gpus} GPUs; {kind}, a sync of 8 KiB takes {sync_ms(folder):.1f} ms",
              flush=True)
        ratios, times = [], {True: [], False: []}
        for number in range(args.rounds):
            pair = {}
            for synced in (True, False) if number % 2 else (False, True):
                pair[synced] = array(args, folder, preload, synced)
                times[synced].append(pair[synced])
            ratios.append(pair[True] / pair[False])
            print(f"  with {pair[True]:.2f} s, without {pair[False]:.2f} s: {ratios[-1]:.3f}", flush=True)
        medians = {synced: statistics.median(all_of) for synced, all_of in times.items()}
        print(f"medians: with {medians[True]:.2f} s, without {medians[False]:.2f} s; of the ratios "
              f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()

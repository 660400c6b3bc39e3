#!/usr/bin/env python3
"""The durable queue beside other people's: tasks that do nothing, from the first submission to the end of the last task, each
candidate between two runs of a bare posix_spawn loop of as many tasks and slots. What is not installed is named and left out.

Usage: bench/queue_peers.py --thole build/thole --spawn-loop build/bench_spawn_loop [--tasks 200] [--rounds 3] [--slots 2,8]
       [--pueue DIR] [--hyperqueue PYTHON]

pueue: `cargo install pueue --root DIR`, then DIR/bin. hyperqueue: a Python that has the package of this name (PyPI). tsp:
Debian's task-spooler. The daemons of the others run before the clock starts; thole's runner starts by itself, within the time
told.
"""
import argparse
import datetime
import json
import os
import pathlib
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

Queue = runpy.run_path(str(pathlib.Path(__file__).with_name("queue.py")))["Queue"]   # its name is one of the standard library's
TRUE = "/bin/true"

HYPERQUEUE = """
import contextlib, sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
folder, tasks, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with contextlib.redirect_stdout(sys.stderr), LocalCluster(folder, WorkerConfig(cores=slots)) as cluster:
    client = cluster.client()
    begin = time.perf_counter()
    job = Job()
    for number in range(tasks):
        job.program([%r, str(number)], stdout=None, stderr=None)
    client.wait_for_jobs([client.submit(job)])
    took = time.perf_counter() - begin
print(took)
""" % TRUE


class Absent(Exception):
    """Why a candidate is left out."""


def call(words, **more):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True, **more).stdout


def thole_one_by_one(args, folder, tasks, slots):
    queue = Queue(args.thole, folder, f"{slots}xA100")
    begin = time.perf_counter()
    for number in range(tasks):
        queue.timed("submit", "-q", TRUE, number)
    submitted = time.perf_counter()
    queue("wait")
    took = time.perf_counter() - begin
    queue.close()
    return took, tasks / (submitted - begin)


def thole_array(args, folder, tasks, slots):
    queue = Queue(args.thole, folder, f"{slots}xA100")
    begin = time.perf_counter()
    queue.timed("submit", "-q", "--array", f"0-{tasks - 1}", TRUE, "{index}")
    queue("wait")
    took = time.perf_counter() - begin
    queue.close()
    return took, None


def task_spooler(args, folder, tasks, slots):
    program = shutil.which("tsp") or shutil.which("ts")
    if not program:
        raise Absent("task-spooler is not installed")
    environment = dict(os.environ, TS_SOCKET=f"{folder}/tsp", TS_MAXFINISHED="10")
    call([program, "-S", slots], env=environment)
    try:
        begin = time.perf_counter()
        for number in range(tasks):
            call([program, "-n", TRUE, number], env=environment)
        submitted = time.perf_counter()
        call([program, "-w"], env=environment)
        return time.perf_counter() - begin, tasks / (submitted - begin)
    finally:
        call([program, "-K"], env=environment)


def last_end(status):
    """The latest "end" anywhere in pueue's JSON, in seconds since 1970: its `wait` looks every two seconds only."""
    if isinstance(status, list):
        return max(map(last_end, status), default=0)
    if not isinstance(status, dict):
        return 0
    ends = [last_end(value) for value in status.values()]
    if isinstance(status.get("end"), str):
        text = status["end"].replace("Z", "+00:00")
        whole, _, rest = text.partition(".")
        digits = rest[:len(rest) - len(rest.lstrip("0123456789"))]
        ends.append(datetime.datetime.fromisoformat(whole + rest[len(digits):]).timestamp() + float(f"0.{digits or 0}"))
    return max(ends, default=0)


def pueue(args, folder, tasks, slots):
    client, daemon = (shutil.which(name, path=args.pueue) for name in ("pueue", "pueued"))
    if not client or not daemon:
        raise Absent("pueue is not installed (cargo install pueue)")
    home = pathlib.Path(tempfile.mkdtemp(dir=folder))
    config = home / "pueue.yml"
    config.write_text(f"shared:\n  pueue_directory: {home}\n  runtime_directory: {home}\n  use_unix_socket: true\n"
                      f"  unix_socket_path: {home}/socket\nclient: {{}}\ndaemon: {{}}\n")
    server = subprocess.Popen([daemon, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while subprocess.run([client, "-c", config, "parallel", str(slots)], capture_output=True).returncode != 0:
            if server.poll() is not None:
                raise Absent("pueued does not start")
        begin, begin_wall = time.perf_counter(), time.time()
        for number in range(tasks):
            call([client, "-c", config, "add", "--", TRUE, number])
        submitted = time.perf_counter()
        call([client, "-c", config, "wait", "--quiet"])
        status = json.loads(call([client, "-c", config, "status", "--json"]))
        return last_end(status) - begin_wall, tasks / (submitted - begin)
    finally:
        server.terminate()
        server.wait()


def hyperqueue(args, folder, tasks, slots):
    words = [args.hyperqueue, "-c", HYPERQUEUE, tempfile.mkdtemp(dir=folder), str(tasks), str(slots)]
    if subprocess.run([args.hyperqueue, "-c", "import hyperqueue"], capture_output=True).returncode != 0:
        raise Absent(f"{args.hyperqueue} has no package hyperqueue")
    return float(call(words).split()[-1]), None


CANDIDATES = {
    "`thole submit`, a job each": thole_one_by_one,
    "`thole submit --array`": thole_array,
    "task-spooler, `tsp -n` each": task_spooler,
    "pueue, `pueue add` each": pueue,
    "HyperQueue, one job through its Python API": hyperqueue,
}


def measure(args, folder, slots):
    def bare():
        begin = time.perf_counter()
        subprocess.run([args.spawn_loop, str(args.tasks), str(slots)], check=True)
        return time.perf_counter() - begin

    found = {name: ([], [], []) for name in CANDIDATES}
    for _ in range(args.rounds):
        for name, candidate in CANDIDATES.items():
            try:
                before = bare()
                took, rate = candidate(args, folder, args.tasks, slots)
                ratios, rates, submissions = found[name]
                ratios.append((before + bare()) / 2 / took)
                rates.append(args.tasks / took)
                if rate:
                    submissions.append(rate)
            except Absent as reason:
                found[name] = str(reason)
    print(
        f"| {slots} slots, {args.tasks} tasks, {args.rounds} rounds | of a bare loop | tasks/s | submissions/s "
        f"|\n|---|---|---|---|"
    )
    for name, one in found.items():
        if isinstance(one, str):
            print(f"| {name} | {one} | | |")
            continue
        ratios, rates, submissions = one
        each = f"{statistics.median(submissions):.0f}" if submissions else ""
        print(
            f"| {name} | {statistics.median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f}) | "
            f"{statistics.median(rates):.0f} | {each} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thole", required=True, type=os.path.abspath)
    parser.add_argument("--spawn-loop", required=True, type=os.path.abspath)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", default="2,8")
    parser.add_argument("--pueue", help="the directory of pueue and pueued, where it is not on the PATH")
    parser.add_argument("--hyperqueue", default=sys.executable, help="a Python with HyperQueue's package")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="thole-bench-") as folder:
        for slots in map(int, args.slots.split(",")):
            measure(args, folder, slots)


if __name__ == "__main__":
    main()

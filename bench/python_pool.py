#!/usr/bin/env python3
"""What tholepin.Pool, tholepin.Executor and tholepin.ProcessGroup cost, beside the standard library's and, where it is
installed, Dragon's.

Usage: bench/python_pool.py [--rounds 7] [--tasks 20000] [--mib 1024] [--dragon FOLDER-OF-A-VENV]

Measures the thole that this interpreter imports. What is compared is done in turn in each round, so that all see the same
machine; printed are medians, and the ratio that is bounded is the median of the rounds' ratios. Run it with a package whose
modules are compiled, as an installed one's are. Dragon has its own launcher and may need another Python: it is run by the
`--dragon` venv.
"""
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != HERE]  # a queue.py lies there

import argparse
import multiprocessing
import pathlib
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory

import tholepin

WORKERS = 8


def clock(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


# ---- Until all workers are up ----


def bare_interpreters():
    started = [subprocess.Popen([sys.executable, "-c", "pass"]) for _ in range(WORKERS)]
    for one in started:
        one.wait()


def pool_start():
    """Only until it is ready: its end is not counted."""
    begin = time.perf_counter()
    pool = tholepin.Pool(WORKERS)
    pool.wait_until_ready()
    took = time.perf_counter() - begin
    pool.terminate()
    pool.join()
    return took


def measure_start(rounds):
    pool_start()
    times = [(clock(bare_interpreters), pool_start()) for _ in range(rounds)]
    bare, pool = (statistics.median(column) for column in zip(*times))
    ratio = statistics.median(pool / bare for bare, pool in times)
    print(
        f"{WORKERS} bare interpreters {bare * 1e3:8.1f} ms, a pool of {WORKERS} ready {pool * 1e3:8.1f} ms: ratio "
        f"{ratio:.2f} (at most 1.3)"
    )


# ---- Tasks that do nothing ----


def measure_tasks(rounds, tasks):
    for workers in (2, WORKERS):
        with multiprocessing.get_context("spawn").Pool(workers) as theirs, tholepin.Pool(workers) as ours:
            for pool in (theirs, ours):
                pool.map(abs, range(1000), chunksize=1)
            for chunksize in (1, 16):
                number = tasks * (1 if chunksize == 1 else 4)
                times = [
                    [
                        number / clock(lambda pool=pool: pool.map(abs, range(number), chunksize=chunksize))
                        for pool in (theirs, ours)
                    ]
                    for _ in range(rounds)
                ]
                tell_rates(f"{workers} workers, map, chunksize {chunksize}", "multiprocessing.Pool", times)
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as theirs, tholepin.Executor(workers) as ours:
            for executor in (theirs, ours):
                list(executor.map(abs, range(200)))
            number = tasks // 4
            times = [
                [
                    number / clock(lambda executor=executor: list(executor.map(abs, range(number))))
                    for executor in (theirs, ours)
                ]
                for _ in range(rounds)
            ]
            tell_rates(f"{workers} workers, executor map", "ProcessPoolExecutor", times)


def tell_rates(what, whose, times):
    theirs, ours = (statistics.median(column) for column in zip(*times))
    ratio = statistics.median(ours / theirs for theirs, ours in times)
    print(f"{what:34} {whose:22} {theirs:9.0f}/s, thole {ours:9.0f}/s: ratio {ratio:.2f} (at least 1)")


# ---- A large argument ----


def total(array):
    return int(array[:: 4096 // array.itemsize].sum())  # every page is touched


def total_of(name, size):
    import numpy

    memory = shared_memory.SharedMemory(name=name)
    try:
        return total(numpy.ndarray(size, dtype="u1", buffer=memory.buf))
    finally:
        memory.close()


def by_shared_memory(pool, array):
    import numpy

    memory = shared_memory.SharedMemory(create=True, size=array.nbytes)
    try:
        numpy.ndarray(array.shape, dtype="u1", buffer=memory.buf)[:] = array
        return pool.apply(total_of, (memory.name, array.nbytes))
    finally:
        memory.close()
        memory.unlink()


def measure_large(rounds, mib):
    try:
        import numpy
    except ImportError:
        print("a large array: numpy is not installed")
        return
    array = numpy.ones(mib << 20, dtype="u1")
    with multiprocessing.get_context("spawn").Pool(1) as theirs, tholepin.Pool(1) as ours:
        ways = {
            "multiprocessing.Pool, shared_memory": lambda: by_shared_memory(theirs, array),
            "multiprocessing.Pool, pickled": lambda: theirs.apply(total, (array,)),
            "tholepin.Pool": lambda: ours.apply(total, (array,)),
        }
        wanted = total(array)
        assert all(way() == wanted for way in ways.values())
        times = [[clock(way) for way in ways.values()] for _ in range(rounds)]
    for name, column in zip(ways, zip(*times)):
        print(f"a NumPy array of {mib} MiB, {name:36} {statistics.median(column) * 1e3:8.0f} ms")
    ratio = statistics.median(row[-1] / min(row[:-1]) for row in times)
    print(f"tholepin.Pool beside the best of them: ratio {ratio:.2f} (at most 1.2)")


# ---- Groups, and Dragon ----


def measure_group(rounds):
    def group():
        with tholepin.ProcessGroup() as made:
            made.add_process(64, tholepin.ProcessTemplate("true"))
            made.init()
            times.append(clock(made.start))
            made.join()

    times = []
    for _ in range(rounds):
        group()
    print(f"tholepin.ProcessGroup: 64 processes started in {statistics.median(times) * 1e3:.1f} ms")


DRAGON = """
import sys, time
import dragon
from dragon.native.pool import Pool
from dragon.native.process import ProcessTemplate
from dragon.native.process_group import ProcessGroup

def main(workers, tasks):
    begin = time.perf_counter()
    pool = Pool(workers)
    pool.map_async(abs, range(workers), 1).get()
    print(f"Dragon's native Pool: {workers} workers, first results after {(time.perf_counter() - begin) * 1e3:.0f} ms",
          flush=True)
    for chunksize in (1, 16):
        begin = time.perf_counter()
        pool.map_async(abs, range(tasks), chunksize).get()
        rate = tasks / (time.perf_counter() - begin)
        print(f"Dragon's native Pool: {workers} workers, chunksize {chunksize}: {rate:.0f} tasks/s", flush=True)
    pool.close()
    pool.join()
    group = ProcessGroup()
    group.add_process(nproc=64, template=ProcessTemplate("true"))
    group.init()
    begin = time.perf_counter()
    group.start()
    print(f"Dragon's ProcessGroup: 64 processes started in {(time.perf_counter() - begin) * 1e3:.0f} ms", flush=True)
    group.join()
    group.close()

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
"""


def measure_dragon(venv, tasks):
    """Its launcher's own start is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "dragon_side.py")
        script.write_text(DRAGON)
        path = os.pathsep.join([os.path.join(venv, "bin"), os.environ["PATH"]])
        command = [os.path.join(venv, "bin", "dragon"), "-s", str(script), str(WORKERS), str(tasks)]
        subprocess.run(command, env=dict(os.environ, PATH=path), check=False, timeout=300)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--dragon", metavar="VENV")
    wanted = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    measure_start(wanted.rounds)
    measure_tasks(wanted.rounds, wanted.tasks)
    measure_large(wanted.rounds, wanted.mib)
    measure_group(wanted.rounds)
    if wanted.dragon:
        measure_dragon(wanted.dragon, wanted.tasks)


if __name__ == "__main__":
    main()

"""multiprocessing.Pool, each worker with a GPU of its own, taken by the initializer before any task runs.

    python multiprocessing_workers.py 3 spawn
    thole run -g 3 -- python multiprocessing_workers.py 3 forkserver

`fork` works too as long as the parent has not started CUDA. (tholepin.Pool does all this and binds the workers to CPUs
besides.)
"""
import multiprocessing
import os
import sys

import tholepin


def take_a_gpu():
    tholepin.claim(1)  # lasts as long as the worker


def work(item):
    return item, os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


if __name__ == "__main__":
    workers, method = int(sys.argv[1]), sys.argv[2]
    with multiprocessing.get_context(method).Pool(workers, initializer=take_a_gpu) as pool:
        for item, gpu, process in pool.map(work, range(12), chunksize=1):
            print(item, gpu, process)

"""A pool of four workers on every GPU. Runs below real Dragon (`dragon gpu_policies.py`) and below thole:

    thole compat -- python gpu_policies.py

The first snippet of Dragon's guide "Controlling GPU Affinity" (doc/uses/gpus.rst of Dragon 0.14.1). As it is printed there
it is no program, for three faults that are corrected here: the body of `gpu_work` is only a comment; the pool is given
`policies`, a name that nothing has (`gpu_policies` is meant); `return results` stands outside of any function. Copyright (c)
2023-2025 Hewlett Packard Enterprise Development LP; licence: MIT (LICENSE beside this).
"""
import os

from dragon.native.machine import System
from dragon.native.pool import Pool


def gpu_work(item):
    # GPU processing code, such as PyTorch or CuPy
    return item, os.getenv("CUDA_VISIBLE_DEVICES")


def gpu_pool():
    gpu_policies = System().gpu_policies()
    nworkers = 4 * len(gpu_policies)
    p = Pool(policy=gpu_policies, processes_per_policy=4)

    results = p.map_async(gpu_work, range(100)).get()
    print(f"{nworkers} workers say: {results}", flush=True)

    p.close()
    p.join()
    return results


if __name__ == '__main__':
    gpu_pool()

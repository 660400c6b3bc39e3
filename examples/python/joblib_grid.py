"""A grid by joblib: as many processes as GPUs, each with its own.

    thole run -g 4 -- python joblib_grid.py 4      # inside a claim: the workers share it out
    python joblib_grid.py 4                        # without: each worker takes one of the machine's
"""
import os
import sys

import joblib

import tholepin


def train(rate):
    # joblib keeps its processes. The first task of each claims for good; the later ones ask for what their process has already.
    claim = tholepin.claim(1)
    # import torch; model.to("cuda:0"): the only GPU that this process sees
    return rate, claim.uuids[0], os.getpid()


if __name__ == "__main__":
    workers = int(sys.argv[1])  # not more than GPUs: a worker that waits for one would keep its task waiting too
    rates = [10.0**-k for k in range(12)]
    for rate, gpu, process in joblib.Parallel(n_jobs=workers)(joblib.delayed(train)(rate) for rate in rates):
        print(rate, gpu, process)

"""A Dask LocalCluster whose workers own a GPU each, also those that are started again after a crash.

    python dask_cluster.py 3
    thole run -g 3 -- python dask_cluster.py 3     # inside a claim
"""
import os
import sys

from dask.distributed import Client, LocalCluster, WorkerPlugin

import tholepin


class OwnGpu(WorkerPlugin):
    """Claims before the worker's first task; the claim ends with the worker's process."""

    def setup(self, worker):
        tholepin.claim(1)


def train(rate):
    return rate, os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


if __name__ == "__main__":
    # Processes, one thread in each: a claim belongs to a process.
    with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            client.register_plugin(OwnGpu())
            for rate, gpu, process in client.gather(client.map(train, [10.0**-k for k in range(12)])):
                print(rate, gpu, process)

#!/usr/bin/env python3
"""Shows that two programs which want GPUs at the same moment get different ones. The options and the log are those of
safe-gpu's own demonstration of that name; what it stretches is the time between choosing a GPU and using it, in which a race
would happen.

    thole compat -- python examples/gpu-acquisitor.py --id 1 &
    thole compat -- python examples/gpu-acquisitor.py --id 2 --nb-gpus 2

It runs as well with safe-gpu itself (without `thole compat --`): there the second waits until the first has used its
GPU, and fails if too few are left; here it fails never, and waits only if too few are left. On a machine without GPUs:
THOLE_MACHINE=4xA100 thole compat -- python examples/gpu-acquisitor.py
"""

import argparse
import logging
import time

from safe_gpu import safe_gpu

BACKENDS = {
    "pytorch": safe_gpu.PytorchPlaceholder,
    "tf": safe_gpu.TensorflowPlaceholder,
    "pycuda": safe_gpu.PyCudaPlaceholder,
}


def compute(backend, device_no):
    """A little work on the GPU, in the framework of the placeholder; nothing where that is not installed."""
    try:
        if backend == "pytorch":
            import torch

            torch.ones((1000, 1000), device=f"cuda:{device_no}").sum().item()
        elif backend == "tf":
            import tensorflow

            with tensorflow.device(f"GPU:{device_no}"):
                tensorflow.reduce_sum(tensorflow.ones((1000, 1000)))
    except ModuleNotFoundError as missing:
        logging.getLogger().debug("nothing computed: %s", missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sleep", type=float, default=3.0, help="seconds between choosing the GPUs and using them")
    parser.add_argument("--id", type=int, default=1, help="the number of this program in the log")
    parser.add_argument("--nb-gpus", type=int, default=1, help="how many GPUs")
    parser.add_argument("--backend", choices=list(BACKENDS), default="pytorch", help="the framework that uses them")
    parser.add_argument("--explicit-owner-object", action="store_true", help="make a GPUOwner instead of calling claim_gpus()")
    arguments = parser.parse_args()

    logging.basicConfig(level=logging.INFO, format="%(name)s %(asctime)s [%(levelname)s] %(message)s")
    logger = logging.getLogger(f"GPUOwner{arguments.id}")
    wanted = (arguments.nb_gpus, BACKENDS[arguments.backend](logger), logger, arguments.sleep)
    if arguments.explicit_owner_object:
        owner = safe_gpu.GPUOwner(*wanted)
    else:
        safe_gpu.claim_gpus(*wanted)
        owner = safe_gpu.gpu_owner
    logger.info(f"Allocated devices: {owner.devices_taken}")
    print(arguments, flush=True)

    time.sleep(arguments.sleep)
    for device_no in range(arguments.nb_gpus):
        compute(arguments.backend, device_no)
    time.sleep(2 * arguments.sleep)
    if arguments.backend == "pycuda":
        owner.release_gpus()
    logger.info("Finished")


if __name__ == "__main__":
    main()

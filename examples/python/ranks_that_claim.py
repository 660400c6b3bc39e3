"""Horovod style: every rank takes a GPU for itself, then initialises.

    mpirun -n 4 python ranks_that_claim.py                   # each from the machine
    thole run -g 4 -- mpirun -n 4 python ranks_that_claim.py # all or none first; each from the four

The claim comes before the first thing that touches CUDA, hvd.init() included. The rank's GPU is cuda:0, whatever its rank.
"""
import os

import tholepin

claim = tholepin.claim(1)

# import torch, horovod.torch as hvd; hvd.init(); torch.cuda.set_device(0)
print(f"rank {os.environ.get('OMPI_COMM_WORLD_RANK', '0')}: cuda:0 is {claim.uuids[0]}", flush=True)

"""A group of 32 processes with one GPU each, in turn. Runs below real Dragon (`dragon gpu_process_group.py`) and thole:

    thole compat -- python gpu_process_group.py

Put together from the snippets of Dragon's guide "Controlling GPU Affinity" (doc/uses/gpus.rst of Dragon 0.14.1) as it says; no
line of them is changed. Copyright (c) 2023-2025 Hewlett Packard Enterprise Development LP; licence: MIT (LICENSE beside this).
"""
import os
import torch
import numpy as np

from dragon.native.machine import current
from dragon.native.process_group import ProcessGroup, ProcessTemplate
from dragon.infrastructure.policy import Policy
from dragon.native.machine import System, Node


def find_gpus():

    all_gpus = []
    # loop through all nodes Dragon is running on
    for huid in System().nodes:
        node = Node(huid)
        # loop through however many GPUs it may have
        for gpu_id in node.gpus:
            all_gpus.append((node.hostname, gpu_id))
    return all_gpus


# pass in the output from find_gpus() above
def make_policies(all_gpus=None, nprocs=32):

    # loop over each desired Policy
    # the number of which will be the number of processes we'll launch with ProcessGroup
    policies = []
    i = 0
    for worker in range(nprocs):
        # assign them in a round robin fashion
        policies.append(Policy(placement=Policy.Placement.HOST_NAME,
                               host_name=all_gpus[i][0],
                               gpu_affinity=[all_gpus[i][1]]))
        i += 1
        if i == len(all_gpus):
            i = 0
    return policies


# do some matrix multiplication
def gpu_work(x):
    v = np.array(512*[x*1.0])
    nx = 16
    ny = 512 // 16
    a = v.reshape(ny, nx)
    b = v.reshape(nx, ny)
    tensor_a = torch.from_numpy(a).cuda()
    tensor_b = torch.from_numpy(b).cuda()
    output = torch.sum(torch.matmul(tensor_a, tensor_b)).cpu().item()

    del tensor_a, tensor_b
    torch.cuda.empty_cache()
    return output


# GPU affinity is specified to the process by Dragon using the relevant method/environment variable,
# such as CUDA_VISIBLE_DEVICES for NVIDIA devices (AMD and Intel also supported, see dragon.infrastructure.gpu_desc)
# we'll assume NVIDIA GPUs for this example and verify CUDA_VISIBLE_DEVICES
def my_gpu(id, x=512):
    mynode = current()
    print(f"ID {id} has GPU={os.getenv('CUDA_VISIBLE_DEVICES')} on host={mynode.hostname}", flush=True)

    gpu_work(x)


def gpu_pg(nprocs=32):
    all_gpus = find_gpus()
    policies = make_policies(all_gpus, nprocs=nprocs)

    # light up as many as nprocs worth of GPUs!
    pg = ProcessGroup()
    for i in range(nprocs):
        pg.add_process(nproc=1, template=ProcessTemplate(target=my_gpu, args=(i, i,), policy=policies[i]))

    pg.init()
    pg.start()
    pg.join()
    pg.close()


if __name__ == '__main__':
    gpu_pg()

"""torchrun inside a claim: one claim around all ranks, each rank addresses its GPU by LOCAL_RANK.

    thole run -g 4 -- torchrun --nproc-per-node 4 ranks_of_one_claim.py

The ranks see all four GPUs, as NCCL and CUDA's peer access want it. None claims.
"""
import json
import os

local_rank = int(os.environ["LOCAL_RANK"])
mine = json.loads(os.environ["THOLE_GPUS"])[local_rank]  # cuda:N is the Nth of THOLE_GPUS

# torch.cuda.set_device(local_rank); torch.distributed.init_process_group("nccl")
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: cuda:{local_rank} is {mine['uuid']}", flush=True)

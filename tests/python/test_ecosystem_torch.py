"""PyTorch and TensorFlow themselves, where a Python has them: torchrun, data loaders, claims after their import.

They are too large to be fetched for tests. Seen here with torch 2.15.0 and tensorflow-cpu 2.21.0, without a GPU:

    python3 -m venv /tmp/frameworks && /tmp/frameworks/bin/pip install torch tensorflow-cpu
    THOLE_TEST_VENV=/tmp/frameworks pytest tests/python/test_ecosystem_torch.py
"""
# ctest: timeout 600
import re

import pytest

from ecosystem import EXAMPLES, inside, python_with, rows, run

pytestmark = pytest.mark.usefixtures("all_claims_end")


LOADER = """
import json, os, sys
import tholepin
claim = tholepin.claim(2)
import torch
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __len__(self): return 6
    def __getitem__(self, i): return i, [gpu["uuid"] for gpu in json.loads(os.environ["THOLE_GPUS"])]

if __name__ == "__main__":
    for batch in DataLoader(Items(), batch_size=None, num_workers=3, multiprocessing_context=sys.argv[1]):
        print(batch[0], *batch[1])
    print("claimed", *claim.uuids)
"""


def test_ranks_of_torchrun_address_the_gpus_of_one_claim_by_local_rank(tmp_path):
    python = python_with(["torch"])
    text = run(
        inside(4, [python, "-m", "torch.distributed.run", "--nproc-per-node", 4, EXAMPLES / "ranks_of_one_claim.py"]), tmp_path
    )
    # torchrun's ranks may cut lines in two
    ranks = sorted(re.findall(r"rank (\d) of 4: cuda:(\d) is (GPU-[-0-9a-f]{36})", text))
    assert [rank[:2] for rank in ranks] == [(str(i), str(i)) for i in range(4)]
    assert len({gpu for *_, gpu in ranks}) == 4


@pytest.mark.parametrize("around", [0, 2])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_data_loader_are_inside_the_script_s_claim(tmp_path, method, around):
    python = python_with(["torch"])
    (tmp_path / "loader.py").write_text(LOADER)
    *loaded, claimed = rows(run(inside(around, [python, tmp_path / "loader.py", method]), tmp_path))
    assert claimed[0] == "claimed" and len(claimed) == 3
    assert [line[1:] for line in loaded] == [claimed[1:]] * 6


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_s_workers_may_have_data_loaders(tmp_path, method):
    """In a script without a main guard, which spawn and forkserver would run again."""
    python = python_with(["torch"])
    code = f"""
import os, sys, tholepin
def total(n):
    import torch
    from torch.utils.data import DataLoader
    loader = DataLoader(torch.arange(n), batch_size=4, num_workers=2, multiprocessing_context={method!r})
    return sum(int(batch.sum()) for batch in loader), os.environ["CUDA_VISIBLE_DEVICES"]
with tholepin.Pool(gpus=2) as pool:
    for answer in pool.map(total, [10, 20, 30, 40], chunksize=1):
        print(*answer)
"""
    (tmp_path / "pool.py").write_text(code)
    answers = rows(run([python, tmp_path / "pool.py"], tmp_path))
    assert [line[0] for line in answers] == ["45", "190", "435", "780"]
    assert all(line[1].isdigit() for line in answers)


@pytest.mark.parametrize("name, code", [
    ("torch", "import torch; torch.cuda.is_available(); torch.zeros(2)"),
    ("tensorflow", "import tensorflow as tf; tf.config.list_physical_devices('GPU'); tf.zeros(2)"),
])
def test_a_framework_that_has_started_no_gpu_is_not_too_late(tmp_path, name, code):
    """On a machine without a GPU: what it imports and asks is nothing yet."""
    python = python_with([name])
    after = "import tholepin; print(len(tholepin.claim(2).uuids))"
    assert run([python, "-c", f"{code}; {after}"], tmp_path, PYTORCH_NVML_BASED_CUDA_CHECK="1").split()[-1] == "2"

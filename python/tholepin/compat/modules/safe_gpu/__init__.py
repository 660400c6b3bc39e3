"""safe-gpu 2.0.0's interface on thole's claims: who asks waits in line instead of failing. docs/compat.md says what differs.

>>> import tholepin.compat
>>> tholepin.compat.enable()
>>> import safe_gpu
>>> safe_gpu.claim_gpus(placeholder_fn=lambda device_no: None)
>>> import os
>>> os.environ["CUDA_VISIBLE_DEVICES"]
'0'
>>> safe_gpu.release_gpus()
"""

from .safe_gpu import (
    NvidiasmiError,
    PyCudaPlaceholder,
    PytorchPlaceholder,
    TensorflowPlaceholder,
    claim_gpus,
    pytorch_placeholder,
    release_gpus,
    tensorflow_placeholder,
)

__all__ = [
    "NvidiasmiError", "PyCudaPlaceholder", "PytorchPlaceholder", "TensorflowPlaceholder", "claim_gpus", "pytorch_placeholder",
    "release_gpus", "tensorflow_placeholder",
]  # fmt: skip

"""A stand-in for PyTorch, as far as examples/dragon uses it: there is one device, the first that the process sees."""

import builtins
import os
import types


class Tensor:
    def __init__(self, rows):
        self.rows = rows

    def cuda(self):
        if not os.environ.get("CUDA_VISIBLE_DEVICES"):
            raise RuntimeError("No CUDA GPUs are available")
        return self

    def cpu(self):
        return self

    def item(self):
        return self.rows


from_numpy = Tensor
cuda = types.SimpleNamespace(empty_cache=lambda: None)


def matmul(a, b):
    columns = list(zip(*b.rows))
    return Tensor([[builtins.sum(x * y for x, y in zip(row, column)) for column in columns] for row in a.rows])


def sum(tensor):
    return Tensor(builtins.sum(map(builtins.sum, tensor.rows)))

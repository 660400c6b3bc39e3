"""A stand-in for PyTorch, as far as examples/python uses it: straight lines on devices that are only counted.

It is strict where the examples could go wrong: CUDA starts at the first use of a device and counts the visible ones once, then;
a device that is not among them, or tensors of two devices in one operation, are errors, as with PyTorch.
"""
import contextlib
import types

import matrix

__version__ = "stand-in"
used = set()  # devices on which something was computed


class device(str):
    @property
    def index(self):
        return int(self.partition(":")[2] or 0)


class _Cuda(types.ModuleType):
    _count = None

    def is_initialized(self):
        return self._count is not None

    def is_available(self):
        return self.device_count() > 0

    def device_count(self):
        return matrix.visible_gpus() if self._count is None else self._count

    def synchronize(self, device=None):
        _checked(device or "cuda")

    def get_device_name(self, number=0):
        _checked(f"cuda:{number}")
        return "NVIDIA A100-SXM4-80GB"


cuda = _Cuda("torch.cuda")


def _checked(name):
    name = device(name)
    if name.startswith("cuda"):
        if cuda._count is None:
            cuda._count = matrix.visible_gpus()
        if name.index >= cuda._count:
            raise RuntimeError("CUDA error: invalid device ordinal")
        name = device(f"cuda:{name.index}")
        used.add(str(name))
    return name


class Tensor:
    def __init__(self, rows, where="cpu", back=None):
        self.rows, self.device, self.back, self.grad = rows, _checked(where), back, None

    @property
    def shape(self):
        return (len(self.rows), len(self.rows[0]))

    def to(self, where):
        return Tensor(self.rows, where, self.back)

    def cpu(self):
        return self.to("cpu")

    def __matmul__(self, other):
        return Tensor(matrix.product(self.rows, _same(self, other).rows), self.device)

    def __sub__(self, other):
        return Tensor(matrix.difference(self.rows, _same(self, other).rows), self.device)

    def abs(self):
        return Tensor([[abs(x) for x in row] for row in self.rows], self.device)

    def max(self):
        return Tensor([[max(x for row in self.rows for x in row)]], self.device)

    def item(self):
        return self.rows[0][0]

    def backward(self):
        self.back(None)


def _same(one, other):
    if one.device != other.device:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {one.device} and {other.device}!"
        )
    return other


def randn(rows, columns, device="cpu"):
    return Tensor(matrix.normal(rows, columns), device)


def tensor(rows, device="cpu"):
    return Tensor(rows, device)


def manual_seed(seed):
    matrix.numbers.seed(seed)


@contextlib.contextmanager
def no_grad():
    yield


class Linear:
    def __init__(self, inputs, outputs):
        self.weight, self.bias = randn(inputs, outputs), Tensor([[0.0] * outputs])

    def to(self, where):
        for parameter in self.parameters():
            parameter.device = _checked(where)
        return self

    def eval(self):
        return self

    def parameters(self):
        return [self.weight, self.bias]

    def __call__(self, x):
        def back(gradient):
            for parameter, own in zip(self.parameters(), matrix.affine_gradients(x.rows, gradient)):
                old = parameter.grad
                parameter.grad = own if old is None else [[a + b for a, b in zip(p, q)] for p, q in zip(old, own)]

        return Tensor(matrix.affine(x.rows, _same(x, self.weight).rows, self.bias.rows), x.device, back)


class DataParallel:
    """Copies the module to each device, gives each a part of the rows, and gathers on the first."""

    def __init__(self, module, device_ids):
        self.module, self.devices = module, [_checked(f"cuda:{number}") for number in device_ids]
        if module.weight.device != self.devices[0]:
            raise RuntimeError("module must have its parameters and buffers on device cuda:0 (device_ids[0])")

    def parameters(self):
        return self.module.parameters()

    def __call__(self, x):
        share = -(-len(x.rows) // len(self.devices))
        parts = []
        for number, where in enumerate(self.devices):
            self.module.to(where)
            parts.append(self.module(Tensor(x.rows[number * share:(number + 1) * share], where)))
        self.module.to(self.devices[0])

        def back(gradient):
            for number, part in enumerate(parts):
                part.back(gradient[number * share:(number + 1) * share])

        return Tensor([row for part in parts for row in part.rows], self.devices[0], back)


def _mse_loss(output, target):
    error = matrix.difference(output.rows, _same(output, target).rows)
    count = len(error) * len(error[0])
    return Tensor([[matrix.mean_square(error)]], output.device, lambda _: output.back(matrix.scaled(error, 2 / count)))


class SGD:
    def __init__(self, parameters, lr):
        self.parameters, self.rate = list(parameters), lr

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        for parameter in self.parameters:
            parameter.rows = matrix.difference(parameter.rows, matrix.scaled(parameter.grad, self.rate))


nn = types.SimpleNamespace(Linear=Linear, DataParallel=DataParallel, functional=types.SimpleNamespace(mse_loss=_mse_loss))
optim = types.SimpleNamespace(SGD=SGD)

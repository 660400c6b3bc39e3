"""A stand-in for TensorFlow, as far as examples/python uses it: a dense layer on devices that are only counted.

As with TensorFlow, the GPUs are those that the environment showed when they were first listed; a device that is not among them
is an error.
"""
import contextlib
import types

import matrix

__version__ = "stand-in"
used = set()  # devices on which something was computed
_gpus = None
_device = ["GPU:0"]


def _listed():
    global _gpus
    if _gpus is None:
        _gpus = [
            types.SimpleNamespace(name=f"/physical_device:GPU:{i}", device_type="GPU") for i in range(matrix.visible_gpus())
        ]
    return _gpus


def _checked(name):
    name = name.lstrip("/")
    kind, _, number = name.partition(":")
    if kind == "GPU" and int(number or 0) >= len(_listed()):
        raise ValueError(f"Could not satisfy device specification '/job:localhost/replica:0/task:0/device:{name}'")
    return name


@contextlib.contextmanager
def device(name):
    _device.append(_checked(name))
    yield
    _device.pop()


config = types.SimpleNamespace(
    list_physical_devices=lambda kind: list(_listed()) if kind == "GPU" else [],
    experimental=types.SimpleNamespace(set_memory_growth=lambda gpu, on: None),
)


class _Random(types.SimpleNamespace):
    def normal(self, shape):
        return matrix.normal(*shape)

    def set_seed(self, seed):
        matrix.numbers.seed(seed)


random = _Random()
linalg = types.SimpleNamespace(matmul=matrix.product)


class MirroredStrategy:
    def __init__(self, devices):
        self.devices = [_checked(name) for name in devices]
        self.num_replicas_in_sync = len(self.devices)

    @contextlib.contextmanager
    def scope(self):
        _device.append(self.devices)
        yield
        _device.pop()


distribute = types.SimpleNamespace(MirroredStrategy=MirroredStrategy)


class Dense:
    def __init__(self, outputs):
        self.outputs = outputs


class Sequential:
    def __init__(self, layers):
        (self.layer,) = layers
        self.devices = _device[-1] if isinstance(_device[-1], list) else [_checked(_device[-1])]
        self.weight = None

    def compile(self, optimizer, loss):
        self.rate = optimizer.rate
        assert loss == "mse"

    def fit(self, x, y, epochs, verbose):
        used.update(self.devices)
        self.weight = self.weight or matrix.normal(len(x[0]), self.layer.outputs)
        self.bias = [[0.0] * self.layer.outputs]
        losses = []
        for _ in range(epochs):
            error = matrix.difference(matrix.affine(x, self.weight, self.bias), y)
            losses.append(matrix.mean_square(error))
            weight, bias = matrix.affine_gradients(x, matrix.scaled(error, 2 / len(x)))
            self.weight = matrix.difference(self.weight, matrix.scaled(weight, self.rate))
            self.bias = matrix.difference(self.bias, matrix.scaled(bias, self.rate))
        return types.SimpleNamespace(history={"loss": losses})

    def __call__(self, x):
        used.update([_device[-1]])
        return matrix.affine(x, self.weight, self.bias)


class SGD:
    def __init__(self, learning_rate):
        self.rate = learning_rate


keras = types.SimpleNamespace(
    Sequential=Sequential, layers=types.SimpleNamespace(Dense=Dense), optimizers=types.SimpleNamespace(SGD=SGD)
)

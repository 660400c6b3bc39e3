"""Plain lists of rows, for the stand-ins of frameworks: enough to fit a straight line by gradient descent."""
import os
import random

numbers = random.Random(0)


def normal(rows, columns):
    return [[numbers.gauss(0, 1) for _ in range(columns)] for _ in range(rows)]


def product(a, b):
    columns = list(zip(*b))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def affine(x, weight, bias):
    return [[value + bias[0][i] for i, value in enumerate(row)] for row in product(x, weight)]


def difference(a, b):
    return [[x - y for x, y in zip(p, q)] for p, q in zip(a, b)]


def mean_square(a):
    return sum(x * x for row in a for x in row) / (len(a) * len(a[0]))


def affine_gradients(x, gradient):
    """Of the weight and of the bias."""
    return product(list(zip(*x)), gradient), [[sum(column) for column in zip(*gradient)]]


def scaled(a, factor):
    return [[x * factor for x in row] for row in a]


def visible_gpus():
    """How many GPUs the environment shows, as CUDA counts them when it starts."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return 0 if not visible else len(visible.split(","))

"""A stand-in for NumPy, as far as examples/dragon uses it."""


class array(list):
    def reshape(self, rows, columns):
        return [self[row * columns : (row + 1) * columns] for row in range(rows)]

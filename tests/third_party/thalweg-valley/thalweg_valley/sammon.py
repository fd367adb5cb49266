"""Sammon's stress (Sammon 1969): a map whose small distances are right."""

import numpy as np

from thalweg.engines.hessian import HessianDiagonal
from thalweg.interfaces import Objective
from thalweg.parallel import sum_over_ranks


class SammonStress(Objective, HessianDiagonal):
    """``E(Y) = 1/c sum_(i<j) (d_ij - |y_i - y_j|)² / d_ij`` with ``c = sum_(i<j) d_ij``.

    Each rank holds its rows of the distances ``d`` between the rows of the data
    and all others, and gathers the map, which is small.

    Parameters
    ----------
    dataset
        The data, rows on the ranks.
    comm
        The ranks.
    dimension
        Dimensions of the map.
    floor
        Distances below this times the mean are raised to it, so that rows that
        coincide do no harm.
    """

    def __init__(self, dataset, comm, dimension=2, floor=1e-3):
        super().__init__(comm, dataset.layout.with_columns(dimension))
        rows = np.asarray(dataset.values, dtype=float)
        whole = dataset.layout.gather_rows(rows)
        apart = distances(rows, whole)
        pairs = self.layout.rows * (self.layout.rows - 1)
        mean = sum_over_ranks(comm, apart.sum()) / pairs
        self.wanted = np.maximum(apart, floor * mean)
        self._leave_out_self(self.wanted, np.inf)
        # Over ordered pairs; each unordered one is met twice.
        self.total = sum_over_ranks(comm, np.where(np.isinf(self.wanted), 0, self.wanted).sum())
        self.mean = mean

    def _leave_out_self(self, table, value):
        local = np.arange(self.layout.local_rows)
        table[local, self.layout.start + local] = value

    def initial_point(self, seed):
        """Normal numbers a tenth as wide as the data."""
        return self.layout.random_normal(seed, 0.1 * self.mean)

    def _distances(self, rows):
        whole = self.layout.gather_rows(rows)
        apart = np.maximum(distances(rows, whole), 1e-12 * self.mean)
        return whole, apart

    def value_and_gradient(self, x):
        """Stress and gradient: each pair pulls along the line that joins it."""
        whole, apart = self._distances(x)
        pull = 1 / self.wanted - 1 / apart
        self._leave_out_self(pull, 0.0)
        gradient = 4 / self.total * (pull.sum(axis=1, keepdims=True) * x - pull @ whole)
        misfit = (1 - apart / self.wanted) ** 2 * self.wanted
        self._leave_out_self(misfit, 0.0)
        return sum_over_ranks(self.comm, misfit.sum()) / self.total, gradient

    def hessian_diagonal(self, x):
        """Second derivatives, as in Sammon's equation for the step."""
        whole, apart = self._distances(x)
        pull = 1 / self.wanted - 1 / apart
        self._leave_out_self(pull, 0.0)
        cube = apart**-3
        self._leave_out_self(cube, 0.0)
        diagonal = np.empty(self.layout.shape)
        for column in range(self.layout.columns):
            across = x[:, column, None] - whole[None, :, column]
            diagonal[:, column] = 4 / self.total * (pull + cube * across**2).sum(axis=1)
        return diagonal

    def metrics(self, x):
        """Stress once more, under its name."""
        return {"stress": self.value(x)}


def distances(rows, whole):
    """Distances between some rows and all rows, shape ``(len(rows), len(whole))``."""
    squared = np.zeros((len(rows), len(whole)))
    for column in range(whole.shape[1]):
        squared += (rows[:, column, None] - whole[None, :, column]) ** 2
    return np.sqrt(squared)

"""Small problems that the tests of this folder share."""

import numpy as np
import pytest

from thalweg import Dataset
from thalweg.parallel import MPI, agreed, sum_large, sum_over_ranks
from thalweg_clustering.build import build_kdac
from thalweg_clustering.stiefel_objectives import StiefelObjective


def make_views(n=160, noise=0, seed=0):
    """Two groups in two features, two others in two other features; unit variance."""
    stream = np.random.default_rng(seed)
    truth = np.repeat([0, 1], n // 2)
    given = np.arange(n) % 2  # independent of the truth
    parts = [
        labels[:, None] * [6.0, 3.0] + stream.uniform(-1.5, 1.5, (n, 2))
        for labels in (truth, given)
    ]
    if noise:
        parts.append(stream.uniform(-1, 1, (n, noise)))
    points = np.concatenate(parts, axis=1)
    return (points - points.mean(axis=0)) / points.std(axis=0), given, truth


def make_objective(comm, points, given, components=2, sigma=0.4, lambda_=0.3, **options):
    settings = {"clusters": 2, "condition": False, "precision": "double", **options}
    labelings = [] if given is None else given if isinstance(given, list) else [given]
    return build_kdac(
        Dataset.from_array(points, None, comm), comm, components=components, sigma=sigma,
        lambda_=lambda_, labelings=labelings, **settings,
    )  # fmt: skip


views, make = pytest.fixture(lambda: make_views), pytest.fixture(lambda: make_objective)


class TermSum(StiefelObjective):
    """-sum gamma exp(-Tr(W'A W)/2 sigma^2) over terms of any positive semidefinite A.

    ``gamma``, shape ``(m,)``, and A, shape ``(m, d, d)``, are those of this rank's terms.
    """

    def __init__(self, comm, gamma, matrices, sigma, columns):
        super().__init__(comm, matrices.shape[1], columns)
        self.gamma, self.matrices, self.sigma = gamma, matrices, sigma

    def _kernels(self, w):
        images = self.matrices @ w
        return self.gamma * np.exp(-np.einsum("dq,mdq->m", w, images) / (2 * self.sigma**2)), images

    def value(self, x):
        kernels, _ = self._kernels(self.matrix(x))
        return -float(sum_over_ranks(self.comm, float(kernels.sum())))

    def value_and_gradient(self, x):
        value, matrix = self.value_and_fixed_point_matrix(x)
        return value, matrix @ self.matrix(x)

    def value_and_fixed_point_matrix(self, x):
        kernels, _ = self._kernels(self.matrix(x))
        matrix = np.einsum("m,mde->de", kernels, self.matrices) / self.sigma**2
        return self.value(x), agreed(self.comm, sum_large(self.comm, matrix))

    def hessian_product(self, x, direction):
        kernels, images = self._kernels(self.matrix(x))
        slopes = kernels * np.einsum("mdq,dq->m", images, direction) / self.sigma**2
        product = np.einsum("m,mdq->dq", kernels, self.matrices @ direction)
        product -= np.einsum("m,mdq->dq", slopes, images)
        return agreed(self.comm, sum_large(self.comm, product) / self.sigma**2)


@pytest.fixture
def terms():
    """``terms(comm, gamma, factors, sigma, columns) -> TermSum``, with A = factor factor'."""

    def make(comm, gamma, factors, sigma, columns):
        mine = slice(comm.rank, None, comm.size)
        matrices = factors @ factors.transpose(0, 2, 1)
        return TermSum(comm, gamma[mine], matrices[mine], sigma, columns)

    return make


@pytest.fixture
def cycling_terms(terms):
    """``cycling_terms(sign, sigma, d, q)``: a sum of the kind that makes ISM cycle."""

    def make(sign=1.0, sigma=1.5, d=6, q=2):
        stream = np.random.default_rng(4)
        factors = stream.standard_normal((12, d, 3))
        return terms(MPI.COMM_SELF, sign * stream.uniform(0.5, 1.5, 12), factors, sigma, q)

    return make

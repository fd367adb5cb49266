"""Inner products, norms and sums of vectors: correct, the same on all ranks, at any scale."""

import math

import numpy as np
import pytest
from mpi4py import MPI
from threadpoolctl import threadpool_limits

from thalweg.parallel import Layout
from thalweg.parallel.layout import BLOCK, BLOCKS, add_multiples

SIZES = [(0, 1), (1, 3), (100, 2), (BLOCK, 1), (BLOCK * BLOCKS // 2 + 77, 3)]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_inner_products_are_those_of_the_whole_on_every_rank(comm, rows, columns):
    layout = Layout(comm, rows, columns)
    a, *others = (layout.random_normal(seed) for seed in range(6))
    found = layout.dots(a, others)
    whole = layout.gather_rows(a)
    for product, other in zip(found, others, strict=True):
        exact = math.fsum((whole * layout.gather_rows(other)).ravel())
        assert product == pytest.approx(exact, rel=1e-12, abs=1e-12 * rows)
    assert layout.dot(a, others[0]) == found[0]
    assert comm.allgather(found) == [found] * comm.size
    assert layout.dots(a, []) == []


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1.0, 1e160, 1e300])
def test_a_norm_neither_overflows_nor_vanishes(comm, scale):
    layout = Layout(comm, 5, 2)
    a = layout.random_normal(0)
    assert layout.norm(scale * a) == pytest.approx(scale * layout.norm(a), rel=1e-14)


@pytest.mark.ranks(1, 2)
def test_norms_of_what_is_zero_or_not_finite(comm):
    layout = Layout(comm, 4, 2)
    a = np.zeros(layout.shape)
    assert layout.norm(a) == 0.0
    for bad, expected in ((np.inf, np.inf), (-np.inf, np.inf), (np.nan, np.nan)):
        if comm.rank == 0:
            a[0, 1] = bad
        assert layout.norm(a) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("size", [0, 5, BLOCK + 3])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 9])
def test_multiples_are_added(size, count):
    rng = np.random.default_rng(0)
    total, others = rng.normal(size=size), list(rng.normal(size=(count, size)))
    weights = rng.normal(size=count)
    expected = total + sum((w * other for w, other in zip(weights, others, strict=True)), 0.0)
    add_multiples(total, weights, others)
    np.testing.assert_allclose(total, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("size", [BLOCK - 1, 50_001, 1_000_003])
def test_bits_do_not_depend_on_threads(size):
    layout = Layout(MPI.COMM_SELF, size)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            x, *others = (layout.random_normal(seed) for seed in range(7))
            x = layout.combine(x, [1 / 3], others[:1])
            x = layout.combine(x, [0.1 * i for i in range(6)], others)
            found.append((x.tobytes(), layout.dots(x, others)))
    assert found[0] == found[1]

"""Hessians of a sum through Fourier modes are those over all pairs, as exactly as asked for."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from thalweg.data import Dataset
from thalweg.parallel import Layout
from thalweg_embedding import PairFunction, objectives
from thalweg_embedding.pairs import grid_curvature
from thalweg_embedding.pairs.all_pairs import AllPairs
from thalweg_embedding.pairs.functions import GAUSSIAN, STUDENT
from thalweg_embedding.pairs.grid_pairs import GridPairs
from thalweg_embedding.pairs.pair_sum import SecondOrder

METHODS = ("product", "convex_product", "diagonal", "convex_diagonal")

#: Its second derivative changes sign.
BELL = PairFunction(
    lambda d: (1 / (1 + d * d), -2 * d / (1 + d * d) ** 2, (6 * d * d - 2) / (1 + d * d) ** 3),
    "1/(1 + d^2)",
)


@pytest.fixture(autouse=True)
def however_few_points(monkeypatch):
    monkeypatch.setattr(grid_curvature, "EXACT_COST", 1e9)


def called(pairs, method, rows, moves):
    kind = SecondOrder[method.upper()]
    return pairs.layout.gather_rows(pairs.second_order(kind, rows, moves, 0.0))


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("function", [STUDENT, GAUSSIAN], ids=str)
def test_second_derivatives_are_as_exact_as_asked_for(comm, function):
    for dimensions, spread in ((1, 30.0), (2, 0.3), (2, 10.0), (2, 30.0), (3, 1.0)):
        layout = Layout(comm, 300, dimensions)
        rows, moves = layout.random_normal(0, spread), layout.random_normal(1)
        exact = AllPairs(layout, function)
        grids = {tolerance: GridPairs(layout, function, tolerance) for tolerance in (1e-2, 1e-4)}
        for method in METHODS:
            wanted = called(exact, method, rows, moves)
            for tolerance, grid in grids.items():
                found = called(grid, method, rows, moves)
                assert np.abs(found - wanted).max() < 3 * tolerance * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("function", "method", "cost"),
    [(BELL, "convex_product", grid_curvature.EXACT_COST), (STUDENT, "product", 0.0)],
)
def test_cut_off_convex_parts_and_too_many_modes_are_left_to_all_pairs(
    comm, monkeypatch, function, method, cost
):
    monkeypatch.setattr(grid_curvature, "EXACT_COST", cost)
    layout = Layout(comm, 100, 2)
    rows, moves = layout.random_normal(0), layout.random_normal(1)
    exact = called(AllPairs(layout, function), method, rows, moves)
    found = called(GridPairs(layout, function, 1e-2), method, rows, moves)
    np.testing.assert_array_equal(found, exact)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("name", ["elastic_embedding", "symmetric_sne", "t_sne"])
def test_an_objectives_hessian_is_as_exact_as_its_grid(comm, name):
    data = Dataset.from_array(load_digits().data[:250], comm=comm)
    chosen = {"perplexity": 10.0, "graph": "sparse", "init_scale": 1.0}
    build = getattr(objectives, name)
    exact = build(data, comm, repulsion="exact", **chosen)
    grid = build(data, comm, repulsion="grid", repulsion_error=1e-4, **chosen)
    x = exact.initial_point(0)
    moves = exact.layout.random_normal(1)
    for method, given in (
        ("hessian_product", (x, moves)),
        ("hessian_diagonal", (x,)),
        ("partial_hessian_diagonal", (x,)),
        ("repulsive_product", (x, moves)),
    ):
        wanted, found = (getattr(objective, method)(*given) for objective in (exact, grid))
        assert exact.layout.norm(found - wanted) < 1e-3 * exact.layout.norm(wanted)

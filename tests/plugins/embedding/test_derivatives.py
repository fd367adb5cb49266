"""Gradients, Hessian products and diagonals of every objective against differences."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits

from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg_embedding import objectives
from thalweg_embedding.pacmap import pacmap


def pacmap_of_all_sets(data, comm, dimensions=2, init_scale=1.0, **others):
    """PaCMAP's objective in its first phase, in which all of its pairs count."""
    objective = pacmap(data, comm, dimensions=dimensions, init_scale=init_scale, init="random")
    objective.homotopy_parameter = 300.0
    return objective


BUILDERS = {
    "elastic-embedding": objectives.elastic_embedding,
    "s-sne": objectives.symmetric_sne,
    "t-sne": objectives.t_sne,
    "t-ee": objectives.t_elastic_embedding,
    "heavy tails": partial(objectives.t_sne, degrees_of_freedom=-0.3),
    "umap": objectives.umap_embedding,
    "cross-entropy": partial(objectives.umap_embedding, repulsive_weights="complement"),
    "largevis": objectives.largevis_embedding,
    "neg-t-sne": partial(objectives.negative_t_sne_embedding, normalization=0.2),
    "densities": partial(objectives.t_sne, density=0.7),
    "pacmap": pacmap_of_all_sets,
}

#: Kernels are compiled for each function: half of them are tried on sparse graphs alone.
FIRST = ("elastic-embedding", "s-sne", "t-sne", "t-ee")

every_objective = pytest.mark.parametrize("name", BUILDERS)
every_case = pytest.mark.parametrize(
    ("name", "graph", "dimensions"),
    [(n, graph, d) for n in FIRST for graph in ("dense", "sparse") for d in (1, 2, 3)]
    + [(n, "sparse", 2) for n in BUILDERS if n not in FIRST],
)
every_rank_count = pytest.mark.ranks(1, 2, 3)


def build(name, comm, **options):
    data = Dataset.from_array(load_digits().data[:61], comm=comm)
    chosen = {"perplexity": 6, "init_scale": 0.7, "lambda_": 3.0, "graph": "sparse", **options}
    return BUILDERS[name](data, comm, **chosen)


def central_difference(function, x, direction, step=1e-5):
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


@every_rank_count
@every_case
def test_gradient_agrees_with_differences_of_the_value(comm, name, graph, dimensions):
    objective = build(name, comm, graph=graph, dimensions=dimensions)
    x = objective.initial_point(0)
    direction = objective.layout.random_normal(1)
    value, gradient = objective.value_and_gradient(x)
    assert objective.value(x) == pytest.approx(value, rel=1e-13)
    expected = central_difference(objective.value, x, direction)
    assert objective.layout.dot(gradient, direction) == pytest.approx(expected, rel=1e-6)


@every_rank_count
@every_case
def test_hessian_product_agrees_with_differences_of_the_gradient(comm, name, graph, dimensions):
    objective = build(name, comm, graph=graph, dimensions=dimensions)
    x = objective.initial_point(0)
    direction = objective.layout.random_normal(1)
    product = objective.hessian_product(x, direction)
    expected = central_difference(
        lambda point: objective.value_and_gradient(point)[1], x, direction, 1e-6
    )
    scale = np.abs(objective.layout.gather_rows(product)).max()
    np.testing.assert_allclose(product, expected, atol=1e-6 * scale)


@every_rank_count
@every_objective
def test_hessian_diagonal_is_the_diagonal_of_the_hessian(comm, name):
    objective = build(name, comm)
    x = objective.initial_point(0)
    layout = objective.layout
    whole = layout.gather_rows(objective.hessian_diagonal(x))
    for index in (0, 7, 60, 121):
        row, column = divmod(index, layout.columns)
        unit = np.zeros(layout.shape)
        unit[layout.own(np.array([row])), column] = 1.0
        found = layout.dot(unit, objective.hessian_product(x, unit))
        assert found == pytest.approx(whole[row, column], rel=1e-10)


@every_rank_count
@every_objective
def test_convex_blocks_are_symmetric_semidefinite_and_have_the_diagonal_they_say(comm, name):
    objective = build(name, comm)
    layout = objective.layout
    x = objective.initial_point(0)
    first, second = (layout.random_normal(seed) for seed in (1, 2))
    image, other = (objective.repulsive_product(x, moves) for moves in (first, second))
    assert layout.dot(image, second) == pytest.approx(layout.dot(other, first), rel=1e-10)
    assert layout.dot(image, first) > 0.0
    image = objective.repulsive_product(x, np.ones(layout.shape))
    # A Laplacian: constants are its null space.
    assert layout.norm(image) <= 1e-12 * layout.norm(other)
    diagonal = layout.gather_rows(objective.partial_hessian_diagonal(x))
    unit = np.zeros(layout.shape)
    if comm.rank == 0:
        unit[1, 1] = 1.0
    curvature = layout.dot(objective.repulsive_product(x, unit), unit)
    degree = layout.gather_rows(objective.attractive_degrees())[1]
    assert curvature + 4.0 * degree == pytest.approx(diagonal[1, 1])


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    ("name", "graph"), [*((n, "dense") for n in FIRST), *((n, "sparse") for n in BUILDERS)]
)
def test_gradient_is_the_same_at_any_number_of_ranks(comm, name, graph):
    objective = build(name, comm, graph=graph)
    found = objective.layout.gather_rows(
        objective.value_and_gradient(objective.initial_point(0))[1]
    )
    alone = build(name, MPI.COMM_SELF, graph=graph)
    _, expected = alone.value_and_gradient(alone.initial_point(0))
    assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()


@every_objective
def test_gradients_of_far_apart_points_agree_with_differences(comm, name):
    objective = build(name, comm, init_scale=1e3)
    x = objective.initial_point(0)
    _, gradient = objective.value_and_gradient(x)
    direction = objective.layout.random_normal(1)
    difference = central_difference(objective.value, x, direction, 1e-2)
    assert objective.layout.dot(gradient, direction) == pytest.approx(difference, rel=1e-5)


@every_objective
def test_coincident_points_give_finite_values_and_gradients(comm, name):
    objective = build(name, comm)
    value, gradient = objective.value_and_gradient(np.ones(objective.layout.shape))
    assert np.isfinite(value)
    assert objective.layout.norm(gradient) == pytest.approx(0.0, abs=1e-12)

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


def shifted(x, direction, length):
    moved = x.copy()
    moved.axpy(length, direction)
    return moved


def central_difference(function, x, direction, step=1e-5):
    return (function(shifted(x, direction, step)) - function(shifted(x, direction, -step))) / (
        2 * step
    )


def gradient(objective, x):
    found = x.duplicate()
    objective.value_and_gradient(x, found)
    return objective.layout.reading(found)


@every_rank_count
@every_case
def test_gradient_agrees_with_differences_of_the_value(comm, name, graph, dimensions):
    objective = build(name, comm, graph=graph, dimensions=dimensions)
    x = objective.initial_point(0)
    direction = objective.layout.vec_from(objective.layout.random_normal(1))
    slope = x.duplicate()
    value = objective.value_and_gradient(x, slope)
    assert objective.value(x) == pytest.approx(value, rel=1e-13)
    expected = central_difference(objective.value, x, direction)
    assert slope.dot(direction) == pytest.approx(expected, rel=1e-6)


@every_rank_count
@every_case
def test_hessian_product_agrees_with_differences_of_the_gradient(comm, name, graph, dimensions):
    objective = build(name, comm, graph=graph, dimensions=dimensions)
    x = objective.initial_point(0)
    direction = objective.layout.vec_from(objective.layout.random_normal(1))
    product = x.duplicate()
    objective.hessian_product(x, direction, product)
    expected = central_difference(lambda point: gradient(objective, point), x, direction, 1e-6)
    scale = np.abs(objective.layout.gather(product)).max()
    np.testing.assert_allclose(objective.layout.reading(product), expected, atol=1e-6 * scale)


@every_rank_count
@every_objective
def test_hessian_diagonal_is_the_diagonal_of_the_hessian(comm, name):
    objective = build(name, comm)
    x = objective.initial_point(0)
    diagonal = x.duplicate()
    objective.hessian_diagonal(x, diagonal)
    whole = objective.layout.gather(diagonal).ravel()
    for index in (0, 7, 60, 121):
        unit, column = x.duplicate(), x.duplicate()
        row, column_of_row = divmod(index, unit.layout.columns)
        unit.rows[unit.layout.own(np.array([row])), column_of_row] = 1.0
        objective.hessian_product(x, unit, column)
        assert unit.dot(column) == pytest.approx(whole[index], rel=1e-10)


@every_rank_count
@every_objective
def test_convex_blocks_are_symmetric_semidefinite_and_have_the_diagonal_they_say(comm, name):
    objective = build(name, comm)
    layout = objective.layout
    x = objective.initial_point(0)
    first, second = (layout.vec_from(layout.random_normal(seed)) for seed in (1, 2))
    image, other, diagonal = (x.duplicate() for _ in range(3))
    objective.repulsive_product(x, first, image)
    objective.repulsive_product(x, second, other)
    assert image.dot(second) == pytest.approx(other.dot(first), rel=1e-10)
    assert image.dot(first) > 0.0
    first.set(1.0)
    objective.repulsive_product(x, first, image)
    assert image.norm() <= 1e-12 * other.norm()  # a Laplacian: constants are its null space
    objective.partial_hessian_diagonal(x, diagonal)
    unit = x.duplicate()
    if comm.rank == 0:
        unit.getArray()[3] = 1.0
    objective.repulsive_product(x, unit, image)
    degree = layout.gather_rows(objective.attractive_degrees())[1]
    assert image.dot(unit) + 4.0 * degree == pytest.approx(layout.gather(diagonal).ravel()[3])


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    ("name", "graph"), [*((n, "dense") for n in FIRST), *((n, "sparse") for n in BUILDERS)]
)
def test_gradient_is_the_same_at_any_number_of_ranks(comm, name, graph):
    objective = build(name, comm, graph=graph)
    found = objective.layout.gather_rows(gradient(objective, objective.initial_point(0)))
    alone = build(name, MPI.COMM_SELF, graph=graph)
    expected = gradient(alone, alone.initial_point(0))
    assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()


@every_objective
def test_gradients_of_far_apart_points_agree_with_differences(comm, name):
    objective = build(name, comm, init_scale=1e3)
    x = objective.initial_point(0)
    slope = x.duplicate()
    objective.value_and_gradient(x, slope)
    direction = objective.layout.vec_from(objective.layout.random_normal(1))
    ahead, behind = x.copy(), x.copy()
    ahead.axpy(1e-2, direction)
    behind.axpy(-1e-2, direction)
    difference = (objective.value(ahead) - objective.value(behind)) / 2e-2
    assert slope.dot(direction) == pytest.approx(difference, rel=1e-5)


@every_objective
def test_coincident_points_give_finite_values_and_gradients(comm, name):
    objective = build(name, comm)
    x = objective.initial_point(0)
    x.set(1.0)
    slope = x.duplicate()
    assert np.isfinite(objective.value_and_gradient(x, slope))
    assert slope.norm() == pytest.approx(0.0, abs=1e-12)

"""Derivatives of every objective against differences, on any number of ranks."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.testing import check_capabilities, check_gradient
from thalweg_embedding import objectives
from thalweg_embedding.pacmap import pacmap
from thalweg_embedding.relocation import degrees_and_free


def pacmap_of_all_sets(data, comm, dimensions=2, init_scale=1.0, **others):
    """PaCMAP's objective in its first phase, in which all of its pairs count."""
    objective = pacmap(data, comm, dimensions=dimensions, init_scale=init_scale, init="random")
    objective.homotopy_parameter = 300.0
    return objective


BUILDERS = {
    "elastic-embedding": objectives.elastic_embedding,
    "s-sne": objectives.symmetric_sne,
    "sne": objectives.plain_sne,
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
    [(n, "sparse", d) for n in FIRST for d in (1, 3)]
    + [(n, "dense", 2) for n in FIRST]
    + [(n, "sparse", 2) for n in BUILDERS],
)


def build(name, comm, **options):
    data = Dataset.from_array(load_digits().data[:61], comm=comm)
    chosen = {"perplexity": 6, "init_scale": 0.7, "lambda_": 3.0, "graph": "sparse", **options}
    return BUILDERS[name](data, comm, **chosen)


@every_case
def test_gradient_and_capabilities_are_what_they_say(comm, name, graph, dimensions):
    objective = build(name, comm, graph=graph, dimensions=dimensions)
    x = objective.initial_point(0)
    check_gradient(objective, x)
    if objective.density is not None:
        for second in (objective.hessian_diagonal, lambda x: objective.hessian_product(x, x)):
            with pytest.raises(InputError, match="use density = 0"):
                second(x)
        return
    checked = {"Hessian product", "Hessian diagonal", "attractive Laplacian"}
    assert {*checked, "block-diagonal repulsive Hessian"} <= set(check_capabilities(objective, x))


@every_objective
def test_convex_blocks_are_laplacians_and_have_the_diagonal_they_say(comm, name):
    objective = build(name, comm)
    layout, x = objective.layout, objective.initial_point(0)
    constant, other = np.ones(layout.shape), layout.random_normal(2)
    images = [objective.repulsive_product(x, moves) for moves in (constant, other)]
    assert layout.norm(images[0]) <= 1e-12 * layout.norm(images[1])
    diagonal = layout.gather_rows(objective.partial_hessian_diagonal(x))
    unit = np.zeros(layout.shape)
    unit[1, 1] = 1.0
    curvature = layout.dot(objective.repulsive_product(x, unit), unit)
    degree = layout.gather_rows(degrees_and_free(objective, x)[0])[1]
    assert curvature + 4.0 * degree == pytest.approx(diagonal[1, 1])


def derivatives(objective):
    """All of an objective's, whole, at its starting point and along one direction."""
    layout = objective.layout
    x, direction = objective.initial_point(0), layout.random_normal(2)
    weights = objective.attractive_weights(x)
    found = {
        "gradient": objective.value_and_gradient(x)[1],
        "convex product": objective.repulsive_product(x, direction),
        "convex diagonal": objective.partial_hessian_diagonal(x),
        "weights": weights.toarray() if scipy.sparse.issparse(weights) else weights,
    }
    if objective.density is None:
        found["diagonal"] = objective.hessian_diagonal(x)
        found["product"] = objective.hessian_product(x, direction)
    return {what: layout.gather_rows(rows) for what, rows in found.items()}


@pytest.mark.ranks(2, 3)
@every_case
def test_derivatives_are_the_same_at_any_number_of_ranks(comm, name, graph, dimensions):
    found, alone = (
        derivatives(build(name, ranks, graph=graph, dimensions=dimensions))
        for ranks in (comm, MPI.COMM_SELF)
    )
    for what, expected in alone.items():
        assert np.abs(found[what] - expected).max() <= 1e-12 * np.abs(expected).max(), what


@every_objective
def test_gradients_of_far_apart_points_agree_with_differences(comm, name):
    objective = build(name, comm, init_scale=1e3)
    check_gradient(objective, objective.initial_point(0), tolerance=1e-5)


@every_objective
def test_coincident_points_give_finite_values_and_gradients(comm, name):
    objective = build(name, comm)
    value, gradient = objective.value_and_gradient(np.ones(objective.layout.shape))
    assert np.isfinite(value)
    assert objective.layout.norm(gradient) == pytest.approx(0.0, abs=1e-12)

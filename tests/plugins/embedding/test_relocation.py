"""Rows brought to ranks by cells of the data: the same embedding, and only borders to exchange."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from sklearn.neighbors import KNeighborsTransformer

from thalweg.data import Dataset
from thalweg.driver.assembly import objective_identity
from thalweg.parallel import MPI, Layout
from thalweg.parallel.traffic import phases
from thalweg_embedding import T_SNE, embedding
from thalweg_embedding.affinities.affinities_from_data import affinities_of
from thalweg_embedding.pairs import decomposition
from thalweg_embedding.preconditioners.diagonal import FixedPoint
from thalweg_embedding.preconditioners.partial_hessian import PartialHessian
from thalweg_embedding.preconditioners.spectral import SpectralDirection
from thalweg_embedding.relocation import RowMatrix


@pytest.fixture(autouse=True)
def relocation_at_any_size(monkeypatch):
    monkeypatch.setattr(decomposition, "SLAB_ROWS", 0)


def a_band(comm, rows):
    """A noisy circle, whose graph is connected, in an order that has nothing to do with place."""
    generator = np.random.default_rng(0)
    angles = 2.0 * np.pi * generator.permutation(rows) / rows
    values = np.column_stack([np.cos(angles), np.sin(angles), 0.01 * generator.random(rows)])
    return Dataset.from_array(values, comm=comm)


def vectors_of(objective):
    """Gradient, second derivatives and solutions at one point, all rows; and the values."""
    layout = objective.layout
    x = layout.random_normal(1)
    moves = layout.random_normal(2)
    moves -= objective.comm.allreduce(moves.sum(axis=0)) / layout.rows  # which no solution can have
    found = {"value": objective.value(x)}
    found["again"], gradient = objective.value_and_gradient(x)
    found["gradient"] = layout.gather_rows(gradient)
    if objective.density is None:
        found["product"] = layout.gather_rows(objective.hessian_product(x, moves))
        found["diagonal"] = layout.gather_rows(objective.hessian_diagonal(x))
    inner = PartialHessian(tolerance=1e-6, inner_iterations=300)
    for part in (SpectralDirection(), FixedPoint(), inner):
        part.setup(objective, x)
        part.update(x)
        found[type(part).__name__] = layout.gather_rows(part.apply(moves))
    weights = objective.attractive_weights(x)
    found["weights"] = layout.gather_rows(scipy.sparse.csr_matrix(weights).toarray())
    return found


@pytest.mark.ranks(3)
@pytest.mark.parametrize(
    "options",
    [
        {"perplexity": 6.0, "density": 0.1},
        {"perplexity": 6.0, "anchors": {1: (1.0, 0.0), 250: (0.0, 1.0)}},
        {"perplexity": 6.0, "metric": "cosine", "init": "spectral"},
    ],
)
def test_an_embedding_does_not_depend_on_where_rows_are_brought(comm, options):
    chosen = {"graph": "sparse", "repulsion": "exact", **options}
    objective = embedding(T_SNE, a_band(comm, 300), **chosen)
    alone = embedding(T_SNE, a_band(MPI.COMM_SELF, 300), **chosen)
    assert objective.places is not None
    assert alone.places is None
    assert objective_identity(objective) == objective_identity(alone)
    wanted = vectors_of(alone)
    for name, mine in vectors_of(objective).items():
        close = 1e-6 if name.islower() else 1e-2  # solutions end at rough residuals
        assert np.abs(mine - wanted[name]).max() <= close * np.abs(wanted[name]).max(), name


@pytest.mark.ranks(2, 3)
def test_rows_that_were_moved_have_the_same_neighbors_among_copies_too(comm):
    points = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 12, axis=0)
    points = np.random.default_rng(1).permutation(np.vstack([points, points[:1] + 1e-9]))
    data, alone = (Dataset.from_array(points, comm=of) for of in (comm, MPI.COMM_SELF))
    graph = KNeighborsTransformer(n_neighbors=9).fit_transform(points)
    known = SimpleNamespace(fit_transform=lambda rows: graph)  # of the rows as they came
    for search in ("exact", known):
        options = {"perplexity": 3.0, "graph": "sparse", "neighbor_search": search}
        moved = affinities_of(data, relocate=True, **options)
        assert moved.places is not None
        weights = moved.places.backward_matrix(moved.weights)
        wanted = affinities_of(alone, **options).weights.toarray()
        np.testing.assert_allclose(weights.toarray(), data.layout.local(wanted), rtol=1e-13)


@pytest.mark.ranks(2, 3)
def test_bytes_of_an_evaluation_and_of_a_solve_are_those_of_the_ranks_share(comm):
    rows, d = 3_000, 2
    objective = embedding(T_SNE, a_band(comm, rows), perplexity=5.0)
    x = objective.initial_point(0)
    direction = SpectralDirection(method="jacobi")
    direction.setup(objective, x)

    def sent(action):
        action()  # what is built once, such as the modes of a mesh
        before = sum(p.bytes for p in phases().values())
        action()
        return sum(p.bytes for p in phases().values()) - before

    share = -(-rows // comm.size)
    halo = 0.05 * rows * d * 8.0  # edges over borders of the circle, in inner iterations too
    # Points to the attraction's rows and slopes home; to slabs and home; and the mesh's parts.
    mesh = sent(lambda: objective.repulsion.total_and_slopes(x))
    evaluation = sent(lambda: objective.value_and_gradient(x)) - mesh
    assert evaluation <= 1.2 * share * d * (4 + 8) + halo
    assert sent(lambda: direction.apply(x)) <= 1.2 * share * d * (8 + 8) + 10 * halo


@pytest.mark.ranks(1, 2, 3)
def test_a_matrix_of_rows_multiplies_what_is_distributed_like_them(comm):
    uneven = {1: [17], 2: [0, 17], 3: [12, 0, 5]}[comm.size][comm.rank]
    for layout in (Layout(comm, 17), Layout(comm, 1), Layout(comm, 17, local_rows=uneven)):
        rng = np.random.default_rng(3)
        whole_matrix = np.where(rng.random((layout.rows,) * 2) < 0.3, rng.random(layout.rows), 0.0)
        array = rng.random((layout.rows, 3))
        rows = layout.local(whole_matrix)
        for kind in (rows, scipy.sparse.csr_matrix(rows)):
            product = RowMatrix(layout, kind).multiply(layout.local(array))
            assert np.allclose(product, layout.local(whole_matrix @ array), rtol=1e-13)

"""Laplacian systems are solved by every method, for any graph, at any number of ranks."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from thalweg.engines.laplacian import LaplacianSolver, available, component_labels
from thalweg.engines.laplacian.contract import System
from thalweg.engines.laplacian.methods import create_method
from thalweg.errors import InputError, NumericalError
from thalweg.parallel import Layout
from thalweg.parallel.traffic import phases

COLUMNS = 3


def ring_graph(rows, extra=2, seed=0):
    """A ring with chords, symmetric, connected."""
    rng = np.random.default_rng(seed)
    i = np.arange(rows)
    first = np.concatenate([i, rng.integers(0, rows, extra * rows)])
    second = np.concatenate([(i + 1) % rows, rng.integers(0, rows, extra * rows)])
    half = scipy.sparse.coo_matrix((rng.random(len(first)), (first, second)), (rows, rows)).tocsr()
    graph = (half + half.T).tolil()
    graph.setdiag(0)
    graph = graph.tocsr()
    graph.eliminate_zeros()
    return graph


def in_pieces(sizes, lonely=0):
    parts = [ring_graph(size, seed=size) for size in sizes]
    return scipy.sparse.block_diag([*parts, scipy.sparse.csr_matrix((lonely, lonely))]).tocsr()


def reference(graph, rhs, scale, pieces):
    """Least-norm solution: the limit of a vanishing shift."""
    dense = graph.toarray()
    laplacian = scale * (np.diag(dense.sum(1)) - dense)
    solution = np.zeros_like(rhs)
    for piece in pieces:
        rows = np.ix_(piece, piece)
        solution[piece] = np.linalg.pinv(laplacian[rows]) @ (rhs[piece] - rhs[piece].mean(0))
        solution[piece] -= solution[piece].mean(0)
    return solution


def solve(layout, weights, rhs, **options):
    solver = LaplacianSolver(layout, weights, **options)
    right = layout.local(rhs)
    first = layout.gather_rows(solver.solve(right))
    again = layout.gather_rows(solver.solve(right))  # with the same factor
    if solver.name == "mumps":  # adds up in the order in which messages arrive
        assert np.allclose(again, first, rtol=1e-9, atol=1e-12)
    else:
        assert np.array_equal(again, first)
    return solver, first


def right_hand_side(rows):
    return np.random.default_rng(5).standard_normal((rows, COLUMNS))


def layout_of(comm, rows, uneven):
    if not uneven or comm.size == 1:
        return Layout(comm, rows, COLUMNS)
    counts = {2: [0, rows], 3: [rows - 5, 0, 5]}[comm.size]
    return Layout(comm, rows, COLUMNS, local_rows=counts[comm.rank])


def usable(method):
    if method != "auto" and not available(method):
        pytest.skip(f"this PETSc lacks {method}")


METHODS = [
    "auto", "cholmod", "mumps", "mumps-serial", "petsc", "dense", "blocks", "amg", "icc", "jacobi",
]  # fmt: skip


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("sizes", [[82], [40, 9, 30]], ids=["connected", "in pieces"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_solves_any_graph(comm, method, sizes):
    usable(method)
    single = in_pieces(sizes, lonely=82 - sum(sizes)).astype(np.float32)
    layout, graph = layout_of(comm, 82, uneven=len(sizes) == 1), single.astype(float)
    rhs = right_hand_side(82) + 3.0
    solver, x = solve(layout, layout.local(single), rhs, scale=2.0, method=method, rtol=1e-12)
    assert solver.components == len(sizes) + 82 - sum(sizes)
    assert method in ("auto", solver.name)
    expected = reference(graph, rhs, 2.0, np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))
    assert np.allclose(x, expected, atol=1e-9 * np.abs(expected).max(), rtol=0)
    assert (x[sum(sizes) :] == 0).all()


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("method", METHODS)
def test_full_degrees_make_the_matrix_dominant(comm, method):
    usable(method)
    graph = in_pieces([50, 20], lonely=2)
    dense = graph.toarray()
    degrees = dense.sum(1) + np.linspace(0.1, 1.0, 72)
    layout = Layout(comm, 72, COLUMNS)
    rhs = right_hand_side(72)
    rows = graph[layout.start : layout.stop]
    solver, x = solve(layout, rows, rhs, degrees=layout.local(degrees), method=method, rtol=1e-12)
    assert solver.components == 0
    expected = np.linalg.solve(4.0 * (np.diag(degrees) - dense), rhs)
    assert np.allclose(x, expected, atol=1e-9 * np.abs(expected).max(), rtol=0)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("columns", "size", "rtol", "heavy"),
    [(1, 1.0, 1e-10, 0.0), (2, 1.0, 1e-10, 0.0), (2, 1e-30, 1e-4, 1e8), (3, 1e20, 1e-2, 1e12)],
)
def test_a_dominant_matrix_is_solved_to_any_residual(comm, columns, size, rtol, heavy):
    rows = 1500
    ends = np.arange(13), np.arange(1, 14)  # of weights far from those of the others
    chain = scipy.sparse.coo_matrix((np.full(13, heavy), ends), (rows, rows))
    graph = (ring_graph(rows) + chain + chain.T).tocsr()
    degrees = np.asarray(graph.sum(axis=1)).ravel() * np.where(np.arange(rows) < 14, 1.0, 1.3)
    layout = layout_of(comm, rows, uneven=True).with_columns(columns)
    rhs = size * right_hand_side(rows)[:, :columns]
    rhs[:, 0] = 0.0  # a column that has converged before the others
    here = slice(layout.start, layout.stop)
    solver, x = solve(layout, graph[here], rhs, degrees=degrees[here], rtol=rtol)
    assert solver.name == ("icc" if comm.size > 1 and available("icc") else "jacobi")
    assert f"to a residual of {rtol:g}" in solver.description
    matrix = 4.0 * (scipy.sparse.diags(degrees) - graph)
    assert np.linalg.norm(matrix @ x - rhs) <= 1.1 * rtol * np.linalg.norm(rhs)
    assert (x[:, 0] == 0.0).all()


@pytest.mark.ranks(2, 3)
def test_an_iteration_sends_the_rows_at_the_borders_and_no_others(comm):
    rows = 6000
    graph = scipy.sparse.diags([1.0, 2.0, 2.0, 1.0], [-2, -1, 1, 2], (rows, rows)).tocsr()
    layout = Layout(comm, rows, 2)
    degrees = layout.local(np.geomspace(7.0, 7e4, rows))
    here = graph[layout.start : layout.stop]
    solver = LaplacianSolver(layout, here, degrees=degrees, method="jacobi", rtol=1e-10)
    rhs = layout.random_normal(0)
    before = sum(phase.bytes for phase in phases().values())
    solver.solve(rhs)
    sent = sum(phase.bytes for phase in phases().values()) - before
    neighbors = (comm.rank > 0) + (comm.rank < comm.size - 1)
    border = 2 * neighbors * 2 * 8  # two rows of two doubles to each neighbor
    sums = (2 + 4) * 8
    iterations = solver.method.iterations
    assert 10 < iterations < 60  # as many as degrees of one size take
    assert sent == iterations * (border + sums) + 4 * 8
    assert sent < iterations * layout.local_rows  # a gathered map would be 16 times that
    solver.close()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("method", ["auto", "jacobi"])
def test_dense_weights_and_a_real_shift(comm, method):
    weights = np.random.default_rng(2).random((60, 60))
    weights += weights.T
    layout = layout_of(comm, 60, uneven=True)
    rhs = right_hand_side(60)
    solver, x = solve(
        layout, layout.local(weights), rhs, shift=0.5, scale=1.0, method=method, rtol=1e-13
    )
    assert solver.components == 0
    assert np.allclose((np.diag(weights.sum(1)) - weights + 0.5 * np.eye(60)) @ x, rhs, atol=1e-9)


@pytest.mark.petsc
@pytest.mark.ranks(2, 3)
def test_a_distributed_factor_is_the_default_and_repeats_its_bits(comm):
    graph, rhs = ring_graph(2000), right_hand_side(2000)
    layout = Layout(comm, 2000, COLUMNS)
    solver, first = solve(layout, graph[layout.start : layout.stop], rhs)
    assert solver.name == "blocks"
    assert "complete factors of each rank's block" in solver.description
    assert f"{graph.nnz:,} weights" in solver.description
    for _ in range(3):
        _, again = solve(layout, graph[layout.start : layout.stop], rhs)
        assert np.array_equal(again, first)


@pytest.mark.petsc
@pytest.mark.ranks(1, 2)
def test_petsc_options_override_a_method(comm):
    from thalweg.parallel import PETSc

    options = PETSc.Options()
    options["thalweg_laplacian_pc_type"] = "jacobi"
    try:
        graph, layout, rhs = ring_graph(50), Layout(comm, 50, COLUMNS), right_hand_side(50)
        own = graph[layout.start : layout.stop]
        for method in ("icc", "petsc"):  # conjugate gradients take the place of a factor
            solver, x = solve(layout, own, rhs, method=method, scale=1.0, shift=1.0)
            assert "with -thalweg_laplacian_pc_type jacobi" in solver.description
            matrix = scipy.sparse.diags(np.asarray(graph.sum(1)).ravel() + 1.0) - graph
            assert np.linalg.norm(matrix @ x - rhs) <= 1e-7 * np.linalg.norm(rhs)
    finally:
        del options["thalweg_laplacian_pc_type"]


@pytest.mark.ranks(1, 2)
def test_bad_input_is_refused_on_all_ranks(comm):
    layout = Layout(comm, 10, COLUMNS)
    graph = ring_graph(10)
    rows = graph[layout.start : layout.stop]
    bad = rows.copy()
    if comm.rank == 0:
        bad.data[0] = -1.0
    for weights, options, words in (
        (bad, {}, "not negative"),
        (rows, {"degrees": np.zeros(layout.local_rows)}, "degrees"),
        (rows, {"method": "mump"}, "did you mean 'mumps'"),
        (rows, {"scale": 0.0}, "scale"),
    ):
        with pytest.raises(InputError, match=words):
            LaplacianSolver(layout, weights, **options)
    # The two rows disagree about one weight: no graph has this matrix.
    graph[3, 4] *= 1.01
    for lopsided in (layout.local(graph), layout.local(graph.toarray())):
        with pytest.raises(InputError, match="weights of a Laplacian must be symmetric"):
            LaplacianSolver(layout, lopsided)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("name", ["dense", pytest.param("blocks", marks=pytest.mark.petsc)])
def test_a_matrix_that_is_not_positive_definite_is_a_numerical_error(comm, name):
    layout = Layout(comm, 2 * comm.size)
    matrix = scipy.linalg.block_diag(np.eye(layout.rows - 2), [[0.0, 9.0], [9.0, 0.0]])
    rows = scipy.sparse.csr_matrix(layout.local(matrix))  # of the last rank alone not definite
    with pytest.raises(NumericalError, match=r"not positive definite|be factored by 'blocks'"):
        create_method(System(layout, rows, name, 1e-8, 500, ()))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dense", [False, True])
def test_components_are_found_across_ranks(comm, dense):
    order = np.random.default_rng(0).permutation(95)
    graph = in_pieces([50, 20, 20], lonely=5)[order][:, order]
    piece = np.repeat(np.arange(8), [50, 20, 20, 1, 1, 1, 1, 1])[order]
    layout = Layout(comm, 95)
    rows = graph[layout.start : layout.stop]
    count, labels = component_labels(layout, rows.toarray() if dense else rows)
    assert count == 8
    assert len(set(zip(layout.gather_rows(labels).tolist(), piece.tolist(), strict=True))) == 8


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("one_way", [False, True])
def test_long_paths_in_disorder_are_followed_in_few_rounds(comm, one_way):
    rows, paths = 4000, 5
    order = np.random.default_rng(1).permutation(rows).reshape(paths, -1)
    first, second = order[:, :-1].ravel(), order[:, 1:].ravel()
    graph = scipy.sparse.coo_array((np.ones(len(first)), (first, second)), (rows, rows)).tocsr()
    graph = graph if one_way else graph + graph.T
    layout = layout_of(comm, rows, uneven=True)
    before = phases()["other"].bytes
    count, labels = component_labels(layout, graph[layout.start : layout.stop])
    sent = phases()["other"].bytes - before
    assert count == paths
    whole = layout.gather_rows(labels)
    assert all(len(set(whole[path])) == 1 for path in order)
    assert list(dict.fromkeys(whole)) == list(range(paths))  # by the first row of each
    assert sent < 8 * (2 * np.log2(rows)) * 4 * max(layout.local_rows, rows / 2)

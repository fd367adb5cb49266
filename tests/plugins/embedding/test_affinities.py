"""Affinities: perplexity met, sum one, symmetric at any rank count, and bad input refused."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg_embedding.affinities import approximate_neighbors
from thalweg_embedding.affinities.affinities_from_data import (
    affinities_of,
    given_affinities,
    tied_together,
)
from thalweg_embedding.affinities.row_affinities import entropic_rows
from thalweg_embedding.affinities.symmetric import check_weights, transposed
from thalweg_embedding.objectives import t_sne

every_rank_count = pytest.mark.ranks(1, 2, 3)


def digits(comm, rows=97):
    return Dataset.from_array(load_digits().data[:rows], comm=comm)


def dense(weights):
    return weights.toarray() if scipy.sparse.issparse(weights) else weights


def whole(layout, weights):
    return layout.gather_rows(np.ascontiguousarray(dense(weights)))


def entropic_affinities(data, perplexity=None, graph="auto", **options):
    return affinities_of(data, perplexity=perplexity, graph=graph, **options).weights


def entropies(probabilities):
    return -(probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0))).sum(axis=1)


@pytest.mark.parametrize("perplexity", [1.5, 5.0, 30.0, 88.0])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e12])
def test_every_row_has_the_wanted_perplexity(perplexity, scale):
    squared = np.sort(np.random.default_rng(0).chisquare(7, (200, 90)), axis=1)
    rows = entropic_rows(scale * squared, perplexity)
    np.testing.assert_allclose(entropies(rows), np.log(perplexity), atol=1e-10)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-13)
    assert (np.diff(rows, axis=1) <= 0).all()


def test_a_row_with_more_duplicates_than_the_perplexity_is_uniform_over_them():
    row = entropic_rows(np.concatenate([np.zeros(40), np.arange(1.0, 21.0)])[None, :], 30.0)[0]
    np.testing.assert_allclose(row[:40], 1 / 40)
    assert not row[40:].any()


@every_rank_count
@pytest.mark.parametrize("graph", ["dense", "sparse"])
def test_affinities_are_symmetric_sum_to_one_and_do_not_depend_on_the_ranks(comm, graph):
    data = digits(comm)
    weights = entropic_affinities(data, 8.0, graph)
    check_weights(data.layout, weights)
    every = whole(data.layout, weights)
    assert every.sum() == pytest.approx(1.0, rel=1e-13)
    alone = dense(entropic_affinities(digits(MPI.COMM_SELF), 8.0, graph))
    np.testing.assert_allclose(every, alone, atol=1e-13 * alone.max())


@every_rank_count
def test_transposition_over_ranks_is_exact_for_uneven_blocks_and_types_of_indices(comm):
    rows = 0 if comm.rank == 0 and comm.size > 1 else 5 + 2 * comm.rank
    total = comm.allreduce(rows)
    layout = Layout(comm, total, 1, local_rows=rows)
    full = scipy.sparse.random(total, total, 0.3, format="csr", random_state=0)
    own = full[layout.start : layout.stop]
    if comm.rank == 1:  # as where it has more than 2^31 entries
        own.indices, own.indptr = own.indices.astype(np.int64), own.indptr.astype(np.int64)
    expected = full.T.toarray()[layout.start : layout.stop]
    np.testing.assert_array_equal(transposed(layout, own).toarray(), expected)


@every_rank_count
@pytest.mark.parametrize("kind", ["entropic", "fuzzy"])
def test_copies_beyond_the_neighbors_are_alike(comm, kind):
    rows = np.concatenate([load_digits().data[:60], np.ones((300, 64))])[np.arange(360) * 7 % 360]
    options = {"kind": kind, "perplexity": 8.0} if kind == "entropic" else {"kind": kind}
    data = Dataset.from_array(rows, comm=comm)
    made = affinities_of(data, graph="sparse", **options).weights
    alone = affinities_of(Dataset.from_array(rows), graph="sparse", **options).weights
    np.testing.assert_allclose(whole(data.layout, made), dense(alone), rtol=1e-12)
    edges = np.diff(alone.indptr)[(rows == 1.0).all(axis=1)]
    assert edges.max() < 3 * edges.min()  # the first ones had those of all


@pytest.mark.parametrize(
    ("rows", "perplexity", "words"),
    [
        (10, 9.0, "less than the number of points"),
        (10, 50.0, "lower it or use more rows"),
        (1, None, "n_samples = 1"),
        (2, None, "at least 3 points"),
    ],
)
def test_a_perplexity_that_so_few_points_cannot_have_is_refused(rows, perplexity, words):
    with pytest.raises(InputError, match=words):
        entropic_affinities(digits(MPI.COMM_SELF, rows), perplexity)


@every_rank_count
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ((0, 1, -1.0), "negative"),
        ((0, 1, 5.0), "symmetric"),
        ((2, 2, 1.0), "diagonal"),
        ((1, 3, np.nan), "nan in row 1, column 3"),
    ],
)
def test_bad_given_affinities_are_refused_on_all_ranks(comm, entry, words):
    matrix = np.ones((6, 6)) - np.eye(6)
    matrix[entry[0], entry[1]] = entry[2]
    with pytest.raises(InputError, match=words):
        given_affinities(Dataset.from_array(matrix, comm=comm))
    for other, said in ((np.ones((4, 3)), "square"), (np.zeros((4, 4)), "zero")):
        with pytest.raises(InputError, match=said):
            given_affinities(Dataset.from_array(other, comm=comm))


@pytest.mark.ranks(2)
def test_affinities_of_approximate_neighbors_are_nearly_the_exact_ones(comm, monkeypatch):
    monkeypatch.setattr(approximate_neighbors, "ROW_COST", 10)
    data, notes = digits(comm, 900), []
    exact = whole(data.layout, entropic_affinities(data, 10.0, "sparse"))
    options = {"neighbor_search": "approximate", "note": notes.append}
    found = whole(data.layout, entropic_affinities(data, 10.0, "sparse", **options))
    assert np.abs(found - exact).sum() < 0.1
    assert found.sum() == pytest.approx(1.0)
    assert "of the nearest neighbors" in notes[0]


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("graph", ["dense", "sparse"])
def test_components_are_tied_together_and_a_connected_graph_is_left_alone(comm, graph):
    apart = np.repeat(1e3 * np.eye(3), 12, axis=0) + np.random.default_rng(0).normal(size=(36, 3))
    data = Dataset.from_array(apart, comm=comm)
    tied, components = tied_together(data.layout, entropic_affinities(data, 3.0, graph))
    assert components == 3
    whole = data.layout.gather_rows(np.asarray(scipy.sparse.csr_matrix(tied).todense()))
    np.testing.assert_allclose(whole, whole.T, atol=1e-18)
    assert whole.sum() == pytest.approx(1.0)
    assert not whole.diagonal().any()
    assert tied_together(data.layout, tied)[1] == 1
    assert whole[:12, 12:].sum() > 1e-3


@pytest.mark.ranks(1, 2)
def test_a_map_whose_parts_drift_apart_is_said_to_be_inflated(comm):
    apart = np.repeat(1e3 * np.eye(3), 12, axis=0)
    apart += np.random.default_rng(0).normal(size=(36, 3))
    data = Dataset.from_array(apart, comm=comm)
    free = entropic_affinities(data, 3.0, "sparse")
    drifting, usual = t_sne(data, comm, weights=free), t_sne(digits(comm), comm)
    weak = t_sne(digits(comm), comm, lambda_=1e-3)  # its points coincide
    for objective, said in ((drifting, [True, False]), (usual, [False] * 2), (weak, [False, True])):
        notes = " ".join(thalweg.minimize(objective, iterations=150, decrease=0.0).notes)
        assert [words in notes for words in ("map is inflated: it is", "coincide: the")] == said

"""Objectives beyond t-SNE: what is known of their limits, their weights and their maps."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import brentq
from scipy.spatial.distance import pdist, squareform
from scipy.special import entr, rel_entr
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.driver import HomotopySchedule
from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg_embedding import objectives, umap
from thalweg_embedding.affinities.affinities_from_data import affinities_of
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.affinities.row_affinities import fuzzy_rows
from thalweg_embedding.pairs.density import DensityCorrelation
from thalweg_embedding.pairs.pair_sum import CombinedPairs

DIGITS = load_digits()


def digits(comm, rows=90):
    return Dataset.from_array(DIGITS.data[:rows], comm=comm)


@pytest.mark.parametrize("family", ["t_sne", "symmetric_sne"])
def test_normalized_objectives_are_kullback_leibler_divergences(comm, family):
    data = digits(comm)
    objective = getattr(objectives, family)(data, comm, init="random")
    x = objective.layout.random_normal(0, 0.5)
    squared = pdist(objective.layout.gather_rows(x), "sqeuclidean")
    q = 1.0 / (1.0 + squared) if family == "t_sne" else np.exp(-squared)
    p = squareform(affinities_of(data, "entropic").weights, checks=False)
    assert objective.value(x) == pytest.approx(2.0 * rel_entr(p, 0.5 * q / q.sum()).sum(), rel=1e-9)


@pytest.mark.ranks(1, 2)
def test_plain_sne_is_the_mean_divergence_of_the_points(comm):
    objective = objectives.plain_sne(digits(comm, 40), comm, perplexity=5.0, graph="dense")
    squared = squareform(pdist(DIGITS.data[:40], "sqeuclidean"))
    np.fill_diagonal(squared, np.inf)

    def gaussian(row, beta):
        weights = np.exp(-beta * (row - row.min()))
        return weights / weights.sum()

    def excess(logarithm, row):
        return entr(gaussian(row, np.exp(logarithm))).sum() - np.log(5.0)

    p = [gaussian(row, np.exp(brentq(excess, -20, 5, args=(row,), xtol=1e-13))) for row in squared]
    x = objective.layout.random_normal(0, 0.5)
    away = squareform(pdist(objective.layout.gather_rows(x), "sqeuclidean"))
    np.fill_diagonal(away, np.inf)
    divergences = [rel_entr(a, gaussian(row, 1.0)).sum() for a, row in zip(p, away, strict=True)]
    assert objective.value(x) - np.log(5.0) == pytest.approx(np.mean(divergences), rel=1e-7)
    far = objective.layout.random_normal(0, 1e3)  # where every exp(-d) underflows
    assert np.isfinite(objective.value(far))


def cross_entropy(objective, x, mu):
    """Of memberships and UMAP's kernel, by a matrix of all pairs."""
    squared = squareform(pdist(objective.layout.gather_rows(x), "sqeuclidean"))
    phi = 1.0 / (1.0 + 1.57694 * (1e-3 + squared) ** 0.895061)
    terms = -mu * np.log(phi) - (1.0 - mu) * np.log1p(-phi)
    np.fill_diagonal(terms, 0.0)
    return terms.sum() / mu.sum()


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("given", ["points", "dense", "sparse"])
def test_a_cross_entropy_is_its_sum_over_all_pairs(comm, given):
    data, options = digits(comm), {"repulsive_weights": "complement", "init": "random"}
    made = affinities_of(data, "fuzzy")
    mu = data.layout.gather_rows(made.weights.toarray()) * made.total
    assert made.total == pytest.approx(mu.sum())
    if given != "points":
        mu, options["affinity"] = np.diag([0.2, 1.0, 0.5, 0.9, 0.1, 1.0], 1), "precomputed"
        mu = mu + mu.T
        data = Dataset.from_array(mu, comm=comm) if given == "dense" else SparseDataset.of(mu, comm)
        with pytest.raises(InputError, match="at most 1, and one is 3;"):
            objectives.umap_embedding(Dataset.from_array(3 * mu, comm=comm), comm, **options)
    objective = objectives.umap_embedding(data, comm, **options)
    x = objective.layout.random_normal(0, 0.5)
    assert objective.value(x) == pytest.approx(cross_entropy(objective, x, mu), rel=1e-9)


def test_fuzzy_memberships_and_the_curve_of_umap_know_no_units():
    # McInnes, Healy and Melville: a = 1.577 and b = 0.895 for min_dist = 0.1.
    assert "1.57694 s^0.895061" in umap().repulsion.name
    with pytest.raises(InputError, match="min_dist must be at most spread"):
        umap(min_dist=2.0)
    squared = np.sort(np.random.default_rng(0).random((20, 9)), axis=1)
    for unit in (1e-100, 1e100):
        np.testing.assert_allclose(fuzzy_rows(unit * squared), fuzzy_rows(squared), rtol=1e-6)
    wide, narrow = (umap(0.1 * s, s).attraction for s in (1.0, 1e-3))
    for r in (0.05, 0.5, 2.0):
        expected = wide(r * r)[0]
        # The offset of the squared distance stays as it is.
        assert narrow(1e-6 * (r * r + 1e-3) - 1e-3)[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.ranks(1, 2)
def test_fuzzy_affinities_are_a_union_of_rows_of_one_size(comm):
    data = digits(comm)
    made = affinities_of(data, "fuzzy", n_neighbors=8)
    mu = data.layout.gather_rows(made.weights.toarray()) * made.total
    np.testing.assert_allclose(mu, mu.T, rtol=1e-12)
    assert mu.max() == pytest.approx(1.0)
    np.testing.assert_allclose(mu.max(axis=1), 1.0)  # the nearest neighbor is a member for sure
    # Eight neighbors, the point itself among them: rows of seven others that sum to log2 8.
    distances = np.sqrt(((DIGITS.data[:90, None] - DIGITS.data[:90]) ** 2).sum(axis=2))
    rows = np.zeros_like(distances)
    for row, others in zip(rows, distances, strict=True):
        near = np.argsort(others, kind="stable")[1:8]
        excess = others[near] - others[near[0]]
        width = brentq(lambda s, excess=excess: np.exp(-excess / s).sum() - 3.0, 1e-3, 1e3)
        row[near] = np.exp(-excess / width)
    np.testing.assert_allclose(mu, rows + rows.T - rows * rows.T, rtol=1e-6)
    # Each row's own share sums to log2 k; the union is at least that, at most the sum of all.
    assert 90 * 3.0 <= made.total <= 2 * 90 * 3.0


def sampled_steps(weights, rows):
    """UMAP's mean step per epoch, by its rule: both ends attract, a sample repels the head."""
    away = rows[:, None] - rows
    d = (away**2).sum(axis=2) + np.eye(len(rows))
    a, b = 1.57694, 0.895061
    pull = -2 * a * b * d ** (b - 1) / (1 + a * d**b)
    push = 2 * b / ((1e-3 + d) * (1 + a * d**b))
    heads = (weights * pull)[..., None] * away  # of the pairs (head, tail)
    steps = heads.sum(axis=1) - heads.sum(axis=0)
    samples = 5 * weights.sum(axis=1) / len(rows)  # of each of the N points, itself included
    return steps + samples[:, None] * (push[..., None] * away).sum(axis=1)


def test_umap_steps_along_the_gradient_on_average():
    stream, n = np.random.default_rng(0), 12
    weights = np.triu(stream.random((n, n)), 1)
    weights += weights.T
    for _ in range(300):  # of equal degrees, which the objective's weights of repulsion stand for
        weights /= np.sqrt(np.outer(weights.sum(axis=1), weights.sum(axis=1)))
    rows = 4.0 * np.argwhere(np.ones((4, 3))) + stream.normal(size=(n, 2))
    data = Dataset.from_array(weights)
    objective = objectives.umap_embedding(data, data.comm, affinity="precomputed")
    expected = -weights.sum() * objective.value_and_gradient(rows)[1]
    steps = sampled_steps(weights, rows)
    np.testing.assert_allclose(steps, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.ranks(1, 2)
def test_uniform_and_multiscale_affinities(comm):
    data = digits(comm)
    whole = data.layout.gather_rows(affinities_of(data, "uniform", n_neighbors=5).weights.toarray())
    assert (whole.sum(), len(np.unique(whole.round(9)))) == (pytest.approx(1.0), 3)
    several = affinities_of(data, perplexities=[4.0, 12.0]).weights
    means = [affinities_of(data, perplexity=p).weights for p in (4.0, 12.0)]
    np.testing.assert_allclose(several, 0.5 * (means[0] + means[1]), rtol=1e-9)


@pytest.mark.ranks(1, 2)
def test_the_correlation_of_densities_is_that_of_logarithms_of_radii(comm):
    layout = Layout(comm, 60, 2)
    points = layout.random_normal(3)
    graph = scipy.sparse.random(60, 60, 0.2, random_state=0)
    weights = scipy.sparse.csr_matrix(graph + graph.T)
    weights.setdiag(0.0)
    weights.eliminate_zeros()
    squared = weights.copy()
    squared.data = np.exp(squared.data)
    mine = slice(layout.start, layout.stop)
    term = DensityCorrelation(layout, weights[mine], squared[mine])
    rows = layout.gather_rows(points)
    d = ((rows[:, None] - rows) ** 2).sum(axis=2)
    k = (weights.toarray() > 0) / (1.0 + d)
    wanted = (weights.multiply(squared)).sum(axis=1).A1 / weights.sum(axis=1).A1
    radii = np.log(0.01 + (k * d).sum(axis=1) / k.sum(axis=1))
    expected = np.corrcoef(np.log(wanted), radii)[0, 1]
    expected *= np.sqrt(radii.var() / (radii.var() + 0.1))
    assert term.total(points) == pytest.approx(expected, rel=1e-10)
    assert term.total(7.0 + 0.0 * points) == pytest.approx(0.0, abs=1e-12)


def test_a_density_term_raises_the_correlation_and_costs_little_divergence(comm):
    data = digits(comm, 200)
    found = {}
    for weight in (1e-9, 0.1):
        objective = objectives.t_sne(data, comm, perplexity=10.0, density=weight)
        found[weight] = thalweg.minimize(objective, iterations=110).metrics
    without, with_term = found.values()
    assert with_term["density_correlation"] > without["density_correlation"] + 0.1
    assert with_term["kl_divergence"] < without["kl_divergence"] + 0.05
    early = thalweg.minimize(objective, homotopy=HomotopySchedule((0.1, 0.25)), iterations=5)
    assert any("local densities did not count" in note for note in early.notes)
    square = Dataset.from_array(np.ones((5, 5)) - np.eye(5))
    with pytest.raises(InputError, match="needs the data"):
        objectives.t_sne(square, comm, affinity="precomputed", density=0.1)


@pytest.mark.ranks(1, 2)
def test_starts_from_eigenvectors_are_those_of_the_affinities(comm):
    objective = objectives.t_sne(digits(comm), comm, perplexity=10.0, init="spectral")
    x = objective.layout.gather_rows(objective.initial_point(0))
    assert x.std(axis=0).max() == pytest.approx(0.01, rel=0.05)
    weights = objective.layout.gather_rows(objective.weights)
    share = weights / weights.sum(axis=1, keepdims=True)
    # D^-1 W x = (1 - eigenvalue) x, up to the random numbers.
    for column in x.T:
        ratio = (share @ column) @ column / (column @ column)
        np.testing.assert_allclose(share @ column, ratio * column, atol=1e-4)


def test_the_error_of_a_value_covers_that_of_the_repulsion(comm):
    def built(build, **options):
        return build(digits(comm), comm, repulsion="grid", **options)

    umap = built(objectives.umap_embedding, density=5.0)
    x = thalweg.minimize(umap, iterations=30).x
    correlation = umap.metrics(x)["density_correlation"]
    assert correlation > 0.5
    share, weight = umap.repulsion.relative_error, umap.homotopy_parameter
    assert CombinedPairs(umap.repulsion, umap.repulsion, (1.0, 1.0)).relative_error == 2.0 * share
    # Of the last one the value is near zero, where its terms are not.
    for density in (0.0, 5.0, (umap.value(x) + 5.0 * correlation) / correlation):
        objective, more = (
            built(objectives.umap_embedding, density=density, lambda_=weight * (1.0 + part))
            for part in (0.0, share)
        )
        value = objective.value(x)
        error = more.value(x) - value
        assert 0.0 < error <= objective.value_error(value) < 20.0 * error
    assert abs(value) < 0.2
    t_sne = built(objectives.t_sne, perplexity=10.0)
    assert share <= t_sne.value_error(t_sne.value(x)) < 2.0 * share  # of a logarithm

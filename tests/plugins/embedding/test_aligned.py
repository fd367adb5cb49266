"""Aligned maps are minima of one objective, near each other as far as its weight says."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.testing import check_capabilities, check_gradient, check_resumption
from thalweg_descent.lbfgs import LBFGS
from thalweg_embedding import TSNE, UMAP, LaplacianEigenmaps, PaCMAP, aligned_maps, map_quality
from thalweg_embedding import objectives as build
from thalweg_embedding.alignment import AlignedEmbedding, relation_table
from thalweg_embedding.preconditioners.spectral import SpectralDirection

IMAGES = load_digits().data
WINDOWS = IMAGES[:61], IMAGES[30:101], IMAGES[60:123]
RELATIONS = [{30 + n: n for n in range(31)}, {30 + n: n for n in range(41)}]
BUILDERS = {"t-sne": build.t_sne, "umap": build.umap_embedding, "s-sne": build.symmetric_sne}
each_kind = pytest.mark.parametrize("name", BUILDERS)


def aligned(comm, name="t-sne", weight=0.3, **options):
    data = [Dataset.from_array(rows, comm=comm) for rows in WINDOWS]
    parts = [BUILDERS[name](rows, comm, graph="sparse", **options) for rows in data]
    sizes = [len(rows) for rows in WINDOWS]
    tables = [relation_table(each, *sizes[k : k + 2]) for k, each in enumerate(RELATIONS)]
    return AlignedEmbedding(parts, tables, weight)


def apart(maps, relation):
    before, after = maps
    return np.linalg.norm(before[[*relation]] - after[[*relation.values()]], axis=1)


@pytest.mark.ranks(1, 2)
@each_kind
def test_derivatives_are_those_of_the_value(comm, name):
    objective = aligned(comm, name)
    x = objective.initial_point(0) + objective.layout.random_normal(1, 0.3)
    check_gradient(objective, x)
    assert {"Hessian product", "Hessian diagonal"} <= set(check_capabilities(objective, x))
    objective.homotopy_parameter *= 0.5
    check_gradient(objective, x)


@pytest.mark.ranks(1, 2, 3)
@each_kind
def test_without_weight_the_objective_is_the_sum_of_the_maps(comm, name):
    objective, drawn = aligned(comm, name, 0.0), aligned(comm, name, 0.3)
    x = objective.initial_point(0)
    parts = [part.value_and_gradient(rows) for part, rows in objective.split(x)]
    values, gradients = zip(*parts, strict=True)
    value, gradient = objective.value_and_gradient(x)
    assert value == pytest.approx(sum(values), rel=1e-14)
    np.testing.assert_allclose(gradient, np.concatenate(gradients), rtol=1e-11)
    maps = [part.layout.gather_rows(rows) for part, rows in drawn.split(x)]
    pulled = sum(
        2.0 * 0.3 / np.mean([*map(len, two)]) * (apart(two, relation) ** 2).sum()
        for two, relation in zip((maps[:2], maps[1:]), RELATIONS, strict=True)
    )
    assert drawn.value(x) == pytest.approx(value + pulled)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("by", ["spectral", "partial-hessian", "fixed-point", "hessian-diagonal"])
def test_iterates_are_those_of_one_rank(comm, by):
    def run(where):
        chosen = {"preconditioner": by, "iterations": 6, "decrease": 0.0}
        return thalweg.minimize(aligned(where), solver="gradient-descent", **chosen)

    traces = [run(where).trace["objective"] for where in (comm, MPI.COMM_SELF)]
    np.testing.assert_allclose(*traces, rtol=1e-8)


@pytest.mark.ranks(1, 2)
def test_runs_go_on_to_the_same_bits(comm):
    objective = aligned(comm)
    solver = LBFGS(preconditioner=SpectralDirection())
    check_resumption(lambda: solver, objective, objective.initial_point(0))


@pytest.mark.parametrize("model", [TSNE(random_state=0), UMAP(random_state=0)])
def test_more_weight_brings_points_nearer_at_nearly_the_same_quality(model):
    windows, relation = (IMAGES[:300], IMAGES[150:450]), {150 + n: n for n in range(150)}
    distances, recalls = [], []
    for weight in (0.0, 0.001, 0.1):
        models = aligned_maps(model, windows, [relation], weight)
        distances.append(np.median(apart([one.embedding_ for one in models], relation)))
        pairs = zip(windows, models, strict=True)
        recalls.append([map_quality(rows, one.embedding_)["recall"] for rows, one in pairs])
    assert distances[1] < 0.5 * distances[0]
    assert distances[2] < 0.5 * distances[1]
    np.testing.assert_allclose(recalls[1], recalls[0], atol=0.03)
    np.testing.assert_allclose(recalls[2], recalls[0], atol=0.06)
    assert models[1].transform(IMAGES[450:455]).shape == (5, 2)
    assert not hasattr(model, "embedding_")


def test_one_data_set_alone_gets_the_map_of_a_fit():
    (alone,) = aligned_maps(TSNE(random_state=0), WINDOWS[:1], [])
    model = TSNE(random_state=0).fit(WINDOWS[0])
    assert alone.kl_divergence_ == pytest.approx(model.kl_divergence_, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "relations", "weight", "words"),
    [
        (LaplacianEigenmaps(), RELATIONS, 0.1, "as TSNE"),
        (TSNE(anchors={0: (0.0, 0.0)}), RELATIONS, 0.1, "without anchors"),
        (PaCMAP(), RELATIONS, 0.1, "all repel"),
        (UMAP(density=0.1), RELATIONS, 0.1, "density"),
        (TSNE(), RELATIONS[:1], 0.1, "3 data sets need relations"),
        (TSNE(), RELATIONS, -1.0, "weight"),
        (TSNE(), [RELATIONS[0], {0: 63}], 0.1, "below 71 of a data set to those below 63"),
        (TSNE(), [RELATIONS[0], [0, 1]], 0.1, "array of shape"),
        (TSNE(), [RELATIONS[0], {0.5: 1}], 0.1, "array of shape"),
        (TSNE(), [RELATIONS[0], np.ma.array([[0, 1]], mask=True)], 0.1, "masked entries"),
    ],
)
def test_what_cannot_be_aligned_is_refused(model, relations, weight, words):
    with pytest.raises(InputError, match=words):
        aligned_maps(model, WINDOWS, relations, weight)

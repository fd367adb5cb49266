"""What an embedding of many points does where its user asks for nothing."""

import numpy as np
import pytest
import scipy.sparse

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel.threads import MANY_TERMS
from thalweg.plugins import ObjectiveSpec, plugins
from thalweg.workbench.config import read_configuration
from thalweg.workbench.plan import plans
from thalweg_embedding import TSNE, UMAP, LargeVis, NegTSNE, PaCMAP, SymmetricSNE, memory_estimate
from thalweg_embedding.defaults import MANY_ROWS
from thalweg_embedding.families import (
    ELASTIC_EMBEDDING,
    SYMMETRIC_SNE,
    T_SNE,
    largevis,
    student_sne,
)
from thalweg_embedding.memory_estimate import memory_per_rank
from thalweg_embedding.objectives import t_sne
from thalweg_embedding.start import principal_components


def test_only_many_points_under_a_logarithm_are_exaggerated():
    factors = T_SNE.stages(MANY_ROWS, None)
    late = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert factors == pytest.approx((1 / 12, 1 / 4.899, *late), rel=1e-3)
    for others in (largevis(), SYMMETRIC_SNE, student_sne(0.0)):
        assert others.stages(MANY_ROWS, None) == factors
    assert (T_SNE.stages(10, 4.0), T_SNE.stages(10, 2.0)) == ((0.25, *late), late)
    assert T_SNE.stages(10, 1.6) == (0.625, *late[2:])
    factors = T_SNE.stages(20_000, None)
    assert factors == pytest.approx((1 / 12, 1 / 6.447, 1 / 3.464, 1 / 1.861, 1.0), rel=1e-3)
    assert (T_SNE.stages(10, 1.0), T_SNE.stages(MANY_ROWS - 1, None)) == ((), ())
    assert ELASTIC_EMBEDDING.stages(10 * MANY_ROWS, None) == ()


def test_a_map_whose_affinities_fall_apart_has_a_minimum():
    generator = np.random.default_rng(0)
    corners = np.repeat(np.eye(4), 30, axis=0)
    data = Dataset.from_array(1000.0 * corners + generator.normal(size=(120, 4)))
    objective = t_sne(data, data.comm, perplexity=5.0, repulsion="exact")
    assert "has 4 disconnected parts" in objective.notes[0]
    inside, directions = generator.normal(size=(120, 2)), corners @ generator.normal(size=(4, 2))
    near, far = (objective.value(inside + distance * directions) for distance in (1e4, 1e6))
    # A hundredth of the attraction, most of it between components, holds these: it grows with
    # log(1 + d), d squared distances, where the repulsion between them is gone.
    between = scipy.sparse.csr_matrix(objective.weights).toarray()[corners @ corners.T == 0.0].sum()
    assert 0.005 < between <= 0.01
    assert far - near == pytest.approx(between * np.log(1e4), rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "repulsion", "threads"),
    [(500, "auto", False), (800, "auto", True), (1_797, "auto", False), (1_797, "exact", True),
     (5_000, "auto", True)],
)  # fmt: skip
def test_only_maps_of_many_terms_have_several_threads(rows, repulsion, threads):
    line = scipy.sparse.diags([1.0, 1.0], [-1, 1], shape=(rows, rows), format="csr") / (2 * rows)
    data = Dataset.from_array(np.zeros((rows, 0)))
    objective = t_sne(data, data.comm, weights=line, repulsion=repulsion)
    assert (objective.terms >= MANY_TERMS) == threads


@pytest.mark.parametrize("kind", [TSNE, SymmetricSNE, UMAP, LargeVis, NegTSNE, PaCMAP])
def test_an_estimator_a_call_and_a_file_end_by_the_same_rule(kind):
    spec = next(s for s in plugins().specs(ObjectiveSpec) if kind.__name__ in s.aliases)
    estimator = kind()
    window = estimator.n_iter_without_progress
    assert spec.stop == {
        "iterations": estimator.max_iter,
        "decrease": estimator.tol,
        "window": window,
    }
    raw = {"data": {"name": "digits", "rows": 40}, "objective": {"name": spec.name}}
    stop = read_configuration(raw).stopping()
    assert ((stop.iterations, stop.decrease), stop.window) == ((500, 1e-2), window)
    changed = read_configuration({**raw, "stop": {"decrease": 1e-7}}).stopping()
    assert (changed.iterations, changed.decrease) == (500, 1e-7)


def test_a_call_ends_where_the_estimator_does(comm):
    points = np.random.default_rng(0).normal(size=(50, 4))
    objective = t_sne(Dataset.from_array(points), comm)
    result = thalweg.minimize(objective, seed=0)
    estimator = TSNE().fit(points)
    assert result.iterations == estimator.n_iter_ < 500
    np.testing.assert_array_equal(result.x, estimator.embedding_)
    assert thalweg.minimize(objective, seed=0, decrease=1e-6).iterations > result.iterations


@pytest.mark.ranks(1, 3)
def test_an_outlier_leaves_the_others_apart_at_the_start(comm):
    points = np.random.default_rng(0).normal(size=(400, 5))
    points[7] = 1e6
    data = Dataset.from_array(points, comm=comm)
    rows = data.layout.gather_rows(principal_components(data, 2, 1.0))
    along, sums = (np.delete(each, 7) for each in (rows[:, 0], points.sum(axis=1)))
    assert abs(np.corrcoef(along, sums)[0, 1]) > 0.99
    assert along.std() > 0.5


def test_an_embedding_that_does_not_fit_is_refused_by_what_the_plan_says(comm, monkeypatch):
    data = Dataset.from_array(np.random.default_rng(0).normal(size=(1200, 3)), comm=comm)
    options = {"name": "t-sne", "perplexity": 7, "neighbor_search": "approximate"}
    section = {"data": {"name": "blobs"}, "objective": options}
    (planned,) = plans(section, comm.size, rows=1200, columns=3)
    arguments = {"perplexity": 7.0, "neighbor_search": "approximate", "start": np.zeros((1200, 2))}
    t_sne(data, comm, **arguments)
    monkeypatch.setattr(memory_estimate, "memory_per_rank", lambda comm: 1e8)
    memory = f"{planned.memory / 2**30:.2f}"
    with pytest.raises(InputError, match=rf"1,200 points .* {memory} GiB.* a rank has 0.09 GiB"):
        t_sne(data, comm, **arguments)


def test_memory_is_shared_by_ranks_and_too_much_is_refused_before_it_is_taken(comm):
    there = memory_per_rank(comm)
    assert there * comm.size == pytest.approx(memory_per_rank(comm.Split(comm.rank)))
    points = np.zeros((300_000, 2), dtype=np.float32)
    with pytest.raises(InputError, match=r"300,000 points .* GiB.* use graph = 'sparse'"):
        TSNE(graph="dense").fit(points)

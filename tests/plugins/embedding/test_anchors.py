"""Anchored points stay where they are told, or are drawn there, in every way to minimize."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg.testing import check_capabilities, check_gradient, check_resumption
from thalweg_descent.lbfgs import LBFGS
from thalweg_embedding import TSNE, PaCMAP, objectives
from thalweg_embedding.anchors import anchor_table
from thalweg_embedding.preconditioners.spectral import SpectralDirection

POINTS = load_digits().data[:83]
TABLE = np.array([(3, 4.0, 3.0), (50, -5.0, 0.0), (82, 1.0, -6.0)])
NUMBERS, PLACES = TABLE[:, 0].astype(int), TABLE[:, 1:]

each_weight = pytest.mark.parametrize("weight", [None, 0.7])


def build(name, comm, weight, anchors=TABLE, **options):
    data = Dataset.from_array(POINTS, comm=comm)
    chosen = {"perplexity": 7.0, "anchors": anchors, "anchor_weight": weight, **options}
    return getattr(objectives, name)(data, comm, **chosen)


@pytest.mark.ranks(1, 3)
@each_weight
@pytest.mark.parametrize("name", ["t_sne", "elastic_embedding", "umap_embedding"])
def test_derivatives_are_those_of_the_value(comm, name, weight):
    objective = build(name, comm, weight, graph="sparse")
    x = objective.initial_point(0) + objective.layout.random_normal(1, 0.3)
    check_gradient(objective, x)
    assert {"Hessian product", "Hessian diagonal"} <= set(check_capabilities(objective, x))


@pytest.mark.ranks(2, 3)
@each_weight
@pytest.mark.parametrize("graph", ["dense", "sparse"])
@pytest.mark.parametrize("by", ["spectral", "partial-hessian", "fixed-point", "hessian-diagonal"])
def test_points_stay_to_the_bit_and_iterates_are_those_of_one_rank(comm, by, graph, weight):
    def run(where):
        objective = build("t_sne", where, weight, graph=graph, early_exaggeration=4.0)
        chosen = {"preconditioner": by, "iterations": 6, "decrease": 0.0}
        return thalweg.minimize(objective, solver="gradient-descent", **chosen)

    result, alone = run(comm), run(MPI.COMM_SELF)
    np.testing.assert_allclose(result.trace["objective"], alone.trace["objective"], rtol=1e-8)
    for found in (result, alone):
        assert np.array_equal(found.gather()[NUMBERS], PLACES) == (weight is None)


def test_points_come_as_near_as_their_weight_says_and_the_divergence_is_that_of_pairs(comm):
    apart, data = [], Dataset.from_array(POINTS)
    for weight in (0.1, 10.0):
        objective = build("t_sne", comm, weight)
        result = thalweg.minimize(objective, iterations=300)
        apart.append(result.x[NUMBERS] - PLACES)
        pairs = objectives.t_sne(data, comm, perplexity=7.0).value(result.x)
        assert result.metrics["kl_divergence"] == pytest.approx(pairs)
        pulled = 2.0 * weight / 83 * (apart[-1] ** 2).sum()
        assert objective.value(result.x) == pytest.approx(pairs + pulled)
    assert np.abs(apart[1]).max() < 0.1 * np.abs(apart[0]).max()


@each_weight
def test_every_form_of_anchors_gives_the_same_map_which_grows(weight, tmp_path):
    rows = np.full((83, 2), np.nan)
    rows[NUMBERS] = PLACES
    np.save(tmp_path / "rows.npy", rows)
    chosen = {"anchor_weight": weight, "perplexity": 7, "random_state": 0, "max_iter": 60}
    forms = [dict(zip(NUMBERS, PLACES, strict=True)), TABLE, str(tmp_path / "rows.npy"), rows]
    *others, model = (TSNE(anchors=form, **chosen).fit(POINTS) for form in forms)
    for other in others:
        np.testing.assert_array_equal(other.embedding_, model.embedding_)
    assert (model.faithfulness()["singularity"] < np.inf).any()
    longer = model.partial_fit(load_digits().data[83:90]).embedding_
    assert np.array_equal(longer[NUMBERS], PLACES) == (weight is None)


@pytest.mark.ranks(1, 3)
@each_weight
def test_a_start_lies_where_affinities_draw_points_to_the_places(comm, weight):
    objective, plain = build("t_sne", comm, weight), build("t_sne", comm, None, None)
    gather = objective.layout.gather_rows
    weights, pull, goal = gather(plain.weights), np.zeros((83, 1)), np.zeros((83, 2))
    pull[NUMBERS], goal[NUMBERS] = 1e9 if weight is None else weight / 83, PLACES
    drawn = np.linalg.solve(np.diag(weights.sum(axis=1) + pull[:, 0]) - weights, pull * goal)
    found, expected = gather(objective.start.fixed), drawn + gather(plain.start.fixed)
    free = np.delete(np.arange(83), NUMBERS)
    np.testing.assert_allclose(found[free], expected[free], atol=1e-6)


@pytest.mark.ranks(1, 2)
@each_weight
def test_runs_go_on_to_the_same_bits_with_the_same_anchors_alone(comm, weight, tmp_path):
    objective = build("t_sne", comm, weight)
    solver = LBFGS(preconditioner=SpectralDirection())
    check_resumption(lambda: solver, objective, objective.initial_point(0))
    file = Path(comm.bcast(str(tmp_path))) / "anchors.csv"
    anchored = {"anchors": str(file)} | ({} if weight is None else {"anchor_weight": weight})
    for shift, iterations in (0.0, 20), (1.0, 30), (0.0, 30):
        if comm.rank == 0:
            np.savetxt(file, np.add(TABLE, [0.0, shift, 0.0]), delimiter=",")
        comm.barrier()
        config = {
            "data": {"name": "digits", "rows": 83},
            "objective": {"name": "t-sne", **anchored},
            "stop": {"iterations": iterations, "decrease": 0.0},
            "output": {"pictures": False},
        }
        run = {"resume": iterations > 20, "comm": comm}
        if shift:
            with pytest.raises(InputError, match="anchors"):
                thalweg.run(config, file.parent / "run", **run)
            continue
        result = thalweg.run(config, file.parent / "run", **run)
        assert np.array_equal(result.gather()[NUMBERS], PLACES) == (weight is None)


@pytest.mark.parametrize(
    ("anchors", "words"),
    [
        ({83: (0.0, 0.0)}, "from 0 to 82"), ([(1, 0.0, np.nan)], "anchors must be"),
        (np.vstack([TABLE, TABLE]), "each once"), (np.zeros((4, 5)), "2 coordinates"),
        ({5: 1.0, 9: 2.0}, "2 coordinates"),
        ({1: "somewhere"}, "cannot be read"), ({}, "no real ones"),
        (TABLE * (1 + 1j), "no real ones"), (np.ma.masked_equal(TABLE, TABLE[0, 1]), "masked"),
        ("missing.csv", "missing.csv"), (".", "cannot be read"),
        (None, "no meaning without anchors"),
    ],
)  # fmt: skip
def test_anchors_that_do_not_fit_are_refused(anchors, words):
    with pytest.raises(InputError, match=words):
        TSNE(anchors=anchors, anchor_weight=1.0).fit(POINTS)
    with pytest.raises(TypeError, match="maps whose points all repel take them"):
        PaCMAP(anchors=TABLE)


def test_the_start_is_the_same_at_any_number_of_threads():
    points, options = load_digits().data[:200], {"max_iter": 1, "random_state": 0}
    maps = (TSNE(anchors={5: (9, 9)}, n_jobs=n, **options).fit_transform(points) for n in (1, 2))
    np.testing.assert_allclose(*maps, rtol=0, atol=5e-15)  # to a last bit


def test_a_file_of_anchors_names_rows_of_the_source(tmp_path):
    np.savetxt(tmp_path / "a.csv", [[3, 1.0, 2.0], [4, 5.0, 6.0]], delimiter=",")
    layout = Layout(MPI.COMM_SELF, 2, 2)
    table = anchor_table(tmp_path / "a.csv", layout, np.array([0, -1, -1, 1, -1]))
    np.testing.assert_array_equal(table, [[1, 1.0, 2.0]])
    with pytest.raises(InputError, match="no anchor is among the rows"):
        anchor_table(tmp_path / "a.csv", layout, np.array([0, -1, 1, -1, -1]))

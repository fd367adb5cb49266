"""Supervised maps: affinities follow labels as they say, and only where they are asked to."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg_embedding import TSNE, UMAP, affinities_of
from thalweg_embedding.affinities.affinities_from_data import one_way
from thalweg_embedding.affinities.distances import nearest_by
from thalweg_embedding.options import AffinityOptions

POINTS, DIGITS = (part[:120] for part in load_digits(return_X_y=True))
SOME = np.where(np.arange(120) % 3, DIGITS, -1)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(("kind", "weight"), [("entropic", 0.5), ("fuzzy", 0.2), ("fuzzy", 1.0)])
def test_affinities_are_multiplied_by_what_labels_say_and_rows_keep_their_size(comm, kind, weight):
    options = AffinityOptions(affinity=kind, perplexity=10, target_weight=weight)
    numbers, squared = nearest_by(Dataset.from_array(POINTS), 119 if kind == "entropic" else 14)
    values, size = one_way(squared, options, 120), np.sum if kind == "entropic" else np.max
    expected = np.zeros((120, 120))
    for row, (others, before) in enumerate(zip(numbers, values, strict=True)):
        r = np.inf if weight == 1.0 else weight / (1.0 - weight)
        known = (SOME[row] >= 0) & (SOME[others] >= 0)
        same = np.where(SOME[others] == SOME[row], 1.0, np.exp(-5.0 * r))
        after = before * np.where(known, same, np.exp(-min(r, 1.0)))
        expected[row, others] = after * size(before) / size(after)
    expected += expected.T - (expected * expected.T if kind == "fuzzy" else 0.0)
    data = Dataset.from_array(POINTS, SOME, comm=comm)
    found = affinities_of(data, options).weights
    found = data.layout.gather_rows(np.asarray(found if kind == "entropic" else found.toarray()))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-12)


def test_affinities_that_underflow_are_none():
    stream = np.random.default_rng(0)
    copies = np.repeat(stream.normal(size=(60, 4)), 5, axis=0)
    data = Dataset.from_array(copies, stream.integers(0, 6, 300))
    found = affinities_of(data, "fuzzy", n_neighbors=15, target_weight=1.0, metric="cosine")
    assert np.isfinite(found.weights.data).all()


@pytest.mark.parametrize("kind", [TSNE, UMAP])
def test_labels_count_where_they_are_asked_for_and_new_points_have_none(kind):
    chosen = {"random_state": 0, "max_iter": 60}
    plain = kind(**chosen).fit(POINTS).embedding_
    np.testing.assert_array_equal(kind(**chosen).fit_transform(POINTS, DIGITS), plain)
    strings = np.array([f"class {digit}" for digit in DIGITS], dtype=object)
    model = kind(target_weight=0.9, **chosen).fit(POINTS, DIGITS)
    named = kind(target_weight=0.9, **chosen).fit(POINTS, strings)
    np.testing.assert_array_equal(named.embedding_, model.embedding_)
    same, places = DIGITS[:, None] == DIGITS, model.embedding_
    apart = ((places[:, None] - places) ** 2).sum(axis=2)
    assert apart[~same].mean() > 2.0 * apart[same].mean()
    np.testing.assert_allclose(model.transform(POINTS[:5]), model.embedding_[:5])
    assert model.stability(2).shape == model.faithfulness()["kept"].shape == (120,)
    assert model.partial_fit(load_digits().data[120:125]).embedding_.shape == (125, 2)
    assert (model._labels[120:] == -1).all()
    for missing, form in (("", list), (np.nan, np.array), (np.nan, list), (None, np.array)):
        strings[:3] = missing
        assert kind(target_weight=0.9, **chosen).fit(POINTS, form(strings))._labels[:3].max() == -1
    floats = np.where(np.arange(120) < 3, np.nan, np.where(np.arange(120) < 6, -1.0, DIGITS))
    mixed = [float(d) if n % 2 else int(d) for n, d in enumerate(DIGITS)]
    large = [np.nan, *(2**60 + int(digit) for digit in DIGITS[1:])]
    for labels, last in ((floats, 6), ([None, *mixed[1:]], 1), (large, 1)):
        found = kind(target_weight=0.9, **chosen).fit(POINTS, labels)._labels
        assert (found[:last].max(), len(np.unique(found[found >= 0]))) == (-1, 10)


@pytest.mark.ranks(1, 2)
def test_a_run_follows_the_labels_of_its_data_and_goes_on_with_the_same_alone(comm, folder):
    def config(labels, iterations):
        np.savez(folder / f"{comm.rank}.npz", x=POINTS, y=labels)
        comm.barrier()
        return {
            "data": {"path": str(folder / "0.npz"), "key": "x", "labels": "y"},
            "objective": {"name": "umap", "target_weight": 0.8},
            "stop": {"iterations": iterations},
            "output": {"pictures": False},
        }

    result = thalweg.run(config(SOME, 20), folder / "run", comm=comm)
    expected = UMAP(target_weight=0.8, max_iter=20).fit_transform(POINTS, SOME)
    np.testing.assert_allclose(result.gather(), expected, atol=1e-6 * np.abs(expected).max())
    with pytest.raises(InputError, match="objective\\.weights was"):
        thalweg.run(config(SOME[::-1], 30), folder / "run", resume=True, comm=comm)
    thalweg.run(config(SOME, 30), folder / "run", resume=True, comm=comm)


@pytest.mark.parametrize(
    ("parameters", "labels", "words"),
    [
        ({"target_weight": 0.5}, None, "needs labels"),
        ({"target_weight": 1.5}, DIGITS, "at most 1"),
        ({"target_weight": 0.5}, DIGITS[:7], "a label for each of 120 rows"),
        ({"target_weight": 1.0}, np.arange(120), "no point has a neighbor of its own label"),
        ({"target_weight": 0.5, "affinity": "precomputed"}, DIGITS, "no meaning"),
    ],
)
def test_labels_that_do_not_fit_are_refused(parameters, labels, words):
    with pytest.raises(InputError, match=words):
        TSNE(**parameters).fit(POINTS, labels)

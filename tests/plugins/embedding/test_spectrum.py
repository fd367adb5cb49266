"""A path through the spectrum gives maps as good as fits of their own, from one factor."""

import itertools
import json
import re

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.workbench.run import plot, run, single_run
from thalweg_embedding import T_SNE, TSNE, embedding, map_quality, spectrum
from thalweg_embedding.preconditioners.spectral import SpectralDirection

POINTS = load_digits().data[:400]
LAMBDAS = (1 / 20, 1 / 8, 1 / 3, 1.0)  # at the first the map has hardly unfolded


def shortfall(objective, lambda_, places, fitted):
    """What a map lacks of the descent of a fit from a map that has collapsed, as a share of it."""
    objective.homotopy_parameter = lambda_
    start, value, best = (objective.value(x) for x in (1e-6 * places, places, fitted))
    return (value - best) / (start - best)


@pytest.mark.ranks(1, 2)
def test_each_stop_is_as_good_as_a_fit_of_its_own(comm, monkeypatch):
    factored, made = SpectralDirection._factored, []
    monkeypatch.setattr(SpectralDirection, "_factored", lambda *a: made.append(1) or factored(*a))
    stops = spectrum(Dataset.from_array(POINTS, comm=comm), LAMBDAS, degrees_of_freedom=[0.5])
    assert made == [1]
    assert [*stops][2:] == [
        "λ = 1/3: like UMAP",
        "λ = 1: t-SNE",
        "0.5 degrees of freedom: finer than t-SNE",
    ]
    *maps, finer = (result.gather() for result in stops.values())
    assert finer.shape == (400, 2)
    if comm.rank > 0:
        return  # all ranks have the maps, which one compares
    objective, before = embedding(T_SNE, Dataset.from_array(POINTS)), None
    for lambda_, places in zip(LAMBDAS, maps, strict=True):
        fitted = TSNE(lambda_=lambda_, random_state=0).fit_transform(POINTS)
        assert shortfall(objective, lambda_, places, fitted) < 0.02
        found, single = (map_quality(POINTS, x)["recall"] for x in (places, fitted))
        assert found > single - 0.02
        if before is not None:  # a stop that is not converged would be seen
            assert shortfall(objective, lambda_, before, fitted) > 0.04
        before = places
    fitted = TSNE(degrees_of_freedom=0.5, random_state=0).fit(POINTS)
    assert list(stops.values())[-1].objective < fitted.objective_ + 0.02


def test_weights_that_are_no_path_are_refused():
    for wrong in ((), (0.5, 0.5), (1.0, 0.5), (0.0, 1.0), (1.0, np.inf), (np.nan,), 0.5, ["x"]):
        with pytest.raises(InputError, match="lambdas"):
            spectrum(POINTS, wrong)
    for wrong in (((0.7, 0.7000001), ()), ((1.0,), (0.5, 0.50000001))):
        with pytest.raises(InputError, match="two stops have one name"):
            spectrum(POINTS, *wrong)
    with pytest.raises(InputError, match="takes no density"):
        spectrum(POINTS, [1.0], density=0.1)


def test_sparse_points_have_a_spectrum_too():
    stops = spectrum(scipy.sparse.csr_matrix(POINTS), [1.0], [2.0])
    assert [*stops] == ["λ = 1: t-SNE", "2 degrees of freedom"]
    for one in spectrum(POINTS, [1.0]).values():
        assert stops["λ = 1: t-SNE"].objective == pytest.approx(one.objective, abs=0.02)


CONFIG = {
    "data": {"name": "digits", "rows": 150},
    "objective": {"name": "t-sne", "perplexity": 10},
    "homotopy": {"values": [0.1, 0.25, 0.25, 1.0], "keep": True},
    "stop": {"iterations": 30},
    "output": {"pictures": False},
}
STOPS = ["λ = 1/10: between ForceAtlas2 and UMAP", "λ = 1/4: like UMAP", "λ = 1: t-SNE"]
NAMES = [*STOPS[:2], f"{STOPS[1]} (2)", STOPS[2]]


@pytest.mark.ranks(1, 2)
def test_a_run_keeps_the_map_of_each_stage_also_when_it_is_resumed(comm, folder, monkeypatch):
    whole, parts = folder / "whole", folder / "parts"
    stages = run(CONFIG, whole, comm=comm).trace["stage"]
    assert all(1 < (stages == number).sum() <= 30 for number in (0, 1))
    with monkeypatch.context() as patched:
        turn = itertools.count()
        patched.setattr(single_run, "expect_life", lambda _: next(turn) == 40)
        assert run(CONFIG, parts, comm=comm).stages_left
    run(CONFIG, parts, resume=True, comm=comm)
    comm.barrier()
    names = json.loads((whole / "result.json").read_text())["stages"]
    assert list(names.values()) == NAMES
    for file in names:
        first, second = (np.load(one / file) for one in (whole, parts))
        np.testing.assert_array_equal(first, second)
        assert first.shape == (150, 2)
    if comm.rank == 0:
        page = plot(whole, page=True)[-1].read_text(encoding="utf-8")
        facts = json.loads(re.search('"application/json">(.*?)</script>', page)[1])
        assert [stop["name"] for stop in facts["stops"]] == NAMES
    comm.barrier()


def test_stages_that_are_kept_have_no_adaptive_steps():
    config = {**CONFIG, "homotopy": {**CONFIG["homotopy"], "error": 0.1}}
    with pytest.raises(InputError, match="keep needs a stage for each value"):
        thalweg.run(config)

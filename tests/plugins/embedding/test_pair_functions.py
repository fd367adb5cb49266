"""Pair functions: fast forms are exact, wrong derivatives are refused, your own work."""

import math
import os
import sys
from types import CellType, FunctionType, ModuleType

import numpy as np
import pytest
import scipy.sparse
from ranks.launch import LIMIT, run_limited
from scipy.spatial.distance import cdist

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.numerics import exponential
from thalweg.parallel import Layout
from thalweg_embedding import T_SNE, Family, PairFunction, embedding
from thalweg_embedding.pairs.functions import log_one_plus, log_one_plus_single
from thalweg_embedding.pairs.neighbor_pairs import NeighborPairs


def test_fast_functions_are_exact_to_a_few_units_in_the_last_place():
    for x in np.concatenate([[0.0, -700.0], np.random.default_rng(0).uniform(-700, 700, 2000)]):
        assert exponential(x) == pytest.approx(math.exp(x), rel=4.5e-16)
    for d in np.concatenate([[0.0], 10.0 ** np.random.default_rng(0).uniform(-12, 12, 2000)]):
        assert log_one_plus(d) == pytest.approx(math.log1p(d), rel=1e-15, abs=1e-300)
        found = float(log_one_plus_single(np.float32(d)))
        assert abs(found - math.log1p(np.float32(d))) <= 2e-7 * (1.0 + math.log1p(d))


@pytest.mark.ranks(1, 2)
def test_attraction_in_single_precision_errs_by_what_is_stated(comm):
    layout = Layout(comm, 400, 2)
    graph = scipy.sparse.random(400, 400, 0.1, random_state=0, format="csr")
    graph = (graph + graph.T).tocsr()[layout.start : layout.stop]
    for spread, offset in ((1e-3, 0.0), (1.0, 1e5), (100.0, -3.0), (1e4, 0.0)):
        rows = layout.random_normal(0, spread) + offset
        single = NeighborPairs(layout, T_SNE.attraction, graph, single=True)
        total, found = single.total_and_slopes(rows)
        wanted, exact = NeighborPairs(layout, T_SNE.attraction, graph).total_and_slopes(rows)
        # A collapsed map has a value near zero; objectives then add a constant to it.
        assert abs(total - wanted) <= single.relative_error * max(total, graph.sum())
        assert np.abs(found - exact).max() <= 1e-4 * np.abs(exact).max()
        assert single.total(rows) == total


def test_wrong_derivatives_are_refused():
    with pytest.raises(InputError, match="derivatives of pair function 'd squared'"):
        PairFunction(lambda d: (d * d, d, 2.0), "d squared")


def test_a_family_of_ones_own_embeds():
    heavy = PairFunction(
        lambda d: ((1 + d) ** -0.5, -0.5 * (1 + d) ** -1.5, 0.75 * (1 + d) ** -2.5),
        "(1 + d)^(-1/2)",
    )
    softened = PairFunction(
        lambda d: (math.sqrt(1 + d) - 1, 0.5 / math.sqrt(1 + d), -0.25 * (1 + d) ** -1.5),
        "sqrt(1 + d) - 1",
    )
    points = np.random.default_rng(0).normal(size=(40, 5))
    objective = embedding(
        Family("soft", softened, heavy, normalized=True), Dataset.from_array(points), perplexity=5.0
    )
    result = thalweg.minimize(objective, preconditioner="fixed-point", iterations=30)
    assert result.objective < 0.9 * result.trace["objective"][0] or result.status.converged
    weights = scipy.sparse.csr_matrix(objective.weights).toarray()

    def formula(places):
        d = cdist(places, places, "sqeuclidean")
        return (weights * (np.sqrt(1 + d) - 1)).sum() + np.log(((1 + d) ** -0.5).sum() - 40.0)

    half = objective.value(0.5 * result.x)
    difference = formula(0.5 * result.x) - formula(result.x)
    assert half - result.objective == pytest.approx(difference, rel=1e-7)


def test_compiled_code_is_known_by_the_constants_it_was_compiled_with():
    settings = ModuleType("settings")
    names = {"settings": settings, "table": np.arange(2000.0), "depth": 1.0}
    code = (lambda d: (settings.a * d + table[5], settings.a, 0 * (lambda: depth)())).__code__  # noqa: F821

    def key():
        return PairFunction(FunctionType(code, names, closure=(CellType(settings),)), "a d").key

    settings.a = 1.0
    first = key()
    assert key() == first
    settings.a = 2.0
    second = key()
    assert second != first
    names["depth"] = 2.0
    assert second != (second := key())
    names["table"] = np.where(np.arange(2000) == 1000, 0.0, np.arange(2000.0))
    assert key() != second


SCRIPT = """
import hashlib

import numpy
import scipy.sparse
from thalweg.parallel import MPI, Layout
from thalweg_embedding.pairs.all_pairs import AllPairs
from thalweg_embedding.pairs.functions import DISTANCE, STUDENT
from thalweg_embedding.pairs.grid_pairs import GridPairs
from thalweg_embedding.pairs.neighbor_pairs import NeighborPairs

layout = Layout(MPI.COMM_SELF, 300, 2)
pairs = AllPairs(layout, STUDENT)
x, direction = layout.random_normal(1), layout.random_normal(2)
found = [pairs.second_order(2, x, direction, 0.0)]
total, slopes = GridPairs(layout, STUDENT, 1e-2).first_order(30.0 * x, 0.0, True)  # single
found += [numpy.array(total), slopes]
graph = scipy.sparse.random(300, 300, 0.1, random_state=0, format="csr")
edges = NeighborPairs(layout, DISTANCE, (graph + graph.T).tocsr(), single=True)
found.append(edges.first_order(x, 0.0, True)[1])
print(*(hashlib.sha256(array.tobytes()).hexdigest() for array in found))
"""


@pytest.mark.slow
def test_compiled_loops_give_the_bits_of_loaded_ones(tmp_path):
    # A body that LLVM optimizes once for the process that compiles it, and once more for the
    # cache, may add in another order the second time.
    environment = {**os.environ, "THALWEG_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    compiled, loaded = (run_limited(command, LIMIT, env=environment) for _ in range(2))
    assert compiled.returncode == loaded.returncode == 0, compiled.stderr + loaded.stderr
    assert compiled.stdout == loaded.stdout

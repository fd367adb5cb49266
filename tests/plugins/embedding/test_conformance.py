"""The conformance suite holds embeddings, as it would a stranger's plugin."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.testing import check_preconditioner, check_resumption
from thalweg_descent.lbfgs import LBFGS
from thalweg_embedding.objectives import t_sne
from thalweg_embedding.preconditioners.diagonal import FixedPoint, HessianDiagonalScaling
from thalweg_embedding.preconditioners.partial_hessian import PartialHessian
from thalweg_embedding.preconditioners.spectral import SpectralDirection


def build(comm, **options):
    data = Dataset.from_array(load_digits().data[:83], comm=comm)
    return t_sne(data, comm, perplexity=7.0, **options)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("kind", [FixedPoint, HessianDiagonalScaling, SpectralDirection])
def test_preconditioners_are_positive_definite_and_linear(comm, kind):
    objective = build(comm, init_scale=0.5)
    check_preconditioner(kind(), objective, objective.initial_point(0))


@pytest.mark.parametrize("kind", [SpectralDirection, PartialHessian, HessianDiagonalScaling])
def test_a_resumed_run_ends_at_the_same_bits(comm, kind):
    objective = build(comm)
    x = objective.initial_point(0)
    check_resumption(lambda: LBFGS(preconditioner=kind()), objective, x)


def test_early_exaggeration_is_a_homotopy(comm):
    objective = build(comm, early_exaggeration=12.0)
    # In equal ratios down to half, then evenly, as for all maps of few points.
    factors = [1 / 12, 24**-0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    np.testing.assert_allclose(objective.default_homotopy(), factors)
    maps, keep = [], lambda at: maps.append(at.rows.copy())
    trace = thalweg.minimize(objective, iterations=120, callback=keep).trace
    assert trace.homotopy_parameter == "lambda"
    np.testing.assert_allclose(trace["lambda"], np.array(factors)[trace["stage"].astype(int)])
    assert trace["stage"][-1] == 7.0
    last = trace["stage"] == 7.0
    np.testing.assert_array_equal(trace["wanted_objective"][last], trace["objective"][last])
    for row in (0, 20, 40):  # in stages before the last
        assert not last[row]
        wanted = objective.value(maps[row])
        assert trace["wanted_objective"][row] == pytest.approx(wanted, rel=1e-9)
    assert build(comm).default_homotopy() == ()

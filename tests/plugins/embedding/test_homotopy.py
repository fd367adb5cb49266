"""Following lambda: a map that has collapsed unfolds again, at any rank count."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import thalweg
from thalweg import HomotopySchedule, Stop
from thalweg.data import Dataset
from thalweg_embedding.objectives import elastic_embedding


def followed(comm, solver, preconditioner, points=60, stages=6, most=20, **given):
    data = Dataset.from_array(load_digits().data[:points], comm=comm)
    objective = elastic_embedding(
        data, comm, perplexity=8.0, repulsive_weights="squared-distances", lambda_=100.0
    )
    rule = Stop(iterations=most, decrease=1e-6, window=1)
    homotopy = HomotopySchedule.logarithmic(1e-4, 1e2, stages, rule)
    return thalweg.minimize(
        objective, solver=solver, preconditioner=preconditioner, homotopy=homotopy, **given
    )


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("preconditioner", ["identity", "spectral", "partial-hessian"])
@pytest.mark.parametrize("solver", ["gradient-descent", "lbfgs"])
def test_a_map_that_collapsed_at_a_small_lambda_unfolds_at_a_larger_one(
    comm, solver, preconditioner
):
    result = followed(comm, solver, preconditioner, iterations=300)
    collapsed = 100.0  # the value of coinciding points: lambda times the sum of w-
    assert result.objective < 0.1 * collapsed
    values = result.trace["objective"]
    same = np.diff(result.trace["lambda"]) == 0.0
    assert (np.diff(values)[same] <= 0.0).all()

"""Test functions: exact derivatives, and the stationary points that their texts promise."""

import numpy as np
import pytest

from thalweg.engines.hessian import GaussNewtonProduct
from thalweg.parallel import MPI
from thalweg.testing import check_gradient, check_hessian_product
from thalweg.testing.derivatives import check_gauss_newton_product
from thalweg_saddlefree import functions
from thalweg_saddlefree.plugin import thalweg_objectives

NAMES = [s.name for s in thalweg_objectives() if s.load.startswith(functions.__name__)]


def made(name, **options):
    return getattr(functions, f"build_{name.replace('-', '_')}")(None, MPI.COMM_SELF, **options)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_agree_with_differences(name):
    objective = made(name, spread=0.4)
    x = objective.initial_point(2)
    check_gradient(objective, x)
    check_hessian_product(objective, x)
    if isinstance(objective, GaussNewtonProduct):
        check_gauss_newton_product(objective, x)


@pytest.mark.parametrize(
    ("name", "point", "negative"),
    [
        ("rosenbrock", [1.0, 1.0], 0),
        ("monkey-saddle", [0.0, 0.0], 0),
        ("monkey-saddle", [-3.0, 0.0], 0),
        ("ginzburg-landau", np.zeros(100), 4),
        ("ginzburg-landau", np.ones(100), 0),
        ("himmelblau", [3.0, 2.0], 0),
        ("himmelblau", [0.08667750, 2.88425470], 1),
        ("styblinski-tang", np.full(20, 0.156731), 20),
    ],
)
def test_known_stationary_points_have_the_promised_index(name, point, negative):
    function = made(name).function
    point = np.asarray(point, dtype=float)
    assert np.abs(function.gradient(point)).max() < 1e-4
    hessian = np.array([function.hessian_product(point, e) for e in np.eye(len(point))])
    assert (np.linalg.eigvalsh(hessian) < -1e-9).sum() == negative

"""Line searches meet the conditions they promise, and give up only where nothing is left."""

import math

import numpy as np
import pytest

from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout
from thalweg_descent.line_search import Backtracking, LineFunction, StrongWolfe


class Curve(Objective):
    """A function of one number, given with its derivative."""

    def __init__(self, function, derivative):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 1, 1))
        self.function, self.derivative = function, derivative
        self.calls = 0

    def value_and_gradient(self, x):
        self.calls += 1
        return self.function(x[0, 0]), np.array([[self.derivative(x[0, 0])]])


CURVES = {
    "parabola": (lambda t: (t - 3) ** 2, lambda t: 2 * (t - 3)),
    "far minimum": (lambda t: (t / 1e4 - 1) ** 2, lambda t: 2e-4 * (t / 1e4 - 1)),
    "near minimum": (lambda t: (t * 1e6 - 1) ** 2, lambda t: 2e6 * (t * 1e6 - 1)),
    "quartic": (lambda t: (t - 1) ** 4 - t, lambda t: 4 * (t - 1) ** 3 - 1),
    "wavy": (
        lambda t: math.sin(5 * t) - t + 0.2 * t * t,
        lambda t: 5 * math.cos(5 * t) - 1 + 0.4 * t,
    ),
    "wall": (
        lambda t: -t + 0.1 * math.log(1 / (2 - t)) if t < 2 else math.nan,
        lambda t: -1 + 0.1 / (2 - t) if t < 2 else math.nan,
    ),
    "cliff": (
        lambda t: t**2 - t if t < 5 else math.inf,
        lambda t: 2 * t - 1 if t < 5 else math.nan,
    ),
}


def line_of(curve, longest=1e20, up=False):
    x, direction = np.zeros((1, 1)), np.ones((1, 1))
    value, gradient = curve.value_and_gradient(x)
    slope = gradient.item()
    if slope > 0 and not up:
        direction, slope = -direction, -slope
    curve.calls = 0
    return LineFunction(curve, x, value, direction, slope, longest)


@pytest.mark.parametrize("first", [1e-6, 1e-2, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("curvature", [0.9, 0.1, 1e-3])
def test_strong_wolfe_conditions_hold(name, first, curvature):
    curve = Curve(*CURVES[name])
    line = line_of(curve)
    search = StrongWolfe(curvature=curvature)
    trial = search.search(line, first)
    assert trial is not None
    assert trial.value <= line.start.value + search.armijo * trial.step * line.start.slope
    assert abs(trial.slope) <= curvature * abs(line.start.slope)


@pytest.mark.parametrize("first", [1e-6, 1e-2, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("armijo", [1e-4, 0.4])
def test_backtracking_meets_armijos_condition(name, first, armijo):
    line = line_of(Curve(*CURVES[name]))
    search = Backtracking(armijo=armijo)
    trial = search.search(line, first)
    assert trial is not None
    assert trial.step <= first
    assert trial.value <= line.start.value + search.armijo * trial.step * line.start.slope


@pytest.mark.parametrize("search", [Backtracking(), StrongWolfe()])
@pytest.mark.parametrize("name", CURVES)
def test_the_accepted_point_comes_with_its_value_and_gradient(search, name):
    curve = Curve(*CURVES[name])
    line = line_of(curve)
    trial = search.search(line, 1e3)
    assert curve.calls == line.evaluations
    assert curve.value_and_gradient(trial.x) == (trial.value, trial.gradient)
    assert (trial.gradient * line.direction).item() == trial.slope
    assert trial.x == line.x + trial.step * line.direction


@pytest.mark.parametrize("search", [Backtracking(), StrongWolfe()])
def test_a_function_that_only_rises_is_given_up(search):
    # The derivative lies: no step along the direction lowers the value.
    curve = Curve(lambda t: 1 + abs(t), lambda t: -1.0)
    assert search.search(line_of(curve), 1.0) is None


def test_slopes_decide_where_values_drown_in_rounding():
    # The value cannot show a change of 1e-17, the derivative can.
    curve = Curve(lambda t: 1.0 + 1e-17 * (t - 1) ** 2, lambda t: 2e-17 * (t - 1))
    trial = StrongWolfe(curvature=0.1).search(line_of(curve), 0.7)
    assert trial is not None
    assert abs(trial.step - 1.0) < 0.11
    assert trial.value <= 1.0


def test_interpolation_finds_a_parabolas_minimum_at_the_second_trial():
    line = line_of(Curve(*CURVES["parabola"]))
    trial = Backtracking(shrink=0.99).search(line, 7.0)
    assert line.evaluations == 2
    assert trial.step == pytest.approx(3.0)

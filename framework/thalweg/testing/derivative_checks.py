"""Derivatives against central differences.

Differences are of fourth order, at the step that suits best.  Each check raises
``AssertionError`` with one sentence that says what is wrong and by how much.  All are collective.
"""

import functools
from collections.abc import Callable

import numpy as np

from thalweg.driver.evaluations import checked_evaluations, read_only
from thalweg.engines.hessian import GaussNewtonProduct, HessianDiagonal, HessianProduct
from thalweg.interfaces import Objective
from thalweg.parallel import Array, max_over_ranks
from thalweg.testing.probes import check_symmetric, moved, relative_error, step_sizes, tangent, unit

#: Differences lose this many times the rounding error of one evaluation.
_ROUNDING = 30 * np.finfo(float).eps


def check_gradient(
    objective: Objective, x: Array, *, tolerance: float = 1e-6, seed: int = 0
) -> None:
    """Check the value and the gradient at ``x``.

    The directional derivative along random directions must agree with central
    differences of the value; the value must be finite, equal on all ranks, and
    the same with and without gradient; ``x`` must stay as it is.  A variable with
    orthonormal columns is moved so that they stay orthonormal.

    Parameters
    ----------
    tolerance
        Largest relative error; more where the objective says that its values err by more.
    """
    layout, x = objective.layout, read_only(x)
    with checked_evaluations(objective):  # as in a run
        value, gradient = objective.value_and_gradient(x)
        assert np.isfinite(value), f"the value at the point checked is {value}"
        alone = objective.value(x)
        gap = abs(alone - value) / max(abs(value), 1e-300)
        assert gap <= 1e-10 or abs(alone - value) <= 1e-14, (
            f"value gives {alone!r} but value_and_gradient gives {value!r} at the same point"
        )
        size = layout.norm(gradient)
        assert np.isfinite(size), "the gradient has entries that are not finite"
        probes = [objective.layout.random_normal(seed + number) for number in range(3)]
        if size > 0:
            probes.append(layout.size**0.5 / size * gradient)
        for direction in probes:
            _check_along(objective, x, (value, gradient), direction, tolerance)


def check_hessian_product(objective: Objective, x: Array, *, tolerance: float = 1e-6) -> None:
    """Check Hessian products at ``x``: against differences of the gradient, symmetric, linear."""
    assert isinstance(objective, HessianProduct)
    norm, tolerance = objective.layout.norm, max(tolerance, relative_error(objective, x))
    _probe_product(objective.hessian_product, objective, x, "the Hessian product")
    for seed in range(2):
        direction = tangent(objective, x, objective.layout.random_normal(seed))
        product = objective.hessian_product(x, direction)
        size = norm(product)
        tried = []
        for step in step_sizes(objective.layout, x):
            difference, height = _gradient_difference(objective, x, step, direction)
            scale = max(size, norm(difference), 1e-300)
            tried.append(norm(difference - product) / scale)
            if tried[-1] <= tolerance + _ROUNDING * height / step / scale:
                break
        else:
            raise AssertionError(
                f"the Hessian product differs from central differences of the gradient by "
                f"{min(tried):.1e} relative, more than {tolerance:.0e}"
            )


def check_gauss_newton_product(objective: Objective, x: Array) -> None:
    """Check Gauss-Newton products at ``x``: symmetric, linear, never negative."""
    assert isinstance(objective, GaussNewtonProduct)
    dot, norm = objective.layout.dot, objective.layout.norm
    _probe_product(objective.gauss_newton_product, objective, x, "the Gauss-Newton product")
    for seed in range(3):
        direction = objective.layout.random_normal(seed)
        product = objective.gauss_newton_product(x, direction)
        curvature = dot(direction, product)
        assert curvature >= -1e-10 * norm(direction) * norm(product), (
            f"the Gauss-Newton matrix has negative curvature {curvature:.3e} along a direction"
        )


def check_hessian_diagonal(objective: Objective, x: Array, *, tolerance: float = 1e-5) -> None:
    """Check entries of the Hessian diagonal at ``x`` against differences of the gradient."""
    assert isinstance(objective, HessianDiagonal)
    layout = objective.layout
    diagonal = objective.hessian_diagonal(x)
    chosen = np.random.default_rng(0).choice(layout.size, min(12, layout.size), False)
    largest = max_over_ranks(layout.comm, float(np.abs(diagonal).max(initial=0.0)))
    for index in map(int, chosen):
        along = unit(layout, index)
        entry = layout.dot(diagonal, along)
        tried = []
        for step in step_sizes(layout, x):
            difference, height = _gradient_difference(objective, x, step, along)
            difference_entry = layout.dot(difference, along)
            tried.append((abs(difference_entry - entry), difference_entry))
            scale = max(abs(entry), 1e-3 * largest)
            if tried[-1][0] <= tolerance * scale + _ROUNDING * height / step:
                break
        else:
            raise AssertionError(
                f"entry {index} of the Hessian diagonal is {entry:.8g}, central differences of "
                f"the gradient give {min(tried)[1]:.8g}"
            )


def _check_along(
    objective: Objective, x: Array, here: tuple[float, Array], along: Array, tolerance: float
) -> None:
    def function(step: float) -> float:
        return float(objective.value(moved(objective, x, step, direction)))

    layout, direction, (value, gradient) = objective.layout, tangent(objective, x, along), here
    slope = layout.dot(gradient, direction)
    # Along a random direction the derivative is about as large as the gradient.
    scale = max(abs(slope), layout.norm(gradient) * 1e-3)
    tried, steps = [], step_sizes(layout, x)
    noise = 4.0 * objective.value_error(value) / steps[0]  # at the step that it disturbs least
    for step in steps:
        # Fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h.
        near = function(step) - function(-step)
        difference = (8 * near - (function(2 * step) - function(-2 * step))) / (12 * step)
        if not np.isfinite(difference):
            continue
        error, size = abs(difference - slope), max(scale, abs(difference))
        if error <= tolerance * size + noise + _ROUNDING * abs(value) / step:
            return
        tried.append((error / max(size, 1e-300), difference))
    assert tried, "the value is not finite next to the point checked, at any step"
    error, difference = min(tried)
    raise AssertionError(
        f"the derivative along a direction is {slope:.10g} by the gradient, {difference:.10g} by "
        f"central differences of the value: {error:.1e} relative, more than {tolerance:.0e}"
    )


def _gradient_difference(
    objective: Objective, x: Array, step: float, direction: Array
) -> tuple[Array, float]:
    """Central difference of the gradient along a direction, fourth order, and its norm there."""
    total, gradient = np.zeros(objective.layout.shape), x
    for multiple, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
        gradient = objective.value_and_gradient(moved(objective, x, multiple * step, direction))[1]
        total += weight / (12 * step) * gradient
    return total, objective.layout.norm(gradient)


def _probe_product(
    product: Callable[[Array, Array], Array], objective: Objective, x: Array, name: str
) -> None:
    u, v = objective.layout.random_normal(100), objective.layout.random_normal(101)
    tolerance = max(1e-8, relative_error(objective, x := read_only(x)))
    check_symmetric(functools.partial(product, x), objective.layout, u, v, name, tolerance)

"""Derivatives against central differences, of fourth order, at the step that suits best.

Each check raises ``AssertionError`` with one sentence that says what is wrong
and by how much.  All are collective.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct, HessianDiagonal, HessianProduct
from thalweg.interfaces import Objective
from thalweg.parallel import Vector, max_over_ranks
from thalweg.testing.probes import (
    check_symmetric,
    copied,
    everywhere,
    moved,
    poisoned,
    random_direction,
    same_bits,
    step_sizes,
    tangent,
)

#: Differences lose this many times the rounding error of one evaluation.
_ROUNDING = 30 * np.finfo(float).eps


def check_gradient(
    objective: Objective,
    x: Vector,
    *,
    tolerance: float = 1e-6,
    directions: int = 3,
    seed: int = 0,
) -> None:
    """Check the value and the gradient at ``x``.

    The directional derivative along random directions must agree with central
    differences of the value; the value must be finite, equal on all ranks, and
    the same with and without gradient; the gradient must overwrite what it is
    given, and ``x`` must stay as it is.  A variable with orthonormal columns is
    moved so that they stay orthonormal.

    Parameters
    ----------
    tolerance
        Largest relative error.
    directions
        Random directions, besides the gradient itself.
    """
    before = copied(x)
    gradient = poisoned(x)
    value = objective.value_and_gradient(x, gradient)
    assert np.isfinite(value), f"the value at the point checked is {value}"
    everywhere(objective, value)
    assert same_bits(x, before), "value_and_gradient changes x"
    alone = objective.value(x)
    everywhere(objective, alone)
    assert same_bits(x, before), "value changes x"
    gap = abs(alone - value) / max(abs(value), 1e-300)
    assert gap <= 1e-10 or abs(alone - value) <= 1e-14, (
        f"value gives {alone!r} but value_and_gradient gives {value!r} at the same point"
    )
    size = gradient.norm()
    assert np.isfinite(size), "the gradient has entries that are not finite"
    assert size < 1e76, "value_and_gradient adds to the gradient it is given, or leaves it as it is"
    probes = [random_direction(objective, seed + number) for number in range(directions)]
    if size > 0:
        steepest = copied(gradient)
        steepest.scale(x.getSize() ** 0.5 / size)
        probes.append(steepest)
    for number, direction in enumerate(probes):
        where = "along itself" if size > 0 and number == directions else f"along direction {number}"
        _check_along(objective, x, value, gradient, direction, tolerance, where)


def check_hessian_product(
    objective: Objective,
    x: Vector,
    *,
    tolerance: float = 1e-6,
    directions: int = 2,
    seed: int = 0,
) -> None:
    """Check Hessian products at ``x``: against differences of the gradient, symmetric, linear."""
    assert isinstance(objective, HessianProduct)
    _probe_product(objective.hessian_product, objective, x, "the Hessian product", seed)
    for number in range(directions):
        direction = tangent(objective, x, random_direction(objective, seed + number))
        product = poisoned(x)
        objective.hessian_product(x, direction, product)
        wanted = product.norm()
        tried = []
        for step in step_sizes(x):
            difference, height = _gradient_difference(objective, x, step, direction)
            scale = max(wanted, difference.norm(), 1e-300)
            difference.axpy(-1.0, product)
            tried.append(difference.norm() / scale)
            if tried[-1] <= tolerance + _ROUNDING * height / step / scale:
                break
        else:
            raise AssertionError(
                f"the Hessian product differs from central differences of the gradient by "
                f"{min(tried):.1e} relative, more than {tolerance:.0e}"
            )


def check_gauss_newton_product(objective: Objective, x: Vector, *, seed: int = 0) -> None:
    """Check Gauss-Newton products at ``x``: symmetric, linear, never negative."""
    assert isinstance(objective, GaussNewtonProduct)
    _probe_product(objective.gauss_newton_product, objective, x, "the Gauss-Newton product", seed)
    for number in range(3):
        direction = random_direction(objective, seed + number)
        product = poisoned(x)
        objective.gauss_newton_product(x, direction, product)
        curvature = direction.dot(product)
        assert curvature >= -1e-10 * direction.norm() * product.norm(), (
            f"the Gauss-Newton matrix has negative curvature {curvature:.3e} along a direction"
        )


def check_hessian_diagonal(
    objective: Objective, x: Vector, *, tolerance: float = 1e-5, entries: int = 12, seed: int = 0
) -> None:
    """Check entries of the Hessian diagonal at ``x`` against differences of the gradient."""
    assert isinstance(objective, HessianDiagonal)
    diagonal = poisoned(x)
    objective.hessian_diagonal(x, diagonal)
    size = x.getSize()
    chosen = np.random.default_rng(seed).choice(size, min(entries, size), replace=False)
    layout = objective.layout
    first = layout.start * layout.columns
    largest = max_over_ranks(layout.comm, float(np.abs(diagonal.rows).max(initial=0.0)))
    assert largest < 1e76, "hessian_diagonal leaves entries of the vector as they are"
    for index in map(int, chosen):
        unit = x.duplicate()
        if 0 <= index - first < unit.rows.size:
            unit.getArray()[index - first] = 1.0
        wanted = diagonal.dot(unit)
        tried = []
        for step in step_sizes(x):
            difference, height = _gradient_difference(objective, x, step, unit)
            found = difference.dot(unit)
            tried.append((abs(found - wanted), found))
            scale = max(abs(wanted), 1e-3 * largest)
            if tried[-1][0] <= tolerance * scale + _ROUNDING * height / step:
                break
        else:
            raise AssertionError(
                f"entry {index} of the Hessian diagonal is {wanted:.8g}, central differences of "
                f"the gradient give {min(tried)[1]:.8g}"
            )


def _check_along(
    objective: Objective,
    x: Vector,
    value: float,
    gradient: Vector,
    direction: Vector,
    tolerance: float,
    where: str,
) -> None:
    def function(step: float) -> float:
        point = moved(objective, x, step, direction)
        found = float(objective.value(point))
        return found

    tangent(objective, x, direction)
    wanted = gradient.dot(direction)
    # Along a random direction the derivative is about as large as the gradient.
    scale = max(abs(wanted), gradient.norm() * 1e-3)
    tried = []
    for step in step_sizes(x):
        # Fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h.
        near = function(step) - function(-step)
        far = function(2 * step) - function(-2 * step)
        found = (8 * near - far) / (12 * step)
        if not np.isfinite(found):
            continue
        error, size = abs(found - wanted), max(scale, abs(found))
        if error <= tolerance * size + _ROUNDING * abs(value) / step:
            return
        tried.append((error / max(size, 1e-300), found))
    assert tried, "the value is not finite next to the point checked, at any step"
    error, found = min(tried)
    raise AssertionError(
        f"the derivative {where} is {wanted:.10g} by the gradient and {found:.10g} by central "
        f"differences of the value: {error:.1e} relative, more than {tolerance:.0e}"
    )


def _gradient_difference(
    objective: Objective, x: Vector, step: float, direction: Vector
) -> tuple[Vector, float]:
    """Central difference of the gradient along a direction, fourth order, and its norm there."""
    total = x.duplicate()
    total.set(0.0)
    gradient = x.duplicate()
    for multiple, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
        point = moved(objective, x, multiple * step, direction)
        objective.value_and_gradient(point, gradient)
        total.axpy(weight / (12 * step), gradient)
    height = gradient.norm()
    return total, height


def _probe_product(
    product: Callable[[Vector, Vector, Vector], None],
    objective: Objective,
    x: Vector,
    name: str,
    seed: int,
) -> None:
    before = copied(x)
    u, v = random_direction(objective, seed + 100), random_direction(objective, seed + 101)
    check_symmetric(functools.partial(product, x), u, v, name)
    assert same_bits(x, before), f"{name} changes x"

"""Directions and points that checks probe with, the same at any number of ranks."""

from collections.abc import Callable

import numpy as np

from thalweg.interfaces import ManifoldVariable, Objective
from thalweg.parallel import MPI, Array, Layout


def unit(layout: Layout, index: int) -> Array:
    """This rank's rows of the unit vector along one entry of the variable."""
    rows, place = np.zeros(layout.shape), index - layout.start * layout.columns
    if 0 <= place < rows.size:
        rows.flat[place] = 1.0
    return rows


def tangent(objective: Objective, x: Array, direction: Array) -> Array:
    """``direction`` itself; on a manifold, its projection on the tangent space at ``x``."""
    if isinstance(objective, ManifoldVariable):
        return objective.manifold.project(x, direction)
    return direction


def moved(objective: Objective, x: Array, step: float, direction: Array) -> Array:
    """``x + step * direction``, retracted on the manifold if there is one."""
    if isinstance(objective, ManifoldVariable):
        return objective.manifold.retract(x, direction, step)
    return x + step * direction


def applied(function: Callable[[Array], Array], layout: Layout, given: Array, name: str) -> Array:
    """What ``function(given)`` returns, which must leave ``given`` unchanged.  Collective."""
    before = given.copy()
    answer = function(given)
    assert same_bits(layout.comm, given, before), f"{name} changes what it is applied to"
    assert np.shape(answer) == layout.shape, (
        f"{name} returns an array of shape {np.shape(answer)}, not {layout.shape}"
    )
    assert np.isfinite(layout.norm(answer)), f"{name} gives entries that are not finite"
    return answer


def check_symmetric(
    function: Callable[[Array], Array],
    layout: Layout,
    u: Array,
    v: Array,
    name: str,
    tolerance: float = 1e-8,
) -> None:
    """Assert that a map of arrays is symmetric and linear, by two probes.  Collective."""
    dot, norm = layout.dot, layout.norm
    au, av = applied(function, layout, u, name), applied(function, layout, v, name)
    gap = abs(dot(u, av) - dot(v, au)) / max(norm(u) * norm(av), norm(v) * norm(au), 1e-300)
    assert gap <= tolerance, (
        f"{name} is not symmetric: u'Av and v'Au differ by {gap:.1e} relative, more than "
        f"{tolerance:.0e}"
    )
    joined, apart = applied(function, layout, u - 3.0 * v, name), au - 3.0 * av
    gap = norm(joined - apart) / max(norm(apart), 1e-300)
    assert gap <= tolerance, (
        f"{name} is not linear: A(u - 3v) differs from Au - 3Av by {gap:.1e} relative, more than "
        f"{tolerance:.0e}"
    )


def same_bits(comm: MPI.Comm, a: Array, b: Array) -> bool:
    """Whether two arrays agree in every bit, on all ranks.  Collective."""
    return all(comm.allgather(bool(np.array_equal(a, b))))


def relative_error(objective: Objective, x: Array) -> float:
    """What differences of values may be wrong by, as the objective says it; at most 1e-4."""
    value = objective.value(x)
    return min(1e-4, 4.0 * objective.value_error(value) / max(abs(value), 1e-300))


def step_sizes(layout: Layout, x: Array) -> list[float]:
    """Steps for differences: fractions of the typical entry, and of one, the largest first.

    Collective.
    """
    typical = layout.norm(x) / max(1, layout.size) ** 0.5
    scales = {typical if typical > 0 else 1.0, 1.0}
    steps = {scale * 10.0**-power for scale in scales for power in (1, 2, 3, 4, 5)}
    return sorted(steps, reverse=True)

"""Directions and points that checks probe with, the same at any number of ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thalweg.interfaces import ManifoldVariable, Objective
from thalweg.parallel import Vector


def random_direction(objective: Objective, seed: int) -> Vector:
    """A vector of standard normal entries in the objective's layout.  Collective."""
    layout = objective.layout
    return layout.vec_from(layout.random_normal(seed))


def copied(vec: Vector) -> Vector:
    """A new vector with the same entries."""
    other = vec.duplicate()
    vec.copy(other)
    return other


def tangent(objective: Objective, x: Vector, direction: Vector) -> Vector:
    """``direction`` itself; on a manifold, its projection on the tangent space at ``x``."""
    if isinstance(objective, ManifoldVariable):
        objective.manifold.project(x, direction)
    return direction


def moved(objective: Objective, x: Vector, step: float, direction: Vector) -> Vector:
    """A new vector ``x + step * direction``, retracted on the manifold if there is one."""
    other = copied(x)
    if isinstance(objective, ManifoldVariable):
        objective.manifold.retract(x, direction, step, other)
    else:
        other.axpy(step, direction)
    return other


def poisoned(x: Vector) -> Vector:
    """A vector of absurd entries, which shows whether a function overwrites it or adds to it."""
    vec = x.duplicate()
    vec.set(-1.2345e77)
    return vec


def applied(function: Callable[[Vector, Vector], None], vec: Vector, name: str) -> Vector:
    """Output of ``function(vec, out)``, which must leave ``vec`` unchanged.  Collective."""
    before, out = copied(vec), poisoned(vec)
    function(vec, out)
    assert same_bits(vec, before), f"{name} changes the vector that it is applied to"
    size = out.norm()
    assert np.isfinite(size), f"{name} gives entries that are not finite"
    assert size < 1e70, f"{name} adds to the vector that it is given, or leaves it as it is"
    return out


def check_symmetric(
    function: Callable[[Vector, Vector], None],
    u: Vector,
    v: Vector,
    name: str,
    tolerance: float = 1e-8,
) -> None:
    """Assert that a map of vectors is symmetric and linear, by two probes.  Collective."""
    au, av = applied(function, u, name), applied(function, v, name)
    size = max(u.norm() * av.norm(), v.norm() * au.norm(), 1e-300)
    gap = abs(u.dot(av) - v.dot(au)) / size
    assert gap <= tolerance, (
        f"{name} is not symmetric: u'Av and v'Au differ by {gap:.1e} relative, more than "
        f"{tolerance:.0e}"
    )
    both = copied(u)
    both.axpy(-3.0, v)
    joined = applied(function, both, name)
    au.axpy(-3.0, av)
    joined.axpy(-1.0, au)
    gap = joined.norm() / max(au.norm(), 1e-300)
    assert gap <= tolerance, (
        f"{name} is not linear: A(u - 3v) differs from Au - 3Av by {gap:.1e} relative, more than "
        f"{tolerance:.0e}"
    )


def same_bits(a: Vector, b: Vector) -> bool:
    """Whether two vectors agree in every bit.  Collective."""
    mine = np.array_equal(a.rows, b.rows)
    return all(a.layout.comm.allgather(bool(mine)))


def typical_entry(x: Vector) -> float:
    """Root mean square of the entries, 1 for a zero vector.  Collective."""
    size = float(x.norm() / max(1, x.getSize()) ** 0.5)
    return size if size > 0 else 1.0


def step_sizes(x: Vector) -> list[float]:
    """Steps for differences: fractions of the typical entry, and of one, the largest first."""
    scales = {typical_entry(x), 1.0}
    steps = {scale * 10.0**-power for scale in scales for power in (1, 2, 3, 4, 5)}
    return sorted(steps, reverse=True)


def everywhere(objective: Objective, number: float) -> None:
    """Assert that a number is the same on every rank.  Collective."""
    found = objective.comm.allgather(float(number))
    different = [rank for rank, other in enumerate(found) if repr(other) != repr(found[0])]
    assert not different, (
        f"the value must be the same number on every rank, but rank 0 has {found[0]!r} and rank "
        f"{different[0]} has {found[different[0]]!r}: sum over the ranks with sum_over_ranks"
    )

"""Every capability that an objective declares, checked."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.capability import Capability
from thalweg.engines.hessian import GaussNewtonProduct, HessianDiagonal, HessianProduct
from thalweg.engines.laplacian import AttractiveLaplacian
from thalweg.interfaces import Homotopy, ManifoldVariable, Objective
from thalweg.parallel import Array
from thalweg.testing.derivative_checks import (
    check_gauss_newton_product,
    check_hessian_diagonal,
    check_hessian_product,
)


def check_capabilities(objective: Objective, x: Array) -> list[str]:
    """Check whatever an objective declares beyond value and gradient.  Collective.

    Returns
    -------
    list of str
        Names of the checks.

    Raises
    ------
    AssertionError
        One sentence that says what is wrong.
    """
    checks: tuple[tuple[Any, Callable[[Objective, Array], None]], ...] = (
        (HessianProduct, check_hessian_product),
        (GaussNewtonProduct, check_gauss_newton_product),
        (HessianDiagonal, check_hessian_diagonal),
        (AttractiveLaplacian, check_attractive_weights),
        (ManifoldVariable, check_manifold),
        (Homotopy, check_homotopy),
    )
    done = []
    for capability, check in checks:
        if isinstance(objective, capability):
            check(objective, x)
            done.append(capability.phrase)
    kind: Any
    for kind in type(objective).__mro__:
        # An objective may have a method of that name for purposes of its own.
        declared = issubclass(kind, Capability) and not issubclass(kind, Objective)
        if declared and kind is not Capability and "check" in vars(kind):
            kind.check(objective, x)
            done.append(kind.phrase)
    return done


def check_attractive_weights(objective: Objective, x: Array) -> None:
    """Check that the weights are symmetric and non-negative with zero diagonal.  Collective."""
    assert isinstance(objective, AttractiveLaplacian)
    weights = objective.attractive_weights(x)
    layout = objective.layout
    shape = (layout.local_rows, layout.rows)
    assert weights.shape == shape, (
        f"the attractive weights have shape {weights.shape}, not {shape}: this rank's rows, all "
        f"columns"
    )
    dense = np.asarray(weights) if isinstance(weights, np.ndarray) else weights.toarray()
    whole = layout.with_columns(layout.rows).gather_rows(np.asarray(dense, dtype=float))
    smallest = whole.min(initial=0.0)
    assert smallest >= 0, f"an attractive weight is {smallest:.3e}, negative"
    assert not np.diagonal(whole).any(), "the diagonal of the attractive weights is not zero"
    gap = np.abs(whole - whole.T).max(initial=0.0)
    assert gap <= 1e-12 * whole.max(initial=0.0), (
        f"the attractive weights are not symmetric: entries differ by {gap:.1e}"
    )


def check_manifold(objective: Objective, x: Array) -> None:
    """Check projection and retraction at ``x``, a point of the manifold.  Collective."""
    assert isinstance(objective, ManifoldVariable)
    manifold, norm, dot = objective.manifold, objective.layout.norm, objective.layout.dot
    size = max(1.0, norm(x))
    off = manifold.distance(x)
    assert off <= 1e-8 * size, f"the starting point is {off:.3g} away from the manifold"
    raw = objective.layout.random_normal(5)
    once = manifold.project(x, raw)
    length = max(1e-300, norm(once))
    change = norm(manifold.project(x, once) - once) / length
    assert change <= 1e-10, f"projecting twice differs from projecting once by {change:.3g}"
    off_tangent = raw - once
    slant = abs(dot(off_tangent, once)) / max(1e-300, norm(off_tangent) * length)
    assert slant <= 1e-8, f"the projection is not orthogonal: a cosine of {slant:.3g}"
    errors = []
    for step in (1e-3, 1e-4):
        step *= size / length
        reached = manifold.retract(x, once, step)
        off = manifold.distance(reached)
        assert off <= 1e-10 * size, f"a retraction ends {off:.3g} away from the manifold"
        errors.append(norm(reached - x - step * once) / (step * length))
    assert errors[1] <= max(0.2 * errors[0], 1e-9), (
        "the retraction does not set out along the tangent vector: it is off by "
        f"{errors[1]:.3g} of a small step"
    )


def check_homotopy(objective: Objective, x: Array) -> None:
    """Check that the parameter takes the values proposed, and that the value follows it."""
    assert isinstance(objective, Homotopy)
    before, value = objective.homotopy_parameter, objective.value(x)
    error = 2.0 * objective.value_error(value)
    values, parameters = set(), (*objective.default_homotopy(), before)
    for parameter in parameters:
        objective.homotopy_parameter = float(parameter)
        assert objective.homotopy_parameter == float(parameter), (
            f"the parameter '{objective.homotopy_name}' was set to {parameter} and is "
            f"{objective.homotopy_parameter}"
        )
        now = objective.value(x)
        values.add(now)
        assert np.isfinite(now), f"with {objective.homotopy_name} = {parameter} the value is {now}"
        told = objective.value_at(before, now)
        assert math.isnan(told) or abs(told - value) <= error, (
            f"where {objective.homotopy_name} is {parameter}, value_at tells {told!r} for "
            f"{before}, and the value there is {value!r}"
        )
    assert len(values) > 1 or len(set(parameters)) == 1, (
        f"the value is {value!r} whatever {objective.homotopy_name} is"
    )
    again = objective.value(x)
    assert again == value, (
        f"with {objective.homotopy_name} set back to {before} the value is {again!r}, not {value!r}"
    )

"""Hessian or Gauss-Newton products: whichever gained more at its last step.

The gain of a kind is the relative decrease a product.  It is taken to grow while a kind rests, so
that it is tried again.  MATHEMATICS.md says why kinds alternate.
"""

from collections.abc import Mapping

from thalweg.engines.hessian import GaussNewtonProduct
from thalweg.errors import InputError
from thalweg.interfaces import Objective

HESSIAN, GAUSS_NEWTON = "hessian", "gauss-newton"

#: Names of the choices.
CURVATURES = ("auto", HESSIAN, GAUSS_NEWTON)

#: Growth of the gain of a kind for every step that another one takes; chosen by hand.
GROWTH = 1.2


def kinds_for(objective: Objective, choice: str) -> tuple[str, ...]:
    """Kinds that a solver may use on an objective, the first to be tried first."""
    has_both = isinstance(objective, GaussNewtonProduct)
    if choice == GAUSS_NEWTON and not has_both:
        raise InputError(
            f"{type(objective).__name__} has no Gauss-Newton product; set curvature to 'hessian'"
        )
    if choice == "auto":
        return (GAUSS_NEWTON, HESSIAN) if has_both else (HESSIAN,)
    return (choice,)


def in_order_of_gain(kinds: tuple[str, ...], gains: Mapping[str, float]) -> list[str]:
    """Kinds never tried first, then by their last gains."""
    return sorted(kinds, key=lambda kind: -gains.get(kind, float("inf")))


def gains_after(
    gains: Mapping[str, float], kind: str, before: float, after: float, products: int
) -> dict[str, float]:
    """Gains once a step of one kind led from one value to another with so many products."""
    scale = max(abs(before), abs(after), 1e-300)
    rested = {other: GROWTH * gain for other, gain in gains.items()}
    return {**rested, kind: (before - after) / scale / max(1, products)}

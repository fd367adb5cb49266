"""Products with the Hessian (or Gauss-Newton matrix) at a point, counted and checked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.errors import InputError, NumericalError
from thalweg.interfaces import Objective
from thalweg.parallel import Array, any_over_ranks
from thalweg_saddlefree.curvature.slices import Slices

#: Product of a Krylov method: this rank's slice in, this rank's slice out.
Product: TypeAlias = Callable[[np.ndarray], np.ndarray]

#: Largest relative asymmetry of a product that passes for rounding.
ASYMMETRY = 1e-4


def curvature_product(objective: Objective, x: Array, direction: Array, hessian: bool) -> Array:
    """The Hessian, or the Gauss-Newton matrix, at a point times a direction.  Collective."""
    if hessian:
        assert isinstance(objective, HessianProduct)
        return objective.hessian_product(x, direction)
    assert isinstance(objective, GaussNewtonProduct)
    return objective.gauss_newton_product(x, direction)


@dataclass(eq=False)
class CurvatureOperator:
    """The Hessian or Gauss-Newton matrix of an objective at one point, as a function of slices."""

    slices: Slices
    objective: Objective
    x: Array
    gauss_newton: bool = False
    products: int = 0  # made so far

    def __call__(self, piece: np.ndarray) -> np.ndarray:
        """Slice of the product; one that is not finite is a `NumericalError`.  Collective."""
        direction = self.slices.join(piece)
        product = curvature_product(self.objective, self.x, direction, not self.gauss_newton)
        self.products += 1
        result = self.slices.take(product)
        if any_over_ranks(self.slices.comm, not bool(np.isfinite(result).all())):
            raise NumericalError(
                f"the curvature product of {type(self.objective).__name__} is not finite; "
                "start from a smaller point or scale the data"
            )
        return result


def refuse_asymmetry(relative: float, kind: np.dtype[Any]) -> None:
    """Raise an `InputError` if a measured relative asymmetry cannot be rounding.

    In single precision any can be: of a small Hessian, as where a loss is zero, it leaves nothing.
    """
    if relative > ASYMMETRY and kind == np.float64:
        raise InputError(
            f"the Hessian product is not symmetric (relative asymmetry {relative:.1e}): correct "
            "hessian_product, since methods that use |H| have no meaning without symmetry"
        )


def check_symmetry(slices: Slices, product: Product, seed: int, kind: np.dtype[Any]) -> None:
    """Refuse a product with ``u'Hv`` far from ``v'Hu`` for standard normal ``u`` and ``v``."""
    u, v = (slices.layout.random_normal(seed + k).ravel() for k in (0, 1))
    image_u, image_v = product(u), product(v)
    difference = abs(slices.dot(u, image_v) - slices.dot(v, image_u))
    # u'Hv of random vectors has the size of the Frobenius norm, as Hu and Hv have.
    size = max(slices.norm(image_u), slices.norm(image_v))
    refuse_asymmetry(difference / size if size > 0 else 0.0, kind)

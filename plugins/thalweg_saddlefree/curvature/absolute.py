"""What the methods of applying |H| have in common.

With damping ``lam`` the matrix is ``(H^2 + lam^2 I)^(1/2)``: |H| itself without damping, and never
singular with it.  The step is minus its inverse times the gradient.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from thalweg.errors import InputError
from thalweg_saddlefree.curvature.basis import LanczosBasis
from thalweg_saddlefree.curvature.operator import Product
from thalweg_saddlefree.curvature.slices import Slices

#: Smallest singular value, relative to the largest, that a direction without damping tolerates.
SINGULAR = 1e-11

#: Lanczos steps that tell the size of the spectrum; chosen by hand.
SCALE_STEPS = 8


@dataclass(frozen=True)
class Model:
    """The objective's quadratic model along a step: ``slope + curvature/2`` is its change."""

    slope: float  # ``g'p``
    curvature: float  # ``p'Hp``, of either sign

    @property
    def change(self) -> float:
        """Change that the model predicts; negative for every saddle-free step."""
        return self.slope + 0.5 * self.curvature


@dataclass(frozen=True)
class AbsoluteStep:
    """A saddle-free step with what is known about it."""

    step: np.ndarray  # this rank's slice of ``-(H^2 + damping^2 I)^(-1/2) g``
    model: Model  # the quadratic model along it
    error: float  # estimated relative error of ``step``


@dataclass(eq=False)
class AbsoluteSolver(ABC):
    """One method of applying ``(H^2 + damping^2 I)^(-1/2)`` to minus a gradient."""

    slices: Slices
    plain_product: Product
    gradient: np.ndarray  # this rank's slice of g
    tolerance: float = 1e-6  # relative error of a step
    limit: int = 500  # largest number of Krylov steps

    products: int = field(default=0, init=False)  # with H so far
    steps: int = field(default=0, init=False)  # Krylov steps so far: of Lanczos or of CG
    lowest: float = field(default=float("nan"), init=False)  # most negative Ritz value seen

    def __post_init__(self) -> None:
        self.gradient_norm = self.slices.norm(self.gradient)
        if not self.gradient_norm > 0:
            raise InputError(
                "the gradient is zero or not finite, so |H| gives no direction from it; "
                "start from another point"
            )

    def product(self, piece: np.ndarray) -> np.ndarray:
        """A counted product with H."""
        self.products += 1
        return self.plain_product(piece)

    def largest(self) -> float:
        """Size of the largest eigenvalue of H, from a few Lanczos steps.  Collective."""
        basis = LanczosBasis(self.slices, self.gradient)
        basis.extend_to(SCALE_STEPS, self.product)
        return float(np.abs(basis.ritz_values()).max())

    def model_along(self, step: np.ndarray) -> Model:
        """The quadratic model along a step, at one product.  Collective."""
        curvature = self.slices.dot(step, self.product(step))
        return Model(self.slices.dot(self.gradient, step), curvature)

    @abstractmethod
    def direction(self, damping: float) -> AbsoluteStep:
        """The step at this damping; a singular H is refused where it is 0.  Collective."""


def refuse_singular(smallest: float, largest: float, damping: float) -> None:
    """Raise an `InputError` if H is singular to rounding and nothing damps it."""
    if damping == 0.0 and not smallest > SINGULAR * largest:
        what = "singular" if largest > 0.0 else "zero at this point"
        raise InputError(
            f"the Hessian is {what} and the damping is zero, so |H| has no inverse; "
            "set damping to a positive number"
        )

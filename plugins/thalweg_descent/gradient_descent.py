"""Gradient descent in the metric of a preconditioner."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.errors import InputError
from thalweg_descent.descent import Descent
from thalweg_descent.steepest import Steepest


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Descent):
    """``p = -B^-1 g``: gradient descent, fixed-point iteration or the spectral direction.

    Vladymyrov and Carreira-Perpinan (2012) name it after its B: the identity
    gives GD, ``4 D+`` FP, ``4 L+`` SD, and so on.

    Attributes
    ----------
    growth
        Factor by which a step that was too short grows for the next one.
    first_step
        Step to try first, a multiple of ``p``.  None: 1, and without a preconditioner what
        moves some row by a tenth of the iterate's extent.
    """

    growth: float = 2.0
    first_step: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.growth >= 1:
            raise InputError(f"option 'growth' must be at least 1, not {self.growth}")
        if self.first_step is not None and not self.first_step > 0:
            raise InputError(f"option 'first_step' must be positive, not {self.first_step}")

    def direction(self) -> Steepest:
        """Steepest descent."""
        return Steepest(self.growth, self.first_step)

"""Gradient descent in the metric of a preconditioner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from thalweg.plugins import Help
from thalweg_descent.descent import Descent
from thalweg_descent.steepest import Steepest


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Descent):
    """``p = -B^-1 g``: gradient descent, fixed-point iteration or the spectral direction.

    Vladymyrov and Carreira-Perpinan (2012) name it after its B: the identity
    gives GD, ``4 D+`` FP, ``4 L+`` SD, and so on.

    Parameters
    ----------
    first_step
        A multiple of ``p``.  None: 1, and without a preconditioner what moves some row by a
        tenth of the length scale of the iterate.
    """

    growth: Annotated[
        float, Help("factor by which a step that was too short grows for the next one", minimum=1)
    ] = 2.0
    first_step: Annotated[
        float | None,
        Help("first trial step; by default from the scale of the problem", above=0),
    ] = None

    def direction(self) -> Steepest:
        """Steepest descent."""
        return Steepest(self.growth, self.first_step)

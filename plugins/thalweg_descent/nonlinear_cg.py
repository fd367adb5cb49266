"""Preconditioned nonlinear conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from thalweg.plugins import Help
from thalweg_descent.conjugate import BETA_RULES, Conjugate
from thalweg_descent.descent import Descent


@dataclass(frozen=True, kw_only=True)
class NonlinearCG(Descent):
    """Nonlinear conjugate gradients with a strong Wolfe search."""

    line_search: str = "strong-wolfe"
    curvature: float = 0.1
    beta: Annotated[str, Help("rule that makes directions conjugate", choices=BETA_RULES)] = (
        "polak-ribiere+"
    )
    restart: Annotated[
        int | None,
        Help("steps between restarts along -B^-1 g; the number of unknowns by default", minimum=1),
    ] = None

    def direction(self) -> Conjugate:
        """Conjugate directions."""
        return Conjugate(self.beta, self.restart)

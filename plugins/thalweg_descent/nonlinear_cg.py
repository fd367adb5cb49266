"""Preconditioned nonlinear conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.errors import InputError, suggestion
from thalweg_descent.conjugate import BETA_RULES, Conjugate
from thalweg_descent.descent import Descent


@dataclass(frozen=True, kw_only=True)
class NonlinearCG(Descent):
    """Nonlinear conjugate gradients with a strong Wolfe search.

    Attributes
    ----------
    beta
        ``polak-ribiere+``, ``hager-zhang``, ``fletcher-reeves`` or ``dai-yuan``.
    restart
        Steps between restarts; None for as many as there are unknowns.
    """

    line_search: str = "strong-wolfe"
    curvature: float = 0.1
    beta: str = "polak-ribiere+"
    restart: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta not in BETA_RULES:
            raise InputError(
                f"no rule for beta is called '{self.beta}'{suggestion(self.beta, BETA_RULES)}"
            )
        if self.restart is not None and self.restart < 1:
            raise InputError(f"option 'restart' must be at least 1, not {self.restart}")

    def direction(self) -> Conjugate:
        """Conjugate directions."""
        return Conjugate(self.beta, self.restart)

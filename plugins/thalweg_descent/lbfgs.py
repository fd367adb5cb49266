"""L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.errors import InputError
from thalweg_descent.descent import Descent
from thalweg_descent.limited_memory import LimitedMemory


@dataclass(frozen=True, kw_only=True)
class LBFGS(Descent):
    """Limited-memory BFGS; the preconditioner is its H0.

    The defaults were found on nonlinear embeddings: there, scaled by the last pair,
    a first trial of 1 is nearly always accepted, a backtracking search gets lower
    than a Wolfe search, and skipping pairs without curvature lower than damping
    them.  The step cap keeps early steps from blowing up a small map.

    Attributes
    ----------
    memory
        Number of pairs.
    scaling
        ``secant`` or ``none`` (see
        :class:`~thalweg_descent.limited_memory.LimitedMemory`).
    damping
        ``skip`` or ``powell``.
    """

    step_cap: float | None = 1.0
    memory: int = 10
    scaling: str = "secant"
    damping: str = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory < 1:
            raise InputError(f"option 'memory' must be at least 1, not {self.memory}")
        if self.scaling not in ("secant", "none"):
            raise InputError(f"option 'scaling' must be secant or none, not '{self.scaling}'")
        if self.damping not in ("skip", "powell"):
            raise InputError(f"option 'damping' must be skip or powell, not '{self.damping}'")

    def direction(self) -> LimitedMemory:
        """Quasi-Newton directions."""
        return LimitedMemory(self.memory, self.scaling, self.damping)

"""L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from thalweg.plugins import Help
from thalweg_descent.descent import Descent
from thalweg_descent.limited_memory import LimitedMemory


@dataclass(frozen=True, kw_only=True)
class LBFGS(Descent):
    """Limited-memory BFGS; the preconditioner is its H0.

    The defaults were found on nonlinear embeddings: there, scaled by the last pair,
    a first trial of 1 is nearly always accepted, a backtracking search gets lower
    than a Wolfe search, and skipping pairs without curvature lower than damping
    them.  The step cap keeps early steps from blowing up a small map.
    """

    step_cap: float | None = 1.0
    memory: Annotated[int, Help("number of curvature pairs", minimum=1)] = 10
    scaling: Annotated[
        Literal["secant", "none"], Help("factor of H0: by the last curvature pair, or none")
    ] = "secant"
    damping: Annotated[
        Literal["skip", "powell"], Help("what to do with a step that shows too little curvature")
    ] = "skip"

    def direction(self) -> LimitedMemory:
        """Quasi-Newton directions."""
        return LimitedMemory(self.memory, self.scaling, self.damping)

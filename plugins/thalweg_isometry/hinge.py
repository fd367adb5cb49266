"""The framework's own method: squared hinge on the factor, by L-BFGS, near the start.

For a target delta the sum of ``max(0, |rho_k - 1| - theta)^2`` over the active
secants is lowered, theta a little below delta, and only until all of them are within
the target.  Minimising delta itself would fit the active secants far too well: with
tens of thousands of parameters it falls to nothing on them while the others stay
violated.  Asking for feasibility with a margin, from the leading principal
directions on, moves the map no further than it must.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thalweg import InputError
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.descent import descend
from thalweg_isometry.search import Inner, SearchState, SecantSearch


@dataclass(frozen=True)
class HingeSearch(SecantSearch):
    """Solver ``hinge-lbfgs``.

    Attributes
    ----------
    margins
        Shares theta / delta, tried in turn: a wide margin spares looks at all
        secants, a thin one reaches what is just possible.
    patience
        Evaluations a margin.
    memory
        Pairs that L-BFGS remembers.
    """

    margins: Sequence[float] = (0.9, 0.98)
    patience: int = 250
    memory: int = 12

    aim: ClassVar[float] = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.margins or not all(0.0 < m < 1.0 for m in self.margins):
            raise InputError(f"margins must lie strictly between 0 and 1, not {self.margins}")
        if self.patience < 1 or self.memory < 1:
            raise InputError("patience and memory must be at least 1")

    def inner(self, state: SearchState, active: ActiveSecants) -> Inner:
        """Descend to the target, or to a standstill; then thin the margin, or give up."""
        delta = state.target_delta
        theta = self.margins[state.stage] * delta
        # Half-way between margin and target: unseen secants then mostly fit as well.
        goal = 0.5 * (theta + delta)
        done = descend(
            lambda psi: hinge(active, psi, theta), state.psi, goal, self.patience, self.memory
        )
        met = done.measure <= (goal if done.met else delta)
        failed = False
        if not met:
            state.stage += 1
            failed = state.stage >= len(self.margins)
        state.gradient_norm = done.gradient_norm
        state.residual = max(0.0, done.measure - delta)
        return Inner(
            psi=done.point,
            met=met,
            failed=failed,
            delta=done.measure,
            iterations=done.evaluations,
            evaluations=done.evaluations,
        )


def hinge(active: ActiveSecants, psi: np.ndarray, theta: float) -> tuple[float, np.ndarray, float]:
    """Half the squared hinge, its gradient, and the largest distortion."""
    images = active.images(psi)
    change = active.ratios(images) - 1.0
    size = np.abs(change)
    miss = np.maximum(size - theta, 0.0)
    gradient = 2.0 * active.adjoint_times(np.sign(change) * miss, images)
    return 0.5 * float(miss @ miss), gradient, float(size.max(initial=0.0))

"""State of the solver ``saddle-free-subspace`` between its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from thalweg.interfaces import Rows
from thalweg_saddlefree.minibatches import StochasticState


@dataclass(frozen=True, kw_only=True)
class SubspaceState(StochasticState):
    """State of the solver ``saddle-free-subspace``.

    Attributes
    ----------
    last
        The last step.
    counter
        Steps taken.
    damping
        For the next step.
    products
        Curvature products, and halves of products for forms, so far.
    lowest
        Least curvature of the Hessian in the last subspace.
    negative
        Steps so far whose subspace held negative curvature.
    rows
        Rows of the last batch.
    ratio
        Actual over predicted decrease when it was last measured.
    settled
        Whether a prediction has failed so far, or the first steps on batches are over.
    bound
        Slope of the next batch along the last step from which on the step is taken back.
    highest
        Value of the next batch from which on the step is taken back.
    size
        Rows of a batch in the present epoch.
    noisy
        Whether the last epochs kept less than ``KEPT`` of what their steps promised.
    predicted, earlier
        Sums of the predicted decreases of this epoch's steps and of the last one's.
    """

    last: Rows
    counter: int = 0
    damping: float
    products: float = 0.0
    lowest: float = float("nan")
    negative: int = 0
    rows: int = 0
    ratio: float = float("nan")
    settled: bool = False
    bound: float = float("inf")
    highest: float = float("inf")
    size: float = 0.0
    noisy: bool = False
    predicted: float = 0.0
    earlier: float = 0.0

    def trace_row(self) -> dict[str, float]:
        """What a trace shows of the last step."""
        return super().trace_row() | {
            "batch_rows": self.rows,
            "products": self.products,
            "damping": self.damping,
            "ratio": self.ratio,
            "lowest_curvature": self.lowest,
            "negative_steps": self.negative,
        }

    def evaluated_here(self) -> SubspaceState:
        """The state with value and gradient at its iterate, over the rows in use.  Collective."""
        value, gradient = self.objective.value_and_gradient(self.x)
        return self.at(self.x, value, gradient, evaluations=self.evaluations + 1)

    def taken_back(self) -> SubspaceState:
        """The state before the last step, since the next batch shows that it went far too far."""
        state = replace(
            self,
            x=self.x - self.last,
            last=np.zeros_like(self.x),
            bound=float("inf"),
            highest=float("inf"),
            damping=4.0 * self.damping,
            predicted=0.0,  # what was lost is not the batches' noise
            earlier=0.0,
        )
        return state.evaluated_here()

"""State of the solver ``saddle-free-subspace`` between its steps."""

from dataclasses import dataclass, replace

import numpy as np

from thalweg.interfaces import Rows
from thalweg_saddlefree.minibatches import StochasticState


@dataclass(frozen=True, kw_only=True)
class SubspaceState(StochasticState):
    """State of the solver ``saddle-free-subspace``."""

    last: Rows  # the last step
    counter: int = 0  # steps taken
    damping: float  # for the next step
    products: float = 0.0  # curvature products, and halves of products for forms, so far
    lowest_curvature: float = float("nan")  # least curvature of the Hessian in the last subspace
    negative_steps: int = 0  # steps so far whose subspace held negative curvature
    batch_rows: int = 0  # rows of the last batch
    ratio: float = float("nan")  # actual over predicted decrease when it was last measured
    #: Whether a prediction has failed so far, or the first steps on batches are over.
    settled: bool = False
    #: Slope of the next batch along the last step from which on the step is taken back.
    bound: float = float("inf")
    highest: float = float("inf")  # value of the next batch from which on the step is taken back
    size: float = 0.0  # rows of a batch in the present epoch
    #: Whether the last epochs kept less than ``KEPT`` of what their steps promised.
    noisy: bool = False
    #: Sums of the predicted decreases of this epoch's steps and of the last one's.
    predicted: float = 0.0
    earlier: float = 0.0

    def evaluated_here(self) -> "SubspaceState":
        """The state with value and gradient at its iterate, over the rows in use.  Collective."""
        value, gradient = self.objective.value_and_gradient(self.x)
        return self.at(self.x, value, gradient, evaluations=self.evaluations + 1)

    def taken_back(self) -> "SubspaceState":
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

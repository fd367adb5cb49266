"""The frozen result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.result.status import Status
from thalweg.result.trace import Trace

if TYPE_CHECKING:
    from thalweg.parallel import Layout


@dataclass(frozen=True)
class Result:
    """Outcome of :func:`thalweg.minimize` or :func:`thalweg.run`.

    Attributes
    ----------
    x
        This rank's rows of the final iterate, shape ``(n_local, columns)``; on
        one rank, or for a replicated variable, that is the whole of it.
    objective
        Final objective value.
    status
        How the run ended; ``message`` says it in words.
    trace
        One row an iterate, the first and the last included once each.
    iterations, evaluations
        Accepted steps, and objective evaluations (value or value and gradient).
    seconds
        Wall time by phase, with the sum under ``"total"``.
    metrics
        What the objective and the metric plugins measured on the final iterate.
    solution
        What ``solution.npy`` holds, whole and on every rank.
    notes
        Sentences on what was done to the data, such as columns set to zero.
    saved
        Whether a checkpoint holds the final state.
    """

    x: np.ndarray
    objective: float
    status: Status
    trace: Trace
    iterations: int
    evaluations: int
    seconds: Mapping[str, float]
    layout: Layout
    metrics: Mapping[str, Any] = field(default_factory=dict)
    solution: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    saved: bool = False

    @property
    def message(self) -> str:
        """One sentence that says how the run ended."""
        if self.status is not Status.INTERRUPTED:
            return self.status.value
        state = "a checkpoint holds the state" if self.saved else "the state was not saved"
        return f"{self.status.value}; {state}"

    def gather(self) -> np.ndarray:
        """The whole final iterate on every rank, shape ``(rows, columns)``.  Collective."""
        return self.layout.gather_rows(self.x)

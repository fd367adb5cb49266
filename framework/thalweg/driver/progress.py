"""Progress of a run: the counters that are saved, what callbacks are told, the progress bar."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.driver.stopping import Stop
from thalweg.interfaces import SolverState
from thalweg.parallel import MPI


@dataclass
class Progress:
    """Counters of a run beside the solver's state, saved with it.

    Attributes
    ----------
    stage, stage_start
        Stage of the homotopy, and the iteration at which it began.
    elapsed
        Wall time up to the last checkpoint, in seconds.
    values
        Objective after the last iterations of this stage, the last one last; with
        mini-batches, after the last epochs.
    cut
        Iterations, evaluations, seconds and epochs after which a budget ended the stages before
        the last; empty where none did.
    """

    iteration: int = 0
    stage: int = 0
    stage_start: int = 0
    elapsed: float = 0.0
    values: list[float] = field(default_factory=list)
    epoch: int = 0
    cut: list[float] = field(default_factory=list)

    def note_value(self, state: SolverState, by_epochs: bool, window: int) -> None:
        """Keep the values that the rule on the decrease compares: of iterations, or of epochs."""
        value = state.value
        if by_epochs:
            if state.epoch == self.epoch:
                return
            # The value at the start is that of a part, with which no epoch compares.
            self.values = self.values if self.epoch else []
            self.epoch, value = state.epoch, state.epoch_value
        self.values = [*self.values, value][-1 - window :]


@dataclass(frozen=True)
class Iterate:
    """Argument of a callback after each step, and once before the first.

    Attributes
    ----------
    iteration, evaluations, seconds
        Counts and wall time since the start, over resumed parts too.
    objective, gradient_norm
        As in the trace.
    rows
        This rank's rows of the iterate, a read-only view that lasts until the
        callback returns.
    state
        The solver's state; read it, do not change it.
    """

    iteration: int
    evaluations: int
    seconds: float
    objective: float
    gradient_norm: float
    rows: np.ndarray
    state: SolverState


#: Called on all ranks; a true answer on any of them ends the run.
Callback = Callable[[Iterate], object]


class ProgressBar:
    """A line on rank 0's stderr that follows the run; silent when it is no terminal.

    In a homotopy it shows the objective of the last stage, where that is known.
    """

    def __init__(self, comm: MPI.Comm, stop: Stop, wanted: bool, stages: int = 1) -> None:
        self._bar: Any = None
        self._stages = stages
        if wanted and comm.rank == 0 and getattr(sys.stderr, "isatty", bool)():
            from tqdm import tqdm

            self._counted, unit, limit = "iteration", "it", stop.iterations
            if stop.evaluations is not None:
                self._counted, unit, limit = "evaluations", "eval", stop.evaluations
            self._bar = tqdm(total=limit, unit=unit, dynamic_ncols=True, leave=False)

    def show(self, row: Mapping[str, float]) -> None:
        """Move the bar to this row of the trace."""
        if self._bar is not None:
            value = row.get("wanted_objective", math.nan)
            value = row["objective"] if math.isnan(value) else value
            shown = f"f={value:.6g} |g|={row['gradient_norm']:.2g}"
            if self._stages > 1:
                shown = f"stage {row['stage'] + 1}/{self._stages} {shown}"
            self._bar.set_postfix_str(shown, refresh=False)
            self._bar.update(row[self._counted] - self._bar.n)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

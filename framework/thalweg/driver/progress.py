"""Progress of a run: the counters that are saved, what callbacks are told, what is shown."""

import contextlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.driver.stopping import Stop
from thalweg.interfaces import SolverState
from thalweg.parallel import MPI
from thalweg.parallel.traffic import run_clock

#: In logs, where each line stays: often enough to show that a run is alive.
SECONDS_BETWEEN_LINES = 30.0


@dataclass
class Progress:
    """Counters of a run beside the solver's state, saved with it."""

    iteration: int = 0
    #: Stage of the homotopy, between two of the list where steps are adaptive, and the iteration
    #: at which it began.
    stage: float = 0.0
    stage_start: int = 0
    #: Next step of an adaptive homotopy, in stages, and Hessian products so far.
    stride: float = 1.0
    products: int = 0
    #: Wall time up to the last checkpoint, in seconds.
    elapsed: float = 0.0
    #: Objective after the last iterations of this stage, the last one last; with
    #: mini-batches, after the last epochs.
    values: list[float] = field(default_factory=list)
    epoch: int = 0
    #: Whether a budget ended the stages before the last.
    cut: bool = False

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
        This rank's rows of the iterate, a read-only view that lasts until the callback returns.
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
    """What rank 0 shows of a run that goes on.

    A bar on a terminal or in a notebook; elsewhere, as in the log of a batch job, a line every
    :data:`SECONDS_BETWEEN_LINES`.  In a homotopy it shows the objective of the last stage, where
    that is known; and ``columns`` of the trace where the solver has some to show.
    """

    def __init__(
        self, comm: MPI.Comm, stop: Stop, wanted: bool, stages: int = 1, columns: Sequence[str] = ()
    ) -> None:
        self._bar: Any = None
        self._columns = columns
        self._stages = stages
        self._shown = wanted and comm.rank == 0 and not getattr(sys.stderr, "closed", True)
        self._told = run_clock()
        if self._shown and ("ipykernel" in sys.modules or getattr(sys.stderr, "isatty", bool)()):
            self._counted, unit, limit = "iteration", "it", stop.iterations
            if stop.evaluations is not None:
                self._counted, unit, limit = "evaluations", "eval", stop.evaluations
            with contextlib.suppress(ImportError):  # the extra 'progress'; else there are lines
                from tqdm.auto import tqdm

                self._bar = tqdm(total=limit, unit=unit, dynamic_ncols=True, leave=False)

    def show(self, row: Mapping[str, float]) -> None:
        """Move the bar to this row of the trace, or write a line where one is due."""
        now = run_clock()
        if not self._shown or (self._bar is None and now - self._told < SECONDS_BETWEEN_LINES):
            return
        value = row.get("wanted_objective", math.nan)
        value = row["objective"] if math.isnan(value) else value
        shown = f"f={value:.6g} |g|={row['gradient_norm']:.2g}"
        shown += "".join(f" {name}={row[name]:.4g}" for name in self._columns)
        if self._stages > 1:
            shown = f"stage {row['stage'] + 1:.0f}/{self._stages} {shown}"
        if self._bar is not None:
            self._bar.set_postfix_str(shown, refresh=False)
            self._bar.update(row[self._counted] - self._bar.n)
            return
        self._told = now
        line = f"thalweg: iteration {row['iteration']:.0f} after {row['seconds']:.0f} s, {shown}"
        with contextlib.suppress(OSError, ValueError):  # a log that is closed stops no run
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

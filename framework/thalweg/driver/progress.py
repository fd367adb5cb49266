"""Progress of a run: the counters that are saved, and the progress bar."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from thalweg.driver.stopping import Stop
from thalweg.parallel import MPI


@dataclass
class Progress:
    """Counters of a run beside the solver's state, saved with it.

    Attributes
    ----------
    iteration
        Steps done.
    stage, stage_start
        Stage of the homotopy, and the iteration at which it began.
    elapsed
        Wall time up to the last checkpoint, in seconds.
    values
        Objective after the last iterations of this stage, the last one last; with
        mini-batches, after the last epochs.
    epoch
        Epochs completed.
    """

    iteration: int = 0
    stage: int = 0
    stage_start: int = 0
    elapsed: float = 0.0
    values: list[float] = field(default_factory=list)
    epoch: int = 0


class ProgressBar:
    """A line on rank 0's stderr that follows the run; silent when it is no terminal."""

    def __init__(self, comm: MPI.Comm, stop: Stop, wanted: bool) -> None:
        self._bar: Any = None
        if wanted and comm.rank == 0 and sys.stderr.isatty():
            from tqdm import tqdm

            limit = stop.iterations if stop.evaluations is None else stop.evaluations
            unit = "it" if stop.evaluations is None else "eval"
            self._bar = tqdm(total=limit, unit=unit, dynamic_ncols=True, leave=False)
            self._by_evaluations = stop.evaluations is not None

    def show(self, iterations: int, evaluations: int, value: float, gradient_norm: float) -> None:
        """Move the bar to this point."""
        if self._bar is not None:
            done = evaluations if self._by_evaluations else iterations
            self._bar.set_postfix_str(f"f={value:.6g} |g|={gradient_norm:.2g}", refresh=False)
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

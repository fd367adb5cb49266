"""The progress bar, on one rank and only where somebody watches."""

from __future__ import annotations

import sys
from typing import Any

from thalweg.driver.stopping import Stop
from thalweg.parallel import MPI


class Progress:
    """A line on rank 0's stderr that follows the run; silent when it is no terminal."""

    def __init__(self, comm: MPI.Comm, stop: Stop, wanted: bool) -> None:
        self._bar: Any = None
        if wanted and comm.rank == 0 and sys.stderr.isatty():
            from tqdm import tqdm

            budget = stop.iterations if stop.evaluations is None else stop.evaluations
            unit = "it" if stop.evaluations is None else "eval"
            self._bar = tqdm(total=budget, unit=unit, dynamic_ncols=True, leave=False)
            self._by_evaluations = stop.evaluations is not None

    def show(self, iterations: int, evaluations: int, value: float, gradient_norm: float) -> None:
        """Move the bar to this point."""
        if self._bar is not None:
            done = evaluations if self._by_evaluations else iterations
            self._bar.set_postfix_str(f"f={value:.6g} |g|={gradient_norm:.2g}", refresh=False)
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

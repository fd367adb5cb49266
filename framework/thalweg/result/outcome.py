"""The frozen result of a run."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.errors import InputError
from thalweg.result.status import Status
from thalweg.result.trace import Trace

if TYPE_CHECKING:
    from thalweg.parallel import Layout


@dataclass(frozen=True, repr=False)
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
        One row per iterate, the first and the last included once each.
    iterations, evaluations
        Accepted steps, and objective evaluations (value or value and gradient).
    seconds
        Wall time by phase, with the sum under ``"total"``.
    metrics
        Measures of the final iterate by the objective and the metric plugins.
    compared
        Names of the metrics by which results of this objective are compared.
    solution
        This rank's rows of what ``solution.npy`` holds, what the objective says the
        user asked for; mostly ``x`` itself.
    layout, solution_layout
        Distribution of the rows of ``x`` and of ``solution``; None once the result
        was pickled, since a communicator cannot be.
    notes
        Sentences on what the run decided or fell back to, and on what was done to the
        data, such as columns set to zero.
    citation
        References of the methods that the run used, in BibTeX.
    saved
        Whether a checkpoint holds the final state.
    partial
        Whether this is the pickled result of one rank of several.
    stages_left
        Stages of a homotopy that the run did not come to; ``objective`` is then that of an
        earlier value of the parameter.
    """

    x: np.ndarray
    objective: float
    status: Status
    trace: Trace
    iterations: int
    evaluations: int
    seconds: Mapping[str, float]
    layout: "Layout | None"
    metrics: Mapping[str, Any] = field(default_factory=dict)
    compared: tuple[str, ...] = ()
    solution: np.ndarray | None = None
    solution_layout: "Layout | None" = None
    notes: tuple[str, ...] = ()
    citation: str = ""
    saved: bool = False
    partial: bool = False
    stages_left: int = 0

    @property
    def wanted_objective(self) -> float:
        """The objective with the last value of the homotopy parameter, if there is one.

        NaN where the run did not come to it, and the objective does not tell it.
        """
        return float(self.trace["wanted_objective"][-1]) if self.stages_left else self.objective

    @property
    def message(self) -> str:
        """One sentence that says how the run ended."""
        if self.status is not Status.INTERRUPTED:
            return self.status.value
        state = "a checkpoint holds the state" if self.saved else "the state was not saved"
        return f"{self.status.value}; {state}"

    def __repr__(self) -> str:
        rows = self.layout.rows if self.layout else len(self.x)
        return (
            f"result    {self.message}\n"
            f"objective {self.objective:.6g}\n"
            f"work      {self.iterations} iterations, {self.evaluations} evaluations, "
            f"{self.seconds.get('total', 0.0):.3g} s\n"
            f"x         {rows:,} x {self.x.shape[1]}; also metrics, notes, trace, citation"
        )

    def warn_unless_converged(self) -> None:
        """Give scikit-learn's ConvergenceWarning where a limit or a failure ended the run.

        For the ``fit`` of estimators, whose users do not see the status.
        """
        if self.status.limited or self.status.failed:
            from sklearn.exceptions import ConvergenceWarning

            text = f"{self.status.value} (iteration {self.iterations})"
            if self.status.limited:
                text += "; raise max_iter to go on to convergence"
            warnings.warn(text, ConvergenceWarning, stacklevel=5)

    def gather(self, name: str = "solution") -> np.ndarray:
        """All rows of the solution on every rank, shape ``(rows, k)``.  Collective.

        Parameters
        ----------
        name
            ``"solution"``, or ``"x"`` for the final iterate.

        Raises
        ------
        InputError
            Another name; the run had no solution; or the result was pickled on
            several ranks, where each holds its own rows only.
        """
        if name not in ("solution", "x"):
            raise InputError(f"a result gathers 'solution' or 'x', not {name!r}")
        if self.partial:
            raise InputError(
                "a pickled result holds the rows of one rank alone; gather before pickling"
            )
        rows, layout = self.x, self.layout
        if name == "solution" and self.solution is not None:
            rows, layout = self.solution, self.solution_layout or self.layout
        return rows.copy() if layout is None else layout.gather_rows(rows)

    def __getstate__(self) -> dict[str, Any]:
        layouts = (self.layout, self.solution_layout)
        several = any(layout is not None and layout.comm.size > 1 for layout in layouts)
        state = {**self.__dict__, "layout": None, "solution_layout": None}
        return {**state, "partial": self.partial or several}

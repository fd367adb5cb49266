"""Status, trace and result of a run."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from thalweg.errors import InputError

if TYPE_CHECKING:
    from thalweg.parallel import Layout

__all__ = ["Result", "Status", "Trace"]


class Status(Enum):
    """State of a run; ``.name`` is for programs, ``.value`` the message that a person reads.

    No program ever has to parse English.
    """

    RUNNING = "the run is under way"
    SMALL_GRADIENT = "converged: the gradient norm is at most the tolerance"
    SMALL_DECREASE = (
        "converged: the objective fell by less than the tolerance in the last iterations"
    )
    CONVERGED = "converged: the solver's own criterion is met"
    PRECISION_LIMIT = "converged: no step lowers the objective any further in floating point"
    NOISE_LIMIT = "stopped: no step lowers the objective by more than the error of its values"
    ITERATION_LIMIT = "stopped: the limit of iterations is reached"
    EPOCH_LIMIT = "stopped: the limit of epochs is reached"
    EVALUATION_LIMIT = "stopped: the limit of evaluations is reached"
    TIME_LIMIT = "stopped: the limit of wall time is reached"
    CALLBACK = "stopped: a callback asked for it"
    TARGET_NOT_REACHED = "stopped: the requested quality was not reached; this is the best found"
    INTERRUPTED = "stopped by a signal"
    DIVERGED = (
        "failed: the objective or its gradient is not finite, or the objective is unbounded "
        "below; the last finite iterate is kept"
    )
    FAILED = "failed: the solver could not take a step"
    INCONSISTENT = (
        "failed: no step lowers the objective as its gradient predicts; value and gradient do not "
        "belong together, compare them by thalweg.testing.check_gradient"
    )

    @property
    def running(self) -> bool:
        """Whether the run continues."""
        return self is Status.RUNNING

    @property
    def converged(self) -> bool:
        """Whether a convergence criterion was met."""
        return self in {
            Status.SMALL_GRADIENT,
            Status.SMALL_DECREASE,
            Status.CONVERGED,
            Status.PRECISION_LIMIT,
        }

    @property
    def limited(self) -> bool:
        """Whether a budget ended the run."""
        return self in {
            Status.ITERATION_LIMIT,
            Status.EPOCH_LIMIT,
            Status.EVALUATION_LIMIT,
            Status.TIME_LIMIT,
        }

    @property
    def failed(self) -> bool:
        """Whether the run ended in a numerical failure."""
        return self in {Status.DIVERGED, Status.FAILED, Status.INCONSISTENT}

    @property
    def exit_code(self) -> int:
        """Exit code of the command line for a run that ends so: 0, 3 or 75."""
        return 3 if self.failed else 75 if self is Status.INTERRUPTED else 0


class Trace:
    """Table of numbers with fixed columns, one row for each recorded iterate.

    Recording is not displaying: a trace never prints.

    Parameters
    ----------
    columns
        Column names, in the order in which they are written.
    """

    #: Column with the number of a homotopy's stage, after that of its parameter.
    STAGE = "stage"

    def __init__(self, columns: Sequence[str]) -> None:
        if len(set(columns)) != len(columns):
            raise ValueError(f"trace columns repeat: {list(columns)}")
        #: Names of the columns.
        self.columns = tuple(columns)
        self._rows: list[tuple[float, ...]] = []

    @property
    def homotopy_parameter(self) -> str | None:
        """Name of the column with the parameter of a homotopy, that before ``stage``, if any."""
        if self.STAGE not in self.columns[1:]:
            return None
        return self.columns[self.columns.index(self.STAGE) - 1]

    def append(self, row: Mapping[str, float]) -> None:
        """Add one row; a column that ``row`` lacks becomes NaN, an unknown one is an error."""
        unknown = set(row) - set(self.columns)
        if unknown:
            raise KeyError(f"trace has no column {sorted(unknown)}; it has {list(self.columns)}")
        self._rows.append(tuple(float(row.get(name, np.nan)) for name in self.columns))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, column: str) -> np.ndarray:
        """Values of one column, shape ``(len(self),)``, float64."""
        if column not in self.columns:
            raise KeyError(f"trace has no column {column!r}; it has {list(self.columns)}")
        index = self.columns.index(column)
        return np.array([row[index] for row in self._rows], dtype=float)

    def __iter__(self) -> Iterator[dict[str, float]]:
        for row in self._rows:
            yield dict(zip(self.columns, row, strict=True))

    def to_array(self) -> np.ndarray:
        """All rows, shape ``(len(self), len(self.columns))``, float64."""
        return np.array(self._rows, dtype=float).reshape(len(self._rows), len(self.columns))

    @classmethod
    def from_array(cls, columns: Sequence[str], values: np.ndarray) -> Self:
        """Inverse of :meth:`to_array`."""
        trace = cls(columns)
        rows = np.asarray(values, dtype=float).reshape(-1, len(columns))
        trace._rows = [tuple(float(v) for v in row) for row in rows]
        return trace


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

    def warn_unless_converged(self, limit: str = "max_iter") -> None:
        """Give scikit-learn's ConvergenceWarning where a run missed its target, or was cut short.

        For the ``fit`` of estimators, whose users do not see the status; ``limit`` is to be raised.
        """
        if self.status.limited or self.status.failed or self.status is Status.TARGET_NOT_REACHED:
            from sklearn.exceptions import ConvergenceWarning

            text = f"{self.status.value} (iteration {self.iterations})"
            if self.status.limited:
                text += f"; raise {limit} to go on to convergence"
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
            raise InputError("a pickled result holds one rank's rows alone; gather before pickling")
        rows, layout = self.x, self.layout
        if name == "solution" and self.solution is not None:
            rows, layout = self.solution, self.solution_layout or self.layout
        return rows.copy() if layout is None else layout.gather_rows(rows)

    def __getstate__(self) -> dict[str, Any]:
        layouts = (self.layout, self.solution_layout)
        several = any(layout is not None and layout.comm.size > 1 for layout in layouts)
        state = {**self.__dict__, "layout": None, "solution_layout": None}
        return {**state, "partial": self.partial or several}

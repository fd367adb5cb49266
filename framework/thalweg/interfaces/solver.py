"""The solver: options, a state, and steps between states."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from thalweg.capability import Capability
from thalweg.interfaces.capabilities import ManifoldVariable
from thalweg.interfaces.objective import Objective
from thalweg.interfaces.preconditioner import Preconditioner
from thalweg.parallel import Array
from thalweg.plugins import check_declared
from thalweg.result import Status

#: Metadata of a state's field that a checkpoint leaves out, since ``init`` makes it again.
TRANSIENT: Mapping[str, Any] = {"transient": True}

#: An array in a state of this rank's rows, distributed as the variable is, of any width.
Rows = Annotated[Array, "rows"]

#: An array in a state of any number of rows on each rank, which on another number of ranks are
#: shared out evenly when they are restored.
OwnRows = Annotated[np.ndarray, "own rows"]


@dataclass(frozen=True, kw_only=True)
class SolverState:
    """Base of the states of solvers; a solver adds fields in a frozen dataclass of its own.

    A field is a NumPy array, a number, a string, None, a list, tuple or dict (with string keys)
    of these, or a frozen dataclass of such fields.  An array is the same on all ranks, or its
    annotation says that it is not: ``Rows``, ``OwnRows``, ``tuple[Rows, ...]``.  The driver
    saves and restores states without knowing the solver.

    Attributes
    ----------
    objective
        The problem, not saved.
    x, value
        Iterate and objective there.
    gradient
        Gradient at ``x``, or None for a solver that has none.
    gradient_norm
        Its Euclidean norm, or a residual that plays its part; NaN if unknown.
    evaluations
        Evaluations of the objective so far, with or without gradient.
    step_length
        Length factor of the last step, NaN if it has no meaning.
    outcome
        Why the solver itself wants to end the run, or ``Status.RUNNING``.
    whole
        Whether ``value`` and ``gradient`` are of the whole problem, not of a part of its data.
    epoch, epoch_value
        Of a solver whose steps see parts: passes over the data completed, and the objective
        during the last of them, NaN in the first.
    """

    objective: Objective = field(metadata=TRANSIENT)
    x: Rows
    value: float
    gradient: Rows | None = None
    gradient_norm: float = float("nan")
    evaluations: int = 0
    step_length: float = float("nan")
    outcome: Status = Status.RUNNING
    whole: bool = True
    epoch: int = 0
    epoch_value: float = float("nan")

    @classmethod
    def evaluated(cls, objective: Objective, x: Array, **others: Any) -> Self:
        """The state at ``x`` after one evaluation there, with other fields.  Collective."""
        value, gradient = objective.value_and_gradient(x)
        state = cls(objective=objective, x=x, value=value, evaluations=1, **others)
        return state.at(x, value, gradient)

    def at(self, x: Array, value: float, gradient: Array, **changes: Any) -> Self:
        """The state at another point, with the norm of its gradient.  Collective.

        Parameters
        ----------
        **changes
            Other fields, such as ``step_length`` and the number of ``evaluations`` by now.
        """
        changes["gradient_norm"] = self.objective.layout.norm(gradient)
        return replace(self, x=x, value=value, gradient=gradient, **changes)

    @property
    def is_finite(self) -> bool:
        """Whether value and gradient are; a norm that is not known does not count."""
        unknown = self.gradient is None and math.isnan(self.gradient_norm)
        return math.isfinite(self.value) and (unknown or math.isfinite(self.gradient_norm))


class FreeVariable(Capability):
    """What every objective has that is no :class:`ManifoldVariable`."""

    phrase = "variable that is on no manifold"

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return not issubclass(other, ManifoldVariable)


S = TypeVar("S", bound=SolverState)


class Solver(ABC, Generic[S]):
    """An algorithm: :meth:`init`, then :meth:`step` as long as :meth:`status` says so.

    Subclasses are frozen dataclasses whose fields are the options; nothing
    mutable hides in a solver.  The driver owns the loop, the stopping rules,
    the trace and the checkpoints.  All methods are collective.
    """

    #: Capabilities that the objective must have.
    requires: ClassVar[tuple[type[Capability], ...]] = ()

    #: Whether the solver takes a preconditioner, as its field ``preconditioner``.
    preconditioned: ClassVar[bool] = False

    #: Whether steps correct what loose solves with the preconditioner lack.
    corrects_preconditioner: ClassVar[bool] = False

    #: Columns that the solver adds to the trace.
    trace_columns: ClassVar[tuple[str, ...]] = ()

    #: Those of them that a progress line shows too.
    shown_columns: ClassVar[tuple[str, ...]] = ()

    #: Whether the stopping rule on the objective's decrease means anything: not where the
    #: solver changes its problem between steps, as in a search for the least rank.
    decreases: ClassVar[bool] = True

    #: Whether steps see parts of the data: the rule on the decrease then compares epochs.
    stochastic: ClassVar[bool] = False

    preconditioner: Preconditioner | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Have a solver that requires no manifold refuse objectives with one, which it leaves."""
        super().__init_subclass__(**options)
        if FreeVariable not in cls.requires:
            rides = any(issubclass(needed, ManifoldVariable) for needed in cls.requires)
            cls.requires = cls.requires if rides else (*cls.requires, FreeVariable)

    def __post_init__(self) -> None:
        """Hold the options to their bounds, also of a solver made in Python."""
        check_declared(self)

    @property
    def derivative_free(self) -> bool:
        """Whether steps use values alone.

        The best of them may stay for long before it falls: the rule on the decrease does not
        hold.  A gradient is evaluated where a rule asks for its norm.
        """
        return False

    @classmethod
    def takes_preconditioner(cls, options: Mapping[str, Any]) -> bool:
        """Whether, with these options, a preconditioner other than the identity has a place.

        Where it has none, none is chosen by default.
        """
        return cls.preconditioned

    @abstractmethod
    def init(self, objective: Objective, x: Array) -> S:
        """State at the starting point ``x``.

        The preconditioner is already set up: the driver does that once, so that one
        factorization serves all restarts (:meth:`reset`) on changed homotopy parameters.
        """

    @abstractmethod
    def step(self, state: S) -> S:
        """The next state; the one given stays as it is."""

    def status(self, state: S) -> Status:
        """``Status.RUNNING``, or why the solver itself ends the run: the state's ``outcome``."""
        return state.outcome

    def trace_row(self, state: S) -> Mapping[str, float]:
        """Values of :attr:`trace_columns` at this state, by default its attributes."""
        return {name: getattr(state, name) for name in self.trace_columns}

    def whole_value(self, state: S) -> float:
        """Value of the whole problem, which ends a run; a solver that chose parts takes all."""
        return state.objective.value(state.x)

    def notes(self, state: S) -> Sequence[str]:
        """Sentences on what the solver decided or fell back to, for ``result.notes``."""
        return ()

    def reset(self, state: S) -> S:
        """State after the objective itself changed (homotopy): forget what no longer holds.

        The default starts again from ``state.x``, keeping the count of evaluations.
        """
        fresh = self.init(state.objective, state.x)
        return replace(fresh, evaluations=fresh.evaluations + state.evaluations)

    def close(self, state: S) -> None:
        """Free what the state holds of other libraries, at the end of a run.  Collective."""

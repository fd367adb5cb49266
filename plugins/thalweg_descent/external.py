"""Base of the adapters to TAO and SciPy: state, restarts, and exact resumption.

The memory of an external solver cannot be saved.  It is therefore started afresh
every so many iterations, and a state knows the iterate of the last start and
the number of iterations since.  A state without a running external solver (one
that was restored from a checkpoint) first repeats those iterations silently;
since nothing in them is random, it arrives at the same bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from thalweg.engines.hessian import HessianProduct
from thalweg.interfaces import TRANSIENT, Objective, Solver, SolverState
from thalweg.parallel import Vector
from thalweg.plugins import Help, check_declared
from thalweg.result import Status

#: Iterations in a row that leave the iterate where it is, after which an external solver has ended.
MAX_REPEATED = 100


#: Points remembered with their values: iterates are usually among those evaluated last.
REMEMBERED = 3


@dataclass
class Evaluation:
    """A point, and value and gradient there."""

    x: Vector
    gradient: Vector
    value: float = math.nan
    finite: bool = True


class Evaluator:
    """Evaluations and Hessian products on all ranks, counted, the last points remembered.

    External solvers often ask for the value and then for the gradient at one
    point, or again for the point where they start: that costs one evaluation.
    A value that is not finite is replaced by one so large that any solver backs
    off, since external line searches do not all handle infinity.

    ``known`` says that value and gradient of the state belong to its origin.  Of a state without
    a gradient values alone are evaluated.
    """

    def __init__(self, state: ExternalState, known: bool) -> None:
        x, value, gradient = state.origin, state.origin_value, state.gradient
        self.objective, self.layout = state.objective, state.objective.layout
        self.values_alone = gradient is None
        self.evaluations = 0
        self.products = 0
        self.finite = True  # at the point evaluated last
        self.best = value
        self._unused = [Evaluation(x.duplicate(), x.duplicate()) for _ in range(REMEMBERED)]
        self._recent: list[Evaluation] = []  # the newest first
        if known:
            entry = self._unused.pop()
            x.copy(entry.x)
            if gradient is not None:
                gradient.copy(entry.gradient)
            entry.value = value
            self._recent.append(entry)

    def evaluate(self, x: Vector, gradient: Vector | None = None) -> float:
        """Value at ``x``, and its gradient if a vector is given.  Collective."""
        found = self._find(x)
        if gradient is not None:
            found.gradient.copy(gradient)
        return found.value

    def _find(self, x: Vector) -> Evaluation:
        found = next((entry for entry in self._recent if entry.x.equal(x)), None)
        if found is None:
            found = self._unused.pop() if self._unused else self._recent.pop()
            self._evaluate(x, found)
            self._recent.insert(0, found)
        return found

    def take(self, x: Vector, state: ExternalState) -> bool:
        """Make ``x`` the state's iterate, unless the objective is not finite there.  Collective."""
        found = self._find(x)
        if not found.finite:
            return False
        x.copy(state.x)
        state.value, state.gradient_norm = found.value, math.nan
        if state.gradient is not None:
            found.gradient.copy(state.gradient)
            state.gradient_norm = state.gradient.norm()
        return True

    def _evaluate(self, x: Vector, entry: Evaluation) -> None:
        x.copy(entry.x)
        gradient = None if self.values_alone else entry.gradient
        entry.value, norm = _evaluated(self.objective, entry.x, gradient)
        self.evaluations += 1
        entry.finite = self.finite = _finite(entry.value, norm, gradient)
        if not entry.finite:
            entry.value = self.best + 1e8 * (1.0 + abs(self.best))
            entry.gradient.set(0.0)
        self.best = min(self.best, entry.value)

    def hessian_product(self, x: Vector, direction: Vector, product: Vector) -> None:
        """Hessian at ``x`` times ``direction``.  Collective."""
        assert isinstance(self.objective, HessianProduct)
        self.objective.hessian_product(x, direction, product)
        self.products += 1


class RunningSolver(ABC):
    """An external solver in the middle of its loop."""

    evaluator: Evaluator

    #: Iterates given so far.
    iterates: int = 0

    @abstractmethod
    def advance(self, state: ExternalState) -> bool:
        """Run to the next iterate; put it, its value and gradient, into the state.  Collective.

        Returns
        -------
        bool
            False if the external solver ended instead.
        """

    @abstractmethod
    def close(self) -> None:
        """End the external loop, and free what it holds.  Collective."""


@dataclass(kw_only=True)
class ExternalState(SolverState):
    """State of an adapter.

    Attributes
    ----------
    origin, origin_value
        Iterate at which the external solver was last started, and the objective there.
    since
        Iterations since then.
    memory
        The preconditioner's state at that time.
    products
        Hessian products so far.
    running_solver
        The running external solver, not saved.
    """

    origin: Vector
    origin_value: float
    since: int = 0
    memory: dict[str, Any]
    products: int = 0
    running_solver: RunningSolver | None = field(default=None, metadata=TRANSIENT)


@dataclass(frozen=True, kw_only=True)
class ExternalSolver(Solver[ExternalState]):
    """An adapter; subclasses start the external solver."""

    restart: Annotated[
        int,
        Help(
            "iterations after which the solver is restarted from its iterate; a resumed run "
            "repeats up to as many",
            minimum=1,
        ),
    ] = 200

    trace_columns = ("hessian_products",)

    def __post_init__(self) -> None:
        check_declared(self)

    @abstractmethod
    def check(self, objective: Objective) -> None:
        """Refuse an objective that lacks what this method needs.

        Raises
        ------
        CapabilityError
        """

    @abstractmethod
    def start(self, state: ExternalState, known: bool) -> RunningSolver:
        """The external solver at ``state.origin``.  Collective.

        ``known`` says that ``state.value`` and ``state.gradient`` belong there.
        """

    def init(self, objective: Objective, x: Vector) -> ExternalState:
        """One evaluation at ``x``; the external solver starts with the first step."""
        self.check(objective)
        gradient = None if self.derivative_free else x.duplicate()
        value, norm = _evaluated(objective, x, gradient)
        state = ExternalState(
            objective=objective,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=norm,
            evaluations=1,
            origin=x.copy(),
            origin_value=value,
            memory=self._preconditioner_state(),
        )
        if not _finite(value, norm, gradient):
            state.outcome = Status.DIVERGED
        return state

    def step(self, state: ExternalState) -> ExternalState:
        """Run the external solver to its next iterate."""
        if not state.outcome.running:
            return state
        if state.running_solver is not None and state.running_solver.iterates != state.since:
            self._stop(state)
        if state.running_solver is None and state.since:
            self._repeat(state)
        if state.since >= self.restart:
            self._renew(state)
        while True:
            if state.running_solver is None:
                state.running_solver = self.start(state, known=True)
            moved = self._advance(state)
            if moved:
                break
            if not state.running_solver.evaluator.finite:
                # An objective that is not finite, however short the step, is no minimum.
                state.outcome = Status.DIVERGED
                self._stop(state)
                break
            # The external solver has ended.  Restarted it may make progress; where a
            # restarted one does not move at all, the run ends.
            if state.since == 0 or state.x.equal(state.origin):
                state.outcome = (
                    Status.SMALL_GRADIENT if state.gradient_norm == 0 else Status.PRECISION_LIMIT
                )
                self._stop(state)
                break
            self._renew(state)
        return state

    def _advance(self, state: ExternalState) -> bool:
        running = state.running_solver
        assert running is not None
        counts = running.evaluator.evaluations, running.evaluator.products
        moved = running.advance(state)
        state.evaluations += running.evaluator.evaluations - counts[0]
        state.products += running.evaluator.products - counts[1]
        if moved:
            running.iterates += 1
            state.since = running.iterates
        return moved

    def _repeat(self, state: ExternalState) -> None:
        """Bring a new external solver to where the saved one stood."""
        counts = state.evaluations, state.products
        since = state.since
        if self.preconditioner is not None:
            self.preconditioner.restore(_copied(state.memory))
        state.running_solver = self.start(state, known=False)
        for _ in range(since):
            self._advance(state)
        state.evaluations, state.products = counts

    def _renew(self, state: ExternalState) -> None:
        """Make the present iterate the origin of a new external solver."""
        self._stop(state)
        state.x.copy(state.origin)
        state.origin_value, state.since = state.value, 0
        state.memory = self._preconditioner_state()

    def _preconditioner_state(self) -> dict[str, Any]:
        return {} if self.preconditioner is None else _copied(dict(self.preconditioner.state()))

    @staticmethod
    def _stop(state: ExternalState) -> None:
        if state.running_solver is not None:
            state.running_solver.close()
            state.running_solver = None

    def trace_row(self, state: ExternalState) -> Mapping[str, float]:
        """Hessian products so far."""
        return {"hessian_products": float(state.products)}

    def reset(self, state: ExternalState) -> ExternalState:
        """Evaluate again, and restart from here."""
        self._renew(state)
        state.value, state.gradient_norm = _evaluated(state.objective, state.x, state.gradient)
        state.origin_value = state.value
        state.evaluations += 1
        state.outcome = Status.RUNNING
        return state

    def close(self, state: ExternalState) -> None:
        """End the external loop.  Collective."""
        self._stop(state)


def _evaluated(objective: Objective, x: Vector, gradient: Vector | None) -> tuple[float, float]:
    """Value at ``x``, and the norm of its gradient; NaN where there is no vector for that."""
    if gradient is None:
        return objective.value(x), math.nan
    value = objective.value_and_gradient(x, gradient)
    return value, gradient.norm()


def _finite(value: float, norm: float, gradient: Vector | None) -> bool:
    return math.isfinite(value) and (gradient is None or math.isfinite(norm))


def _copied(value: Any) -> Any:
    """A deep copy of a preconditioner's state."""
    if isinstance(value, Vector):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: _copied(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copied(entry) for entry in value)
    return value.copy() if hasattr(value, "copy") else value

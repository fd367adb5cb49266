"""Base of the adapters to TAO and SciPy: state, restarts, exact resumption, and their loop.

The memory of an external solver cannot be saved.  It is therefore started afresh every so many
iterations, and a state knows the iterate of the last start and the number of iterations since.  A
state without a running external solver (one that was restored from a checkpoint) first repeats
those iterations silently; since nothing in them is random, it arrives at the same bits.
"""

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import greenlet
import numpy as np

from thalweg.engines.hessian import HessianProduct
from thalweg.interfaces import TRANSIENT, Objective, Rows, Solver, SolverState
from thalweg.parallel import Array, any_over_ranks
from thalweg.plugins import Help
from thalweg.result import Status

#: Idle iterations in a row after which an external solver has ended; chosen by hand.
MAX_REPEATED = 100

#: Points remembered with their values: iterates are usually among those evaluated last.
REMEMBERED = 3


@dataclass(frozen=True)
class Evaluation:
    """A point, and value and gradient there; zeros where the value is not finite."""

    x: Array
    value: float
    gradient: Array | None
    norm: float = math.nan
    finite: bool = True

    def of_state(self) -> dict[str, Any]:
        """The fields of a state that it sets."""
        own = {"x": self.x, "value": self.value, "gradient": self.gradient}
        return {**own, "gradient_norm": self.norm}


class Evaluator:
    """Evaluations and Hessian products on all ranks, counted, the last points remembered.

    External solvers often ask for the value and then for the gradient at one
    point, or again for the point where they start: that costs one evaluation.
    A value that is not finite is replaced by one so large that any solver backs
    off, since external line searches do not all handle infinity.

    ``known`` says that value and gradient of the state belong to its origin.  Of a state without
    a gradient values alone are evaluated.
    """

    def __init__(self, state: "ExternalState", known: bool) -> None:
        self.objective, self.layout = state.objective, state.objective.layout
        self.values_alone = state.gradient is None
        self.evaluations = 0
        self.products = 0
        self.finite = True  # at the point evaluated last
        self.best = state.origin_value
        self._recent: list[Evaluation] = []  # the newest first
        if known:
            norm = state.gradient_norm
            self._recent.append(Evaluation(state.origin, state.origin_value, state.gradient, norm))

    def evaluate(self, x: Array) -> Evaluation:
        """Value at ``x``, and the gradient unless values alone serve.  Collective."""
        evaluation = next((entry for entry in self._recent if self.same(entry.x, x)), None)
        if evaluation is None:
            evaluation = self._evaluated(np.array(x))
            self._recent = [evaluation, *self._recent][:REMEMBERED]
        return evaluation

    def same(self, x: Array, y: Array) -> bool:
        """Whether two points are the same on all ranks.  Collective."""
        same = bool(np.array_equal(x, y))
        return same if self.layout.comm.size == 1 else all(self.layout.comm.allgather(same))

    def _evaluated(self, x: Array) -> Evaluation:
        evaluation = _evaluation(self.objective, x, self.values_alone)
        self.evaluations += 1
        # Where the point itself is not finite, the solver failed and not the objective.
        lost = not np.isfinite(x).all()
        self.finite = evaluation.finite or any_over_ranks(self.layout.comm, lost)
        if not evaluation.finite:
            value = self.best + 1e8 * (1.0 + abs(self.best))
            gradient = None if evaluation.gradient is None else np.zeros_like(evaluation.gradient)
            evaluation = replace(evaluation, value=value, gradient=gradient)
        self.best = min(self.best, evaluation.value)
        return evaluation

    def hessian_product(self, x: Array, direction: Array) -> Array:
        """Hessian at ``x`` times ``direction``.  Collective."""
        assert isinstance(self.objective, HessianProduct)
        self.products += 1
        return self.objective.hessian_product(x, direction)


class RunningSolver(ABC):
    """An external solver in the middle of its loop."""

    evaluator: Evaluator

    #: Iterates given so far.
    iterates: int = 0

    #: Length of the last step, NaN where it has no meaning.
    step_length: float = math.nan

    @abstractmethod
    def advance(self) -> Evaluation | None:
        """Run to the next iterate, None if the external solver ended instead.  Collective."""

    @abstractmethod
    def close(self) -> None:
        """End the external loop, and free what it holds.  Collective."""


@dataclass(frozen=True, kw_only=True)
class ExternalState(SolverState):
    """State of an adapter."""

    #: Iterate at which the external solver was last started, and the objective there.
    origin: Rows
    origin_value: float
    since: int = 0  # iterations since then
    memory: Any  # the preconditioner's state at that time
    hessian_products: int = 0  # so far
    #: Not saved.
    running_solver: RunningSolver | None = field(default=None, metadata=TRANSIENT)


@dataclass(frozen=True, kw_only=True)
class ExternalSolver(Solver[ExternalState]):
    """An adapter; subclasses start the external solver."""

    restart: Annotated[
        int, Help("iterations between restarts; a resumed run repeats up to as many", minimum=1)
    ] = 200

    trace_columns = ("hessian_products",)

    @abstractmethod
    def check(self, objective: Objective) -> None:
        """Refuse an objective that lacks what this method needs, by a `CapabilityError`."""

    @abstractmethod
    def start(self, state: ExternalState, known: bool) -> RunningSolver:
        """The external solver at ``state.origin``.  Collective.

        ``known`` says that ``state.value`` and ``state.gradient`` belong there.
        """

    def init(self, objective: Objective, x: Array) -> ExternalState:
        """One evaluation at ``x``; the external solver starts with the first step."""
        self.check(objective)
        evaluation = _evaluation(objective, x, self.derivative_free)
        outcome = Status.RUNNING if evaluation.finite else Status.DIVERGED
        return ExternalState(
            objective=objective, evaluations=1, outcome=outcome, origin=x,
            origin_value=evaluation.value, memory=self._preconditioner_state(),
            **evaluation.of_state(),
        )  # fmt: skip

    def step(self, state: ExternalState) -> ExternalState:
        """Run the external solver to its next iterate."""
        if not state.outcome.running:
            return state
        if state.running_solver is not None and state.running_solver.iterates != state.since:
            state = self._stopped(state)
        if state.running_solver is None and state.since:
            state = self._repeated(state)
        if state.since >= self.restart:
            state = self._renewed(state)
        while True:
            if state.running_solver is None:
                state = replace(state, running_solver=self.start(state, known=True))
            moved, state = self._advanced(state)
            if moved:
                return state
            assert state.running_solver is not None
            if not state.running_solver.evaluator.finite:
                # An objective that is not finite, however short the step, is no minimum.
                return self._stopped(state, Status.DIVERGED)
            # The external solver has ended.  Restarted it may make progress; where a
            # restarted one does not move at all, the run ends.
            if state.since == 0 or state.running_solver.evaluator.same(state.x, state.origin):
                end = Status.PRECISION_LIMIT if state.gradient_norm else Status.SMALL_GRADIENT
                return self._stopped(state, end)
            state = self._renewed(state)

    @staticmethod
    def _advanced(state: ExternalState) -> tuple[bool, ExternalState]:
        """Whether the external solver came to another iterate, and the state there."""
        running = state.running_solver
        assert running is not None
        evaluator = running.evaluator
        counts = evaluator.evaluations, evaluator.products
        try:
            evaluation = running.advance()
        except BaseException:
            running.close()
            raise
        evaluations = state.evaluations + evaluator.evaluations - counts[0]
        products = state.hessian_products + evaluator.products - counts[1]
        state = replace(state, evaluations=evaluations, hessian_products=products)
        if evaluation is None:
            return False, state
        running.iterates += 1
        own = evaluation.of_state()
        return True, replace(state, step_length=running.step_length, since=running.iterates, **own)

    def _repeated(self, state: ExternalState) -> ExternalState:
        """The state with a new external solver, brought to where the saved one stood."""
        if self.preconditioner is not None:
            self.preconditioner.restore(copy.deepcopy(state.memory))
        new = replace(state, running_solver=self.start(state, known=False))
        for _ in range(state.since):
            new = self._advanced(new)[1]
        return replace(new, evaluations=state.evaluations, hessian_products=state.hessian_products)

    def _renewed(self, state: ExternalState) -> ExternalState:
        """The state with the present iterate as origin of a new external solver."""
        memory, state = self._preconditioner_state(), self._stopped(state)
        return replace(state, origin=state.x, origin_value=state.value, since=0, memory=memory)

    def _preconditioner_state(self) -> Any:
        return {} if self.preconditioner is None else copy.deepcopy(self.preconditioner.state())

    @staticmethod
    def _stopped(state: ExternalState, outcome: Status = Status.RUNNING) -> ExternalState:
        if state.running_solver is not None:
            state.running_solver.close()
            state.running_solver.iterates = -1  # no state is where it stands
        return replace(state, running_solver=None, outcome=outcome)

    def reset(self, state: ExternalState) -> ExternalState:
        """Evaluate again, and restart from here."""
        evaluation = _evaluation(state.objective, state.x, self.derivative_free)
        own = {"evaluations": state.evaluations + 1, **evaluation.of_state()}
        return replace(self._renewed(state), origin_value=evaluation.value, **own)

    def close(self, state: ExternalState) -> None:
        """End the external loop.  Collective."""
        self._stopped(state)


def _evaluation(objective: Objective, x: Array, value_alone: bool) -> Evaluation:
    if value_alone:
        value = objective.value(x)
        return Evaluation(x, value, None, finite=math.isfinite(value))
    value, gradient = objective.value_and_gradient(x)
    norm = objective.layout.norm(gradient)
    return Evaluation(x, value, gradient, norm, math.isfinite(value) and math.isfinite(norm))


class Coroutine:
    """A function that can stop in the middle of any call it makes, in a greenlet.

    External loops call us; the driver wants to call them, one iterate at a time.

    Parameters
    ----------
    body
        Called with a function ``ask``: ``answer = ask(request)`` suspends it until
        the next :meth:`resume`.
    """

    def __init__(self, body: Callable[[Callable[[Any], Any]], Any]) -> None:
        self._greenlet = greenlet.greenlet(lambda _: body(self._ask))

    @property
    def has_ended(self) -> bool:
        """Whether the function has returned or raised."""
        return bool(self._greenlet.dead)

    def _ask(self, request: Any) -> Any:
        return self._greenlet.parent.switch(request)

    def resume(self, answer: Any = None) -> Any:
        """Go on with ``answer``; the next request, or at the end what the function returns.

        What the function raises, this raises.  Warnings of the external code are
        dropped: its outcome says all that there is to say.
        """
        self._greenlet.parent = greenlet.getcurrent()
        with warnings.catch_warnings(action="ignore"):
            return self._greenlet.switch(answer)

    def close(self) -> None:
        """End the function where it stands, by an exception that runs its clean-up."""
        if self._greenlet and not self._greenlet.dead:
            self._greenlet.parent = greenlet.getcurrent()
            with warnings.catch_warnings(action="ignore"):
                self._greenlet.throw(greenlet.GreenletExit)

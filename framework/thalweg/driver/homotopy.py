"""The stages of a run: values of a homotopy parameter in turn; without a homotopy there is one."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np

from thalweg.driver.progress import Progress
from thalweg.driver.stopping import STATUSES, Stop
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import Homotopy, ManifoldVariable, Objective, Solver, SolverState, require
from thalweg.numerics import conjugate_gradients
from thalweg.parallel import Array, values_of_all_ranks
from thalweg.result import Status, Trace

#: Share of each budget of a run that the stages before the last may use, so that any budget
#: ends at the problem that is wanted: 100 iterations for a map of digits did not.
EARLY_STAGES = 0.8

#: Rules that end a stage before the last: no more than a start for the next is wanted; by hand.
EARLY_RULES = Stop(iterations=10_000, decrease=1e-6, window=1)


@dataclass(frozen=True)
class HomotopySchedule:
    """Values of the parameter, each minimized from the last one's result.

    Early exaggeration by a factor a is the same thing with lambda = 1/a first.

    Attributes
    ----------
    values
        One for each stage; the last is the wanted problem.
    stage
        Rules that end a stage and begin the next; by default a relative decrease of a
        single iteration below 1e-6, since no more than a start for the next stage is
        wanted.  The last stage ends by the rules of the run, whose limits hold over
        all stages; it begins at the latest when four fifths of one are used.
    error
        If given, steps along the values are adaptive, each with about this relative error.
    ended
        Is called with the number of each stage, from 0, that another follows, and its result.
    """

    values: tuple[float, ...]
    stage: Stop = EARLY_RULES
    error: float | None = None
    ended: Callable[[float, Array], object] | None = None

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) for value in self.values):
            raise InputError(f"homotopy needs at least one finite value, not {list(self.values)}")
        if self.error is not None and not (self.error > 0.0 and len(self.values) > 1):
            raise InputError(
                "an adaptive homotopy needs two values or more, and an error of its steps above 0, "
                f"not {list(self.values)} and {self.error!r}"
            )

    def parameter(self, stage: float) -> float:
        """The value at a stage; between two, on the power law (else the line) through both."""
        first, share = self.values[int(stage)], stage % 1.0
        second = self.values[min(int(stage) + 1, len(self.values) - 1)]
        if min(first, second) > 0.0:
            return float(first * (second / first) ** share)
        return first + share * (second - first)

    @classmethod
    def proposed_by(cls, objective: Homotopy) -> Self | None:
        """The stages that an objective proposes, None if it proposes none."""
        values, iterations = tuple(objective.default_homotopy()), objective.default_stage_iterations
        rules = EARLY_RULES if iterations is None else replace(EARLY_RULES, iterations=iterations)
        return cls(values, rules) if values else None

    @classmethod
    def logarithmic(
        cls, first: float, last: float, stages: int, stage: Stop = EARLY_RULES,
        error: float | None = None,
    ) -> Self:  # fmt: skip
        """``stages`` values spaced evenly in the logarithm from ``first`` to ``last``."""
        if first <= 0 or last <= 0 or stages < 1:
            raise InputError("homotopy needs positive ends and at least one stage")
        ratio = math.log(last / first)
        early = [first * math.exp(ratio * k / (stages - 1)) for k in range(stages - 1)]
        return cls((*early, last), stage, error)


@dataclass
class Stages:
    """The rules of each stage, and the way from one to the next.

    :attr:`columns` are what they add to the trace, :attr:`last` is the number of the last, from 0.
    """

    objective: Objective
    solver: Solver[Any]
    schedule: HomotopySchedule | None
    stop: Stop
    at: Progress

    def __post_init__(self) -> None:
        objective, schedule = self.objective, self.schedule
        self._homotopy = cast(Homotopy, objective)  # where there is a schedule
        self.last = 0 if schedule is None else len(schedule.values) - 1
        self.columns: tuple[str, ...] = ()
        self._predictor: Predictor | None = None
        if schedule is not None:
            require(objective, (Homotopy,), "a homotopy")
            for value in schedule.values:
                self._homotopy.check_homotopy(value)
            if schedule.error is not None:
                wanted = schedule.parameter, schedule.error
                self._predictor = Predictor(objective, self.solver, self.at, *wanted)
        if isinstance(objective, Homotopy):
            self._before = objective.homotopy_parameter
            # The stage, from 0, and the objective at the last parameter, NaN where not known.
            own = () if schedule is None else (Trace.STAGE, "wanted_objective")
            cost = () if self._predictor is None else ("tangent_products",)
            self.columns = (objective.homotopy_name, *own, *cost)

    @property
    def rules(self) -> list[Stop]:
        """The rules that end the run, and those that end a stage before the last."""
        return [self.stop] if self.schedule is None else [self.stop, self.schedule.stage]

    @property
    def left(self) -> int:
        """Number of stages after the present one."""
        return max(0, math.ceil(self.last - self.at.stage))

    def is_cut(self, *used: float) -> bool:
        """Whether so much of a budget is used that the last stage must begin."""
        return not self.stop.budget(*cast(Any, used), share=EARLY_STAGES).running

    def leave(self) -> None:
        """Give the objective the parameter that it had back."""
        if self.schedule is not None and self._homotopy.homotopy_parameter != self._before:
            self._homotopy.homotopy_parameter = self._before

    def shorten(self) -> None:
        """Enter the last stage at the start of a run whose budgets leave no others."""
        if self.left and self.is_cut(0, 0, 0.0):
            self.at.cut = True
            self.enter(self.last)

    def enter(self, stage: float) -> None:
        """Give the objective the parameter of a stage."""
        self.at.stage = stage
        if self.schedule is not None:
            self._homotopy.homotopy_parameter = self.schedule.parameter(min(stage, self.last))

    def following(self, state: SolverState, used: list[float]) -> float:
        """The stage to go on to, the last where a budget demands it, 0 to stay.  Collective."""
        if not self.left:
            return 0
        own = np.array((STATUSES.index(self.status(state)), self.is_cut(*used)))
        number, cut = values_of_all_ranks(self.objective.comm, own)[0]
        status = STATUSES[number]
        if status.failed or (status.running and not cut):
            return 0
        self.at.cut = bool(cut)
        return self.last if cut else self.at.stage + 1

    def entered(self, state: SolverState, stage: float) -> SolverState:
        """The state with which a later stage begins, or an adaptive one before.  Collective."""
        self.at.stage_start = self.at.iteration
        if self.schedule is not None and self.schedule.ended is not None:
            self.schedule.ended(self.at.stage, state.x)
        if self._predictor is not None and not self.at.cut:
            state = self._predictor.advanced(state, self.last, self.enter)
        else:
            self.enter(stage)
            x = self._homotopy.escape_stationary_point(state.x)
            state = cast(SolverState, self.solver.reset(replace(state, x=x)))
        self.at.values = [state.value]
        return state

    def status(self, state: SolverState) -> Status:
        """Convergence of this stage, and in a stage that is not the last also its budget."""
        status = self.solver.status(state)
        if not status.running:
            return status
        rules = self.rules[-1] if self.left else self.stop
        if self.solver.derivative_free or not self.solver.decreases:
            rules = replace(rules, decrease=None)
        # A small gradient of a part says little.
        norm = state.gradient_norm if state.whole else math.nan
        error = float(self.objective.value_error(state.value))
        status = rules.convergence(self.at.values, norm, error)
        if status.running and self.left:
            iterations = self.at.iteration - self.at.stage_start
            status = replace(rules, seconds=None, evaluations=None).budget(iterations, 0, 0.0)
        return status

    def row(self, state: SolverState) -> dict[str, float]:
        """What :attr:`columns` show of a state."""
        if not self.columns:
            return {}
        parameter = self._homotopy.homotopy_parameter
        row = {self.columns[0]: parameter}
        if self.schedule is not None:
            last, known = self.schedule.values[-1], state.value
            if parameter != last:
                known = self._homotopy.value_at(last, state.value)
            row.update(stage=self.at.stage, wanted_objective=known)
        if self._predictor is not None:
            row["tangent_products"] = self.at.products
        return row

    def notes(self) -> list[str]:
        """Sentences on stages that ended early, or were not reached."""
        notes = []
        if self.left and self.schedule is not None:
            name, values = self._homotopy.homotopy_name, self.schedule.values
            notes.append(
                f"stopped before the last stage ({self.at.stage + 1:.3g} of {len(values)}), at "
                f"{name} = {self.schedule.parameter(self.at.stage):g} instead of {values[-1]:g}: "
                "the result is unfinished; raise the limit, or resume the run"
            )
        if self.at.cut:
            notes.append("the stages before the last ended early, to leave it a share of the limit")
        return notes


#: Share of the right-hand side that is left as residual of a tangent; most products; by hand.
TOLERANCE, PRODUCTS = 0.1, 20

#: Largest error of a step that is taken, relative to the one wanted; shortest step; chosen by hand.
ALLOWED, SHORTEST = 2.0, 0.125

#: Least and largest factor of a step, and the share that it takes of the estimate; chosen by hand.
SHRINK, GROWTH, CAUTION = 0.25, 2.0, 0.9

#: Step of a difference of parameters, and least number that is divided by.
DIFFERENCE, TINY = 1e-6, 1e-300


@dataclass
class Predictor:
    """Steps along x(s), the minimum of each stage s, a number between two of a list.

    Predictor and corrector of Allgower and Georg, "Numerical Continuation Methods" (1990), chapter
    6; the corrector is the run's solver, which ends each stage but the last by loose rules.

    With g(x; s) the gradient, the tangent solves H dx/ds = -dg/ds by conjugate gradients in the
    metric of the preconditioner B, to a loose residual or to negative curvature.  The error of a
    step to s' is |B^-1 (g(x + (s' - s) dx/ds; s') - g(x; s))| / |x|: about how far the minimum
    moves beyond what is predicted.  It grows with the square of the step; where nothing is
    predicted, since there are no Hessian products or the step is the shortest, with the step.

    ``parameter`` gives the homotopy parameter at a stage, and ``wanted`` is the error of a step.
    """

    objective: Any
    solver: Solver[Any]
    at: Progress
    parameter: Callable[[float], float]
    wanted: float

    def __post_init__(self) -> None:
        solver, metric = self.solver, self.solver.preconditioner
        if metric is None or metric.is_identity or solver.stochastic or solver.derivative_free:
            raise InputError(
                "an adaptive homotopy measures its steps by gradients in the metric of a "
                "preconditioner: choose a solver that has one, and another than the identity, or "
                "leave out the error of a step"
            )
        self._metric = metric

    def advanced(
        self, state: SolverState, last: float, enter: Callable[[float], None]
    ) -> SolverState:
        """The state with which the next stage begins, which ``enter`` is called with.  Collective.

        A step whose error is too large costs one evaluation, and is shortened.
        """
        at, layout, x, begin = self.at, self.objective.layout, state.x, self.at.stage
        gradient, size = cast(Array, state.gradient), max(layout.norm(x), TINY)
        self._metric.update(x)
        tangent, trial = self._tangent(state, gradient, min(begin + at.stride, last))
        while True:
            enter(min(begin + at.stride, last))
            ahead, order = x, 1.0
            if tangent is not None and at.stride > SHORTEST:
                ahead, order = layout.combine(x, (at.stage - begin,), (tangent,)), 2.0
            free = self.objective.escape_stationary_point(ahead)
            trial = cast(SolverState, self.solver.reset(replace(trial, x=free)))
            if free is not ahead:  # at a stationary point that is left there is no path
                at.stride = min(at.stride, 1.0)
                return trial
            error = layout.norm(self._metric.apply(cast(Array, trial.gradient) - gradient)) / size
            factor = CAUTION * (self.wanted / max(error, TINY)) ** (1.0 / order)
            error, factor = values_of_all_ranks(layout.comm, np.array((error, factor)))[0].tolist()
            if error <= ALLOWED * self.wanted or at.stride <= SHORTEST:
                at.stride = max(SHORTEST, at.stride * min(GROWTH, max(SHRINK, factor)))
                return trial
            at.stride = max(SHORTEST, at.stride * max(SHRINK, min(0.5, factor)))

    def _tangent(
        self, state: SolverState, gradient: Array, stage: float
    ) -> tuple[Array | None, SolverState]:
        """dx/ds by a difference of gradients to another stage, None where there is none."""
        objective, layout, x, begin = self.objective, self.objective.layout, state.x, self.at.stage
        here, there = self.parameter(begin), self.parameter(stage)
        known = isinstance(objective, HessianProduct) and here != there
        bent = isinstance(objective, ManifoldVariable)
        if bent or not known or objective.escape_stationary_point(x) is not x:
            return None, state
        slope = (self.parameter(begin + DIFFERENCE) - here) / DIFFERENCE / (here - there)
        objective.homotopy_parameter = there
        right = slope * (objective.value_and_gradient(x)[1] - gradient)
        objective.homotopy_parameter = here
        solution = conjugate_gradients(
            functools.partial(objective.hessian_product, x), 0.0 * x, right, layout.dot,
            (TOLERANCE * layout.norm(right)) ** 2, PRODUCTS, self._metric.apply,
            lambda a, weight, b: layout.combine(a, (weight,), (b,)),
        )  # fmt: skip
        self.at.products += solution.iterations
        return solution.x, replace(state, evaluations=state.evaluations + 1)

"""The predictor of an adaptive homotopy: steps along the path of minima, by their error.

Predictor and corrector of Allgower and Georg, "Numerical Continuation Methods" (1990), chapter 6;
the corrector is the run's solver, which ends each stage but the last by loose rules.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from thalweg.driver.progress import Progress
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import ManifoldVariable, Solver, SolverState
from thalweg.numerics import conjugate_gradients
from thalweg.parallel import Array, values_of_all_ranks

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

"""Hessian-free optimization: truncated Gauss-Newton steps by conjugate gradients.

Martens (2010), "Deep learning via Hessian-free optimization", with the section
numbers of that paper: damping by the ratio of decreases (4.1), Gauss-Newton
products (4.2), the relative-progress stopping rule (4.4), starting CG from the
last direction (4.5), CG backtracking (4.6) and the diagonal preconditioner (4.7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct
from thalweg.interfaces import Capability, Objective, Preconditioner, Solver, SolverState
from thalweg.parallel import Vector
from thalweg.plugins import Help, check_declared
from thalweg.result import Status
from thalweg_saddlefree.capabilities import (
    AdaptiveDamping,
    draw_curvature_rows,
    krylov_type,
    mean_gradient_squares,
)
from thalweg_saddlefree.curvature import CurvatureOperator, Slices
from thalweg_saddlefree.trial_steps import accept_trial, evaluated_start, go_to_trial, trial_value
from thalweg_saddlefree.truncated_cg import Truncated, truncated_cg

#: Trials of the final line search.
TRIALS = 30


@dataclass(kw_only=True)
class HessianFreeState(SolverState):
    """State of :class:`HessianFree`.

    Attributes
    ----------
    last
        Last CG solution, from which the next one starts.
    counter
        Iterations, which also number the samples of curvature rows.
    damping
        For the next step.
    products
        Gauss-Newton products so far.
    ratio
        Actual over predicted decrease of the last step.
    """

    last: Vector | None = None
    counter: int = 0
    damping: float = 0.0
    products: int = 0
    ratio: float = float("nan")


@dataclass(frozen=True)
class HessianFree(Solver[HessianFreeState]):
    """Solver ``hessian-free``.

    The options are described where they are declared.  The preconditioner is that of CG; with
    one that takes the solver's damping, as ``kronecker``, the diagonal one is left out.

    Raises
    ------
    InputError
        The objective is not finite at the start.
    """

    damping: Annotated[float, Help("initial damping", unit="curvature", above=0)] = 1.0
    progress: Annotated[
        float, Help("relative progress of the model at which CG stops", above=0)
    ] = 5e-4
    steps: Annotated[int, Help("maximum number of CG iterations per direction", minimum=1)] = 250
    decay: Annotated[
        float, Help("factor of the last direction as the start of CG", minimum=0, maximum=1)
    ] = 0.95
    exponent: Annotated[
        float, Help("power of the diagonal preconditioner; 0 switches it off", minimum=0, maximum=1)
    ] = 0.75
    curvature_rows: Annotated[
        int | None,
        Help("number of data rows of curvature products; by default all", unit="rows", minimum=1),
    ] = None
    seed: Annotated[int, Help("seed of samples", minimum=0)] = 0
    preconditioner: Preconditioner | None = None

    preconditioned: ClassVar[bool] = True
    requires: ClassVar[tuple[type[Capability], ...]] = (GaussNewtonProduct,)
    trace_columns: ClassVar[tuple[str, ...]] = ("products", "damping", "ratio")

    def __post_init__(self) -> None:
        check_declared(self)

    @classmethod
    def takes_preconditioner(cls, options: Mapping[str, Any]) -> bool:
        """By default CG is preconditioned by the diagonal of the method's author."""
        return False

    def init(self, objective: Objective, x: Vector) -> HessianFreeState:
        """Evaluate the start."""
        value, gradient, norm = evaluated_start(objective, x, self.curvature_rows)
        return HessianFreeState(
            objective=objective,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=norm,
            evaluations=1,
            last=objective.layout.create_vec(),
            damping=self.damping,
        )

    def step(self, state: HessianFreeState) -> HessianFreeState:
        """One iteration: CG, CG backtracking, line search, new damping."""
        objective = state.objective
        assert state.gradient is not None
        if state.gradient_norm == 0.0:
            state.outcome = Status.SMALL_GRADIENT
            return state
        slices = Slices.of(objective)
        # A refused step is tried again with more damping here: the driver would take a step
        # that lowers nothing for convergence.
        while state.outcome.running and not self._try(state, slices):
            pass
        return state

    def _try(self, state: HessianFreeState, slices: Slices) -> bool:
        """One direction and the search along it; whether the objective fell."""
        objective = state.objective
        assert state.last is not None
        assert state.gradient is not None
        draw_curvature_rows(objective, self.seed, state.counter, self.curvature_rows)
        state.counter += 1
        operator = CurvatureOperator(slices, objective, state.x, gauss_newton=True)
        try:
            solution = truncated_cg(
                slices,
                operator,
                slices.take(state.gradient),
                state.damping,
                start=self.decay * slices.take(state.last),
                solve=self._solve(state, slices),
                progress=self.progress,
                limit=self.steps,
                dtype=krylov_type(objective),
            )
        finally:
            state.products += operator.products
        slices.put(solution.iterates[-1], state.last)
        trial = state.x.duplicate()
        moved = self._take(state, slices, solution, trial)
        if moved:
            trial = accept_trial(state, slices, trial)
        else:
            # CG from a stale direction may fail; from zero it gives descent.
            if state.last.norm() == 0.0 or state.damping > 1e12:
                state.outcome = Status.PRECISION_LIMIT
            state.last.set(0.0)
            state.damping *= 4.0
        return moved

    def trace_row(self, state: HessianFreeState) -> Mapping[str, float]:
        """Products so far, damping and ratio."""
        return {"products": state.products, "damping": state.damping, "ratio": state.ratio}

    # -- parts -----------------------------------------------------------------------------

    def _solve(self, state: HessianFreeState, slices: Slices) -> Callable[[np.ndarray], np.ndarray]:
        """The preconditioner of CG: the one given, or the diagonal of section 4.7.

        The latter is ``(mean squared gradient + damping)^exponent``, for objectives that know
        it where no preconditioner with a damping of its own is given.
        """
        metric = self.preconditioner
        squares = None
        if not isinstance(metric, AdaptiveDamping) and self.exponent > 0:
            squares = mean_gradient_squares(state.objective, state.x, slices)
        if squares is not None:
            diagonal = (squares + state.damping) ** self.exponent
            return lambda piece: piece / diagonal
        if metric is None:
            return lambda piece: piece.copy()
        if isinstance(metric, AdaptiveDamping):
            metric.damp(state.damping)
        metric.update(state.x)

        def solve(piece: np.ndarray) -> np.ndarray:
            residual, direction = state.x.duplicate(), state.x.duplicate()
            slices.put(piece, residual)
            metric.apply(residual, direction)
            solution = slices.take(direction)
            return solution

        return solve

    def _take(
        self, state: HessianFreeState, slices: Slices, solution: Truncated, trial: Vector
    ) -> bool:
        """Choose among CG's iterates and shorten the step until the objective falls."""
        assert state.gradient is not None
        gradient = slices.take(state.gradient)
        index = len(solution.iterates) - 1
        value = trial_value(state, slices, solution.iterates[index], trial)
        # Section 4.6: go back through CG's iterates as long as that is an improvement.
        while index > 0:
            earlier = trial_value(state, slices, solution.iterates[index - 1], trial)
            if not earlier < value:
                break
            value, index = earlier, index - 1
        # Section 4.1: the ratio belongs to the chosen iterate and the undamped model.
        predicted = solution.models[index]
        state.ratio = (value - state.value) / predicted if predicted < 0 else float("-inf")
        step = solution.iterates[index]
        slope = slices.dot(gradient, step)
        length = 1.0
        for _ in range(TRIALS):
            if value < state.value and value <= state.value + 1e-2 * length * min(slope, 0.0):
                break
            length *= 0.8
            value = trial_value(state, slices, length * step, trial)
        if not np.isfinite(state.ratio):
            state.ratio = -1.0
        if state.ratio < 0.25:
            state.damping *= 1.5
        elif state.ratio > 0.75:
            state.damping /= 1.5
        if not value < state.value:
            return False
        go_to_trial(state, slices, length * step, trial)
        state.step_length = length
        return True

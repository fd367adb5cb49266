"""Saddle-free Newton steps from Hessian products alone.

The step ``-(H^2 + damping^2 I)^(-1/2) g`` goes down along every eigenvector, at
Newton's pace where the curvature is positive and away from the saddle where it
is negative (Dauphin et al., 2014; Arjovsky, 2015).  The damping follows the
ratio of the actual to the predicted decrease; a step that raises the objective
is never taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import Capability, HessianProduct, Objective, Solver, SolverState
from thalweg.parallel import PETSc
from thalweg.result import Status
from thalweg_saddlefree.batches import CurvatureBatches
from thalweg_saddlefree.curvature import (
    AbsoluteSolver,
    CurvatureOperator,
    Direction,
    LanczosAbsolute,
    LanczosBasis,
    OdeAbsolute,
    RationalAbsolute,
    Slices,
    SpectrumTooWide,
)
from thalweg_saddlefree.curvature.operator import check_symmetry
from thalweg_saddlefree.gradient_squares import GradientSquares

#: The ways of applying |H|, by the name that users write.
WAYS: dict[str, type[AbsoluteSolver]] = {
    "lanczos": LanczosAbsolute,
    "ode": OdeAbsolute,
    "rational": RationalAbsolute,
}

#: A gradient this much smaller than the largest one met counts as zero.
STATIONARY = 1e-14

#: Trials of one iteration before it gives up.
TRIALS = 40

#: Smaller dampings tried after a very good step.
BOLDER = 4

#: Least damping over the largest Ritz value, if the user sets none.
FLOOR = 1e-7

#: Added to the mean squared gradients, in units of their mean, before the power is taken.
METRIC_FLOOR = 0.01

#: A predicted decrease below this part of the objective is lost in its rounding.
ROUNDING = 1e-13


@dataclass(kw_only=True)
class SaddleFreeState(SolverState):
    """State of :class:`SaddleFree`.

    Attributes
    ----------
    counter
        Iterations, which also number the samples of curvature rows.
    damping
        For the next step.
    largest_norm
        Largest norm of a gradient met.
    products, steps
        Hessian products and Krylov steps so far.
    lowest
        Most negative Ritz value of the last direction.
    ratio
        Actual over predicted decrease of the last step.
    outcome
        Name of the solver's own status.
    """

    counter: int = 0
    damping: float = float("nan")
    largest_norm: float = 0.0
    products: int = 0
    steps: int = 0
    lowest: float = float("nan")
    ratio: float = float("nan")
    outcome: str = "RUNNING"


@dataclass(frozen=True)
class SaddleFree(Solver[SaddleFreeState]):
    """Solver ``saddle-free``.

    Parameters
    ----------
    way
        How |H| is applied: ``"lanczos"``, ``"ode"`` or ``"rational"``.
    tolerance
        Relative error of a direction far from a solution; it tightens with the
        square root of the gradient's decrease.
    progress
        A Lanczos basis also ends when a step of it lowers the quadratic model by less
        than this part, tightened in the same way; 0 switches the rule off.
    steps
        Most Krylov steps a direction.
    damping
        First damping, in units of the Hessian. Default: a hundredth of the largest
        Ritz value in size. With 0, the damping stays 0 as long as steps are
        accepted, and a singular Hessian is refused.
    least_damping
        The damping does not fall below it. Default: 1e-7 of the largest Ritz value,
        or 0 if ``damping`` is 0.
    curvature_rows
        Data rows that curvature products see in an iteration; default all. Samples
        that are too small show as low ratios and a damping that stays high.
    exponent
        Where the objective knows its mean squared gradients, the variables are scaled
        by their power ``-exponent / 2`` first, and |.| is that of the scaled Hessian;
        0 switches it off.
    seed
        Seed of the samples and of the probes.

    Raises
    ------
    InputError
        The objective is not finite at the start, its Hessian product is not
        symmetric, or H is singular without damping.
    """

    way: str = "lanczos"
    tolerance: float = 0.3
    progress: float = 0.03
    steps: int = 150
    damping: float | None = None
    least_damping: float | None = None
    curvature_rows: int | None = None
    exponent: float = 0.75
    seed: int = 0

    requires: ClassVar[tuple[type[Capability], ...]] = (HessianProduct,)
    trace_columns: ClassVar[tuple[str, ...]] = (
        "products",
        "lanczos_steps",
        "lowest_ritz_value",
        "damping",
        "ratio",
    )

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise InputError(f"way must be one of {', '.join(WAYS)}, not {self.way!r}")
        if not (0 < self.tolerance < 1 and self.steps >= 1 and self.progress >= 0):
            raise InputError(
                "tolerance must lie between 0 and 1, steps be at least 1, and progress at least 0"
            )
        if min(self.damping or 0.0, self.least_damping or 0.0) < 0:
            raise InputError("damping and least_damping must not be negative")

    def init(self, objective: Objective, x: PETSc.Vec) -> SaddleFreeState:
        """Evaluate the start and probe the Hessian product for symmetry."""
        if self.curvature_rows is not None and not isinstance(objective, CurvatureBatches):
            raise InputError(
                f"{type(objective).__name__} has no data rows to sample; leave curvature_rows out"
            )
        gradient = objective.layout.create_vec()
        value = objective.value_and_gradient(x, gradient)
        slices = Slices.of(objective)
        norm = slices.norm(slices.take(gradient))
        if not np.isfinite(value) or not np.isfinite(norm):
            raise InputError(
                f"the objective or its gradient is not finite at the starting point ({value}); "
                "start from another point or scale the data"
            )
        state = SaddleFreeState(
            objective=objective,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=norm,
            evaluations=1,
            largest_norm=norm,
        )
        self._draw(state)
        operator = CurvatureOperator(slices, objective, x)
        check_symmetry(slices, operator, self.seed)
        state.products = operator.products
        operator.destroy()
        if self.damping is not None:
            state.damping = max(self.damping, self.least_damping or 0.0)
        return state

    def step(self, state: SaddleFreeState) -> SaddleFreeState:
        """One iteration: a basis, then trials of dampings until the objective falls."""
        objective = state.objective
        assert state.gradient is not None
        self._draw(state)
        slices = Slices.of(objective)
        operator = CurvatureOperator(slices, objective, state.x)
        trial = state.x.duplicate()
        try:
            if state.gradient_norm <= STATIONARY * state.largest_norm:
                moved = self._leave_stationary_point(state, slices, operator, trial)
            else:
                moved = self._descend(state, slices, operator, trial)
        finally:
            state.products += operator.products
            operator.destroy()
        if moved:
            state.x, trial = trial, state.x
            state.value = objective.value_and_gradient(state.x, state.gradient)
            state.gradient_norm = slices.norm(slices.take(state.gradient))
            state.largest_norm = max(state.largest_norm, state.gradient_norm)
            state.evaluations += 1
            state.counter += 1
        trial.destroy()
        return state

    def status(self, state: SaddleFreeState) -> Status:
        """Stalled, or converged at a minimum, when no step lowers the objective."""
        return Status[state.outcome]

    def trace_row(self, state: SaddleFreeState) -> Mapping[str, float]:
        """Products and Krylov steps so far; the rest of the last step."""
        return {
            "products": state.products,
            "lanczos_steps": state.steps,
            "lowest_ritz_value": state.lowest,
            "damping": state.damping,
            "ratio": state.ratio,
        }

    # -- parts -----------------------------------------------------------------------------

    def _draw(self, state: SaddleFreeState) -> None:
        if isinstance(state.objective, CurvatureBatches):
            state.objective.draw_curvature_rows(self.seed, state.counter, self.curvature_rows)

    def _descend(
        self,
        state: SaddleFreeState,
        slices: Slices,
        operator: CurvatureOperator,
        trial: PETSc.Vec,
    ) -> bool:
        """Find a damping whose step lowers the objective; ``trial`` is then the new point."""
        forcing = min(1.0, state.gradient_norm / state.largest_norm) ** 0.5
        tolerance = max(1e-10, self.tolerance * forcing)
        assert state.gradient is not None
        metric = self._metric(state, slices)
        parts = (
            slices,
            lambda piece: metric * operator(metric * piece),
            metric * slices.take(state.gradient),
            tolerance,
            self.steps,
        )
        solver = (
            LanczosAbsolute(*parts, progress=self.progress * forcing)
            if self.way == "lanczos"
            else WAYS[self.way](*parts)
        )
        if np.isnan(state.damping):
            state.damping = 1e-2 * solver.largest()
        damping = state.damping
        found: tuple[float, Direction, float] | None = None
        for _ in range(TRIALS):
            try:
                direction = solver.direction(damping)
            except SpectrumTooWide:
                damping = max(4.0 * damping, 1e-4 * solver.largest())
                continue
            value = self._try(state, slices, metric * direction.step, trial)
            predicted = direction.model.change
            ratio = (value - state.value) / predicted if predicted < 0 else float("-inf")
            if value < state.value and ratio > 1e-4:
                found = (value, direction, ratio)
                break
            if -predicted <= ROUNDING * abs(state.value):
                if value <= state.value and self._flatter(state, slices, trial):
                    found = (value, direction, ratio)
                break
            # From a damping of zero, start at a thousandth of the spectrum's size.
            damping = 4.0 * damping if damping > 0 else 1e-3 * solver.largest()
        state.steps += solver.steps
        state.lowest = solver.lowest
        if found is None:
            state.outcome = Status.STALLED.name
            return False
        value, direction, ratio = found
        if isinstance(solver, LanczosAbsolute):
            value, direction, ratio, damping = self._bolder(
                state, slices, metric, solver, trial, value, direction, ratio, damping
            )
        self._move(state, slices, metric * direction.step, trial)
        state.ratio = ratio
        state.step_length = slices.norm(direction.step)
        if ratio > 0.75:
            damping /= 3.0
        elif ratio < 0.25:
            damping *= 2.0
        state.damping = max(damping, self._floor(solver))
        return True

    def _metric(self, state: SaddleFreeState, slices: Slices) -> np.ndarray | float:
        """Scaling S of the variables: |S H S| is applied, and the step is S times the result."""
        if self.exponent == 0.0 or not isinstance(state.objective, GradientSquares):
            return 1.0
        squares = state.x.duplicate()
        state.objective.gradient_squares(state.x, squares)
        local = slices.take(squares)
        squares.destroy()
        mean = slices.dot(local, np.ones_like(local)) / slices.size
        if not mean > 0:
            return 1.0
        return np.asarray((local / mean + METRIC_FLOOR) ** (-0.5 * self.exponent))

    def _floor(self, solver: AbsoluteSolver) -> float:
        if self.damping == 0.0 or self.least_damping is not None:
            return self.least_damping or 0.0
        return FLOOR * solver.largest()

    def _flatter(self, state: SaddleFreeState, slices: Slices, trial: PETSc.Vec) -> bool:
        """Whether the gradient is smaller at ``trial``: the test where values only round."""
        gradient = trial.duplicate()
        state.objective.value_and_gradient(trial, gradient)
        state.evaluations += 1
        norm = slices.norm(slices.take(gradient))
        gradient.destroy()
        return norm < state.gradient_norm

    def _bolder(
        self,
        state: SaddleFreeState,
        slices: Slices,
        metric: np.ndarray | float,
        solver: LanczosAbsolute,
        trial: PETSc.Vec,
        value: float,
        direction: Direction,
        ratio: float,
        damping: float,
    ) -> tuple[float, Direction, float, float]:
        """Smaller dampings from the same basis, as long as the model is good and they gain."""
        floor = self._floor(solver)
        for _ in range(BOLDER):
            if ratio < 0.75 or damping <= floor or damping == 0.0:
                break
            smaller = max(damping / 3.0, floor)
            other = solver.cheap_direction(smaller)
            reached = self._try(state, slices, metric * other.step, trial)
            if not reached < value:
                break
            value, direction, damping = reached, other, smaller
            ratio = (value - state.value) / direction.model.change
        return value, direction, ratio, damping

    def _leave_stationary_point(
        self,
        state: SaddleFreeState,
        slices: Slices,
        operator: CurvatureOperator,
        trial: PETSc.Vec,
    ) -> bool:
        """At a zero gradient: follow the most negative Ritz vector, or end if there is none."""
        basis = LanczosBasis(slices, slices.random_normal(self.seed + 17 * state.counter))
        while len(basis) < min(self.steps, 60) and not basis.complete:
            basis.extend(operator)
        values = basis.ritz_values()
        lowest, vector = basis.lowest_ritz_pair()
        state.steps += len(basis)
        state.lowest = lowest
        if lowest >= -1e-10 * max(float(np.abs(values).max()), 1e-300):
            state.outcome = Status.GRADIENT.name
            return False
        point = slices.take(state.x)
        length = max(1.0, slices.norm(point))
        for _ in range(TRIALS):
            for sign in (1.0, -1.0):
                value = self._try(state, slices, sign * length * vector, trial)
                if value < state.value:
                    predicted = 0.5 * lowest * length**2
                    state.ratio = (value - state.value) / predicted
                    state.step_length = length
                    return True
            length *= 0.25
        state.outcome = Status.STALLED.name
        return False

    def _try(
        self, state: SaddleFreeState, slices: Slices, step: np.ndarray, trial: PETSc.Vec
    ) -> float:
        """Objective at ``x + step``; infinite if it is not finite."""
        self._move(state, slices, step, trial)
        state.evaluations += 1
        with np.errstate(over="ignore", invalid="ignore"):
            value = state.objective.value(trial)
        return value if np.isfinite(value) else float("inf")

    def _move(
        self, state: SaddleFreeState, slices: Slices, step: np.ndarray, trial: PETSc.Vec
    ) -> None:
        """Overwrite ``trial`` with ``x + step``."""
        slices.put(step, trial)
        trial.axpy(1.0, state.x)

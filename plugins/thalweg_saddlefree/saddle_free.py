"""Saddle-free Newton steps from Hessian products alone.

The step ``-(H^2 + damping^2 I)^(-1/2) g`` goes down along every eigenvector, at Newton's pace where
the curvature is positive and away from the saddle where it is negative (Dauphin et al., 2014;
Arjovsky, 2015).  The damping follows the ratio of the actual to the predicted decrease; a step that
raises the objective is never taken.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.errors import InputError, NumericalError
from thalweg.interfaces import Capability, Objective, Solver, SolverState, require
from thalweg.parallel import Array
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_saddlefree.capabilities import (
    CurvatureRowsSolver,
    draw_curvature_rows,
    krylov_type,
    mean_gradient_squares,
)
from thalweg_saddlefree.curvature import (
    AbsoluteSolver,
    CurvatureOperator,
    LanczosAbsolute,
    OdeAbsolute,
    Slices,
)
from thalweg_saddlefree.curvature.basis import lowest_curvature
from thalweg_saddlefree.curvature.operator import check_symmetry
from thalweg_saddlefree.step_search import LEAST_RATIO, ROUNDING, StepSearch, Trials

#: A gradient counts as zero where its square may vanish, and at this part of the largest one met.
VANISHED, STATIONARY = 1e-150, 1e-14

#: Lengths tried along negative curvature where the gradient gives no step; chosen by hand.
LENGTHS = 40

#: Least damping over the largest Ritz value, unless the user sets it to 0; chosen by hand.
FLOOR = 1e-7

#: Power of the mean squared gradients that scales the variables (Martens 2010, section 4.7), and
#: what is added to them first, in units of their mean.
EXPONENT, METRIC_FLOOR = 0.75, 0.01

#: The Lanczos process ends when a step lowers the model by less than this share; chosen by hand.
PROGRESS = 0.03


@dataclass(frozen=True, kw_only=True)
class SaddleFreeState(SolverState):
    """State of :class:`SaddleFree`."""

    counter: int = 0  # iterations, which also number the samples of curvature rows
    damping: float = float("nan")  # for the next step; before the first NaN
    largest_norm: float = 0.0  # largest norm of a gradient met
    #: Hessian products and Krylov steps so far.
    products: int = 0
    lanczos_steps: int = 0
    lowest_ritz_value: float = float("nan")  # most negative Ritz value of the last direction
    ratio: float = float("nan")  # actual over predicted decrease of the last step


@dataclass(frozen=True)
class SaddleFree(CurvatureRowsSolver, Solver[SaddleFreeState]):
    """Solver ``saddle-free``.

    The options are described where they are declared.  ``"gauss-newton"`` cannot see negative
    curvature.  ``tolerance`` holds far from a solution: it tightens with the square root of
    the gradient's decrease.  With a ``damping`` of 0 it stays 0 as long as steps are accepted,
    and a singular Hessian is refused.  Samples of ``curvature_rows`` that are too small show as
    low ratios and a damping that stays high.  Where the objective knows its mean squared
    gradients, the variables are scaled by a power of them first, and |.| is that of the scaled
    Hessian.  With a preconditioner, which only ``"lanczos"`` takes, it is that in its metric: of
    the eigenvalues of B^-1 H, without that scaling.

    Raises
    ------
    InputError
        The Hessian product of double precision is not symmetric, H is singular without damping,
        or ``"ode"`` has a preconditioner.
    """

    method: Annotated[
        Literal["lanczos", "ode"], Help("|H| by one Lanczos basis, or by a differential equation")
    ] = "lanczos"
    curvature: Annotated[
        Literal["hessian", "gauss-newton"], Help("products of the Hessian or Gauss-Newton matrix")
    ] = "hessian"
    tolerance: Annotated[float, Help("relative error of a direction", above=0, below=1)] = 0.3
    steps: Annotated[int, Help("maximum number of Krylov steps per direction", minimum=1)] = 150
    damping: Annotated[
        float | None,
        Help("initial; a hundredth of the largest Ritz value if none", unit="curvature", minimum=0),
    ] = None

    requires: ClassVar[tuple[type[Capability], ...]] = (HessianProduct,)
    trace_columns = ("products", "lanczos_steps", "lowest_ritz_value", "damping", "ratio")

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.preconditioner
        if self.method != "lanczos" and inner is not None and not inner.is_identity:
            raise InputError(f"method = '{self.method}' takes no preconditioner; use 'lanczos'")

    def init(self, objective: Objective, x: Array) -> SaddleFreeState:
        """Evaluate the start and probe the Hessian product for symmetry."""
        if self.curvature == "gauss-newton":
            require(objective, (GaussNewtonProduct,), "curvature = 'gauss-newton'")
        draw_curvature_rows(objective, self.seed, 0, self.curvature_rows)
        state = SaddleFreeState.evaluated(objective, x)
        slices = Slices.of(objective)
        operator = CurvatureOperator(slices, objective, x)
        check_symmetry(slices, operator, self.seed, krylov_type(objective))
        return replace(state, largest_norm=state.gradient_norm, products=operator.products)

    def step(self, state: SaddleFreeState) -> SaddleFreeState:
        """One iteration: a basis, then trials of dampings until the objective falls."""
        draw_curvature_rows(state.objective, self.seed, state.counter, self.curvature_rows)
        slices = Slices.of(state.objective)
        if state.gradient_norm > min(VANISHED, STATIONARY * state.largest_norm):
            try:
                moved = self._descended(state, slices)
            except NumericalError as error:  # a product overflows, or a solve with B
                state.objective.note(str(error))
                return replace(state, outcome=Status.DIVERGED)
        else:
            moved = replace(state, outcome=Status.SMALL_GRADIENT)
        state = self._left_stationary_point(moved, slices) if moved.x is state.x else moved
        return replace(state, largest_norm=max(state.largest_norm, state.gradient_norm))

    def _descended(self, state: SaddleFreeState, slices: Slices) -> SaddleFreeState:
        """The next iterate, or the same where no damping gives a step that lowers the objective."""
        gauss_newton = self.curvature == "gauss-newton"
        operator = CurvatureOperator(slices, state.objective, state.x, gauss_newton)
        metric = self._metric(state, slices)
        solver = self._solver(state, slices, operator, metric)
        damping = self.damping if math.isnan(state.damping) else state.damping
        if damping is None:
            damping = 1e-2 * solver.largest()
        floor = 0.0 if self.damping == 0.0 else FLOOR * solver.largest()
        trials = Trials(state, slices)
        search = StepSearch(state, trials, solver, metric, floor)
        accepted = search.run(damping)
        state = replace(
            state, products=state.products + operator.products,
            lanczos_steps=state.lanczos_steps + solver.steps, lowest_ritz_value=solver.lowest,
        )  # fmt: skip
        if accepted is None:
            return trials.refused(state)
        damping = accepted.damping
        if accepted.ratio > 0.75:
            damping /= 3.0
        elif accepted.ratio < 0.25:
            damping *= 2.0
        damping = max(damping, floor)
        return trials.accepted(
            state, search.step(accepted.direction, accepted.length), counter=state.counter + 1,
            ratio=accepted.ratio, damping=damping,
            step_length=accepted.length * slices.norm(accepted.direction.step),
        )  # fmt: skip

    def _solver(
        self,
        state: SaddleFreeState,
        slices: Slices,
        operator: CurvatureOperator,
        metric: np.ndarray | float,
    ) -> AbsoluteSolver:
        """Solver for directions in the variables scaled by ``metric``."""
        assert state.gradient is not None
        forcing = min(1.0, state.gradient_norm / state.largest_norm) ** 0.5
        parts = (
            slices,
            lambda piece: metric * operator(metric * piece),
            metric * slices.take(state.gradient),
            max(1e-10, self.tolerance * forcing),
            self.steps,
        )
        if self.method != "lanczos":
            return OdeAbsolute(*parts)
        options = {"progress": PROGRESS * forcing, "dtype": krylov_type(state.objective)}
        inner = self.preconditioner
        if inner is not None and not inner.is_identity:
            inner.update(state.x)
            options["solve"] = lambda piece: slices.take(inner.apply(slices.join(piece)))
        return LanczosAbsolute(*parts, **options)

    def _metric(self, state: SaddleFreeState, slices: Slices) -> np.ndarray | float:
        """Scaling S of the variables: |S H S| is applied, and the step is S times the result."""
        if self.preconditioner is not None and not self.preconditioner.is_identity:
            return 1.0
        squares = mean_gradient_squares(state.objective, state.x, slices)
        if squares is None:
            return 1.0
        mean = slices.dot(squares, np.ones_like(squares)) / slices.size
        if not mean > 0:
            return 1.0
        return np.asarray((squares / mean + METRIC_FLOOR) ** (-0.5 * EXPONENT))

    def _left_stationary_point(self, state: SaddleFreeState, slices: Slices) -> SaddleFreeState:
        """Follow the most negative Ritz vector where the gradient shows in no value, or end."""
        operator = CurvatureOperator(slices, state.objective, state.x)
        seed = self.seed + 17 * state.counter
        kind = krylov_type(state.objective)
        lowest, vector, steps = lowest_curvature(slices, operator, seed, self.steps, kind)
        products = state.products + operator.products
        steps += state.lanczos_steps
        state = replace(state, products=products, lanczos_steps=steps, lowest_ritz_value=lowest)
        if vector is None:
            return state
        trials = Trials(state, slices)
        length = max(1.0, slices.norm(slices.take(state.x)))
        for _ in range(LENGTHS):
            predicted = 0.5 * lowest * length**2
            if abs(predicted) <= ROUNDING * abs(state.value):
                break
            for sign in (1.0, -1.0):
                step = sign * length * vector
                ratio = (trials.value(step) - state.value) / predicted
                if ratio > LEAST_RATIO:
                    return trials.accepted(
                        state, step, counter=state.counter + 1, ratio=ratio, step_length=length,
                        outcome=Status.RUNNING,
                    )  # fmt: skip
            length *= 0.25
        return trials.refused(state)

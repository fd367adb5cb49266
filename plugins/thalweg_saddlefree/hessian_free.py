"""Hessian-free optimization: truncated Gauss-Newton steps by conjugate gradients.

Martens (2010), "Deep learning via Hessian-free optimization", with the section
numbers of that paper: damping by the ratio of decreases (4.1), Gauss-Newton
products (4.2), the relative-progress stopping rule (4.4), starting CG from the
last direction (4.5), CG backtracking (4.6) and the diagonal preconditioner (4.7).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct
from thalweg.interfaces import Capability, Objective, Rows, Solver, SolverState
from thalweg.parallel import Array
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_saddlefree.capabilities import (
    AdaptiveDamping,
    CurvatureRowsSolver,
    draw_curvature_rows,
    krylov_type,
    mean_gradient_squares,
)
from thalweg_saddlefree.curvature import CurvatureOperator
from thalweg_saddlefree.curvature.operator import Product
from thalweg_saddlefree.curvature.slices import Slices, Store
from thalweg_saddlefree.step_search import Trials

#: Ratio of the iteration numbers whose iterates are stored (Martens 2010, section 4.6).
STORED = 1.3


@dataclass(frozen=True)
class Truncated:
    """Result of CG."""

    iterates: list[np.ndarray]  # this rank's slices of some iterates, the last one included
    #: For each, the change of the objective that the undamped quadratic model predicts.
    models: list[float]
    iterations: int  # CG iterations made


def truncated_cg(
    slices: Slices,
    product: Product,
    gradient: np.ndarray,
    damping: float,
    start: np.ndarray,
    solve: Callable[[np.ndarray], np.ndarray],
    progress: float,
    limit: int,
    dtype: np.dtype[Any] | None = None,
) -> Truncated:
    """Minimize ``g'x + x'(G + damping I)x / 2`` until progress becomes slow.

    Martens (2010), section 4.4: after iteration i stop when the model phi has
    ``phi(i) < 0`` and ``(phi(i) - phi(i-k)) / phi(i) < k progress`` with
    ``k = max(10, i / 10)``, or after ``limit`` iterations.  G, of which ``product`` is the product,
    is positive semidefinite, and the preconditioner, with which ``solve`` solves, definite.

    In exact arithmetic residuals are orthogonal in the preconditioner's inverse.  Keeping them so
    costs little beside a product, spares repeated ones, and keeps rounding from growing to a
    different path on another number of ranks.  They are stored in ``dtype``, by default double.
    """

    def damped(piece: np.ndarray) -> np.ndarray:
        return product(piece) + damping * piece

    def model(x: np.ndarray, r: np.ndarray) -> float:
        # phi(x) = g'x + x'Ax/2 = -(r + b)'x/2 with b = -g and r the residual.
        return -0.5 * slices.dot(r - gradient, x)

    x, r = start, -gradient
    if slices.dot(x, x) > 0:
        r = r - damped(x)
    phi, z = [model(x, r)], solve(r)
    direction, rz, previous = z, slices.dot(r, z), 0.0
    residuals, solved = Store(slices, dtype), Store(slices, dtype)
    iterates: dict[int, np.ndarray] = {}
    stored_at, iteration = 1, 0
    while iteration < limit and rz > 1e-30 * previous:
        residuals.append(r / math.sqrt(rz))
        solved.append(z / math.sqrt(rz))
        Ap = damped(direction)
        pAp = slices.dot(direction, Ap)
        if not pAp > 0:
            break
        alpha = rz / pAp
        x = x + alpha * direction
        r = r - alpha * Ap
        residuals.subtract(solved.coefficients(r), r)
        iteration += 1
        phi.append(model(x, r))
        if iteration == stored_at:
            iterates[iteration] = x
            stored_at = max(stored_at + 1, math.ceil(stored_at * STORED))
        window = max(10, iteration // 10)
        falls = iteration > window and phi[-1] < 0
        if falls and (phi[-1] - phi[-1 - window]) / phi[-1] < window * progress:
            break  # the last iterations lowered the model by less than ``progress`` each
        z = solve(r)
        rz, previous = slices.dot(r, z), rz
        direction = z + (rz / previous) * direction
    iterates[iteration] = x
    models = [phi[i] - 0.5 * damping * slices.dot(some, some) for i, some in iterates.items()]
    return Truncated(list(iterates.values()), models, iteration)


#: Trials of the final line search; chosen by hand.
TRIALS = 30

#: Factor of the last direction as the start of CG, and power of the diagonal preconditioner.
DECAY, EXPONENT = 0.95, 0.75


@dataclass(frozen=True, kw_only=True)
class HessianFreeState(SolverState):
    """State of :class:`HessianFree`."""

    last: Rows  # last CG solution, from which the next one starts
    counter: int = 0  # iterations, which also number the samples of curvature rows
    damping: float  # for the next step
    products: int = 0  # Gauss-Newton products so far
    ratio: float = float("nan")  # actual over predicted decrease of the last step


@dataclass(frozen=True)
class HessianFree(CurvatureRowsSolver, Solver[HessianFreeState]):
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

    requires: ClassVar[tuple[type[Capability], ...]] = (GaussNewtonProduct,)
    trace_columns: ClassVar[tuple[str, ...]] = ("products", "damping", "ratio")

    def init(self, objective: Objective, x: Array) -> HessianFreeState:
        draw_curvature_rows(objective, self.seed, 0, self.curvature_rows)
        return HessianFreeState.evaluated(objective, x, last=np.zeros_like(x), damping=self.damping)

    def step(self, state: HessianFreeState) -> HessianFreeState:
        """One iteration: CG, CG backtracking, line search, new damping."""
        if state.gradient_norm == 0.0:
            return replace(state, outcome=Status.SMALL_GRADIENT)
        slices, x = Slices.of(state.objective), state.x
        # A refused step is tried again with more damping here: the driver would take a step
        # that lowers nothing for convergence.
        while state.outcome.running and state.x is x:
            state = self._tried(state, slices)
        return state

    def _tried(self, state: HessianFreeState, slices: Slices) -> HessianFreeState:
        """The next iterate, by one direction, or the same with more damping."""
        objective = state.objective
        assert state.gradient is not None
        draw_curvature_rows(objective, self.seed, state.counter, self.curvature_rows)
        operator = CurvatureOperator(slices, objective, state.x, gauss_newton=True)
        solution = truncated_cg(
            slices, operator, slices.take(state.gradient), state.damping,
            start=DECAY * slices.take(state.last), solve=self._solve(state, slices),
            progress=self.progress, limit=self.steps, dtype=krylov_type(objective),
        )  # fmt: skip
        products, last = state.products + operator.products, slices.join(solution.iterates[-1])
        state = replace(state, counter=state.counter + 1, products=products, last=last)
        return self._searched(state, slices, solution)

    def _solve(self, state: HessianFreeState, slices: Slices) -> Callable[[np.ndarray], np.ndarray]:
        """The preconditioner of CG: the one given, or the diagonal of section 4.7.

        The latter is ``(mean squared gradient + damping)^(3/4)``, for objectives that know
        it where no preconditioner with a damping of its own is given.
        """
        metric = self.preconditioner
        if isinstance(metric, AdaptiveDamping):
            metric.damp(state.damping)
        elif (squares := mean_gradient_squares(state.objective, state.x, slices)) is not None:
            diagonal = (squares + state.damping) ** EXPONENT
            return lambda piece: piece / diagonal
        if metric is None:
            return lambda piece: piece
        metric.update(state.x)
        return lambda piece: slices.take(metric.apply(slices.join(piece)))

    def _searched(
        self, state: HessianFreeState, slices: Slices, solution: Truncated
    ) -> HessianFreeState:
        """Choose among CG's iterates and shorten the step until the objective falls."""
        assert state.gradient is not None
        trials, index = Trials(state, slices), len(solution.iterates) - 1
        value = trials.value(solution.iterates[index])
        # Section 4.6: go back through CG's iterates as long as that is an improvement.
        while index > 0:
            earlier = trials.value(solution.iterates[index - 1])
            if not earlier < value:
                break
            value, index = earlier, index - 1
        # Section 4.1: the ratio belongs to the chosen iterate and the undamped model.
        predicted = solution.models[index]
        ratio = (value - state.value) / predicted if predicted < 0 else -1.0
        if not np.isfinite(ratio):
            ratio = -1.0
        step = solution.iterates[index]
        slope = slices.dot(slices.take(state.gradient), step)
        length = 1.0
        for _ in range(TRIALS):
            if value < state.value and value <= state.value + 1e-2 * length * min(slope, 0.0):
                break
            length *= 0.8
            value = trials.value(length * step)
        damping = state.damping
        if ratio < 0.25:
            damping *= 1.5
        elif ratio > 0.75:
            damping /= 1.5
        if value < state.value:
            return trials.accepted(
                state, length * step, ratio=ratio, damping=damping, step_length=length
            )
        # CG from a stale direction may fail; from zero it gives descent.
        hopeless = state.objective.layout.norm(state.last) == 0.0 or damping > 1e12
        outcome = Status.PRECISION_LIMIT if hopeless else state.outcome
        changes = {"ratio": ratio, "last": np.zeros_like(state.x), "damping": 4.0 * damping}
        return trials.refused(state, outcome, **changes)

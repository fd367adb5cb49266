"""FroMax (Luo et al., Algorithm 1): a factor near a matrix that satisfies the bounds.

``min 1/2 ||P - Psi^T Psi||_F^2  s.t.  |A(P) - 1| <= delta`` with ``Psi = Y = X^T``, by
ADMM on (3.4).  Two things are put right: the multipliers of (3.4) are not scaled, so
that the q-step projects ``A(P) + lambda / beta_1`` (printed: ``A(P) - lambda``), and
lambda lives in R^S.  P itself is not kept positive semidefinite; the answer is the factor, and it
is the factor that is held against the bounds.  ``steps="published"`` is Algorithm 1 to the letter
but for the misprint; MATHEMATICS.md lists where the default departs from it.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.parallel import agreed
from thalweg.plugins import Help
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.normal_equations import InnerSolver, Steps, bounded_forms
from thalweg_isometry.search import Adjust, AdmmSearch
from thalweg_isometry.search_state import Inner, SearchState

#: Iterations of an attempt after which both penalties are doubled; chosen by hand.
RAISE_AFTER = 100

#: Bounds below which an attempt ends by smaller movements, in proportion; chosen by hand.
WIDE = 0.1


@dataclass(frozen=True, kw_only=True)
class FroMaxState(SearchState):
    """State of ``fromax``: the matrices X, P and Gamma of the attempt, if any."""

    x_factor: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    p: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    gamma: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True)
class FroMaxSearch(AdmmSearch[FroMaxState]):
    """Solver ``fromax``."""

    adjust: Adjust = "published"
    beta1: Annotated[float, Help("ADMM penalty of the constraint A(P) = q", above=0)] = 0.1
    beta2: Annotated[float, Help("ADMM penalty of the constraint Y = X^T", above=0)] = 0.1
    tolerance: Annotated[
        float, Help("half the squared Frobenius norm of P - X Y at which an attempt ends", above=0)
    ] = 1e-6
    steps: Steps = "joint"
    inner_solver: InnerSolver = "auto"
    sweep: Annotated[int, Help("ADMM iterations per step", minimum=1)] = 25
    limit: Annotated[int, Help("ADMM iterations per attempt", minimum=1)] = 600

    aim: ClassVar[float] = 0.95
    state_type: ClassVar[type[Any]] = FroMaxState

    def begin_attempt(self, state: FroMaxState) -> FroMaxState:
        """Forget the matrices, which may be of another rank."""
        none = np.empty((0, 0))
        return replace(state, x_factor=none, p=none, gamma=none)

    def inner(self, state: FroMaxState, active: ActiveSecants) -> tuple[FroMaxState, Inner]:
        """Some ADMM iterations; met as soon as the factor satisfies the bounds."""
        # The multipliers are not scaled, so that they hold for any penalties.
        published = self.steps == "published"
        raised = 1.0 if published else 2.0 ** (state.attempt.iterations // RAISE_AFTER)
        beta1, beta2 = raised * self.beta1, raised * self.beta2
        forms = bounded_forms(state, self.inner_solver)
        aim = 1.0 if published else self.aim
        delta = aim * state.attempt.delta
        goal = 0.5 * (1.0 + aim) * state.attempt.delta
        y = state.psi
        rank = len(y)
        x = state.x_factor if len(state.x_factor) else y.T.copy()
        product = agreed(active.comm, x @ y)
        p = state.p if len(state.p) else product
        gamma = state.gamma if len(state.gamma) else np.zeros_like(y)
        multiplier = state.dual
        ridge = beta2 * np.eye(rank)
        # Of small bounds P misses many while it moves little.
        small = self.tolerance * (1.0 if published else min(1.0, delta / WIDE) ** 2)
        worst, converged = np.inf, False
        used = 0
        while used < self.sweep:
            used += 1
            before, center = p, 0.5 * (product + product.T)
            p, excess = forms.nearest(center, multiplier / beta1, beta1, delta, p, self.steps)
            if published:  # (3.9) leaves what no secant sees of X Y in P
                p = p + (product - center)
            x = np.linalg.solve(y @ y.T + ridge, (gamma.T + beta2 * y.T + p @ y.T).T).T
            y = np.linalg.solve(x.T @ x + ridge, x.T @ p - gamma + beta2 * x.T)
            x, y, product = agreed(active.comm, (x, y, x @ y))
            multiplier = multiplier + (beta1 * excess - multiplier)
            gamma = gamma + beta2 * (y - x.T)
            worst = active.delta(y)
            state = self.approach(state, y, worst)
            norms = [float(np.linalg.norm(m)) for m in (p - product, p - before, p)]
            gap, moved, size = agreed(active.comm, norms)
            # Algorithm 1 ends by the gap alone, also where P is still on its way.
            converged = 0.5 * max(gap, 0.0 if published else moved) ** 2 < small
            if worst <= goal or converged:
                break
        state = replace(
            state, residual=gap / max(1.0, size), dual_residual=moved / max(1.0, size),
            dual=multiplier, x_factor=x, p=p, gamma=gamma,
        )  # fmt: skip
        exhausted = state.attempt.iterations + used >= self.limit
        over = exhausted or converged
        met = worst <= goal or (over and worst <= state.attempt.delta)
        capped = exhausted and not converged and not met
        return state, Inner(y, met, over and not met, worst, used, capped)

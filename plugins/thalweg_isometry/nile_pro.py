"""NILE-Pro (Luo et al., Algorithm 2): the largest distortion itself, by ADMM.

``min ||q - 1||_inf  s.t.  q = A(Psi^T Psi)``, the q-step by Moreau's decomposition and
the exact projection onto the l1 ball, the Psi-step (4.4) by gradient steps.  With the
scaled multiplier of (4.3) its update is ``omega <- omega - (A(Psi^T Psi) - q)``, without
the factor beta that is printed.  What the paper leaves open in the Psi-step: directions
are conjugate gradients (Polak and Ribiere), and the length is the exact minimizer on the
line, along which (4.4) is a polynomial of degree four; so no step can diverge.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.parallel import MPI, agreed
from thalweg.plugins import Help
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.search import Adjust, AdmmSearch
from thalweg_isometry.search_state import Inner, SearchState


@dataclass(frozen=True, kw_only=True)
class NileProState(SearchState):
    """State of ``nile-pro``."""

    last: tuple[np.ndarray, ...] = ()  # gradient and direction of the last Psi-step, if any


@dataclass(frozen=True)
class NileProSearch(AdmmSearch[NileProState]):
    """Solver ``nile-pro``."""

    adjust: Adjust = "published"
    beta: Annotated[
        float | None, Help("penalty of q = A(Psi^T Psi); 200 over the number of secants", above=0)
    ] = None
    sweep: Annotated[int, Help("ADMM iterations per step", minimum=1)] = 50
    limit: Annotated[int, Help("ADMM iterations per attempt", minimum=1)] = 2000

    aim: ClassVar[float] = 1.0
    state_type: ClassVar[type[Any]] = NileProState

    def begin_attempt(self, state: NileProState) -> NileProState:
        """Forget the directions, which may be of another rank."""
        return replace(state, last=())

    def inner(self, state: NileProState, active: ActiveSecants) -> tuple[NileProState, Inner]:
        """Some ADMM iterations; met as soon as delta(Psi) is the wanted one."""
        goal = state.attempt.delta
        psi, omega, last = state.psi, state.dual, state.last
        images = active.images(psi)
        ratios = active.ratios(images)
        worst = active.largest(ratios - 1.0)
        residual = change = np.inf
        beta = self.beta or 200.0 / max(1, active.count)
        used = 0
        while used < self.sweep and worst > goal:
            used += 1
            tau = ratios - omega - 1.0
            every = active.layout.gather_rows(beta * tau)
            q = tau - active.layout.local(onto_l1_ball(every)) / beta + 1.0
            before = psi
            psi, images, ratios, last = _descend(active, last, psi, images, ratios, q + omega)
            omega = omega - (ratios - q)
            worst = active.largest(ratios - 1.0)
            state = self.approach(state, psi, worst)
            residual = active.norm(ratios - q) / np.sqrt(max(1, active.count))
            change = float(np.linalg.norm(psi - before)) / max(1e-300, float(np.linalg.norm(psi)))
        state = replace(state, residual=residual, dual_residual=change, dual=omega, last=last)
        met = worst <= goal
        failed = not met and state.attempt.iterations + used >= self.limit
        return state, Inner(psi, met, failed, worst, used, capped=failed)


def _descend(
    active: ActiveSecants,
    last: tuple[np.ndarray, ...],
    psi: np.ndarray,
    images: np.ndarray,
    ratios: np.ndarray,
    target: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """One step down ``1/2 ||A(Psi^T Psi) - target||^2``.

    ``last`` are the gradient and direction of the step before, if any.  Returns the map, its
    images and ratios, and the gradient and direction of this step.
    """
    gradient = 2.0 * active.adjoint_times(ratios - target, images)
    direction = -gradient
    if last:
        last_gradient, last_direction = last
        change = float(np.vdot(gradient, gradient - last_gradient))
        square = float(np.vdot(last_gradient, last_gradient))
        direction += max(0.0, change / max(square, 1e-300)) * last_direction
        if np.vdot(direction, gradient) >= 0.0:
            direction = -gradient
        direction = agreed(active.comm, direction)
    # A((Psi + t D)^T (Psi + t D)) = A(Psi^T Psi) + 2 t linear + t^2 square
    moved = active.images(direction)
    quadratic = active.gains(moved)
    linear = 0.5 * (active.ratios(images + moved) - ratios - quadratic)
    length = _least(active.dot, ratios - target, linear, quadratic, active.comm)
    images = images + length * moved
    return psi + length * direction, images, active.ratios(images), (gradient, direction)


def _least(
    dot: Callable[[np.ndarray, np.ndarray], float],
    miss: np.ndarray,
    linear: np.ndarray,
    square: np.ndarray,
    comm: MPI.Comm = MPI.COMM_SELF,
) -> float:
    """The t that minimizes ``|| miss + 2 t linear + t^2 square ||``."""
    slope = [
        dot(square, square),
        3.0 * dot(linear, square),
        dot(miss, square) + 2.0 * dot(linear, linear),
        dot(miss, linear),
    ]
    if not slope[0] > 0.0:
        return 0.0
    roots = agreed(comm, np.roots(slope))
    real = roots.real[np.abs(roots.imag) <= 1e-8 * np.abs(roots)]
    left = [miss + t * (2.0 * linear + t * square) for t in real]
    sizes = [dot(vector, vector) for vector in left]
    return float(real[int(np.argmin(sizes))]) if sizes else 0.0


def onto_l1_ball(vector: np.ndarray) -> np.ndarray:
    """Nearest point of the unit l1 ball, exactly, by the threshold that makes the norm fit."""
    size = np.abs(vector)
    if size.sum() <= 1.0:
        return vector.copy()
    falling = np.sort(size)[::-1]
    sums = np.cumsum(falling) - 1.0
    last = int(np.flatnonzero(falling * np.arange(1, len(falling) + 1) > sums)[-1])
    return np.asarray(np.sign(vector) * np.maximum(size - sums[last] / (last + 1), 0.0))

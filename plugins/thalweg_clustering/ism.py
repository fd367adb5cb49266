"""The Iterative Spectral Method: W from the smallest eigenvectors of Phi(W), safeguarded.

No step that raises the objective is accepted.  A refused one is made shorter by a level shift,
eig_min (Phi(W) - mu WW'), for large mu steepest descent with length 1/mu.  Mixing takes W+ from the
mean of the last matrices Phi_i whose weights make the mean of their commutators [Phi_i, W_i W_i']
smallest: Pulay's "direct inversion in the iterative subspace" (1982).  It costs no evaluation;
where it does not lower the objective, the plain step is tried.  Quasi-Newton steps finish, once
three steps in a row were shortened or lowered the objective by less than a tenth.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, TypeVar

import numpy as np

from thalweg.interfaces import Capability
from thalweg.numerics import backtrack, two_loop
from thalweg.parallel import Array, agreed
from thalweg.plugins import Help
from thalweg_clustering import alternation
from thalweg_clustering.alternation import RoundSolver, RoundState, moved_to, residual_norm
from thalweg_clustering.stiefel import EigenvectorFixedPoint, StiefelVariable, smallest_eigenvectors

#: Pairs of steps and changes of the gradient that are kept; chosen by hand.
PAIRS = 60
#: Least cosine between a step and its change of the gradient.
CURVATURE = 1e-8
#: Steps of a search after which W is taken to be a minimum in floating point; chosen by hand.
MAX_TRIALS = 12

Pair = tuple[Array, Array]


@dataclass(frozen=True, kw_only=True)
class QuasiNewtonState(RoundState):
    """State of a solver that takes quasi-Newton steps."""

    pairs: tuple[Pair, ...] = ()  # steps and changes of the gradient so far
    refusals: int = 0  # steps that were shortened in the last iteration


S = TypeVar("S", bound=QuasiNewtonState)


def quasi_newton_step(state: S, scale: float) -> S:
    """One accepted step, or the finding that none lowers the objective (``inner_done``).

    L-BFGS in the tangent space at W, with the pairs of earlier steps projected onto it (Absil,
    Mahony and Sepulchre, 2008, section 8.1.3), which changes their inner products, and Armijo's
    rule along the polar retraction.  W has few numbers and an evaluation is expensive, so that all
    pairs of a run are kept up to a number that makes the approximation a dense one.

    ``scale`` is a curvature to begin with.
    """
    objective, w, slope = state.objective, state.x, state.slope
    assert isinstance(objective, StiefelVariable)
    comm, manifold = objective.comm, objective.manifold
    if slope is None:
        value, slope = objective.value_and_gradient(w)
        state = replace(state, value=value, slope=slope, evaluations=state.evaluations + 1)
    gradient = agreed(comm, manifold.project(w, slope))
    pairs = [(manifold.project(w, s), manifold.project(w, y)) for s, y in state.pairs]
    curved = [(s, y) for s, y in pairs if _dot(s, y) > 0]
    product = gradient / scale
    if curved:  # the inverse Hessian of the pairs that still show curvature
        gamma = _dot(*curved[-1]) / _dot(curved[-1][1], curved[-1][1])
        product = two_loop(gradient, curved, lambda vector: vector * gamma, _dot)
    direction = agreed(comm, -product)
    promised = _dot(gradient, direction)
    if not promised < 0:
        pairs, direction = [], -gradient / scale
        promised = _dot(gradient, direction)
    length = agreed(comm, float(np.linalg.norm(direction)))
    search = backtrack(
        lambda step: manifold.orthonormal(w + step * direction),
        objective.value_and_gradient, state.value, promised,
        min(1.0, 0.5 * np.sqrt(w.shape[1]) / max(length, 1e-300)), MAX_TRIALS,
    )  # fmt: skip
    refusals = state.refusals + search.trials - search.accepted
    state = replace(state, evaluations=state.evaluations + search.trials, refusals=refusals)
    if not search.accepted:
        # Without pairs the direction was that of the gradient.
        return replace(state, pairs=(), inner_done=not pairs)
    candidate, step, (value, ahead) = search.x, search.step, search.outcome
    moved = manifold.project(candidate, step * direction)
    turned = manifold.project(candidate, ahead) - manifold.project(candidate, gradient)
    bound = CURVATURE * float(np.linalg.norm(moved) * np.linalg.norm(turned))
    if agreed(comm, _dot(moved, turned) > bound):
        pairs = [*pairs, (moved, turned)][-PAIRS:]
    return moved_to(
        state, candidate, value=value, slope=ahead, pairs=tuple(pairs), step_length=step * length,
        gradient_norm=residual_norm(candidate, ahead),
    )  # fmt: skip


def _dot(a: Array, b: Array) -> float:
    return float((a * b).sum())


#: Slow steps in a row after which those of ``finish`` take over; chosen by hand.
SLOW_STEPS = 3

#: Refused steps after which W is taken to be a fixed point in floating point; chosen by hand.
MAX_REFUSALS = 15


@dataclass(frozen=True, kw_only=True)
class ISMState(QuasiNewtonState):
    """State of :class:`ISM`."""

    #: Phi at W, those of the last steps, and their commutators with WW'.
    phi: np.ndarray = field(default_factory=lambda: np.empty(0))
    past: tuple[np.ndarray, ...] = ()
    errors: tuple[np.ndarray, ...] = ()
    shift: float = 0.0  # by which steps are shortened
    #: Last steps in a row that were slow, and so small that they may end the round.
    slow: int = 0
    small: int = 0


@dataclass(frozen=True)
class ISM(RoundSolver[ISMState]):
    """Iterative Spectral Method.

    With ``safeguard="none"`` it is Algorithm 2 to the letter: W is replaced by the
    eigenvectors of Phi(W) until it no longer changes by more than a thousandth,
    whatever the objective does, and nothing is mixed.  The objective's ``init`` and
    ``embedding_rows``, both ``"published"``, make the rest of Algorithm 1 as printed.
    """

    inner_tolerance: float = 1e-4
    mixing: Annotated[
        int, Help("number of last matrices Phi whose mean is tried; 0: no mixing", minimum=0)
    ] = 6
    safeguard: Annotated[
        Literal["level-shift", "none"],
        Help("what shortens a refused step; none is Algorithm 2 as published, which refuses none"),
    ] = "level-shift"
    finish: Annotated[
        Literal["quasi-newton", "none"],
        Help("steps that take over in a round once the iteration is slow"),
    ] = "quasi-newton"

    requires: ClassVar[tuple[type[Capability], ...]] = (EigenvectorFixedPoint,)
    trace_columns: ClassVar[tuple[str, ...]] = (*RoundSolver.trace_columns, "shift", "refusals")

    state_type: ClassVar[type[RoundState]] = ISMState

    def begin(self, state: ISMState) -> ISMState:
        assert isinstance(state.objective, EigenvectorFixedPoint)
        value, phi = state.objective.value_and_fixed_point_matrix(state.x)
        return replace(
            state, value=value, phi=phi, evaluations=state.evaluations + 1, past=(), errors=(),
            gradient_norm=residual_norm(state.x, phi @ state.x), slope=None, slow=0,
            small=0,
        )  # fmt: skip

    def improve(self, state: ISMState) -> ISMState:
        if state.slow < SLOW_STEPS or "none" in (self.safeguard, self.finish):
            improved = self._spectral_step(state)
        else:
            improved = quasi_newton_step(replace(state, refusals=0), _largest_curvature(state))
        # As published, only the change of W counts.
        small = self.safeguard != "none" and super().is_small(improved, state.value)
        return replace(improved, small=state.small + 1 if small else 0)

    def is_small(self, state: ISMState, before: float) -> bool:
        """Whether the last steps end the round.

        A quasi-Newton step may be small for want of pairs: two in a row must be.
        """
        return state.small >= (1 if state.slope is None else 2)

    def _spectral_step(self, state: ISMState) -> ISMState:
        objective, w, before = state.objective, state.x, state.value
        assert isinstance(objective, EigenvectorFixedPoint)
        state = self._with_commutator(replace(state, refusals=0))
        accepted = False
        candidate = agreed(objective.comm, self._mixed(state))
        if candidate is not None:
            value, phi = objective.value_and_fixed_point_matrix(candidate)
            state = replace(state, evaluations=state.evaluations + 1)
            accepted = value <= before
            if not accepted:
                state = replace(state, past=state.past[-1:], errors=state.errors[-1:])
        while not accepted and state.refusals < MAX_REFUSALS:
            shifted = state.phi - state.shift * w @ w.T if state.shift else state.phi
            candidate = smallest_eigenvectors(shifted, w.shape[1])
            value, phi = objective.value_and_fixed_point_matrix(candidate)
            state = replace(state, evaluations=state.evaluations + 1)
            accepted = value <= before or self.safeguard == "none"
            if not accepted:
                if value - before <= objective.value_error(before):
                    break  # rounding alone explains the increase: W is a fixed point
                shift = max(4.0 * state.shift, 0.05 * _largest_curvature(state))
                state = replace(state, shift=shift, refusals=state.refusals + 1)
        if not accepted or candidate is None:
            return replace(state, inner_done=True)
        inner_done = False
        if self.safeguard == "none":
            change = agreed(objective.comm, alternation.subspace_distance(candidate, w))
            inner_done = change <= alternation.OUTER_TOLERANCE
        slow = state.refusals > 0 or before - value < 0.1 * abs(before)
        moved = moved_to(
            state, candidate, value=value, phi=phi,
            step_length=float(np.linalg.norm(candidate - w @ (w.T @ candidate))),
            inner_done=inner_done, slow=state.slow + 1 if slow else 0,
        )  # fmt: skip
        moved = replace(moved, gradient_norm=residual_norm(moved.x, phi @ moved.x))
        if moved.refusals:
            return moved
        shift = 0.25 * moved.shift
        return replace(moved, shift=0.0 if shift < 1e-3 * float(np.abs(phi).max()) else shift)

    def _with_commutator(self, state: ISMState) -> ISMState:
        """The state whose ``past`` and ``errors`` end with those of W."""
        if self.mixing < 2 or self.safeguard == "none":
            return state
        commutator = (state.phi @ state.x) @ state.x.T
        errors = (*state.errors, commutator - commutator.T)[-self.mixing :]
        return replace(state, past=(*state.past, state.phi)[-self.mixing :], errors=errors)

    def _mixed(self, state: ISMState) -> Array | None:
        """W from the mixed matrix, or None while there is nothing to mix."""
        count = len(state.past)
        if count < 2:
            return None
        flat = np.array([error.ravel() for error in state.errors])
        gram = flat @ flat.T
        scale = np.trace(gram) / count
        if not scale > 0:
            return None
        weights = np.linalg.lstsq(gram / scale + 1e-12 * np.eye(count), np.ones(count), 1e-14)[0]
        total = weights.sum()
        if not (np.isfinite(total) and abs(total) > 1e-12):
            return None
        mean = sum(w_i * phi for w_i, phi in zip(weights / total, state.past, strict=True))
        return smallest_eigenvectors(np.asarray(mean), state.x.shape[1])


def _largest_curvature(state: ISMState) -> float:
    """Largest absolute eigenvalue of Phi."""
    return agreed(state.objective.comm, float(np.abs(np.linalg.eigvalsh(state.phi)).max()))

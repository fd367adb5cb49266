"""The Iterative Spectral Method: W from the smallest eigenvectors of Phi(W), safeguarded.

The plain iteration W <- eig_min Phi(W) (Algorithm 2 of Wu et al.) can cycle.  Here
no step that raises the objective is accepted.  Two ways make a refused step
shorter, both along descent directions:

* level shift: eig_min (Phi(W) - mu WW'); as mu grows, the step becomes that of
  steepest descent with length 1/mu;
* damping: the subspace between the old and the new one, the leading eigenvectors
  of (1 - theta) WW' + theta W+W+'.

Convergence is linear, and can be slow.  Two ways speed it up:

* mixing: W+ from the mean of the last matrices Phi_i whose weights make the mean
  of their commutators [Phi_i, W_i W_i'] smallest: Pulay's "direct inversion in the
  iterative subspace" (1982), from self-consistent fields, where the same kind of
  eigenproblem arises.  It costs no evaluation; a mixed step that does not lower
  the objective is refused, and the plain one tried;
* a finish by quasi-Newton or trust-region steps on the manifold, once three steps in a row
  were shortened or lowered the objective by less than a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from thalweg.interfaces import Capability
from thalweg.parallel import agreed
from thalweg.plugins import Help
from thalweg_clustering.alternating import (
    RoundSolver,
    RoundState,
    matrix_of,
    no_array,
    put_matrix,
    subspace_distance,
)
from thalweg_clustering.eigenvectors import smallest_eigenvectors
from thalweg_clustering.quasi_newton import Pair, quasi_newton_step
from thalweg_clustering.stiefel import EigenvectorFixedPoint
from thalweg_clustering.trust_region import TrustRegion

#: Slow steps in a row after which those of ``finish`` take over.
SLOW_STEPS = 3

#: Refused steps after which W is taken to be a fixed point in floating point.
MAX_REFUSALS = 15


@dataclass(kw_only=True)
class ISMState(RoundState):
    """State of :class:`ISM`: Phi at W, those of earlier steps, and how steps are shortened."""

    phi: np.ndarray = field(default_factory=no_array)
    past: list[np.ndarray] = field(default_factory=list)
    errors: list[np.ndarray] = field(default_factory=list)
    shift: float = 0.0
    damping: float = 1.0
    radius: float = 0.0
    refusals: int = 0
    slow: int = 0
    small: int = 0
    pairs: list[Pair] = field(default_factory=list)
    slope: np.ndarray | None = None


@dataclass(frozen=True)
class ISM(RoundSolver[ISMState]):
    """Iterative Spectral Method.

    With ``safeguard="none"`` it is Algorithm 2 to the letter: W is replaced by the
    eigenvectors of Phi(W) until it no longer changes by more than ``outer_tolerance``,
    whatever the objective does, and nothing is mixed.
    """

    inner_tolerance: float = 1e-4
    eigensolver: Annotated[
        Literal["lapack", "lobpcg", "cpm", "slepc"], Help("eigen-solver of the W-step")
    ] = "lapack"
    mixing: Annotated[
        int, Help("number of last matrices Phi whose mean is tried; 0: no mixing", minimum=0)
    ] = 6
    safeguard: Annotated[
        Literal["level-shift", "damping", "none"],
        Help("what shortens a refused step; none is Algorithm 2 as published, which refuses none"),
    ] = "level-shift"
    finish: Annotated[
        Literal["quasi-newton", "trust-region", "none"],
        Help("steps that take over in a round once the iteration is slow"),
    ] = "quasi-newton"

    requires: ClassVar[tuple[type[Capability], ...]] = (EigenvectorFixedPoint,)
    trace_columns: ClassVar[tuple[str, ...]] = (*RoundSolver.trace_columns, "shift", "refusals")

    state_type: ClassVar[type[RoundState]] = ISMState

    def begin(self, state: ISMState) -> None:
        """Value and Phi at W."""
        assert isinstance(state.objective, EigenvectorFixedPoint)
        state.value, state.phi = state.objective.value_and_fixed_point_matrix(state.x)
        state.evaluations += 1
        state.slow = 0
        state.past, state.errors = [], []
        state.slope, state.small = None, 0
        self._measure(state)

    def _measure(self, state: ISMState) -> None:
        w = matrix_of(state)
        rotated = state.phi @ w
        state.gradient_norm = float(np.linalg.norm(rotated - w @ (w.T @ rotated)))

    def improve(self, state: ISMState) -> None:
        """One accepted step, or the finding that none lowers the objective."""
        if state.slow >= SLOW_STEPS and self.safeguard != "none":
            if self.finish == "quasi-newton":
                state.refusals = 0
                scale = _largest_curvature(state)
                state.pairs, state.slope = quasi_newton_step(state, state.pairs, state.slope, scale)
                return
            if self.finish == "trust-region":
                TrustRegion().move(state)
                self._refresh_phi(state)
                return
        before = state.value
        w = matrix_of(state)
        state.refusals = 0
        plain: np.ndarray | None = None
        accepted = False
        candidate = agreed(state.objective.comm, self._mixed(state, w))
        if candidate is not None:
            value, phi = self._evaluate(state, candidate)
            accepted = value <= state.value
            if not accepted:
                state.past, state.errors = state.past[-1:], state.errors[-1:]
        while not accepted and state.refusals < MAX_REFUSALS:
            candidate, plain = self._candidate(state, w, plain)
            value, phi = self._evaluate(state, candidate)
            accepted = value <= state.value or self.safeguard == "none"
            if not accepted:
                if value - state.value <= state.objective.value_error(state.value):
                    break  # rounding alone explains the increase: W is a fixed point
                state.refusals += 1
                self._shorten(state)
        if not accepted or candidate is None:
            state.inner_done = True
            return
        state.step_length = float(np.linalg.norm(candidate - w @ (w.T @ candidate)))
        if self.safeguard == "none":
            moved = agreed(state.objective.comm, subspace_distance(candidate, w))
            state.inner_done = moved <= self.outer_tolerance
        put_matrix(state, candidate)
        state.value, state.phi = value, phi
        if state.refusals == 0:
            self._lengthen(state)
        decrease = before - value
        slow = state.refusals > 0 or decrease < 0.1 * abs(before)
        state.slow = state.slow + 1 if slow else 0
        self._measure(state)

    def is_small(self, state: ISMState, before: float) -> bool:
        """Whether the last step ends the round; as published, only the change of W counts.

        A quasi-Newton step may be small for want of pairs: two in a row must be.
        """
        small = self.safeguard != "none" and super().is_small(state, before)
        state.small = state.small + 1 if small else 0
        return state.small >= (1 if state.slope is None else 2)

    def _evaluate(self, state: ISMState, w: np.ndarray) -> tuple[float, np.ndarray]:
        objective = state.objective
        assert isinstance(objective, EigenvectorFixedPoint)
        x = objective.layout.vec_from(w)
        found = objective.value_and_fixed_point_matrix(x)
        state.evaluations += 1
        return found

    def _mixed(self, state: ISMState, w: np.ndarray) -> np.ndarray | None:
        """W from the mixed matrix, or None while there is nothing to mix."""
        if self.mixing < 2 or self.safeguard == "none":
            return None
        commutator = (state.phi @ w) @ w.T
        state.past = [*state.past, state.phi][-self.mixing :]
        state.errors = [*state.errors, commutator - commutator.T][-self.mixing :]
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
        return smallest_eigenvectors(np.asarray(mean), w.shape[1], self.eigensolver, w)

    def _refresh_phi(self, state: ISMState) -> None:
        assert isinstance(state.objective, EigenvectorFixedPoint)
        state.phi = state.objective.fixed_point_matrix(state.x)
        state.evaluations += 1
        self._measure(state)

    def _candidate(
        self, state: ISMState, w: np.ndarray, plain: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        count = w.shape[1]
        if self.safeguard == "damping":
            if plain is None:
                plain = smallest_eigenvectors(state.phi, count, self.eigensolver, w)
            if state.damping >= 1.0:
                return plain, plain
            between = state.damping * plain @ plain.T + (1.0 - state.damping) * w @ w.T
            return smallest_eigenvectors(-between, count), plain
        matrix = state.phi if state.shift == 0.0 else state.phi - state.shift * w @ w.T
        return smallest_eigenvectors(matrix, count, self.eigensolver, w), None

    def _shorten(self, state: ISMState) -> None:
        state.damping *= 0.5
        scale = _largest_curvature(state)
        state.shift = max(4.0 * state.shift, 0.05 * scale)

    def _lengthen(self, state: ISMState) -> None:
        state.damping = min(1.0, 2.0 * state.damping)
        state.shift *= 0.25
        if state.shift < 1e-3 * float(np.abs(state.phi).max()):
            state.shift = 0.0

    def trace_row(self, state: ISMState) -> Mapping[str, float]:
        """Beside the common columns, the level shift and the refused steps."""
        return {**super().trace_row(state), "shift": state.shift, "refusals": state.refusals}


def _largest_curvature(state: ISMState) -> float:
    """Largest absolute eigenvalue of Phi."""
    return agreed(state.objective.comm, float(np.abs(np.linalg.eigvalsh(state.phi)).max()))

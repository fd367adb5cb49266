"""The framework's own method: squared hinge on the factor, by L-BFGS, near the start.

For a target delta the sum of ``max(0, |rho_k - 1| - theta)^2`` over the active secants is lowered,
theta a little below delta, and only until all of them are within the target: delta itself would
fall to nothing on them while the others stay violated.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.parallel import agreed, any_over_ranks, min_over_ranks
from thalweg.plugins import Help
from thalweg_isometry.active import ActiveSecants, hinge, misses
from thalweg_isometry.cutting_planes import evaluations_per_scan
from thalweg_isometry.map_ranks import secant_moments
from thalweg_isometry.search import SecantSearch
from thalweg_isometry.search_state import Inner, SearchState
from thalweg_isometry.small_lbfgs import descend

#: Shares of delta at which the hinge sets in, tried in turn; curvature pairs of L-BFGS; by hand.
MARGINS, PAIRS = (0.9, 0.98), 12

#: Largest distortion of cuts, over the wanted one, where a thinner margin may help; by hand.
NEARLY = 1.3

#: Evaluations of a success at about twice the least rank, the cuts found on the way.
EVALUATIONS = 15.0

#: What is added to the second moments of the secants, as a share of the one of a number as
#: large as the rank; chosen by hand.
DAMPING = 1.0

#: Products that the search for one more row takes at most; chosen by hand.
LANCZOS = 24

#: Squared length of a unit secant's image below which it vanishes; noise that is added there,
#: as a share of the map's entries; chosen by hand.
VANISHED, NOISE = 1e-6, 0.03


@dataclass(frozen=True, kw_only=True)
class HingeState(SearchState):
    """State of ``hinge-lbfgs``."""

    stage: int = 0  # number of the present margin
    #: Evaluations that this round may take, and may still take; those with this margin.
    round_evaluations: int = 0
    round_left: int = 0
    margin_evaluations: int = 0
    known_cuts: int = 0  # cuts when the round began
    #: Second moments of the secants along the principal directions, once they are needed.
    moments: np.ndarray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class HingeSearch(SecantSearch[HingeState]):
    """Solver ``hinge-lbfgs``.

    A wide margin spares separation rounds, a thin one reaches what is just possible.
    """

    smallest_subset: int = 800
    max_evaluations: Annotated[int, Help("evaluations per margin", minimum=1)] = 400

    aim: ClassVar[float] = 0.9
    lowers_missed: ClassVar[bool] = True
    limit_option: ClassVar[str] = "max_evaluations"
    state_type: ClassVar[type[Any]] = HingeState

    def resized(self, state: HingeState, psi: np.ndarray, rank: int) -> np.ndarray:
        """A map of another rank; further rows lower the hinge over the cuts."""
        theta = MARGINS[0] * state.attempt.delta
        while 0 < len(psi) < rank and state.count:
            row = lowering_row(state.active, psi, theta)
            if row is None:
                break
            psi = np.concatenate([psi, row])
        return super().resized(state, psi, rank)

    def excess(self, iterations: int) -> float:
        """As observed: evaluations grow about as the power -5/4 of the share."""
        return float(min(0.5, (EVALUATIONS / max(1, iterations)) ** 0.8))

    def begin_attempt(self, state: HingeState) -> HingeState:
        """Begin with the first margin.

        Of a secant that the map makes zero, as of one-hot columns that lost their row, the hinge
        has no gradient: some noise leaves this stationary point.
        """
        psi = state.psi
        ratios = state.active.ratios(state.active.images(psi))
        if min_over_ranks(state.secants.comm, float(ratios.min(initial=1.0))) < VANISHED:
            noise = np.random.default_rng(self.seed).standard_normal(psi.shape)
            psi = psi + NOISE * np.sqrt(np.mean(psi**2)) * noise
        return replace(
            state, psi=psi, stage=0, round_evaluations=0, round_left=0, margin_evaluations=0,
        )  # fmt: skip

    def _precondition(self, state: HingeState) -> Callable[[np.ndarray], np.ndarray]:
        """The inverse of the secants' second moments along principal directions, regularized.

        The second derivatives are sums of ``(Psi v)(Psi v)^T`` times ``v v^T`` (Gauss and
        Newton): where the spectrum falls, steps in most directions would be far too short.
        """
        moments = state.moments
        least = DAMPING * np.sort(moments)[::-1][min(len(state.psi), len(moments)) - 1]
        least = max(float(least), 1e-12 * float(moments.max()))
        # Where the moments are far below what is added, they make no difference.
        large = moments > 0.1 * least
        directions = state.secants.directions[large]
        lesser = least / (moments[large] + least) - 1.0

        def precondition(matrix: np.ndarray) -> np.ndarray:
            return matrix + ((matrix @ directions.T) * lesser) @ directions

        return precondition

    def inner(self, state: HingeState, active: ActiveSecants) -> tuple[HingeState, Inner]:
        """Descend to the target, or until that is out of reach; then thin the margin, or fail."""
        delta = state.attempt.delta
        theta = MARGINS[state.stage] * delta
        # Half-way between margin and target: unseen secants then mostly fit as well.
        goal = 0.5 * (theta + delta)
        least, at_once = self.max_evaluations, self.max_evaluations
        if not self.everything_active(state):
            least, at_once = evaluations_per_scan(state.subset, state.fraction, active, state.psi)
        # Where the rank is given there is none other to turn to: more patience.
        most = self.max_evaluations * (1 if state.problem.wanted_rank is None else 3)
        in_round = state.round_evaluations
        if not state.round_left:
            # While rounds add many cuts, one costs no more than the scan that follows.
            many_more = state.count > 1.02 * state.known_cuts
            in_round = least if many_more or not in_round else 2 * in_round
        round_left = state.round_left or in_round
        left = max(1, most - state.margin_evaluations)
        if not len(state.moments):
            state = replace(state, moments=secant_moments(state.secants))
        done = descend(
            lambda psi: hinge(active, psi, theta), state.psi, goal,
            enough=0.5 * (goal - theta) ** 2, patience=2 * left,
            evaluations=min(round_left, left, at_once), pairs=state.pairs, most_pairs=PAIRS,
            precondition=self._precondition(state), comm=active.comm,
        )  # fmt: skip
        with_margin = state.margin_evaluations + done.evaluations
        ran_out = with_margin >= most
        met = done.measure <= (goal if done.met else delta)
        far = state.stage == 0 and agreed(active.comm, state.attempt.out_of_reach(most))
        over = done.stalled or ran_out or far
        stage, failed = state.stage, False
        if over and not met:
            stage, with_margin, in_round = stage + 1, 0, 0
            # On a subset a rank need only be known well enough to predict the next, and a
            # thinner margin makes up for little.
            last = len(MARGINS) if state.stride == 1 and done.measure < NEARLY * delta else 1
            failed = stage >= last
        round_left = 0 if met or over else max(0, round_left - done.evaluations)
        state = replace(
            state, stage=stage, round_evaluations=in_round, round_left=round_left,
            margin_evaluations=with_margin, known_cuts=state.count, pairs=done.pairs,
            gradient_norm=done.gradient_norm, residual=max(0.0, done.measure - delta),
        )  # fmt: skip
        capped, due = failed and ran_out, not over and not round_left
        return state, Inner(done.point, met, failed, done.measure, done.evaluations, capped, due)


def lowering_row(active: ActiveSecants, psi: np.ndarray, theta: float) -> np.ndarray | None:
    """One more row of the map that lowers the hinge, shape ``(1, dimension)``; None if none does.

    At a row of zeros the gradient vanishes, and the second derivative along a unit vector q is
    ``q^T A*(c) q`` times a positive factor, c the signed misses: q is the eigenvector of its
    least eigenvalue, if that is negative.  The hinge is convex in the squared length of the row.
    """
    change = active.ratios(active.images(psi)) - 1.0
    weights = misses(change, theta)
    if not any_over_ranks(active.comm, bool(weights.any())):
        return None
    dimension = psi.shape[1]

    def times(vector: np.ndarray) -> np.ndarray:
        return active.adjoint_times(weights, active.images(vector.reshape(1, -1))).ravel()

    # Lanczos, reorthogonalized; an eigenvector to a few percent is good enough.
    # The start is in no special direction: vectors of one sum have secants orthogonal to ones.
    basis = np.random.default_rng(0).standard_normal((1, dimension))
    basis /= np.linalg.norm(basis)
    images = np.empty((0, dimension))
    for _ in range(min(dimension, LANCZOS)):
        images = np.concatenate([images, times(basis[-1])[None]])
        rest = images[-1] - (images[-1] @ basis.T) @ basis
        rest -= (rest @ basis.T) @ basis
        size = float(np.linalg.norm(rest))
        over = size <= 1e-10 * float(np.linalg.norm(images[-1]))
        rest, size, over = agreed(active.comm, (rest, size, over))
        if over:
            break
        basis = np.concatenate([basis, rest[None] / size])
    projected = basis[: len(images)] @ images.T
    values, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
    row = vectors[:, :1].T @ basis[: len(images)]
    least, row = agreed(active.comm, (float(values[0]), row))
    if not least < 0.0:
        return None
    gain = active.gains(active.images(row))

    def slope(square: float) -> float:
        return active.dot(misses(change + square * gain, theta), gain)

    low, high = 0.0, 1.0 / max(active.largest(gain), 1e-300)
    while slope(high) < 0.0:
        low, high = high, 2.0 * high
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return np.asarray(np.sqrt(low) * row)

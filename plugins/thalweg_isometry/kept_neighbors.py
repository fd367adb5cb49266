"""Nearest rows that stay among the first candidates under a linear map, at the least rank.

A map of low rank keeps the nearest in no order.  If they are among some more candidates, their true
distances tell which they are.  A round finds the candidates under the present map, exactly, and
descends with these fixed; a rank is served where the certificate says so.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from thalweg import InputError
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.engines.secants import SecantConstraints, SecantSet
from thalweg.parallel import Identified, agreed, nth_over_ranks, sum_over_ranks
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.pair_changes import candidates, squares_to
from thalweg_isometry.search import SecantSearch
from thalweg_isometry.search_state import Inner, SearchState
from thalweg_isometry.small_lbfgs import Evaluate, descend

#: By what a log squared distance of a near row shall be below that of the last candidates, and the
#: share of the candidates, on each side of the last, whose mean that is; by hand, see the notes.
MARGIN, BAND = 0.1, 0.3

#: Evaluations between two searches for candidates, and rounds in a row in which no fewer rows lose
#: neighbors before a rank fails; by hand, see the notes.
EVALUATIONS, PATIENCE = 40, 8

#: Squared length of a unit secant's image below which it is taken for that, and any squared length
#: by which is divided.
LEAST, TINY = 1e-30, 1e-300


class KeptNeighbors(Identified):
    """That the ``count`` nearest of each row are among its first ``n_candidates``.

    It holds if it does for the ``share`` of the rows, above 0 and at most 1.  An ``InputError`` for
    fewer candidates than neighbors, or as many as other rows; or secants not of all full rows.
    """

    def __init__(self, secants: SecantSet, count: int, n_candidates: int, share: float) -> None:
        if secants.sparse or secants.kind != "all":
            raise InputError("n_candidates is a goal for all pairs of rows that are not sparse")
        if not count <= n_candidates < secants.n_points - 1:
            raise InputError(
                f"no map can keep the {count} nearest of {secants.n_points} rows among "
                f"{n_candidates} candidates; give as many or more, and fewer than other rows"
            )
        self.secants, self.n_candidates = secants, n_candidates
        self.last = int(np.ceil(share * secants.n_points)) - 1  # place of the last row that counts
        rows = np.asarray(secants.points, dtype=float)
        self.nearest, self.squares = nearest_neighbors(secants.layout, rows, count)

    def candidates(self, psi: np.ndarray) -> int:
        """Certified: so many first candidates hold the nearest of the share.  Collective."""
        layout, points, images = self.secants.layout, self.secants.points, self.secants.images(psi)
        most = candidates(layout, points, images, self.nearest.shape[1])[0][:, 1]
        return int(nth_over_ranks(layout.comm, np.ascontiguousarray(most), self.last))

    def order(self, psi: np.ndarray) -> tuple[int, Evaluate]:
        """How many rows too many lose neighbors under a map, and how far these lie beyond.

        The function is ``sum_i sum_y max(0, log |Psi (x_i - x_y)|^2 - t_i + 0.1)^2`` over the
        nearest y of each row i, t_i the mean of ``log |Psi (x_i - x_z)|^2`` over the rows z about
        the last candidate under ``psi``.  Rows beyond the share, those that lack most, do not
        count.  Collective.
        """
        layout, comm, count = self.secants.layout, self.secants.comm, self.nearest.shape[1]
        rows, images = np.asarray(self.secants.points, dtype=float), self.secants.images(psi)
        band = max(1, int(BAND * self.n_candidates))
        first, last = self.n_candidates - band, min(layout.rows - 1, self.n_candidates + band)
        others, squares = nearest_neighbors(layout, images, last)
        farthest = squares_to(layout, images, images, self.nearest).max(axis=1)
        lack = np.maximum(farthest, TINY) / np.maximum(squares[:, self.n_candidates], TINY)
        limit = nth_over_ranks(comm, lack, self.last)
        lost = int(sum_over_ranks(comm, (lack >= 1.0).sum())) + self.last + 1 - layout.rows
        others = others[:, first:]
        before = np.concatenate([self.squares, squares_to(layout, rows, rows, others)], axis=1)
        ends = np.concatenate([self.nearest, others], axis=1)
        starts = np.broadcast_to(np.arange(layout.start, layout.stop)[:, None], ends.shape)
        pairs = np.stack([starts.ravel(), ends.ravel()], axis=1)
        lengths = np.where(before > 0.0, before, 1.0)
        active = ActiveSecants(self.secants, pairs, lengths.ravel())
        apart = before[:, count:] > 0.0
        weights = apart / np.maximum(1, apart.sum(axis=1, keepdims=True))
        counts = (lack <= limit) & apart.any(axis=1)

        def evaluate(at: np.ndarray) -> tuple[float, np.ndarray, float]:
            images = active.images(at)
            gains = np.maximum(active.gains(images).reshape(ends.shape), LEAST)
            logs = np.log(gains * lengths)
            limits = (weights * logs[:, count:]).sum(axis=1, keepdims=True)
            miss = np.maximum(0.0, logs[:, :count] - limits + MARGIN) * counts[:, None]
            slopes = np.concatenate([miss, -miss.sum(axis=1, keepdims=True) * weights], axis=1)
            value = active.dot(miss.ravel(), miss.ravel())
            return value, 4.0 * active.adjoint_times((slopes / gains).ravel(), images), value

        return lost, evaluate


@dataclass(frozen=True)
class CandidateRounds(SecantSearch[SearchState]):
    """Solver ``candidate-rounds``: from the rank at which principal directions serve, down."""

    all_below: int = 0

    keeps_neighbors: ClassVar[bool] = True

    def first_rank(self, problem: SecantConstraints, secants: SecantSet) -> int:
        """The least at which principal directions serve."""
        goal, directions = cast(Any, problem).neighbors, secants.directions
        ranks = range(1, len(directions))
        return 1 + bisect_left(ranks, True, key=lambda k: goal.order(directions[:k])[0] <= 0)

    def excess(self, iterations: int) -> float:
        """Nothing is known, so that the bracket is halved."""
        return np.inf

    def inner(self, state: SearchState, active: ActiveSecants) -> tuple[SearchState, Inner]:
        """A round: met where the certificate of neighbors says so, else a descent."""
        goal, psi = cast(Any, state.objective).neighbors, state.psi
        lost, beyond = goal.order(psi)
        if lost <= 0:
            balanced = agreed(active.comm, self.balanced(state, psi))
            if goal.candidates(balanced) <= goal.n_candidates:
                return state, Inner(balanced, True, False, np.nan, 0)
        misses = (*state.attempt.misses, (state.attempt.iterations, float(lost)))
        state = self.approach(state, psi, lost).in_attempt(misses=misses)
        if len(misses) - 1 - int(np.argmin([miss for _, miss in misses])) >= PATIENCE:
            return state, Inner(psi, False, True, np.nan, 0)
        done = descend(
            beyond, psi, 0.0, enough=0.0, patience=1, evaluations=EVALUATIONS, pairs=state.pairs,
            comm=active.comm,
        )  # fmt: skip
        state = replace(state, pairs=() if done.stalled else done.pairs)
        return state, Inner(done.point, False, False, np.nan, done.evaluations)

    def nearest_serves(self, state: SearchState) -> tuple[SearchState, bool]:
        """It does not: its certificate would have said so."""
        return state, False

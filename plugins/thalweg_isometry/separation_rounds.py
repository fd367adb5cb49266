"""Separation rounds: scans of the secants, and the cuts that they add and drop."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Generic

import numpy as np

from thalweg.engines.secants import Scan
from thalweg.interfaces import Solver
from thalweg.parallel import RowRoutes, any_over_ranks, sum_over_ranks
from thalweg.plugins import Help
from thalweg_isometry.active import holders
from thalweg_isometry.cutting_planes import MAX_CUTS, MIN_CUTS, ScanState, parts_of, scan_progress
from thalweg_isometry.search_state import MeasuredMap, S, Verdict

#: A scan, and its pairs as numbers of all points.
Numbered = tuple[Scan, np.ndarray]


@dataclass(frozen=True)
class SeparationRounds(Solver[S], Generic[S]):
    """The cuts of an attempt, kept up to date by scans of all secants of the present subset."""

    cuts_per_round: Annotated[
        int | None,
        Help("most secants that a round adds; 4 per point, from 30,000 to 500,000", minimum=1),
    ] = None
    seed: Annotated[int, Help("seed of the choice of tiles in sampled scans", minimum=0)] = 0

    #: Share of the wanted delta that a method aims at, so that unseen secants fit too.
    aim: ClassVar[float] = 0.9

    per_row: ClassVar[int] = 3  # secants that a round adds for one point in one tile, at most

    def scan(self, state: S, psi: np.ndarray, threshold: float) -> tuple[S, Numbered]:
        """Scan the present subset for secants that reach the threshold.

        A complete scan of all secants is remembered if no other saw a lower delta.
        """
        finished = None
        while finished is None:
            state, finished = self.scan_part(state, psi, threshold)
        return state, finished

    def scan_part(
        self, state: S, psi: np.ndarray, threshold: float, enough: float = np.inf
    ) -> tuple[S, Numbered | None]:
        """As :meth:`scan`, a part of it at each call; None before the last.

        A part after which delta is above ``enough`` is the last, and the next scan begins where
        this one ended.
        """
        secants, fraction, progress = state.subset, state.fraction, state.progress
        if progress.before is None:
            parts = parts_of(secants, fraction, len(psi))
            first = (progress.first + progress.part) % parts
            progress = ScanState(progress.number + 1, first, 0, parts)
        most = self.cuts_per_round or min(max(MIN_CUTS, 4 * secants.n_points), MAX_CUTS)
        most = min(most, secants.n_pairs)
        # Few points have few rows: let each give more.
        per_row = max(self.per_row, most // max(1, 4 * secants.n_points))
        with scan_progress(secants, fraction, progress.before) as bar:
            scan = secants.scan(
                psi, threshold, most, per_row=per_row, fraction=fraction, progress=bar,
                seed=self.seed * 1_000_003 + progress.number, first=progress.first,
                part=(progress.part, progress.parts), before=progress.before, share=True,
            )  # fmt: skip
        pairs = scan.pairs
        if secants.n_points < state.secants.n_points:
            pairs = pairs * state.stride
        part = progress.part + 1
        unfinished = part < progress.parts and scan.delta <= enough
        state = replace(
            state, scanned_rank=len(psi), delta=scan.delta, scanned=scan.n_pairs,
            progress=replace(progress, part=part, before=scan if unfinished else None),
        )  # fmt: skip
        if unfinished:
            return state, None
        if scan.complete and state.stride == 1 and scan.delta < state.closest.delta:
            state = replace(state, closest=MeasuredMap(psi, scan.delta, scan.without_pairs()))
        return state, (scan, pairs)

    def everything_active(self, state: S) -> bool:
        """Whether every secant is a cut."""
        return state.count >= state.secants.n_pairs

    def separate(self, state: S) -> tuple[S, Verdict]:
        """One round or a part of it; served where a complete scan found no secant violated."""
        goal, met = state.attempt.delta, state.attempt.met
        # Secants that are nearly violated are taken too: it spares scans.  Where few are left
        # the cuts of earlier rounds are enough of those.
        share = 0.8 if state.attempt.violated > 0.01 * state.subset.n_points else 0.95
        # Work on the cuts costs less than a part of a scan, and changes the map: what the other
        # parts would find of this one need not hold of the next.
        state, finished = self.scan_part(state, state.psi, share * goal, goal)
        if finished is None:
            return state, "open"
        scan, pairs = finished
        cut_short = state.progress.part < state.progress.parts
        served = (scan.complete or cut_short) and scan.delta <= goal
        if not (served or cut_short) and state.count > (self.cuts_per_round or MIN_CUTS):
            state = self._thinned(state)
        before = state.count
        state = self.add(state, pairs, scan.lengths)
        added = state.count - before
        violated = int(sum_over_ranks(state.secants.comm, (np.abs(scan.distortions) > goal).sum()))
        state = state.in_attempt(violated=violated)
        if scan.complete or cut_short:
            # Not delta of the scan: one pair that no cut is near says nothing of the rank.
            miss = state.attempt.iterations, state.active_delta - goal
            state = state.in_attempt(misses=() if met else (*state.attempt.misses, miss))
            if served:
                if state.stride == 1:
                    state = self.confirm(state, scan)
                return state, "served"
            if added == 0 and met:
                # Everything that violates is a cut already: the margins were too thin.
                return state, "failed"
        fraction = state.subsets.next_fraction(state.stride, scan, violated)
        return replace(state, fraction=fraction), "open"

    def add(self, state: S, pairs: np.ndarray, lengths: np.ndarray) -> S:
        """Make these secants, some from each rank, cuts if they are not."""
        before, layout = len(state.cuts), state.secants.layout
        routes = RowRoutes(layout.comm, holders(layout, pairs))
        pairs, lengths = routes.deliver(pairs), routes.deliver(lengths)
        cuts = state.cuts.added(pairs, lengths, layout.rows)
        if not any_over_ranks(layout.comm, len(cuts) > before):
            return state
        dual = np.concatenate([state.dual, np.zeros(len(cuts) - before)])
        # What was measured on fewer secants can no longer be compared.
        state = state.in_attempt(nearest=MeasuredMap(state.psi[:0]))
        return replace(state, cuts=cuts, dual=dual)

    def _thinned(self, state: S) -> S:
        """Without the cuts that have been far inside for several rounds."""
        change = state.active.ratios(state.active.images(state.psi)) - 1.0
        cuts, keep = state.cuts.aged(change, state.attempt.delta, state.secants.n_points)
        return replace(state, cuts=cuts, dual=state.dual[keep])

    def approach(self, state: S, psi: np.ndarray, delta: float) -> S:
        """Remember the map if no other of this attempt has a lower delta on the cuts."""
        if delta < state.attempt.nearest.delta:
            return state.in_attempt(nearest=MeasuredMap(psi, delta))
        return state

    def nearest_serves(self, state: S) -> tuple[S, bool]:
        """Whether the best map that a failing attempt passed on its way is worth having.

        A method need not end at the best of its iterates, and may aim below what it
        must reach.  Where delta is free, whatever is below the best delta is a gain.
        """
        attempt = state.attempt
        if attempt.nearest.delta > (state.best.delta if state.lowering else attempt.delta):
            return state, False
        psi = attempt.nearest.psi
        threshold = self.aim * attempt.delta
        state, (scan, pairs) = self.scan(replace(state, fraction=1.0), psi, threshold)
        state = self.add(state, pairs, scan.lengths)
        if scan.delta > attempt.delta:
            return state, False
        state = replace(state, psi=psi)
        return self.confirm(state, scan) if state.stride == 1 else state, True

    def confirm(self, state: S, scan: Scan) -> S:
        """Take over the present map, which a complete scan of all secants found to serve."""
        return replace(state, best=MeasuredMap(state.psi, scan.delta, scan.without_pairs()))

"""Separation rounds: scans of the secants, and the cuts that they add and drop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Annotated, Any, ClassVar, Generic

import numpy as np

from thalweg.engines.secants import Scan
from thalweg.interfaces import Solver
from thalweg.parallel import RowRoutes, agreed, any_over_ranks, sum_over_ranks
from thalweg.plugins import Help
from thalweg_isometry.active import holders
from thalweg_isometry.cutting_planes import MIN_CUTS
from thalweg_isometry.search_state import S

#: A scan, and the pairs that it found as numbers of all points.
Found = tuple[Scan, np.ndarray]


class Verdict(Enum):
    """What a separation round says of an attempt."""

    SERVED = auto()
    FAILED = auto()
    OPEN = auto()


@dataclass(frozen=True)
class SeparationRounds(Solver[S], Generic[S]):
    """The cuts of an attempt, kept up to date by scans of all secants of the present subset."""

    cuts_per_round: Annotated[
        int | None,
        Help(
            "largest number of secants that a separation round adds; 4 per point, but at least "
            "30,000 and at most 500,000",
            minimum=1,
        ),
    ] = None
    per_row: Annotated[int, Help("of those, the most for one point in one tile", minimum=1)] = 3
    seed: Annotated[int, Help("seed of the choice of tiles in sampled scans", minimum=0)] = 0

    #: Share of the wanted delta that a method aims at, so that unseen secants fit too.
    aim: ClassVar[float] = 0.9

    def scan(self, state: S, psi: np.ndarray, threshold: float) -> tuple[S, Found]:
        """Scan the present subset for secants that reach the threshold.

        A complete scan of all secants is remembered if no other saw a lower delta.
        """
        found = None
        while found is None:
            state, found = self.scan_part(state, psi, threshold)
        return state, found

    def scan_part(
        self, state: S, psi: np.ndarray, threshold: float, enough: float = np.inf
    ) -> tuple[S, Found | None]:
        """As :meth:`scan`, a part of it at each call; None before the last.

        A part after which delta is above ``enough`` is the last, and the next scan begins where
        this one ended.
        """
        separation, before = state.separation, None
        if state.begun:
            i, j, distortions, lengths = state.begun_found.T
            pairs = np.stack([i, j], axis=1).astype(np.int64)
            before = Scan(**state.begun, pairs=pairs, distortions=distortions, lengths=lengths)
        else:
            parts = separation.parts(state.stride, state.fraction, len(psi))
            first = (state.first + state.part) % parts
            state = replace(state, scans=state.scans + 1, parts=parts, first=first, part=0)
        scan, pairs = separation.scan(
            psi,
            state.stride,
            state.fraction,
            threshold,
            state.scans,
            (state.part, state.parts),
            state.first,
            before,
        )
        part, begun, columns = state.part + 1, dict[str, Any](), [np.empty((0, 4))]
        unfinished = part < state.parts and scan.delta <= enough
        if unfinished:
            begun = dict(vars(scan))
            columns = [begun.pop(name) for name in ("pairs", "distortions", "lengths")]
        state = replace(
            state,
            scanned_rank=len(psi),
            delta=scan.delta,
            scanned=scan.n_pairs,
            part=part,
            begun=begun,
            begun_found=np.column_stack(columns),
        )
        if unfinished:
            return state, None
        if scan.complete and state.stride == 1 and scan.delta < state.closest_delta:
            facts = _without_pairs(scan)
            state = replace(state, closest=psi, closest_delta=scan.delta, closest_scan=facts)
        return state, (scan, pairs)

    def everything_active(self, state: S) -> bool:
        """Whether every secant is a cut."""
        return state.count >= state.secants.n_pairs

    def separate(self, state: S) -> tuple[S, Verdict]:
        """One round or a part of it; served where a complete scan found no secant violated."""
        goal, met = state.target_delta, state.met
        # Secants that are nearly violated are taken too: it spares scans.  Where few are left
        # the cuts of earlier rounds are enough of those.
        share = 0.8 if state.violated > 0.01 * state.subset_size else 0.95
        # Work on the cuts costs less than a part of a scan, and changes the map: what the other
        # parts would find of this one need not hold of the next.
        state, found = self.scan_part(state, state.psi, share * goal, goal)
        if found is None:
            return state, Verdict.OPEN
        scan, pairs = found
        cut_short = state.part < state.parts
        before = state.count
        state = self.add(state, pairs, scan.lengths)
        added = state.count - before
        violated = int(sum_over_ranks(state.secants.comm, (np.abs(scan.distortions) > goal).sum()))
        state = replace(state, violated=violated)
        if scan.complete or cut_short:
            if met:
                state = replace(state, excesses=(), excesses_at=())
            else:
                # Not delta of the scan: one pair that no cut is near says nothing of the rank.
                state = replace(
                    state,
                    excesses=(*state.excesses, state.active_delta - goal),
                    excesses_at=(*state.excesses_at, state.attempt_iterations),
                )
            if scan.delta <= goal:
                if state.stride == 1:
                    state = self.confirm(state, state.psi, scan)
                return state, Verdict.SERVED
            if added == 0 and met:
                # Everything that violates is a cut already: the margins were too thin.
                return state, Verdict.FAILED
        fraction = state.separation.next_fraction(state.stride, scan, violated)
        state = replace(state, fraction=fraction)
        if added and not cut_short and state.count > (self.cuts_per_round or MIN_CUTS):
            state = self._thinned(state)
        return state, Verdict.OPEN

    def out_of_reach(self, state: S, iterations: int) -> bool:
        """Whether delta on the cuts, at the rate of this attempt, stays above its target.

        ``iterations`` is what the attempt may take; half as much again is allowed for, since
        attempts that succeed are fastest in the end.
        """
        if len(state.excesses) < 4 or state.excesses_at[-1] < 60:
            return False
        at = np.array(state.excesses_at, dtype=float)
        least = np.minimum.accumulate(np.maximum(state.excesses, 1e-12))
        half = int(np.searchsorted(at, 0.5 * at[-1], side="right")) - 1
        half = max(0, min(half, len(at) - 2))
        rate = np.log(least[half] / least[-1]) / max(1.0, at[-1] - at[half])
        left = 1.5 * max(0.0, iterations - at[-1])
        over = bool(np.log(least[-1] / (0.02 * state.target_delta)) > rate * left)
        return agreed(state.secants.comm, over)

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
        none = state.nearest[:0]
        return replace(state, cuts=cuts, dual=dual, nearest=none, nearest_delta=float("inf"))

    def _thinned(self, state: S) -> S:
        """Without the cuts that have been far inside for several rounds."""
        change = state.active.ratios(state.active.images(state.psi)) - 1.0
        cuts, keep = state.cuts.aged(change, state.target_delta, state.secants.n_points)
        if not any_over_ranks(state.secants.comm, not keep.all()):
            return replace(state, cuts=state.cuts.with_idle(cuts.idle))
        return replace(state, cuts=cuts, dual=state.dual[keep])

    def approach(self, state: S, psi: np.ndarray, delta: float) -> S:
        """Remember the map if no other of this attempt has a lower delta on the cuts."""
        if delta < state.nearest_delta:
            return replace(state, nearest=psi, nearest_delta=delta)
        return state

    def nearest_serves(self, state: S) -> tuple[S, bool]:
        """Whether the best map that a failing attempt passed on its way is worth having.

        A method need not end at the best of its iterates, and may aim below what it
        must reach.  Where delta is free, whatever is below the best delta is a gain.
        """
        limit = state.best_delta if state.lowering else state.target_delta
        if state.nearest_delta > limit:
            return state, False
        nearest = state.nearest
        threshold = self.aim * state.target_delta
        state, (scan, pairs) = self.scan(replace(state, fraction=1.0), nearest, threshold)
        state = self.add(state, pairs, scan.lengths)
        if scan.delta > state.target_delta:
            return state, False
        state = replace(state, psi=nearest)
        if state.stride == 1:
            state = self.confirm(state, nearest, scan)
        return state, True

    def confirm(self, state: S, psi: np.ndarray, scan: Scan) -> S:
        """Take over a map that a complete scan of all secants found to serve."""
        return replace(state, best=psi, best_delta=scan.delta, best_scan=_without_pairs(scan))


def _without_pairs(scan: Scan) -> Scan:
    none = {name: getattr(scan, name)[:0] for name in ("pairs", "distortions", "lengths")}
    return replace(scan, **none)

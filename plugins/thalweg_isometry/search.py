"""What the solvers share: the search for the least rank or delta, and column generation.

A run makes *attempts*: reach a target delta at a target rank.  An attempt works on
active secants only, then lets the oracle look at all secants, adds the worst
violators and goes on, until no secant violates the target (Luo et al., Algorithm 4,
except that no secant is ever dropped).  Early looks take a sample of the tiles; an
attempt succeeds only after a complete look.  Around the attempts a bracket closes:
on the rank if that is free (Algorithm 3 steps down by one instead, which
``adjust="published"`` does), on delta if that is free.  A lower rank starts from the
leading eigenvectors of ``Psi^T Psi``, a higher one adds principal directions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from thalweg import InputError
from thalweg.interfaces import Objective, SecantConstraints, Solver, SolverState
from thalweg.parallel import Layout, PETSc
from thalweg.parallel.pairs import Scan, SecantSet
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.certificate import lower_bound
from thalweg_isometry.look_progress import looking
from thalweg_isometry.map_ranks import extended, guessed_rank, sampled_ratios, truncated

#: A look at fewer pairs than this is always complete.
FEW_PAIRS = 40_000_000

#: With at most so many secants the trace's objective is over all of them; beyond, over
#: the active ones, which bounds it from below.
FEW_SECANTS = 500_000


@dataclass(kw_only=True)
class SearchState(SolverState):
    """State of a search; see :class:`SolverState`.

    Attributes
    ----------
    psi
        Present map, shape ``(rank, dimension)``.
    target_rank, target_delta
        Of the present attempt.
    low, high
        Bracket: largest value that failed and least that succeeded, of the rank or,
        where that is given, of delta.
    pairs, lengths
        Active secants: point numbers (m, 2), squared lengths (m,).
    dual
        Multiplier of each active secant, for the methods that have one.
    memory
        Other arrays and numbers of a method.
    best, best_delta
        Best map that a complete look confirmed, and its delta.
    closest, closest_delta
        Map of least delta seen by a complete look, a success or not.
    nearest, nearest_delta
        Map of this attempt that came nearest to the target on the active secants.
    delta, seen_rank
        What the last look saw, and the rank of the map that it looked at.
    fraction
        Share of the tiles at the next look.
    attempt_iterations
        Inner iterations of this attempt.
    ended
        Name of the status once the search is over.
    """

    psi: np.ndarray
    target_rank: int
    target_delta: float
    low: float
    high: float
    pairs: np.ndarray
    lengths: np.ndarray
    dual: np.ndarray
    memory: dict[str, Any] = field(default_factory=dict)
    best: np.ndarray
    best_delta: float = float("inf")
    closest: np.ndarray
    closest_delta: float = float("inf")
    nearest: np.ndarray
    nearest_delta: float = float("inf")
    delta: float = float("nan")
    seen_rank: int = 0
    active_delta: float = float("nan")
    residual: float = float("nan")
    dual_residual: float = float("nan")
    fraction: float = 1.0
    looks: int = 0
    attempts: int = 1
    attempt_iterations: int = 0
    stage: int = 0
    ended: str = ""


@dataclass(frozen=True)
class Inner:
    """What a method did on the active secants.

    ``met``: the target holds on them; ``failed``: the method gives this attempt up.
    """

    psi: np.ndarray
    met: bool
    failed: bool
    delta: float
    iterations: int
    evaluations: int


@dataclass(frozen=True)
class SecantSearch(Solver[SearchState]):
    """Base of the solvers.

    Attributes
    ----------
    adjust
        How a free rank is sought: ``"bracket"`` or ``"published"``.
    start_rank
        Rank of the first attempt; None guesses from the spectrum.
    columns
        Secants that a look adds at most.
    per_row
        Of those, at most so many a point and tile.
    precision
        Relative width at which a bracket on delta is closed.
    all_below
        If there are at most so many secants, all of them are active from the start.
    seed
        Chooses the tiles of sampled looks.
    """

    adjust: str = "bracket"
    start_rank: int | None = None
    columns: int = 30_000
    per_row: int = 3
    precision: float = 0.02
    all_below: int = 250_000
    seed: int = 0

    requires = (SecantConstraints,)
    decreases: ClassVar[bool] = False
    trace_columns: ClassVar[tuple[str, ...]] = (
        "delta",
        "rank",
        "target_rank",
        "target_delta",
        "active",
        "active_delta",
        "looked_at",
        "residual",
        "dual_residual",
    )

    def __post_init__(self) -> None:
        if self.adjust not in ("bracket", "published"):
            raise InputError(f"adjust must be 'bracket' or 'published', not {self.adjust!r}")
        if self.columns < 1 or self.per_row < 1:
            raise InputError("columns and per_row must be at least 1")
        if self.start_rank is not None and self.start_rank < 1:
            raise InputError(f"the starting rank must be at least 1, not {self.start_rank}")

    # -- what a method defines -------------------------------------------------------------

    @abstractmethod
    def inner(self, state: SearchState, active: ActiveSecants) -> Inner:
        """Work on the active secants for a while, from ``state.psi``."""

    def begin_attempt(self, state: SearchState) -> None:
        """Prepare ``state.memory`` for a new target."""
        state.memory = {}

    #: Share of the wanted delta that a method aims at, so that unseen secants fit too.
    aim: ClassVar[float] = 0.9

    # -- the solver ------------------------------------------------------------------------

    def init(self, objective: Objective, x: PETSc.Vec) -> SearchState:
        """Start the search with the oracle's first look at the starting map."""
        problem = cast(SecantConstraints, objective)
        secants = problem.secants
        rows = np.array(objective.layout.reading(x))
        given = rows[np.any(rows != 0.0, axis=1)]
        top = objective.layout.rows
        delta, rank = problem.wanted_delta, problem.wanted_rank
        low, high = 0.0, float("inf")
        if rank is None:
            assert delta is not None
            low = float(max(0, lower_bound(secants, delta) - 1))
            rank = self.start_rank or guessed_rank(secants, delta, self.adjust)
            rank = int(np.clip(rank, low + 1, top))
        psi = np.zeros((0, secants.dimension))
        state = SearchState(
            objective=objective,
            x=x,
            value=0.0,
            psi=psi,
            target_rank=rank,
            target_delta=delta if delta is not None else 1.0,
            low=low,
            high=high,
            pairs=np.empty((0, 2), dtype=np.int64),
            lengths=np.empty(0),
            dual=np.empty(0),
            best=psi,
            closest=psi,
            nearest=psi,
            fraction=self._first_fraction(secants),
        )
        # Orthonormal rows have no leading eigenvectors: the first rows are the leading ones.
        given = given if len(given) else secants.directions
        state.psi = self.resized(state, given[:rank], rank)
        if delta is None:
            # The starting map itself is the first success of the search on delta.
            scaled, scan = self._scaled(state, state.psi, complete=True)
            self._confirm(state, scaled, scan)
            state.psi = scaled
            state.high = state.best_delta
            state.target_delta = self._next_delta(state)
        else:
            scaled, scan = self._scaled(state, state.psi, complete=False)
            state.psi = scaled
        if secants.n_pairs <= self.all_below:
            scan = secants.scan(
                state.psi, threshold=0.0, max_pairs=secants.n_pairs, per_row=secants.n_points
            )
        self._add(state, scan)
        self.begin_attempt(state)
        self._show(state, state.best if len(state.best) else state.psi)
        return state

    def step(self, state: SearchState) -> SearchState:
        """Work on the active secants; look at the others if the target is met there."""
        secants = self._secants(state)
        active = ActiveSecants(secants, state.pairs, state.lengths)
        done = self.inner(state, active)
        state.psi = done.psi
        state.active_delta = done.delta
        state.evaluations += done.evaluations
        state.attempt_iterations += done.iterations
        self.approach(state, done.psi, done.delta)
        if done.met:
            if self._look(state):
                self._succeed(state)
        elif done.failed:
            if self._nearest_serves(state):
                self._succeed(state)
            else:
                self._fail(state)
        # Whenever a budget ends the run, x is the best map confirmed so far.
        shown = state.best if len(state.best) else state.psi
        self._show(state, self._final(state) if state.ended else shown, active)
        return state

    def status(self, state: SearchState) -> Status:
        """Running until the bracket is closed."""
        return Status[state.ended] if state.ended else Status.RUNNING

    def trace_row(self, state: SearchState) -> Mapping[str, float]:
        """Delta as last seen, rank and targets, active secants, residuals."""
        return {
            "delta": state.delta,
            "rank": float(state.seen_rank),
            "target_rank": float(state.target_rank),
            "target_delta": state.target_delta,
            "active": float(len(state.pairs)),
            "active_delta": state.active_delta,
            "looked_at": state.memory.get("looked_at", 0.0),
            "residual": state.residual,
            "dual_residual": state.dual_residual,
        }

    # -- looking ---------------------------------------------------------------------------

    def _secants(self, state: SearchState) -> SecantSet:
        return cast(SecantConstraints, state.objective).secants

    def _first_fraction(self, secants: SecantSet) -> float:
        if secants.listed or secants.n_pairs <= FEW_PAIRS:
            return 1.0
        return FEW_PAIRS / secants.n_pairs

    def _scan(self, state: SearchState, psi: np.ndarray, fraction: float, level: float) -> Scan:
        secants = self._secants(state)
        state.looks += 1
        state.seen_rank = len(psi)
        with looking(secants, fraction) as progress:
            return secants.scan(
                psi,
                threshold=level,
                max_pairs=self.columns,
                # Few points have few rows: let each give more.
                per_row=max(self.per_row, self.columns // max(1, 4 * secants.n_points)),
                fraction=fraction,
                seed=self.seed * 1_000_003 + state.looks,
                progress=progress,
            )

    def _scaled(
        self, state: SearchState, psi: np.ndarray, complete: bool
    ) -> tuple[np.ndarray, Scan]:
        """A map scaled so that its lengthening and shortening are alike, and a look at it."""
        fraction = 1.0 if complete else state.fraction
        _, points = self._secants(state).sample(600)
        ratio = sampled_ratios(points, psi)
        if len(ratio) and ratio.max() > 0:
            psi = psi * np.sqrt(2.0 / (ratio.max() + ratio.min()))
        return psi, self._scan(state, psi, fraction, self.aim * state.target_delta)

    def _look(self, state: SearchState) -> bool:
        """One look of the oracle; whether a complete one found no violator."""
        goal = state.target_delta
        scan = self._scan(state, state.psi, state.fraction, 0.5 * (1 + self.aim) * goal)
        before = len(state.pairs)
        self._add(state, scan)
        added = len(state.pairs) - before
        violators = int((np.abs(scan.distortions) > goal).sum())
        if scan.complete:
            if scan.delta < state.closest_delta:
                state.closest, state.closest_delta = state.psi, scan.delta
            if scan.delta <= goal:
                self._confirm(state, state.psi, scan)
                return True
            if added == 0:
                # Everything that violates is active already: the margins were too thin.
                self._fail(state)
        elif violators < 0.02 * self.columns:
            state.fraction = 1.0
        else:
            state.fraction = min(1.0, 1.5 * state.fraction)
        return False

    def approach(self, state: SearchState, psi: np.ndarray, delta: float) -> None:
        """Remember the map if no other of this attempt has a lower delta where it looked."""
        if delta < state.nearest_delta:
            state.nearest, state.nearest_delta = psi, delta

    def _nearest_serves(self, state: SearchState) -> bool:
        """Whether the best map that a failing attempt passed on its way is worth having.

        A method need not end at the best of its iterates, and may aim below what it
        must reach.  Where delta is free, whatever is below the best delta is a gain.
        """
        free = cast(SecantConstraints, state.objective).wanted_delta is None
        if state.nearest_delta > (state.best_delta if free else state.target_delta):
            return False
        scan = self._scan(state, state.nearest, 1.0, self.aim * state.target_delta)
        nearest = state.nearest
        self._add(state, scan)
        if scan.delta < state.closest_delta:
            state.closest, state.closest_delta = nearest, scan.delta
        if scan.delta > state.target_delta:
            return False
        self._confirm(state, nearest, scan)
        return True

    def _add(self, state: SearchState, scan: Scan) -> None:
        state.delta = scan.delta
        state.memory["looked_at"] = float(scan.n_pairs)
        n = self._secants(state).n_points
        known = np.sort(state.pairs[:, 0] * n + state.pairs[:, 1])
        fresh = ~np.isin(scan.pairs[:, 0] * n + scan.pairs[:, 1], known)
        state.pairs = np.concatenate([state.pairs, scan.pairs[fresh]])
        state.lengths = np.concatenate([state.lengths, scan.lengths[fresh]])
        state.dual = np.concatenate([state.dual, np.zeros(int(fresh.sum()))])
        if fresh.any():  # what was measured on fewer secants can no longer be compared
            state.nearest, state.nearest_delta = state.nearest[:0], float("inf")

    def _confirm(self, state: SearchState, psi: np.ndarray, scan: Scan) -> None:
        state.best, state.best_delta = psi, scan.delta
        if scan.delta < state.closest_delta:
            state.closest, state.closest_delta = psi, scan.delta

    # -- searching -------------------------------------------------------------------------

    def _succeed(self, state: SearchState) -> None:
        problem = cast(SecantConstraints, state.objective)
        if problem.wanted_rank is None:
            state.high = float(len(state.best))
            self._next_rank(state)
        elif problem.wanted_delta is None:
            state.high = state.best_delta
            self._next_target(state)
        else:
            state.ended = Status.CONVERGED.name

    def _fail(self, state: SearchState) -> None:
        problem = cast(SecantConstraints, state.objective)
        if problem.wanted_rank is None:
            state.low = max(state.low, float(state.target_rank))
            self._next_rank(state)
        elif problem.wanted_delta is None:
            state.low = state.target_delta
            if state.closest_delta < state.best_delta:
                state.best, state.best_delta = state.closest, state.closest_delta
                state.high = state.best_delta
            self._next_target(state)
        else:
            state.ended = Status.TARGET_NOT_REACHED.name

    def _next_rank(self, state: SearchState) -> None:
        top = state.objective.layout.rows
        low, high = int(state.low), state.high
        if low >= top and high == float("inf"):
            state.ended = Status.TARGET_NOT_REACHED.name
            return
        # The published adjustment ends where a rank fails, but not before one has served.
        stepped_too_low = self.adjust == "published" and low >= state.target_rank
        if high - low <= 1 or (stepped_too_low and high < float("inf")):
            state.ended = Status.CONVERGED.name
            return
        if high == float("inf"):
            rank = min(top, max(low + 1, int(np.ceil(1.2 * state.target_rank))))
            source = state.psi
        else:
            if self.adjust == "published":
                rank = int(high) - 1
            elif state.attempts == 1 or low < 0.75 * high:
                rank = max(low + 1, min(int(high) - 1, int(np.floor(0.88 * high))))
            else:
                rank = (low + int(high)) // 2
            source = state.best
        state.target_rank = rank
        self._restart(state, self.resized(state, source, rank))

    def _next_delta(self, state: SearchState) -> float:
        low, high = state.low, min(state.high, state.best_delta)
        return 0.75 * high if low == 0.0 else float(np.sqrt(low * high))

    def _next_target(self, state: SearchState) -> None:
        if state.high - state.low <= self.precision * state.high:
            state.ended = Status.CONVERGED.name
            return
        state.target_delta = self._next_delta(state)
        self._restart(state, state.best)

    def _restart(self, state: SearchState, psi: np.ndarray) -> None:
        looked = state.memory.get("looked_at", 0.0)
        state.psi = psi
        state.attempts += 1
        state.attempt_iterations = state.stage = 0
        state.dual = np.zeros(len(state.pairs))
        state.nearest, state.nearest_delta = psi[:0], float("inf")
        self.begin_attempt(state)
        state.memory["looked_at"] = looked

    def resized(self, state: SearchState, psi: np.ndarray, rank: int) -> np.ndarray:
        """A map of another rank near ``psi``: truncated, or extended by principal directions."""
        if len(psi) >= rank:
            return truncated(psi, rank)
        return extended(psi, rank, self._secants(state).directions, self.seed)

    def _final(self, state: SearchState) -> np.ndarray:
        """What the run returns: the best confirmed map, or else the one of least delta."""
        if len(state.best):
            psi, delta = state.best, state.best_delta
        else:
            psi, delta = state.closest, state.closest_delta
            if not len(psi) or state.nearest_delta < delta:
                other = state.nearest if len(state.nearest) else state.psi
                seen = self._scan(state, other, 1.0, np.inf).delta
                if seen < delta or not len(psi):
                    psi, delta = other, seen
        state.psi, state.delta, state.seen_rank = psi, delta, len(psi)
        return psi

    def _show(
        self, state: SearchState, psi: np.ndarray, active: ActiveSecants | None = None
    ) -> None:
        """Put a map into x, and the objective there: over all secants if they are few."""
        layout: Layout = state.objective.layout
        with layout.writing(state.x) as rows:
            rows[...] = 0.0
            rows[: len(psi)] = psi
        secants = self._secants(state)
        if secants.n_pairs <= FEW_SECANTS:
            state.value = state.objective.value(state.x)
            return
        if active is None:
            active = ActiveSecants(secants, state.pairs, state.lengths)
        change = np.abs(active.ratios(active.images(psi)) - 1.0)
        theta = cast(SecantConstraints, state.objective).wanted_delta or 0.0
        miss = np.maximum(change - theta, 0.0)
        state.value = 0.5 * float(miss @ miss)

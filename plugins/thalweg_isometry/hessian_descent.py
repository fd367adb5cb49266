"""Learning a Johnson-Lindenstrauss map by descent along the Hessian's eigenvectors.

Each attempt begins with the random projection of its rank.  The variance of Gaussian maps is
lowered step by step, and at each variance a solver that leaves saddles lowers the probability that
they fail (:mod:`~thalweg_isometry.gaussian_maps`), until the means alone keep the secants at hand.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

import thalweg
from thalweg.parallel import agreed
from thalweg.plugins import Help
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.gaussian_maps import GaussianMaps
from thalweg_isometry.search import SecantSearch
from thalweg_isometry.search_state import Inner, SearchState

#: Standard deviation over delta at which an attempt ends: lengths hardly vary any more.
LEAST_DEVIATION = 0.02

#: Relative decrease of the probability in an iteration below which the variance falls: one that is
#: nearly least at a variance is no better a start at the next.
ENOUGH = 1e-2

#: Variances in a row without a lower delta of the means after which an attempt ends.
STALLED = 6


@dataclass(frozen=True, kw_only=True)
class HessianDescentState(SearchState):
    """State of ``hessian-descent``."""

    variance: float = 0.0  # of the present step; 0 before the first
    #: Least delta of the means in this attempt, and the number of steps since.
    lowest: float = float("inf")
    stalled: int = 0


@dataclass(frozen=True)
class HessianDescent(SecantSearch[HessianDescentState]):
    """Solver ``hessian-descent``."""

    descent: Annotated[str, Help("name of the solver that lowers the probability")] = "saddle-free"
    sweep: Annotated[int, Help("iterations of that solver at each variance", minimum=1)] = 8
    share: Annotated[float, Help("the next variance over the last", above=0, below=1)] = 0.8

    aim: ClassVar[float] = 0.95
    state_type: ClassVar[type[Any]] = HessianDescentState

    def begin_attempt(self, state: HessianDescentState) -> HessianDescentState:
        """Begin with a random projection."""
        return replace(state, variance=0.0, lowest=float("inf"), stalled=0)

    def inner(
        self, state: HessianDescentState, active: ActiveSecants
    ) -> tuple[HessianDescentState, Inner]:
        """One variance; met where the means keep the secants at hand."""
        goal = self.aim * state.attempt.delta
        rank = state.attempt.rank
        fresh = state.variance == 0.0
        variance = self.share * (1.0 / rank if fresh else state.variance)
        maps = GaussianMaps(active, (rank, state.secants.dimension), goal, variance)
        start = None if fresh else state.psi
        stop: dict[str, Any] = {"iterations": self.sweep, "decrease": ENOUGH, "window": 1}
        result = thalweg.minimize(maps, start, self.descent, seed=self.seed, **stop)
        psi = agreed(active.comm, np.array(result.x))
        delta = active.largest(active.ratios(active.images(psi)) - 1.0)
        state = self.approach(state, psi, delta)
        stalled = 0 if delta < state.lowest else state.stalled + 1
        lowest = min(state.lowest, delta)
        state = replace(state, variance=variance, stalled=stalled, lowest=lowest)
        last = stalled >= STALLED or np.sqrt(variance) < LEAST_DEVIATION * goal
        counts = result.iterations, result.evaluations
        return state, Inner(psi, delta <= goal, last and delta > goal, delta, *counts)

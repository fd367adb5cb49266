"""Learning a Johnson-Lindenstrauss map by descent along the Hessian's eigenvectors.

Each attempt begins with the random projection of its rank.  The variance of Gaussian maps is
lowered step by step, and at each variance a solver that leaves saddles lowers the expected number
of secants that they do not keep, which bounds the probability that they fail (Tsikouras, Caramanis
and Tzamos 2024), until the means alone keep the secants at hand.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.special
import scipy.stats

import thalweg
from thalweg.engines.hessian import HessianProduct
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Layout, agreed, sum_over_ranks
from thalweg.plugins import Help
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.search import SecantSearch
from thalweg_isometry.search_state import Inner, SearchState

#: Standard deviation over delta at which an attempt ends: lengths hardly vary any more; by hand.
LEAST_DEVIATION = 0.02

#: Relative decrease of the probability in an iteration below which the variance falls: one that is
#: nearly least at a variance is no better a start at the next; chosen by hand.
ENOUGH = 1e-2

#: Variances in a row without a lower delta of the means after which an attempt ends; by hand.
STALLED = 6

#: Least noncentrality: below it the density is that without any.
LEAST = 1e-8


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
    weighs: ClassVar[bool] = False
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
        delta = active.delta(psi)
        state = self.approach(state, psi, delta)
        stalled = 0 if delta < state.lowest else state.stalled + 1
        state = replace(state, variance=variance, stalled=stalled, lowest=min(state.lowest, delta))
        last = stalled >= STALLED or np.sqrt(variance) < LEAST_DEVIATION * goal
        return state, Inner(psi, delta <= goal, last and delta > goal, delta, result.evaluations)


class GaussianMaps(Objective, HessianProduct):
    """The function f of the means M, of a shape, which every rank has.

    ``delta``, in (0, 1), is the largest change of a squared length, and ``variance``, above 0, that
    of the entries; the secants have no weights.
    """

    def __init__(
        self, active: ActiveSecants, shape: tuple[int, int], delta: float, variance: float
    ) -> None:
        self._active = active
        self._ends = (1.0 - delta, 1.0 + delta)
        self._variance = variance
        self._at: tuple[bytes, tuple[Array, ...]] | None = None
        super().__init__(active.comm, Layout(MPI.COMM_SELF, *shape))

    def initial_point(self, seed: int) -> Array:
        """What this variance leaves of a random projection, of variance 1 / rank."""
        rank, dimension = self.layout.rows, self.layout.columns
        size = np.sqrt(max(0.0, 1.0 / rank - self._variance))
        return size * np.random.default_rng((seed, rank)).standard_normal((rank, dimension))

    def value(self, x: Array) -> float:
        return self._total(self._active.gains(self._active.images(x)), len(x))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        images, squares, slope, _ = self._terms(x)
        return self._total(squares, len(x)), 2.0 * self._active.adjoint_times(slope, images)

    def hessian_product(self, x: Array, direction: Array) -> Array:
        images, _, slope, curvature = self._terms(x)
        active = self._active
        moved = active.images(direction)
        # 2 (M v)'(D v), the change of ||M v||^2 along D.
        change = active.gains(images + moved) - active.gains(images) - active.gains(moved)
        product = 2.0 * active.adjoint_times(curvature * change, images)
        return product + 2.0 * active.adjoint_times(slope, moved)

    def _total(self, squares: Array, rank: int) -> float:
        ends, c = self._scaled(squares)
        below, above = (scipy.special.chndtr(end, rank, c) for end in ends)
        return float(sum_over_ranks(self.comm, float((1.0 + (below - above)).sum())))

    def _scaled(self, squares: Array) -> tuple[tuple[float, ...], Array]:
        """The ends, and squared lengths, over the variance."""
        v = self._variance
        return tuple(end / v for end in self._ends), np.maximum(squares / v, LEAST)

    def _terms(self, x: Array) -> tuple[Array, ...]:
        """Images, ``||M v||^2``, and by these derivatives of each secant's probability."""
        key = x.tobytes()
        if self._at is None or self._at[0] != key:
            images = self._active.images(x)
            ends, c = self._scaled(squares := self._active.gains(images))
            # By the noncentrality, the distribution falls by the density of two more degrees.
            (b1, b2), (a1, a2) = ([density(e, len(x) + more, c) for more in (2, 4)] for e in ends)
            slope, curvature = (a1 - b1) / self._variance, 0.5 * ((a2 - a1) - (b2 - b1))
            self._at = (key, (images, squares, slope, curvature / self._variance**2))
        return self._at[1]


def density(x: float, degrees: int, c: np.ndarray) -> np.ndarray:
    """Density at x of the chi-square distribution of noncentrality c."""
    order = 0.5 * degrees - 1.0
    z = np.sqrt(x * c)
    # SciPy has none beyond 1e9, where they fall as 1 / sqrt(z).
    bessel = scipy.special.ive(order, np.minimum(z, 1e9)) * np.sqrt(np.minimum(1.0, 1e9 / z))
    with np.errstate(over="ignore", invalid="ignore"):  # where the Bessel function vanishes
        powers = np.exp(0.5 * (order * np.log(x / c) - (np.sqrt(x) - np.sqrt(c)) ** 2))
        found = 0.5 * bessel * powers
    vanishing = bessel < 1e-290
    if vanishing.any():  # by a series, ten times slower
        found[vanishing] = scipy.stats.ncx2.pdf(x, degrees, c[vanishing])
    return found

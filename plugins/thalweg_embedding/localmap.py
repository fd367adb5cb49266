"""LocalMAP: PaCMAP whose last further pairs are drawn anew, of points that are near in the map."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.interfaces import Rows
from thalweg.parallel import MPI, Array, kernel
from thalweg.plugins import with_options
from thalweg_embedding.affinities.pair_sets import pair_matrix
from thalweg_embedding.defaults import ROWS_PER_STEP
from thalweg_embedding.pacmap import STAGES, PaCMAPObjective, PaCMAPOptions, of_pairs
from thalweg_embedding.pairs.pair_sum import CombinedPairs

#: Weights of mid-near pairs in the stages of the last phase, each of which draws further pairs, but
#: for the first stage of a run.  More of them tear clusters apart (notes, "LocalMAP").
LAST_STAGES = (0.0,) * 5
ALL_STAGES = (*STAGES[:-1], *LAST_STAGES)

#: Distance in the map up to which these reach, in map units, as in the paper's program; and points
#: drawn for each, of which the first that is near takes the place of the old one.
NEAR, DRAWS = 10.0, 100


@dataclass(frozen=True)
class FurtherPairs:
    """The points that this rank's have as further pairs, and how often these were drawn."""

    numbers: Rows
    draws: int = 0


class LocalMAPObjective(PaCMAPObjective):
    """PaCMAP's, with 5 (u/(10 + s) + arctan(u/sqrt(10))/sqrt(10)) for neighbors in the last phase.

    u = sqrt(s) (Wang, Sun, Huang and Rudin 2025).  Where a stage of that phase follows another
    stage, further pairs are drawn among points that are no neighbors, and no further than 10 units
    in the map.  Where 100 points are not, the old pair stays.  A run begins with the first pairs,
    unless its schedule begins in the last phase: then with those of the run before.
    """

    _further: FurtherPairs | None = None  # those drawn; None where they are the first

    @functools.cached_property
    def _last_phase(self) -> CombinedPairs:
        near, mid_near = self._sum_over(3, self.weights), self._attracted.parts[1]
        return CombinedPairs(near, mid_near, (0.5 * NEAR, 0.0))

    def _enter_phase(self, mid_near: float) -> None:
        super()._enter_phase(mid_near)
        self.attraction = self._attracted if mid_near > 0.0 else self._last_phase
        if mid_near > 0.0 and self.state().draws:  # another run begins
            self.restore(FurtherPairs(self.pairs.further))

    def default_homotopy(self) -> Sequence[float]:
        """With twice the stages of the last phase for many points, whose clusters part later."""
        return (*super().default_homotopy(), *(LAST_STAGES * (self.layout.rows >= ROWS_PER_STEP)))

    def value_at(self, parameter: float, value: float) -> float:
        """Not known, since other pairs count there."""
        return math.nan

    def escape_stationary_point(self, x: Array) -> Array:
        """As of all embeddings; in the last phase further pairs are drawn, too."""
        x, layout = super().escape_stationary_point(x), self.layout
        if self.homotopy_parameter == 0.0:
            numbers, draws = self.state().numbers.copy(), self.state().draws + 1
            stream = np.random.SeedSequence(self.pairs.seed, spawn_key=(draws,))
            places, key = layout.gather_rows(x), stream.generate_state(1, np.uint64)[0]
            _draw_near(places, layout.start, self.pairs.neighbors, key, numbers)
            self.restore(FurtherPairs(numbers, draws))
        return x

    def state(self) -> FurtherPairs:
        return self._further or FurtherPairs(self.pairs.further)

    def restore(self, state: FurtherPairs) -> None:
        self.repulsion = self._sum_over(2, pair_matrix(self.layout, state.numbers))
        self._further = state

    def row_measures(self, solution: np.ndarray, dataset: Any) -> Mapping[str, np.ndarray]:
        """As of all embeddings, but of the map of a run of this objective alone."""
        if not self.state().draws:
            raise InputError(
                "measures of a LocalMAP need the further pairs that its run ended with, which are "
                "not stored with the map; LocalMAP().fit(data).faithfulness() has them"
            )
        return super().row_measures(solution, dataset)


@kernel(writes=("numbers",), parallel=True)
def _draw_near(places, start, neighbors, key, numbers):  # type: ignore[no-untyped-def]
    """Numbers of near points, where there are, in place of the old ones.

    Those of a point differ, are no neighbors, and depend on the key and its own number alone.
    """
    for n in prange(len(numbers)):
        own = start + n
        state = key ^ (np.uint64(own + 1) * np.uint64(0xD1342543DE82EF95))
        for j in range(numbers.shape[1]):
            for _ in range(DRAWS):
                state += np.uint64(0x9E3779B97F4A7C15)  # splitmix64
                bits = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                bits ^= bits >> np.uint64(31)
                other = np.int64(float(bits >> np.uint64(11)) * 2.0**-53 * len(places))
                taken = (neighbors[n] == other).any() or (numbers[n] == other).any()
                apart = ((places[own] - places[other]) ** 2).sum()
                if other != own and apart <= NEAR**2 and not taken:
                    numbers[n, j] = other
                    break


@with_options(PaCMAPOptions)
def localmap(
    dataset: Dataset, comm: MPI.Comm, *, start: Any = None, stages: Any = ALL_STAGES, **options: Any
) -> PaCMAPObjective:
    """LocalMAP: PaCMAP, with 5 sum (u/(10 + s) + arctan(u/sqrt(10))/sqrt(10)) in the last phase.

    That sum is over neighbors, with u = sqrt(s); the further pairs of that phase are near.
    """
    return of_pairs(LocalMAPObjective, dataset, start, stages, PaCMAPOptions(**options))

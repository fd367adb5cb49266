"""PaCMAP: few attracting and repelling pairs, chosen once, and three phases of their weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import scipy.sparse

from thalweg.data import Dataset
from thalweg.parallel import MPI, Layout
from thalweg.plugins import Help, with_options
from thalweg_embedding.affinities.pair_sets import PairOptions, PairSets, pair_matrix, pair_sets
from thalweg_embedding.defaults import MANY_ROWS, NOISE, START_SCALE
from thalweg_embedding.options import AffinityOptions, Dimensions
from thalweg_embedding.pairs.pair_sum import CombinedPairs, PairSum
from thalweg_embedding.pairs.parametric import pacmap_functions
from thalweg_embedding.pairs.sum_methods import attractive_sum
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding
from thalweg_embedding.plugin import STOP
from thalweg_embedding.start import Start, check_dimensions, check_start, principal_components

#: Weights of mid-near pairs in the stages; in the paper they fall from 1000 to 3 in a hundred
#: steps, stay there for another hundred, and are 0 from then on.
STAGES = (1000.0, 500.0, 250.0, 100.0, 30.0, 10.0, 3.0, 0.0)

#: Weights of neighbors in these three phases.
NEIGHBOR_WEIGHTS = (2.0, 3.0, 1.0)


class PaCMAPObjective(PairwiseEmbedding):
    """w_NB sum s/(10 + s) + w_MN sum s/(10,000 + s) + sum 1/(1 + s), s = 1 + d.

    Over neighbors, mid-near pairs and further pairs (Wang, Huang, Rudin and Shaposhnik 2021,
    section 4), whose last weight is 1.  The homotopy parameter is w_MN.  With it goes w_NB: 2 while
    it is above 3, then 3, and 1 where it is 0, which is the wanted objective.  ``stages`` are the
    values of w_MN that a run passes through when the user asks for none.
    """

    homotopy_name = "mid_near_weight"

    def __init__(
        self, layout: Layout, pairs: PairSets, *, start: Start | None, stages: Sequence[float]
    ) -> None:
        self.layout, self.pairs = layout, pairs
        matrices = [pair_matrix(layout, numbers) for numbers in pairs[:3]]
        near, mid_near, further = (self._sum_over(*each) for each in enumerate(matrices))
        self._attracted = CombinedPairs(near, mid_near, (1.0, 0.0))
        super().__init__(
            layout, matrices[0], self._attracted, further, normalized=False, start=start,
            stages=stages, stop=STOP, label="pacmap",
        )  # fmt: skip
        self._enter_phase(0.0)

    def _sum_over(self, function: int, matrix: scipy.sparse.csr_matrix) -> PairSum:
        """Sum of a function of PaCMAP's over pairs.  Collective."""
        single = self.layout.rows >= MANY_ROWS
        return attractive_sum(self.layout, pacmap_functions()[function], matrix, single)

    @property
    def homotopy_parameter(self) -> float:
        """w_MN."""
        return self._attracted.factors[1]

    @homotopy_parameter.setter
    def homotopy_parameter(self, value: float) -> None:
        self._enter_phase(value)

    def _enter_phase(self, mid_near: float) -> None:
        self._attracted.factors = _attraction_weights(mid_near)

    def value_at(self, parameter: float, value: float) -> float:
        """The value with another w_MN, and the w_NB that goes with it."""
        last, _, repelled = self._last
        terms = zip(_attraction_weights(parameter), self._attracted.totals, strict=True)
        if value != last:
            return math.nan
        return sum(weight * total for weight, total in terms if weight) + repelled


def _attraction_weights(mid_near: float) -> tuple[float, float]:
    """w_NB and w_MN."""
    phase = 2 if mid_near <= 0.0 else 1 if mid_near <= STAGES[-2] else 0
    return NEIGHBOR_WEIGHTS[phase], float(mid_near)


@dataclass(frozen=True, kw_only=True)
class PaCMAPOptions(PairOptions):
    """Options of PaCMAP: those of its map and its pairs, and where it starts."""

    dimensions: Dimensions = 2
    init: Annotated[
        Literal["auto", "random", "pca"],
        Help("start: random numbers, or principal components (auto, if possible)"),
    ] = "auto"
    init_scale: Annotated[float, Help("start's deviation", unit="map units", above=0)] = START_SCALE


def of_pairs(
    made: type[PaCMAPObjective], dataset: Dataset, start: Any, stages: Any, chosen: PaCMAPOptions
) -> PaCMAPObjective:
    """An objective of this class, of pairs that are drawn from the data.  Collective."""
    init, scale = chosen.init, chosen.init_scale
    layout = dataset.layout.with_columns(chosen.dimensions)
    check_dimensions(layout)
    check_start(start, layout)
    notes: list[str] = []
    pairs = pair_sets(dataset, chosen, notes.append)
    if init == "auto":
        init = "pca" if layout.columns <= dataset.layout.columns else "random"
    noise = NOISE * scale if start is None else 0.0
    if start is None and init == "pca":
        start = principal_components(dataset, layout.columns, scale)
    objective = made(layout, pairs, start=Start(layout, start, scale, noise), stages=stages)
    objective.options = AffinityOptions(
        affinity="uniform", n_neighbors=pairs.neighbors.shape[1], metric=chosen.metric
    )
    for note in notes:
        objective.note(note)
    return objective


@with_options(PaCMAPOptions)
def pacmap(
    dataset: Dataset, comm: MPI.Comm, *, start: Any = None, stages: Any = STAGES, **options: Any
) -> PaCMAPObjective:
    """PaCMAP: w_NB sum s/(10 + s) + w_MN sum s/(10,000 + s) + sum 1/(1 + s), s = 1 + d."""
    return of_pairs(PaCMAPObjective, dataset, start, stages, PaCMAPOptions(**options))

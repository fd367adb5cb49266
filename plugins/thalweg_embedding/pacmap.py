"""PaCMAP: few attracting and repelling pairs, chosen once, and three phases of their weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from thalweg.data import Dataset
from thalweg.parallel import MPI, Layout
from thalweg.plugins import Help, with_options
from thalweg_embedding.affinities.pair_sets import PairOptions, PairSets, pair_sets
from thalweg_embedding.defaults import MANY_ROWS, NOISE, START_SCALE
from thalweg_embedding.options import AffinityOptions, Dimensions
from thalweg_embedding.pairs.pair_sum import CombinedPairs
from thalweg_embedding.pairs.parametric import pacmap_functions
from thalweg_embedding.pairs.sum_methods import attractive_sum
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding
from thalweg_embedding.plugin import STOP
from thalweg_embedding.start import Start, check_dimensions, principal_components

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
        self,
        layout: Layout,
        pairs: PairSets,
        *,
        start: Start | None = None,
        stages: Sequence[float] = STAGES,
    ) -> None:
        near, mid_near, further = pacmap_functions()
        single = layout.rows >= MANY_ROWS
        self.pairs = pairs
        self._attracted = CombinedPairs(
            attractive_sum(layout, near, pairs.neighbors, single),
            attractive_sum(layout, mid_near, pairs.mid_near, single),
            (1.0, 0.0),
        )
        super().__init__(
            layout,
            pairs.neighbors,
            self._attracted,
            attractive_sum(layout, further, pairs.further, single),
            normalized=False,
            start=start,
            stages=stages,
            stop=STOP,
            label="pacmap",
        )

    @property
    def homotopy_parameter(self) -> float:
        """w_MN."""
        return self._attracted.factors[1]

    @homotopy_parameter.setter
    def homotopy_parameter(self, value: float) -> None:
        self._attracted.factors = _attraction_weights(value)

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
    """Options of :func:`pacmap`: those of its map and its pairs, and where it starts."""

    dimensions: Dimensions = 2
    init: Annotated[
        Literal["auto", "random", "pca"],
        Help(
            "where the map starts: random numbers, or principal components, which auto takes where "
            "the data have as many columns"
        ),
    ] = "auto"
    init_scale: Annotated[
        float, Help("standard deviation of the starting map", unit="map units", above=0)
    ] = START_SCALE


@with_options(PaCMAPOptions)
def pacmap(
    dataset: Dataset,
    comm: MPI.Comm,
    *,
    start: np.ndarray | None = None,
    stages: Sequence[float] = STAGES,
    **options: Any,
) -> PaCMAPObjective:
    """PaCMAP: w_NB sum s/(10 + s) + w_MN sum s/(10,000 + s) + sum 1/(1 + s), s = 1 + d."""
    chosen = PaCMAPOptions(**options)
    init, scale = chosen.init, chosen.init_scale
    layout = dataset.layout.with_columns(chosen.dimensions)
    check_dimensions(layout)
    notes: list[str] = []
    pairs = pair_sets(dataset, chosen, notes.append)
    if init == "auto":
        init = "pca" if layout.columns <= dataset.layout.columns else "random"
    noise = NOISE * scale if start is None else 0.0
    if start is None and init == "pca":
        start = principal_components(dataset, layout.columns, scale)
    objective = PaCMAPObjective(
        layout, pairs, start=Start(layout, start, scale, noise), stages=stages
    )
    objective.options = AffinityOptions(
        affinity="uniform", n_neighbors=pairs.n_neighbors, metric=chosen.metric
    )
    for note in notes:
        objective.note(note)
    return objective

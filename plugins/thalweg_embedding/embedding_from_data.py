"""The objective of an embedding, from a family of functions and a data set."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.numerics import squared_distances
from thalweg.parallel import (
    Layout,
    max_over_ranks,
    one_blas_thread,
    raise_on_all_ranks,
    refuse_differing,
    sum_over_ranks,
)  # fmt: skip
from thalweg.plugins import declared_options
from thalweg_embedding import defaults
from thalweg_embedding.affinities.affinities_from_data import (
    LINKS,
    UNIFORM_SHARE,
    Affinities,
    affinities_of,
    given_affinities,
    tied_together,
)
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.affinities.symmetric import Weights
from thalweg_embedding.anchors import AnchoredEmbedding, Anchors
from thalweg_embedding.families import Family
from thalweg_embedding.memory_estimate import require_room
from thalweg_embedding.options import EmbeddingOptions
from thalweg_embedding.pairs.density import DensityCorrelation
from thalweg_embedding.pairs.grid_pairs import GridPairs
from thalweg_embedding.pairs.pair_sum import CombinedPairs
from thalweg_embedding.pairs.sum_methods import attractive_sum, repulsive_sum
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding
from thalweg_embedding.plugin import STOP
from thalweg_embedding.start import (
    Start,
    check_dimensions,
    check_start,
    eigenvectors,
    principal_components,
)


def embedding(
    family: Family,
    dataset: Dataset,
    *,
    start: np.ndarray | None = None,
    weights: Weights | Affinities | None = None,
    **options: Any,
) -> PairwiseEmbedding:
    """An embedding of a data set's rows.  Collective.

    Parameters
    ----------
    family
        Which functions; your own :class:`Family` makes a new method.
    dataset
        Points as rows, or their affinities (``affinity="precomputed"``).
    start
        This rank's rows of a map to start from.
    weights
        This rank's rows of attractive weights, instead of those made from the data.
    **options
        Fields of :class:`~thalweg_embedding.options.EmbeddingOptions`.

    Raises
    ------
    InputError
        Data or options that cannot be used.
    """
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"the data must be a thalweg.Dataset, not a {type(dataset).__name__}; "
            "thalweg.Dataset.from_array makes one"
        )
    plain = {k: v if isinstance(v, str | int | float) else type(v) for k, v in options.items()}
    refuse_differing(dataset.comm, "the options of an embedding", plain, start is None)
    chosen = EmbeddingOptions(**options)
    for option in declared_options(EmbeddingOptions):
        value = getattr(chosen, option.keyword)
        if option.name not in ("neighbor_search", "anchors") or isinstance(value, str):
            option.check(value, "embedding")
    if chosen.affinity == "auto":
        chosen = replace(chosen, affinity=family.affinity)
    layout = dataset.layout.with_columns(chosen.dimensions)
    check_dimensions(layout)
    affinities = weights if isinstance(weights, Affinities) else Affinities(weights)
    check_start(start, layout)
    with raise_on_all_ranks(dataset.comm):
        if weights is not None and np.shape(affinities.weights)[1:] != (layout.rows,):
            raise InputError(f"weights must be a matrix of {layout.rows} columns, a row a point")
    anchors = Anchors.of(chosen.anchors, chosen.anchor_weight, layout, dataset.numbers)
    made = _Embedding(family, dataset, chosen, layout, anchors)
    notes: list[str] = []
    if weights is None:
        affinities = made.affinities(notes.append)
    densities = None
    if chosen.density > 0.0:
        if affinities.squared is None:
            raise InputError(
                "the correlation of densities needs the data, and affinities alone are given; use "
                "density = 0"
            )
        rows = scipy.sparse.csr_matrix(affinities.weights)
        densities = DensityCorrelation(made.layout, rows, affinities.squared, affinities.places)
    components = 1
    from_points = weights is None and chosen.affinity != "precomputed"
    if from_points and family.staged and chosen.repulsive_weights != "complement":
        tied, components = tied_together(dataset.layout, affinities.weights, affinities.places)
        affinities = replace(affinities, weights=tied)
    objective = made.objective(affinities, densities, start, notes.append)
    objective.options = None if chosen.affinity == "precomputed" else chosen
    for note in notes:
        objective.note(note)
    if components > 1:
        objective.note(
            f"the neighbor graph has {components} disconnected parts, whose distance in the map is "
            f"arbitrary; weak links, {UNIFORM_SHARE:.0%} of the weight on {LINKS} pairs per point, "
            "hold them together and are part of the objective"
        )
    return objective


@dataclass(frozen=True)
class _Embedding:
    """What an embedding is made of: functions, data, options, layout and anchors of the map."""

    family: Family
    dataset: Dataset
    options: EmbeddingOptions
    layout: Layout
    anchors: Anchors | None

    def affinities(self, note: Callable[[str], None]) -> Affinities:
        """Affinities of the points, or those that the data are."""
        options = self.options
        if options.affinity == "precomputed":
            if options.metric != "euclidean":
                raise InputError(
                    f"metric = '{options.metric}' has no meaning where the data are affinities; "
                    "leave it out, or choose another affinity"
                )
            if options.target_weight > 0.0:
                raise InputError(
                    "target_weight has no meaning where the data are affinities, which are taken "
                    "as they are; leave it at 0, or choose another affinity"
                )
            return given_affinities(self.dataset)
        require_room(self.dataset, {"name": self.family.name, **vars(options)})
        relocate = options.repulsive_weights != "squared-distances"
        return affinities_of(
            self.dataset, options, note=note, distances=options.density > 0.0, relocate=relocate
        )

    def objective(
        self,
        affinities: Affinities,
        densities: DensityCorrelation | None,
        start: np.ndarray | None,
        note: Callable[[str], None],
    ) -> PairwiseEmbedding:
        """Sums over pairs with these weights, and all that a run needs to know of them."""
        family, layout, options = self.family, self.layout, self.options
        weights, places = affinities.weights, affinities.places
        scale, pair_weights = _repulsive_weights(self.dataset, family, affinities, options)
        error = options.repulsion_error
        way = "per point" if family.per_point else options.repulsion
        repulsion = repulsive_sum(layout, family.repulsion, pair_weights, way, error)
        by_mesh = isinstance(repulsion, GridPairs)
        if not by_mesh and layout.rows >= defaults.SLOW_ROWS:
            pairs = layout.rows * float(layout.rows)
            seconds = 1e-9 * defaults.EXACT_COST * pairs / layout.comm.size
            note(
                f"the repulsion is summed over all {layout.rows:,} x {layout.rows:,} pairs, about "
                f"{seconds:.2g} s each time; meshes serve equal weights in up to 3 dimensions"
            )
        single = by_mesh and error > defaults.SINGLE_PRECISION_ERROR
        attraction = attractive_sum(layout, family.attraction, weights, single, places)
        lambda_ = family.lambda_ or (1.0 if family.normalized else 100.0)
        lambda_ *= (layout.rows - 1) / layout.rows if family.from_all_points else 1.0
        if options.repulsive_weights == "complement":
            edges = weights * affinities.total
            of_edges = attractive_sum(layout, family.repulsion, edges, places=places)
            repulsion, lambda_ = CombinedPairs(repulsion, of_edges, (1.0, -1.0)), 1.0
        values = weights.data if scipy.sparse.issparse(weights) else weights
        entropy = float(scipy.special.entr(values).sum())  # with 0 log 0 = 0
        stages = family.stages(layout.rows, options.early_exaggeration, densities is not None)
        made: Any = PairwiseEmbedding if self.anchors is None else AnchoredEmbedding
        objective: Any = made(
            layout, weights, attraction, repulsion, normalized=family.normalized,
            lambda_=lambda_ if options.lambda_ is None else options.lambda_, repulsion_scale=scale,
            constant=-float(sum_over_ranks(layout.comm, entropy)) if family.normalized else 0.0,
            start=self.start(affinities, start), stages=stages,
            stop=STOP if family.staged else None, density=densities,
            density_weight=options.density, label=family.name, places=places,
        )  # fmt: skip
        if self.anchors is not None:
            objective.anchors = self.anchors
            if start is None:
                with one_blas_thread():  # the same bits at any number
                    objective.draw_start()
        return objective  # type: ignore[no-any-return]

    def start(self, affinities: Affinities, rows: np.ndarray | None) -> Start:
        """The map given, or random numbers, principal components or eigenvectors."""
        layout, options, init = self.layout, self.options, self.options.init
        if init == "auto":
            points = options.affinity != "precomputed" and options.metric != "precomputed"
            leading = points and layout.columns <= self.dataset.layout.columns
            init = "pca" if self.family.staged and leading and rows is None else "random"
        scale = options.init_scale
        if not scale:
            scale = defaults.LARGE_SCALE if init == "random" else defaults.UNFOLDED_SCALE
            if not self.family.staged or layout.rows < defaults.MANY_ROWS:
                scale = defaults.START_SCALE
        if rows is not None:
            return Start(layout, rows, scale)
        if init == "pca":
            rows = principal_components(self.dataset, layout.columns, scale)
        elif init == "spectral":
            weights, places = affinities.weights, affinities.places
            weights = weights if places is None else places.backward_matrix(weights)
            rows = eigenvectors(layout, weights, scale)
        return Start(layout, rows, scale, defaults.NOISE * scale)


def _repulsive_weights(
    dataset: Dataset, family: Family, affinities: Affinities, options: EmbeddingOptions
) -> tuple[float, np.ndarray | None]:
    """Factor of E-, and this rank's rows of w-, None for weights of one.  Collective."""
    n, kind = dataset.layout.rows, options.repulsive_weights
    if family.per_point:
        return 1.0 / n, None
    if family.normalized or kind == "one":
        return 1.0, None
    if kind == "complement":
        sparse = scipy.sparse.issparse(affinities.weights)
        values = np.asarray(affinities.weights.data if sparse else affinities.weights)
        largest = affinities.total * max_over_ranks(dataset.comm, float(values.max(initial=0.0)))
        if largest > 1.0 + 1e-9:
            raise InputError(
                "repulsive_weights = 'complement' needs affinities of at most 1, and one is "
                f"{largest:g}; divide them by the largest, or use 'uniform'"
            )
        return 1.0 / affinities.total, None
    if kind == "uniform":
        return 1.0 / (n * (n - 1)), None
    dense = not isinstance(dataset, SparseDataset) and options.affinity != "precomputed"
    if not dense or options.metric != "euclidean":
        raise InputError(
            "repulsive_weights = 'squared-distances' are Euclidean ones of dense rows, and here "
            "are sparse rows, affinities or another metric; use repulsive_weights = 'uniform'"
        )
    layout, own = dataset.layout, np.arange(dataset.layout.local_rows)
    sums = np.asarray(sum_over_ranks(layout.comm, dataset.values.sum(axis=0, dtype=float)))
    whole = layout.gather_rows(dataset.values - sums / n)
    squared = squared_distances(layout.local(whole), whole)
    squared[own, layout.start + own] = 0.0
    total = float(sum_over_ranks(layout.comm, float(squared.sum())))
    if total == 0.0:
        raise InputError(
            "repulsive weights from squared distances need points that differ, and all are "
            "equal; use repulsive_weights = 'uniform'"
        )
    return 1.0 / total, squared

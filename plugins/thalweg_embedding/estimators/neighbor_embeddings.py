"""scikit-learn estimators of the embeddings that attract neighbors and repel all points."""

from collections.abc import Mapping
from typing import Any, ClassVar

import thalweg
from thalweg.data import Dataset, comm_of
from thalweg.parallel import shared_seed
from thalweg.plugins import estimator
from thalweg_embedding import objectives
from thalweg_embedding.affinities.affinities_from_data import perplexity_for
from thalweg_embedding.estimators.map_estimator import MapEstimator
from thalweg_embedding.pacmap import pacmap
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding


@estimator
class PairwiseEstimator(MapEstimator):
    """Base of the estimators that attract by affinities and repel all pairs.

    Parameters
    ----------
    perplexity
        Effective number of neighbors, less than n_samples - 1; by default 30, or a third of
        the points if that is less.
    perplexities
        Several instead, whose affinities are averaged (multiscale affinities).
    affinity
        ``"entropic"``, ``"uniform"``, ``"fuzzy"``, or ``"precomputed"``: X holds symmetric
        non-negative affinities; ``"auto"``: what the method is known with.
    n_neighbors
        Neighbors of uniform and fuzzy affinities; the latter count the point itself.
    graph
        Entropic affinities of all pairs (``"dense"``), of the nearest neighbors (``"sparse"``),
        or ``"auto"``: dense up to 1,000 points.
    lambda_
        Weight of the repulsion; by default the method's.
    density
        Weight of the correlation of local densities in the data and in the map.
    exaggeration
        Early exaggeration: the repulsion starts at 1/exaggeration and is raised in stages.  By
        default 12 for 1,000 points or more, else 1.

    Attributes
    ----------
    kl_divergence_ : float
        Of SNE variants: the final value, evaluated once more with a hundredth of its error.
    affinities_ : scipy.sparse.csr_matrix or ndarray
        This rank's rows of the weights, which sum to 1 over all ranks.  Saved by
        ``scipy.sparse.save_npz``, they serve as X with ``affinity="precomputed"``.  Not with
        ``keep_data=False``.
    """

    perplexity: float | None = None
    perplexities: Any = None
    affinity: str = "auto"
    n_neighbors: int = 15
    graph: str = "auto"
    density: float = 0.0
    exaggeration: float | None = None
    lambda_: float | None = None

    @property
    def _of_affinities(self) -> bool:  # type: ignore[override]
        return self.affinity == "precomputed"

    def _keep(self, result: thalweg.Result, dataset: Dataset, objective: PairwiseEmbedding) -> None:
        super()._keep(result, dataset, objective)
        self.__dict__.pop("affinities_", None)
        if self.keep_data:
            weights, places = objective.weights, objective.places
            self.affinities_ = weights if places is None else places.backward_matrix(weights)
        if "kl_divergence" in result.metrics:
            self.kl_divergence_ = float(result.metrics["kl_divergence"])

    def _pulled_and_pushed(self, objective: Any) -> dict[str, Any]:
        lambda_, rows = objective.homotopy_parameter, objective.layout.rows
        several = [self.perplexity] if self.perplexities is None else self.perplexities
        if not objective.normalized:
            # Weights that differ are counted as equal ones of the same sum.
            differ = getattr(self, "repulsive_weights", "uniform") == "squared-distances"
            lambda_ *= 1.0 / rows if differ else objective.repulsion_scale * rows
        return {
            "lambda_": lambda_,
            "perplexities": tuple(perplexity_for(rows, each) for each in several),
            "n_neighbors": self.n_neighbors,
        }


@estimator
class PaCMAP(MapEstimator):
    """PaCMAP (Wang, Huang, Rudin and Shaposhnik 2021): three sets of pairs in three phases.

    New points are attracted by their nearest neighbors, and repelled by all points as by further
    pairs on average.

    Parameters
    ----------
    n_neighbors
        Neighbors of a point; by default 10, and 10 + 15 log10(n_samples/10,000) from 10,000 on.
    mid_near_ratio, further_ratio
        Mid-near and further pairs of a point, relative to its neighbors.
    metric
        ``"euclidean"``, ``"cosine"`` or ``"correlation"``, of dense rows.
    """

    _build = staticmethod(pacmap)
    _going_on: ClassVar[Mapping[str, Any]] = {"stages": ()}
    _sparse_rows: ClassVar[Any] = False

    n_neighbors: int | None = None
    mid_near_ratio: float = 0.5
    further_ratio: float = 2.0

    def _fit(self, X: Any, **options: Any) -> None:
        super()._fit(X, seed=shared_seed(comm_of(X), self.random_state), **options)

    def _pulled_and_pushed(self, objective: Any) -> dict[str, Any]:
        pairs = objective.pairs
        return {
            "lambda_": pairs.n_further / pairs.n_neighbors / objective.layout.rows,
            "n_neighbors": pairs.n_neighbors,
        }


@estimator
class TSNE(PairwiseEstimator):
    """t-SNE, minimized by L-BFGS with the spectral direction as H0.

    Parameters
    ----------
    degrees_of_freedom
        Those of Student's kernel in the map, above -1: 1 is t-SNE's, fewer have heavier tails and
        show finer clusters (Kobak et al. 2020), many approach symmetric SNE.
    lambda_
        Weight of the repulsion, 1 for t-SNE.  Less gives the spectrum of Boehm, Berens and
        Kobak (2022): 1/4 is like UMAP, 1/30 like force-directed layouts, and 0 tends to Laplacian
        eigenmaps.
    """

    _build = staticmethod(objectives.t_sne)

    degrees_of_freedom: float = 1.0


@estimator
class SymmetricSNE(PairwiseEstimator):
    """Symmetric SNE: t-SNE's problem with a Gaussian kernel in the map."""

    _build = staticmethod(objectives.symmetric_sne)


@estimator
class UMAP(PairwiseEstimator):
    """UMAP's cross-entropy, summed over all pairs instead of sampled: one seed, one map.

    Parameters
    ----------
    min_dist, spread
        Distances, in map units, below which points count as close, and over which that falls off.
    lambda_
        Weight of the repulsion: half the number of negative samples of an edge, of which UMAP
        moves the head alone, by default 2.5 (N - 1)/N; with ``repulsive_weights="complement"`` 1.
    repulsive_weights
        ``"uniform"``: the loss that UMAP's sampling minimizes on average, where points have the
        same degree; ``"complement"``: the cross-entropy of all pairs as stated, which repels far
        more.
    n_neighbors
        Neighbors of a point, itself included, as UMAP counts.
    """

    _build = staticmethod(objectives.umap_embedding)

    min_dist: float = 0.1
    spread: float = 1.0
    repulsive_weights: str = "uniform"


@estimator
class LargeVis(PairwiseEstimator):
    """LargeVis: a cross-entropy with t-SNE's kernel, summed over all pairs.

    Parameters
    ----------
    lambda_
        Weight of the repulsion: negative samples of an edge times their weight, by default 5 x 7.
    """

    _build = staticmethod(objectives.largevis_embedding)


@estimator
class NegTSNE(PairwiseEstimator):
    """Neg-t-SNE: t-SNE by negative sampling, its expected loss summed over all pairs.

    Parameters
    ----------
    normalization
        Constant in place of t-SNE's normalization, per pair: the larger, the more attraction.
    lambda_
        Weight of the repulsion: the number of negative samples, by default 5.
    """

    _build = staticmethod(objectives.negative_t_sne_embedding)

    normalization: float = 1.0


@estimator
class ElasticEmbedding(PairwiseEstimator):
    """The elastic embedding of Carreira-Perpinan (2010).

    Parameters
    ----------
    lambda_
        lambda, the weight of the repulsion.
    repulsive_weights
        w-: ``"uniform"``, ``"squared-distances"`` of the data (both sum to 1), ``"one"``, or
        ``"complement"``: what the affinities lack to 1.
    """

    _build = staticmethod(objectives.elastic_embedding)

    lambda_: float | None = 100.0
    repulsive_weights: str = "uniform"
    tol: float = 1e-7
    n_iter_without_progress: int = 5

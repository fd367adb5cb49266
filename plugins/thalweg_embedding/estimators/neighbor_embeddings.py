"""scikit-learn estimators of the embeddings that attract neighbors and repel all points."""

from collections.abc import Mapping
from typing import Any, ClassVar

from scipy.spatial.distance import pdist

import thalweg
from thalweg.data import Dataset, comm_of
from thalweg.parallel import shared_seed
from thalweg.plugins import estimator
from thalweg_embedding import objectives
from thalweg_embedding.estimators.map_estimator import MapEstimator
from thalweg_embedding.localmap import LAST_STAGES, NEAR, localmap
from thalweg_embedding.pacmap import pacmap
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding


@estimator
class PairwiseEstimator(MapEstimator):
    """Base of the estimators that attract by affinities and repel all pairs.

    Parameters
    ----------
    anchors
        Places of some points: a dictionary by the numbers of rows, rows of such a number and a
        place, an array (n_samples, n_components) with NaN for free points, or a file of either.
        On several ranks the same on each.
    anchor_weight
        None: these points stay there to the bit.  Else 2 w/n_samples times the squared distances
        is added: with 1 a place draws as strongly as all near neighbors of a point together.

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
    target_weight: float = 0.0
    early_exaggeration: float | None = None
    anchors: Any = None
    anchor_weight: float | None = None
    lambda_: float | None = None

    @property
    def _of_affinities(self) -> bool:  # type: ignore[override]
        return self.affinity == "precomputed"

    def _keep(self, result: thalweg.Result, dataset: Dataset, objective: PairwiseEmbedding) -> None:
        super()._keep(result, dataset, objective)
        self.__dict__.pop("affinities_", None)
        if self.keep_data:
            self.affinities_ = objective.weights_at_rows()
        if "kl_divergence" in result.metrics:
            self.kl_divergence_ = float(result.metrics["kl_divergence"])

    def _fitted_options(self) -> dict[str, Any]:
        # Of complements, the sum of the weights counts too.
        made = getattr(self, "repulsive_weights", "uniform") == "complement"
        return {"density": 0.0, **({} if made else {"weights": self.affinities_})}

    def _repulsion_of_point(self, objective: Any) -> float:
        lambda_, rows = float(objective.homotopy_parameter), objective.layout.rows
        if not objective.normalized:
            # Weights that differ are counted as equal ones of the same sum.
            differ = getattr(self, "repulsive_weights", "uniform") == "squared-distances"
            lambda_ *= 1.0 / rows if differ else objective.repulsion_scale * rows
        return lambda_


@estimator
class PaCMAP(MapEstimator):
    """PaCMAP (Wang, Huang, Rudin and Shaposhnik 2021): three sets of pairs in three phases.

    New points are attracted by their nearest neighbors, and repelled by all points as by further
    pairs on average.

    Parameters
    ----------
    n_neighbors
        Neighbors of a point; by default 10, and 10 + 15 log10(n_samples/10,000) from 10,000 on.
    metric
        ``"euclidean"``, ``"cosine"`` or ``"correlation"``, of dense rows.
    """

    _build = staticmethod(pacmap)
    _going_on: ClassVar[Mapping[str, Any]] = {"stages": ()}
    _sparse_rows: ClassVar[Any] = False

    n_neighbors: int | None = None
    mid_near_ratio: float = 0.5
    further_ratio: float = 2.0

    def _fit(self, X: Any, y: Any = None, **options: Any) -> None:
        self._seed = shared_seed(comm_of(X), self.random_state)
        super()._fit(X, y, seed=self._seed, **options)

    def _fitted_options(self) -> dict[str, Any]:
        return {"seed": self._seed}  # of the pairs

    def _repulsion_of_point(self, objective: Any) -> float:
        pairs, rows = objective.pairs, objective.layout.rows
        return float(pairs.further.shape[1] / pairs.neighbors.shape[1] / rows)


@estimator
class LocalMAP(PaCMAP):
    """LocalMAP (Wang, Sun, Huang and Rudin 2025): PaCMAP, with wider gaps between clusters.

    In the last phase neighbors attract more where they are near, and further pairs are drawn anew,
    again and again, from points up to 10 units away in the map.
    """

    _build = staticmethod(localmap)
    _going_on: ClassVar[Mapping[str, Any]] = {"stages": LAST_STAGES}

    def _repulsion_of_point(self, objective: Any) -> float:
        # By all near points, whose share is seen in a thousand; in units of the attraction.
        places, rows = objective.layout.gather_rows(self.embedding_), objective.layout.rows
        share = float((pdist(places[:: 1 + rows // 1000]) <= NEAR).mean())
        return super()._repulsion_of_point(objective) / (0.5 * NEAR * max(share, 1.0 / rows))


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
    """LargeVis: a cross-entropy with t-SNE's kernel, summed over all pairs."""

    _build = staticmethod(objectives.largevis_embedding)


@estimator
class NegTSNE(PairwiseEstimator):
    """Neg-t-SNE: t-SNE by negative sampling, its expected loss summed over all pairs."""

    _build = staticmethod(objectives.negative_t_sne_embedding)

    normalization: float = 1.0


@estimator
class ElasticEmbedding(PairwiseEstimator):
    """The elastic embedding of Carreira-Perpinan (2010)."""

    _build = staticmethod(objectives.elastic_embedding)

    lambda_: float | None = 100.0
    repulsive_weights: str = "uniform"
    tol: float = 1e-7
    n_iter_without_progress: int = 5

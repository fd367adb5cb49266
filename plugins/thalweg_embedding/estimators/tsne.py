"""t-SNE as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg_embedding.estimators.pairwise import PairwiseEstimator
from thalweg_embedding.objectives import T_SNE


class TSNE(PairwiseEstimator):
    """t-SNE, minimised by L-BFGS with the spectral direction as H0.

    Parameters
    ----------
    n_components
        Dimensions of the map.
    perplexity
        Effective number of neighbours, less than n_samples - 1; by default 30, or a third of
        the points if that is less.
    affinity
        ``"entropic"``, or ``"precomputed"``: X holds symmetric non-negative affinities.
    graph
        Affinities of all pairs (``"dense"``), of the nearest neighbours (``"sparse"``), or
        ``"auto"``: dense up to 3,000 points.
    exaggeration
        Early exaggeration: the repulsion starts at 1/exaggeration and is raised in stages.
    init
        ``"random"``, ``"pca"``, or an array (n_samples, n_components).
    max_iter, tol
        Iterations, and relative decrease of the objective in one of them, at which to stop.
    solver, preconditioner, solver_options
        Any of ``thalweg list``, and their options; by default L-BFGS, and the spectral
        direction where the solver has a place for it; from 5,000 points on no point
        moves by more than 50 map units in a step of L-BFGS.
    random_state
        Seed of the start.

    Attributes
    ----------
    embedding_ : ndarray of float64, shape (n_samples, n_components)
    objective_ : float
        Final value, here the KL divergence.
    kl_divergence_ : float
    n_iter_ : int
    trace_ : thalweg.Trace
        Objective, gradient norm, evaluations and seconds of each iterate.
    """

    family = T_SNE

    def __init__(
        self,
        n_components: int = 2,
        *,
        perplexity: float | None = None,
        affinity: str = "entropic",
        graph: str = "auto",
        exaggeration: float | None = None,
        init: Any = "random",
        max_iter: int = 300,
        tol: float = 1e-7,
        solver: str = "lbfgs",
        preconditioner: str | None = None,
        solver_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.affinity = affinity
        self.graph = graph
        self.exaggeration = exaggeration
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.preconditioner = preconditioner
        self.solver_options = solver_options
        self.random_state = random_state

    def _own_options(self) -> dict[str, Any]:
        return {"exaggeration": self.exaggeration}

"""The elastic embedding as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg_embedding.estimators.pairwise import PairwiseEstimator
from thalweg_embedding.objectives import ELASTIC_EMBEDDING


class ElasticEmbedding(PairwiseEstimator):
    """The elastic embedding of Carreira-Perpinan (2010).

    Parameters
    ----------
    strength
        lambda, the weight of the repulsion.
    repulsive_weights
        w-: ``"uniform"``, ``"squared-distances"`` of the data (both sum to 1), or ``"one"``.
    n_components, perplexity, affinity, graph, init, max_iter, tol, solver, preconditioner, \
solver_options, random_state
        As in :class:`TSNE`.

    Attributes
    ----------
    embedding_ : ndarray of float64, shape (n_samples, n_components)
    objective_ : float
    n_iter_ : int
    trace_ : thalweg.Trace
    """

    family = ELASTIC_EMBEDDING

    def __init__(
        self,
        n_components: int = 2,
        *,
        strength: float = 100.0,
        repulsive_weights: str = "uniform",
        perplexity: float | None = None,
        affinity: str = "entropic",
        graph: str = "auto",
        init: Any = "random",
        max_iter: int = 300,
        tol: float = 1e-7,
        solver: str = "lbfgs",
        preconditioner: str | None = None,
        solver_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.strength = strength
        self.repulsive_weights = repulsive_weights
        self.perplexity = perplexity
        self.affinity = affinity
        self.graph = graph
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.preconditioner = preconditioner
        self.solver_options = solver_options
        self.random_state = random_state

    def _own_options(self) -> dict[str, Any]:
        return {"lambda": self.strength, "repulsive_weights": self.repulsive_weights}

"""Kernel Dimension Alternative Clustering: another clustering than the one given.

Maximise HSIC(XW, U) - lambda HSIC(XW, Y) over W'W = I and U'U = I (eq. 2 of Wu
et al.), with K normalised by its degrees D.  For fixed U and D this is the pair
sum F(W) with gamma = D^(-1/2) H (UU' - lambda YY') H D^(-1/2) (eq. 4); U and D
are renewed in closed form (eq. 3), which solvers do through the capability
:class:`~thalweg.interfaces.Alternation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import Alternation
from thalweg.parallel import Layout, PETSc
from thalweg_clustering.agreement import normalized_mutual_information
from thalweg_clustering.eigenvectors import smallest_eigenvectors
from thalweg_clustering.embedding_step import leading_embedding
from thalweg_clustering.exact_kernel import STORED_ROWS, ProjectedKernel, exact_kernel
from thalweg_clustering.fourier_kernel import FourierKernel
from thalweg_clustering.kmeans import kmeans
from thalweg_clustering.leading_subspace import Subspace
from thalweg_clustering.pair_sum import GaussianPairSum
from thalweg_clustering.prepared_data import median_distance
from thalweg_clustering.weights import PairWeights

#: Similarity to all others together below which a row is like no other, and how little
#: below one similarities may be before rounding decides.
ALONE, ALIKE = 1e-8, 1e-10

#: Relative residual of the first embedding, which only has to point the way.
FIRST_TOLERANCE = 1e-2


class KDACObjective(GaussianPairSum, Alternation):
    """The W-problem of KDAC for the present U and D, and how these are renewed.

    Parameters
    ----------
    kernel
        Rows and width of the Gaussian kernel.
    given
        The clustering given, of all rows on every rank, integers 0 to k' - 1.
    clusters
        k, number of clusters to find.
    columns
        q, dimension of the subspace.
    penalty
        lambda, weight of the novelty.
    start
        ``"spectral"`` (eq. 12) or ``"random"``.
    embedding
        Eigen-solver of the U-step: ``"auto"``, ``"lapack"``, ``"lobpcg"`` or ``"slepc"``.
    embedding_tolerance
        Relative residual of the iterative ones.
    truth
        Labels to compare the result with, of all rows, or None.
    seed
        Seed of k-means.
    bound
        Whether condition (10), which takes another pass over all pairs, is evaluated.
    """

    default_solver: ClassVar[str] = "ism"

    def __init__(
        self,
        kernel: ProjectedKernel,
        given: np.ndarray,
        clusters: int,
        columns: int,
        penalty: float,
        start: str = "spectral",
        embedding: str = "auto",
        embedding_tolerance: float = 1e-4,
        truth: np.ndarray | None = None,
        seed: int = 0,
        bound: bool = True,
    ) -> None:
        n = kernel.layout.rows
        if not 1 <= clusters < n:
            raise InputError(
                f"the number of clusters must be at least 1 and less than the {n} rows, "
                f"not {clusters}"
            )
        self.rows = kernel.layout
        self.given, self.truth = given, truth
        self.clusters, self.penalty = clusters, float(penalty)
        self.start, self.embedding = start, embedding
        self.embedding_tolerance = embedding_tolerance
        self.seed, self.bound = seed, bound
        self._given_factor = _centred_indicator(given)
        empty = PairWeights(np.zeros((self.rows.local_rows, 0)), np.zeros(0))
        super().__init__(kernel, columns, empty)
        degrees = kernel.row_sums(np.eye(self.layout.rows))
        self._first = self._first_embedding(degrees)
        self.use_blocks({"degrees": self.rows.gather_rows(degrees), "embedding": self._first})
        self._outcome_for: bytes | None = None
        self._outcome: dict[str, Any] = {}

    # -- starting point --------------------------------------------------------------------

    def _first_embedding(self, degrees: np.ndarray) -> np.ndarray:
        """U of the data as they are, kept apart from the clustering given.

        Algorithm 1 starts from the clustering given itself; where lambda is small,
        that makes the spectral initialisation find it again.
        """
        identity = np.eye(self.layout.rows)
        given = np.linalg.qr(self._given_factor)[0]
        subspace = self._leading(identity, degrees, self.rows.local(given), None, FIRST_TOLERANCE)
        return self.rows.gather_rows(subspace.vectors)

    def initial_point(self, seed: int) -> PETSc.Vec:
        """Spectral initialisation (eq. 12), or a random point of the Stiefel manifold."""
        if self.start == "random":
            return super().initial_point(seed)
        w = smallest_eigenvectors(self.kernel.flat_matrix(self.weights), self.layout.columns)
        return self.layout.vec_from(self.comm.bcast(w, root=0))

    # -- alternation -----------------------------------------------------------------------

    def initial_blocks(self, x: PETSc.Vec) -> dict[str, np.ndarray]:
        """Degrees at W, and the embedding of the data as U."""
        degrees = self.kernel.row_sums(self.matrix(x))
        return {"degrees": self.rows.gather_rows(degrees), "embedding": self._first}

    def use_blocks(self, blocks: Mapping[str, np.ndarray]) -> None:
        """Weights gamma of these U and D."""
        embedding = blocks["embedding"]
        embedding = embedding - embedding.mean(axis=0)
        both = np.concatenate([embedding, self._given_factor], axis=1)
        factor = self.rows.local(both) / np.sqrt(self.rows.local(blocks["degrees"]))[:, None]
        signs = np.ones(both.shape[1])
        signs[embedding.shape[1] :] = -self.penalty
        weights = PairWeights(np.ascontiguousarray(factor), signs)
        if not all(self.comm.allgather(weights.same_as(self.weights))):
            self.weights = weights

    def updated_blocks(
        self, x: PETSc.Vec, blocks: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], float]:
        """D-step and U-step at W; the change is the distance of the subspaces of U."""
        degrees, subspace = self.embed(self.matrix(x), blocks["embedding"])
        whole = self.rows.gather_rows(subspace.vectors)
        old = blocks["embedding"]
        outside = whole - old @ (old.T @ whole)
        change = float(np.linalg.norm(outside)) / np.sqrt(self.clusters)
        new = {"degrees": self.rows.gather_rows(degrees), "embedding": whole}
        return new, float(self.comm.bcast(change, root=0))

    def embed(self, w: np.ndarray, guess: np.ndarray | None = None) -> tuple[np.ndarray, Subspace]:
        """Degrees of this rank's rows, and the k leading eigenvectors of Q at W (eq. 3)."""
        degrees = self.kernel.row_sums(w)
        return degrees, self._leading(w, degrees, None, guess, self.embedding_tolerance)

    def _leading(
        self,
        w: np.ndarray,
        degrees: np.ndarray,
        apart: np.ndarray | None,
        guess: np.ndarray | None,
        tolerance: float,
    ) -> Subspace:
        """Leading eigenvectors of H D^(-1/2) K D^(-1/2) H, orthogonal to ``apart``."""
        return leading_embedding(
            self.kernel, w, degrees, self.clusters, self.embedding, tolerance, apart, guess,
            self.seed,
        )  # fmt: skip

    # -- what is reported ------------------------------------------------------------------

    def outcome(self, x: PETSc.Vec) -> dict[str, Any]:
        """Labels (of this rank's rows), W, U and all measures at W.  Collective.

        U and D are computed anew at W, so that the outcome depends on W alone.
        """
        w = self.matrix(x)
        key = w.tobytes()
        if self._outcome_for == key:
            return self._outcome
        degrees, subspace = self.embed(w)
        blocks = {
            "degrees": self.rows.gather_rows(degrees),
            "embedding": self.rows.gather_rows(subspace.vectors),
        }
        held = self.weights
        self.use_blocks(blocks)
        value, matrix = self.kernel.value_and_matrix(w, self.weights)
        spectrum = np.linalg.eigvalsh(matrix)
        q = self.layout.columns
        rotated = matrix @ w
        residual = float(np.linalg.norm(rotated - w @ (w.T @ rotated)))
        bound = self.kernel.curvature_bound(w, self.weights) if self.bound else float("nan")
        self.weights = held
        gap = float(spectrum[q] - spectrum[q - 1])
        lengths = np.linalg.norm(subspace.vectors, axis=1, keepdims=True)
        unit = subspace.vectors / np.maximum(lengths, np.finfo(float).tiny)
        clusters = kmeans(self.rows, unit, self.clusters, self.seed)
        whole = self.rows.gather_rows(clusters.labels)
        sizes = np.bincount(whole, minlength=self.clusters)
        reason = self._degenerate_because(blocks["degrees"], sizes)
        measures: dict[str, Any] = {
            "cost": value,
            "cq": float(subspace.values[: self.clusters].sum()),
            "novelty": normalized_mutual_information(whole, self.given),
            "residual": residual,
            "eigengap": gap,
            "eigengap_components": best_gap(spectrum, q),
            "embedding_gap": float(subspace.values[self.clusters - 1] - subspace.values[-1]),
            "condition_10": {
                "left": self.kernel.sigma**2 * gap,
                "right": bound,
                "holds": bool(self.kernel.sigma**2 * gap >= bound) if bound == bound else None,
            },
            "cluster_sizes": [int(size) for size in sizes],
            "degenerate": reason != "",
            **({"degenerate_because": reason} if reason else {}),
            "sigma": self.kernel.sigma,
            "lambda": self.penalty,
            "components": q,
        }
        if self.truth is not None:
            measures["nmi"] = normalized_mutual_information(whole, self.truth)
        self._outcome_for = key
        self._outcome = {
            "labels": clusters.labels,
            "components": np.array(w),
            "embedding": subspace.vectors,
            "measures": measures,
        }
        return self._outcome

    def _degenerate_because(self, degrees: np.ndarray, sizes: np.ndarray) -> str:
        """Why the clusters say nothing, or an empty text; decided by facts that all ranks hold."""
        n = len(degrees)
        kernel = f"sigma = {self.kernel.sigma:g} is too {{}} compared with the distances"
        if n > 2 and np.median(degrees) - 1.0 < ALONE:
            return kernel.format("small") + ": most rows are like no other"
        if n > 2 and degrees.min() > n * (1.0 - ALIKE):
            return kernel.format("large") + ": all rows are alike up to rounding"
        if np.count_nonzero(sizes) < 2 or sizes.max() >= n - 1:
            return "all rows, or all but one, are in one cluster; try another sigma or lambda"
        return ""

    def metrics(self, x: PETSc.Vec) -> Mapping[str, Any]:
        """The columns of Table 1, the eigengap, condition (10) and the sizes of the clusters.

        A degenerate clustering has the reason under ``"degenerate_because"``.
        """
        return dict(self.outcome(x)["measures"])

    def solution(self, x: PETSc.Vec) -> np.ndarray:
        """Labels of this rank's rows of the data, shape ``(n_local, 1)``."""
        return np.asarray(self.outcome(x)["labels"])[:, None]

    @property
    def solution_layout(self) -> Layout:
        """The rows of the data, not those of W."""
        return self.rows

    def fingerprint(self) -> str:
        """Shape, options and a digest of the given clustering."""
        digest = hashlib.sha256(np.ascontiguousarray(self.given).tobytes()).hexdigest()[:12]
        return (
            f"KDAC/{self.rows.rows}x{self.layout.rows}/q{self.layout.columns}/k{self.clusters}/"
            f"sigma{self.kernel.sigma!r}/lambda{self.penalty!r}/{digest}"
        )


def best_gap(spectrum: np.ndarray, most: int) -> int:
    """The q <= most after which the ascending spectrum has its widest gap (eq. 11)."""
    gaps = np.diff(spectrum)[: max(1, min(most, len(spectrum) - 1))]
    return int(np.argmax(gaps)) + 1


def _centred_indicator(labels: np.ndarray) -> np.ndarray:
    """Thin factor of H YY' H, shape ``(n, k' - 1)``.

    HY has its rows orthogonal to the ones vector, so that an orthonormal basis of
    the complement loses nothing.
    """
    groups = int(labels.max()) + 1
    indicator = np.eye(groups)[labels]
    helmert = np.linalg.qr(np.concatenate([np.ones((groups, 1)), np.eye(groups)[:, 1:]], 1))[0]
    return np.asarray((indicator - indicator.mean(axis=0)) @ helmert[:, 1:])


def make_kdac(
    layout: Layout,
    points: np.ndarray,
    given: np.ndarray,
    clusters: int,
    columns: int | None,
    sigma: float | None,
    penalty: float,
    start: str = "spectral",
    embedding: str = "auto",
    features: int = 0,
    stored_rows: int = STORED_ROWS,
    truth: np.ndarray | None = None,
    seed: int = 0,
    bound: bool = True,
) -> KDACObjective:
    """The objective on centred, non-constant features; defaults filled in.  Collective.

    ``columns`` None is min(k, d - 1); ``sigma`` None is half the median distance;
    ``features`` > 0 asks for that many random Fourier features.

    Raises
    ------
    InputError
        An option out of its range, or rows that all coincide.
    """
    d = points.shape[1]
    if d < 2:
        raise InputError(
            f"the data have {d} feature(s) that are not constant; a subspace needs at least 2"
        )
    if columns is None:
        columns = min(clusters, d - 1)
    if not 1 <= columns < d:
        raise InputError(
            f"the number of components must be at least 1 and less than the {d} features that are "
            f"not constant, not {columns}"
        )
    if sigma is None:
        sigma = 0.5 * median_distance(layout, points)
    if not (sigma > 0 and np.isfinite(sigma)):
        raise InputError(f"sigma must be greater than 0, not {sigma!r}")
    if not (penalty >= 0 and np.isfinite(penalty)):
        raise InputError(f"lambda must be at least 0, not {penalty!r}")
    kernel: ProjectedKernel
    if features > 0:
        kernel = FourierKernel(layout, points, sigma, columns, features, seed)
    else:
        kernel = exact_kernel(layout, points, sigma, stored_rows)
    return KDACObjective(
        kernel, given, clusters, columns, penalty, start, embedding, truth=truth, seed=seed,
        bound=bound,
    )  # fmt: skip

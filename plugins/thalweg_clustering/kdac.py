"""The objective: a subspace in which rows depend on what is wanted, and not on what is known.

Wu et al. (AISTATS 2018, NeurIPS 2019) maximize tr(Gamma K(XW)) over W'W = I.  The tasks differ in
Gamma alone, which is of low rank here (MATHEMATICS.md).  U and D are renewed in closed form (eq.
3), which solvers do through the capability :class:`~thalweg_clustering.alternation.Alternation`.
Everything with as many rows as the data stays on the ranks that hold these rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from thalweg.errors import InputError
from thalweg.numerics import inner_products, unit_rows
from thalweg.parallel import (
    Array,
    Layout,
    agreed,
    any_over_ranks,
    max_over_ranks,
    min_over_ranks,
    one_blas_thread,
    sum_over_ranks,
)
from thalweg_clustering.agreement import normalized_mutual_information
from thalweg_clustering.alternation import Alternation, residual_norm
from thalweg_clustering.embedding_step import leading_embedding
from thalweg_clustering.exact_sums import SAMPLE_ROWS, StreamedKernel
from thalweg_clustering.feature_sums import NystromKernel
from thalweg_clustering.kmeans import kmeans
from thalweg_clustering.leading_subspace import Subspace, orthonormal_columns
from thalweg_clustering.least_curvature import least_curvature
from thalweg_clustering.prepared_data import (
    Preparation,
    centered_indicators,
    distributed_sample,
    plane,
)
from thalweg_clustering.projected_kernel import PairWeights, ProjectedKernel
from thalweg_clustering.stiefel import best_gap, smallest_eigenvectors
from thalweg_clustering.stiefel_objectives import KernelPairSum, LinkSum

#: Similarity to all others together below which a row is like no other, how little below one
#: similarities may be before rounding decides, and relative eigenvalue that iterations leave open.
ALONE, ALIKE, NO_DIRECTION = 1e-8, 1e-10, 1e-5

#: Relative residual of the first embedding, which only has to point the way.
FIRST_TOLERANCE = 1e-2

Task = Literal["alternative", "unsupervised", "supervised", "semi-supervised"]
TASKS = get_args(Task)


class KDACObjective(KernelPairSum, Alternation):
    """The W-problem of one task for the present U and D, and how these are renewed.

    Parameters
    ----------
    kernel
        Rows, kernel function and width.
    labelings
        What is known of the rows, the first is the clustering given: of this rank's, integers 0
        to k' - 1, or -1 where unknown, shape ``(n_local,)`` each.
    weight
        Theirs in Gamma, positive where the subspace should show them, negative where it should not.
    clusters
        k, number of clusters to find.
    columns
        q, dimension of the subspace.
    links
        Pairs of rows that should be alike, or unlike.
    start
        As the option ``init``, or W itself, shape ``(d, q)``.
    truth
        This rank's labels to compare the result with, or None.
    bound
        As the option ``condition``.
    task, seed, curvature, embedding_rows
        As the options of :class:`~thalweg_clustering.options.KDACOptions`.
    quiet
        Whether the error of features is measured without a note, as in runs that find a start.
    """

    default_solver: ClassVar[str] = "ism"

    #: Eigen-solver of the U-step (``"auto"``, ``"lapack"`` or ``"lobpcg"``), and the relative
    #: residual of the iterative one.
    embedding, embedding_tolerance = "auto", 1e-4

    preparation: Preparation  # how the rows were made of the data
    view: np.ndarray | None = None  # W that a search found

    #: Makes alternatives of the outcome of a run, as judged the first; None where it is all.
    search: Callable[[dict[str, Any]], Sequence[Any]] | None = None

    def __init__(
        self,
        kernel: ProjectedKernel,
        labelings: Sequence[np.ndarray],
        weight: float,
        clusters: int,
        columns: int,
        task: str = "alternative",
        links: LinkSum | None = None,
        start: str | np.ndarray = "spectral",
        truth: np.ndarray | None = None,
        seed: int = 0,
        bound: bool = True,
        curvature: bool = False,
        embedding_rows: str = "unit",
        quiet: bool = False,
    ) -> None:
        n = kernel.layout.rows
        if not 1 <= clusters < n:
            raise InputError(
                f"the number of clusters must be at least 1 and less than the {n} rows, "
                f"not {clusters}"
            )
        if curvature and isinstance(kernel, NystromKernel):
            raise InputError("curvature = true needs exact sums; use approximation = 'exact'")
        self.rows = kernel.layout
        self.labelings, self.truth, self.task = tuple(labelings), truth, task
        self.clusters = clusters
        self.start = start
        self.seed, self.bound = seed, bound
        self.embedding_rows, self.curvature, self.quiet = embedding_rows, curvature, quiet
        self.penalty = max(0.0, -weight) if self.labelings else 0.0  # lambda
        self.has_embedding = task != "supervised"  # which has labels in the place of U
        factors = [centered_indicators(self.rows, labels) for labels in self.labelings]
        empty = np.zeros((self.rows.local_rows, 0))
        self._label_factor = np.concatenate([empty, *factors], axis=1)
        self._label_signs = np.full(self._label_factor.shape[1], weight)
        super().__init__(kernel, columns, PairWeights(empty, np.zeros(0)), links)
        self._scale_of_value = 0.0
        self._first: dict[str, np.ndarray] = {}
        self._start_blocks()
        self._outcome: dict[str, Any] | None = None

    # -- starting point --------------------------------------------------------------------

    def _start_blocks(self) -> None:
        """Blocks from the data as they are, from which the first W follows.

        Algorithm 1 starts from the clustering given itself; where lambda is small,
        that makes the spectral initialization find it again.  U is therefore that of the
        data, kept apart from the labelings to avoid.
        """
        if isinstance(self.start, np.ndarray):
            self._first = self.blocks_at(self.start, None)[0]
        else:
            identity = np.eye(self.layout.rows)
            self._first = self._degrees(identity)
            if self.has_embedding and self.start == "published" and self.labelings:
                labels = centered_indicators(self.rows, self.labelings[0])
                gram = inner_products(self.rows, labels, labels)
                self._first["embedding"] = labels @ np.linalg.inv(np.linalg.cholesky(gram)).T
            elif self.has_embedding:
                avoided = self.penalty > 0 and self._label_factor.shape[1]
                apart = orthonormal_columns(self.rows, self._label_factor) if avoided else None
                self._first["embedding"] = self._leading(
                    identity, self._first["degrees"][:, 0], tolerance=FIRST_TOLERANCE, apart=apart
                ).vectors
        self._use(self._first)

    def initial_point(self, seed: int) -> Array:
        """Spectral initialization (eq. 12), a random point of the Stiefel manifold, or W given."""
        if isinstance(self.start, np.ndarray):
            return np.array(self.comm.bcast(self.start, root=0), dtype=float, order="C")
        if self.start == "random":
            return super().initial_point(seed)
        self._use(self._first)
        matrix = self.kernel.flat_matrix(self.weights)
        matrix = matrix + self.links.matrix(np.zeros((self.layout.rows, 1)))
        return agreed(self.comm, smallest_eigenvectors(matrix, self.layout.columns))

    # -- alternation -----------------------------------------------------------------------

    def initial_blocks(self, x: Array) -> dict[str, Array]:
        """Degrees at W, and the embedding that W was found from."""
        w = self.matrix(x)
        known = isinstance(self.start, np.ndarray) and np.array_equal(w, self.start)
        blocks = dict(self._first) if known else self._degrees(w)
        if "embedding" in self._first:
            blocks["embedding"] = self._first["embedding"]
        return blocks

    def use_blocks(self, blocks: Mapping[str, Array]) -> None:
        self._use(self._local(blocks))

    def updated_blocks(
        self, x: Array, blocks: Mapping[str, Array]
    ) -> tuple[dict[str, Array], float]:
        """D-step and U-step at W; the change is the distance of the subspaces of U."""
        old = self._local(blocks).get("embedding")
        new, _ = self.blocks_at(self.matrix(x), old)
        change = 0.0
        if old is not None:
            fresh = new["embedding"]
            outside = float(((fresh - old @ inner_products(self.rows, old, fresh)) ** 2).sum())
            change = float(np.sqrt(sum_over_ranks(self.comm, outside) / fresh.shape[1]))
        return new, change

    def _local(self, blocks: Mapping[str, Array]) -> Mapping[str, Array]:
        """Blocks as the rows of the data are distributed: a checkpoint shares them out evenly."""
        count = len(blocks["degrees"])
        if not any_over_ranks(self.comm, count != self.rows.local_rows):
            return blocks
        even = Layout(self.comm, self.rows.rows, local_rows=count)
        return {name: self.rows.local(even.gather_rows(block)) for name, block in blocks.items()}

    def _degrees(self, w: np.ndarray) -> dict[str, np.ndarray]:
        degrees = np.ones(self.rows.local_rows)
        if self.kernel.function.normalized and self.has_embedding:
            degrees = self.kernel.row_sums(w)
        return {"degrees": degrees[:, None]}

    def _use(self, blocks: Mapping[str, np.ndarray]) -> None:
        parts, signs = [self._label_factor], [self._label_signs]
        if "embedding" in blocks:
            embedding = blocks["embedding"]
            mean = np.asarray(sum_over_ranks(self.comm, embedding.sum(axis=0))) / self.rows.rows
            parts.insert(0, embedding - mean)
            signs.insert(0, np.ones(embedding.shape[1]))
        both, sign = np.concatenate(parts, axis=1), np.concatenate(signs)
        factor = both / np.sqrt(blocks["degrees"])
        old = self.weights
        same = np.array_equal(sign, old.signs) and np.array_equal(factor, old.factor)
        if any_over_ranks(self.comm, not same):
            self.weights = PairWeights(np.ascontiguousarray(factor), sign)
            # Of terms as large as these, with rounding errors that do not know each other.
            squares = float(((both**2) @ np.abs(sign)).sum())
            self._scale_of_value = float(sum_over_ranks(self.comm, squares))

    def value_error(self, value: float) -> float:
        """Rounding of single precision where it is used, of double elsewhere."""
        scale = max(abs(value), self._scale_of_value / np.sqrt(self.rows.rows))
        return max(super().value_error(value), self.kernel.rounding * scale)

    def blocks_at(
        self, w: np.ndarray, guess: np.ndarray | None
    ) -> tuple[dict[str, np.ndarray], Subspace | None]:
        """This rank's rows of degrees and U at W, and the eigenvalues of U.  Collective."""
        blocks = self._degrees(w)
        if not self.has_embedding:
            return blocks, None
        tolerance = self.embedding_tolerance
        subspace = self._leading(w, blocks["degrees"][:, 0], tolerance=tolerance, guess=guess)
        blocks["embedding"] = subspace.vectors
        return blocks, subspace

    def _leading(self, w: np.ndarray, degrees: np.ndarray, **options: Any) -> Subspace:
        """Leading eigenvectors of H D^(-1/2) K D^(-1/2) H."""
        chosen = self.clusters, self.embedding
        return leading_embedding(self.kernel, w, degrees, *chosen, seed=self.seed, **options)

    # -- what is reported ------------------------------------------------------------------

    def outcome(self, x: Array) -> dict[str, Any]:
        """As :meth:`outcome_at`, computed once for a W at which a run ended.  Collective."""
        w = self.matrix(x)
        if self._outcome is None or not np.array_equal(self._outcome["components"], w):
            self._outcome = self.outcome_at(w)
        return self._outcome

    def outcome_at(self, w: np.ndarray, by_rows: bool = False) -> dict[str, Any]:
        """Labels (of this rank's rows), W, U and all measures at W.  Collective.

        Labels are those of k-means on the rows of U or, ``by_rows``, of the data in the subspace.
        U and D are computed again at W, so that the outcome depends on W alone.
        """
        with one_blas_thread():
            return self._outcome_at(w, by_rows)

    def _outcome_at(self, w: np.ndarray, by_rows: bool) -> dict[str, Any]:
        weights = self.weights
        blocks, subspace = self.blocks_at(w, None)
        self._use(blocks)
        value, matrix = self.value_and_fixed_point_matrix(w)
        bound = float("nan")
        if self.bound:
            bound = self.kernel.curvature_bound(w, self.weights) + self.links.curvature_bound(w)
        if subspace is None:  # of a supervised task, for its clusters
            subspace = self._leading(w, blocks["degrees"][:, 0])
        spectrum = agreed(self.comm, np.linalg.eigvalsh(matrix))
        q = self.layout.columns
        gap = float(spectrum[q] - spectrum[q - 1])
        places = self.kernel.points @ w if by_rows else self._places(subspace, blocks["degrees"])
        clusters = kmeans(self.rows, places, self.clusters, self.seed)
        counts = np.bincount(clusters.labels, minlength=self.clusters).astype(float)
        sizes = np.asarray(sum_over_ranks(self.comm, counts)).astype(int)
        reason = self._degenerate_because(blocks["degrees"][:, 0], sizes)
        if not (self.quiet or sizes.all()):
            self.note(f"{(sizes == 0).sum()} of {self.clusters} clusters have no rows")
        overlaps = self.overlaps(clusters.labels)
        left = self.kernel.sigma**2 * gap
        holds = bool(left >= bound) if bound == bound else None
        values, k = subspace.values, self.clusters
        measures: dict[str, Any] = {
            "cost": value,
            "cq": float(values[:k].sum()),
            "novelty": max(overlaps, default=0.0),
            "residual": residual_norm(w, matrix @ w),
            "eigengap": gap,
            "eigengap_components": best_gap(spectrum),
            "embedding_gap": float(values[k - 1] - values[-1]),
            "condition_10": {"left": left, "right": bound, "holds": holds},
            **({"least_curvature": least_curvature(self, w, matrix)} if self.curvature else {}),
            "cluster_sizes": [int(size) for size in sizes],
            "degenerate": reason != "",
            **({"degenerate_because": reason} if reason else {}),
            "kernel": self.kernel.function.name,
            "task": self.task,
            "sigma": self.kernel.sigma,
            "lambda": self.penalty,
            "components": q,
            "clusters": self.clusters,
        }
        if len(overlaps) > 1:
            measures["novelty_by_labeling"] = overlaps
        if self.truth is not None:
            known = self.truth >= 0
            both = clusters.labels[known], self.truth[known]
            measures["nmi"] = normalized_mutual_information(*both, self.comm)
        if isinstance(self.kernel, NystromKernel):
            measures["approximation"] = self._approximation(self.kernel, w)
        self.weights = weights
        return {
            "labels": clusters.labels, "components": np.array(w), "embedding": subspace.vectors,
            "embedding_values": subspace.values, "degrees": blocks["degrees"][:, 0],
            "spectrum": spectrum, "measures": measures,
        }  # fmt: skip

    def overlaps(self, found: np.ndarray) -> list[float]:
        """Information that clusters share with each labeling, of rows whose label is known."""
        return [
            normalized_mutual_information(found[labels >= 0], labels[labels >= 0], self.comm)
            for labels in self.labelings
            if max_over_ranks(self.comm, labels.max(initial=-1)) >= 0  # a sample may know none
        ]

    def _places(self, subspace: Subspace, degrees: np.ndarray) -> np.ndarray:
        """Rows of U for k-means, at length one or as published.

        A row more like itself than like all others together is nearly a component of the
        kernel, and a column of U may show it alone.  Its place is that without its own
        similarity, which for a column of eigenvalue lambda is the share k(0) / (lambda d).
        Columns beyond the rank of the kernel, which may be any, count for nothing.
        """
        values, function = subspace.values[: subspace.vectors.shape[1]], self.kernel.function
        vectors = np.where(np.abs(values) > NO_DIRECTION * values[0], subspace.vectors, 0.0)
        if self.embedding_rows == "published":
            return vectors
        exact = not isinstance(self.kernel, NystromKernel)
        if exact and function.normalized and self.has_embedding:
            own = function.value(np.zeros(1)) / degrees
            values = np.maximum(values, np.finfo(float).tiny)
            vectors = np.where(own > 0.5, vectors * np.maximum(1.0 - own / values, 0.0), vectors)
        return unit_rows(vectors)

    def _approximation(self, kernel: NystromKernel, w: np.ndarray) -> dict[str, Any]:
        """The objective of evenly spread rows by features and by exact sums; noted."""
        layout, _, (points, factor) = distributed_sample(
            self.rows, SAMPLE_ROWS, kernel.points, self.weights.factor
        )
        weights = PairWeights(factor, self.weights.signs)
        exact = StreamedKernel(layout, points, kernel.sigma, kernel.function).value(w, weights)
        features = kernel.on_rows(layout, points).value(w, weights)
        error = abs(features - exact) / max(abs(exact), 1e-300)
        if not self.quiet:
            self.note(
                f"sums by {kernel.description}: on {layout.rows} evenly spread rows their "
                f"objective differs from the exact one by {error:.1e} of it; approximation = "
                "'exact' computes all pairs"
            )
        return {"kind": kernel.description, "rows": layout.rows, "relative_error": error}

    def _degenerate_because(self, degrees: np.ndarray, sizes: np.ndarray) -> str:
        """Why the clusters say nothing, or an empty string; the same on all ranks."""
        n = self.rows.rows
        if self.kernel.function.gaussian and self.has_embedding and n > 2:
            kernel = f"sigma = {self.kernel.sigma:g} is too {{}} compared with the distances"
            if sum_over_ranks(self.comm, float((degrees - 1.0 < ALONE).sum())) > n / 2:
                return kernel.format("small") + ": most rows are like no other"
            if min_over_ranks(self.comm, degrees.min(initial=np.inf)) > n * (1.0 - ALIKE):
                return kernel.format("large") + ": all rows are alike up to rounding"
        if np.count_nonzero(sizes) < 2 or sizes.max() >= n - 1:
            return "all rows, or all but one, are in one cluster; try another sigma or lambda"
        return ""

    def identity(self) -> dict[str, Any]:
        """The arguments; not the numbers of a start, which may have been computed."""
        return {**super().identity(), "start": isinstance(self.start, str) and self.start}

    def metrics(self, x: Array) -> Mapping[str, Any]:
        """The columns of Table 1, the eigengap, condition (10) and the sizes of the clusters.

        A degenerate clustering has the reason under ``"degenerate_because"``.  Those of further
        alternatives, which are searched for here, are under ``"alternatives"``.
        """
        outcome = self.outcome(x)
        if self.search is not None and "found" not in outcome:
            further = [(one.objective.kernel.points, one.outcome) for one in self.search(outcome)]
            outcome["found"] = further
        first, *others = (one["measures"] for _, one in self._found(x))
        return {**first, **({"alternatives": others} if others else {})}

    def _found(self, x: Array) -> list[tuple[np.ndarray, dict[str, Any]]]:
        """Rows and outcomes of the alternatives found until now."""
        outcome = self.outcome(x)
        return outcome.get("found") or [(self.kernel.points, outcome)]

    def solution(self, x: Array) -> np.ndarray:
        """Labels of this rank's rows, shape ``(n_local, a)``: a column for each alternative."""
        return np.stack([one["labels"] for _, one in self._found(x)], axis=1)

    def views(self, x: Array) -> dict[str, np.ndarray]:
        return {
            f"alternative {number}": plane(self.rows, points @ one["components"])
            for number, (points, one) in enumerate(self._found(x), 1)
        }

    @property
    def solution_layout(self) -> Layout:
        """The rows of the data, not those of W."""
        return self.rows

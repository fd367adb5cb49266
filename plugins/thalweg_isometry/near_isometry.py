"""The problem: a linear map under which no secant changes its length by much."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse

from thalweg import InputError
from thalweg.data import Dataset
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.engines.secants import SecantConstraints, SecantSet
from thalweg.interfaces import Objective
from thalweg.numerics import unit_rows
from thalweg.parallel import (
    MPI,
    Array,
    Layout,
    Ring,
    agreed,
    raise_on_all_ranks,
    sum_large,
    sum_over_ranks,
)
from thalweg.plugins import Help
from thalweg_isometry.active import ActiveSecants, hinge, misses
from thalweg_isometry.certificate import Certificate, certify
from thalweg_isometry.cutting_planes import scan_progress
from thalweg_isometry.kept_neighbors import KeptNeighbors

#: Largest number of rows of the variable where the rank is free.
MAX_ROWS = 1024

#: Which pairs of points are secants; or all, and the sums of two points.
SECANTS = ("all", "within-class", "neighbors", "sums")

#: Pairs of points that an evaluation has at one time.
PAIRS_AT_ONCE = 2**17

#: Squared length, relative to those of both points, up to which a secant is measured by differences
#: since products of rows lose more than 10 of its digits.
NEAR = 1e-6


class NearIsometry(Objective, SecantConstraints):
    """Half the sum of squares by which the secants miss the wanted delta.

    ``f(Psi) = 1/2 sum_v max(0, | ||Psi v||^2 - 1 | - delta)^2`` over the normalized
    secants v (Luo et al., eq. 2.5): zero exactly where Psi satisfies the restricted
    isometry property.  The variable Psi, shape (rows, dimension), is the same on all
    ranks; rows that are zero do not count, so that the rank is free below ``rows``.

    Parameters
    ----------
    secants
        The secant set.
    delta
        Wanted isometry constant in (0, 1); None lets solvers minimize it where a rank is given,
        and is else 0.4.
    rank
        Wanted rank; None lets solvers minimize it.
    neighbors
        A goal for nearest rows in place of delta, of solver ``candidate-rounds``.

    Raises
    ------
    InputError
        delta outside (0, 1) or beside another goal, or a rank above the dimension.
    """

    default_solver: ClassVar[str] = "hinge-lbfgs"
    compared_metrics: ClassVar[tuple[str, ...]] = ("delta", "rank")

    def __init__(
        self,
        secants: SecantSet,
        delta: float | None,
        rank: int | None,
        neighbors: KeptNeighbors | None = None,
    ) -> None:
        if neighbors is not None and delta is not None:
            raise InputError("delta and n_candidates are two goals; give one of them")
        if delta is None and rank is None and neighbors is None:
            delta = 0.4
        if delta is not None and not 0.0 < delta < 1.0:
            raise InputError(f"delta must lie strictly between 0 and 1, not {delta!r}")
        if rank is not None and not 1 <= rank <= secants.dimension:
            columns = f"the number of columns, {secants.dimension}"
            raise InputError(f"the rank must lie between 1 and {columns}, not {rank!r}")
        self.secants = secants
        self.neighbors = neighbors
        self.wanted_delta = delta if neighbors is None else np.inf
        self.wanted_rank = rank
        self._certificate: tuple[bytes, Certificate] | None = None
        rows = rank if rank is not None else min(secants.dimension, MAX_ROWS)
        super().__init__(secants.comm, Layout(MPI.COMM_SELF, rows, secants.dimension))

    def initial_point(self, seed: int) -> Array:
        """The leading principal directions; the seed has no part in it."""
        rows = np.zeros(self.layout.shape)
        leading = self.secants.directions[: self.layout.rows]
        rows[: len(leading)] = leading
        return rows

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """f and its gradient at ``x``, over all secants."""
        secants, theta = self.secants, self.wanted_delta or 0.0
        if secants.listed:
            return hinge(self._listed, x, theta)[:2]
        squares, gradient = over_all(secants, x, lambda ratios: misses(ratios - 1.0, theta))
        return 0.5 * squares, 2.0 * gradient

    @cached_property
    def _listed(self) -> ActiveSecants:
        return ActiveSecants.listed(self.secants)

    def certificate(self, x: Array) -> Certificate:
        """Facts about ``x`` over all secants; a repeated call costs nothing.  Collective."""
        psi = self.solution(x)
        key = psi.tobytes()
        if self._certificate is None or self._certificate[0] != key:
            # After a limit of seconds, too, many pairs may take minutes.
            with scan_progress(self.secants, 1.0) as bar:
                self._certificate = (key, certify(self.secants, psi, progress=bar))
        return self._certificate[1]

    def metrics(self, x: Array) -> Mapping[str, Any]:
        facts = self.certificate(x).as_dict()
        if self.neighbors is not None:
            facts["candidates"] = self.neighbors.candidates(self.solution(x))
        return facts

    def solution(self, x: Array) -> Array:
        """Psi without its zero rows, shape ``(rank, dimension)``, on every rank."""
        rows = agreed(self.comm, x)
        return rows[np.any(rows != 0.0, axis=1)]


def build(
    dataset: Dataset,
    comm: MPI.Comm,
    delta: Annotated[
        float | None,
        Help("largest relative change of a squared length; 0.4 without a rank", above=0, below=1),
    ] = None,
    rank: Annotated[
        int | None, Help("rank of the map; by default the smallest that is found", minimum=1)
    ] = None,
    secants: Annotated[
        str, Help("which pairs of points count; sums: those too, for products", choices=SECANTS)
    ] = "all",
    n_neighbors: Annotated[
        int, Help("number of neighbors, with secants = neighbors or n_candidates", minimum=1)
    ] = 10,
    n_candidates: Annotated[
        int | None, Help("first candidates that hold the neighbors, in place of delta", minimum=1)
    ] = None,
    share: Annotated[float, Help("share of the rows whose they hold", above=0, maximum=1)] = 1.0,
) -> NearIsometry:
    """The objective for a data set, or an ``InputError`` as of :func:`secant_set`.  Collective."""
    chosen = secant_set(dataset, secants, n_neighbors)
    goal = KeptNeighbors(chosen, n_neighbors, n_candidates, share) if n_candidates else None
    return NearIsometry(chosen, delta, rank, goal)


def over_all(
    secants: SecantSet, psi: Array | None, weigh: Callable[[Array], Array]
) -> tuple[float, Array]:
    """``sum_k c_k^2`` and ``sum_k c_k (Psi v_k) v_k^T`` over all secants.  Collective.

    They are met in tiles: all pairs of this rank's points with all points.  ``weigh`` makes c of
    ratios ``||Psi v||^2``; no Psi is the identity.  The second sum is ``Y^T L X``, L the Laplacian
    of ``c_k / length_k``; secants too short for products of rows are measured by differences.
    """
    points = secants.points[:].astype(float)
    centered = points - secants.mean
    images = centered if psi is None else centered @ psi.T
    sizes, mapped_sizes = (np.einsum("ij,ij->i", rows, rows) for rows in (centered, images))
    numbers = np.arange(secants.layout.start, secants.layout.stop)
    product, near = np.zeros_like(images), np.zeros((images.shape[1], secants.dimension))
    squares = 0.0
    for block in Ring(secants.layout).blocks(points, sizes, numbers, images, mapped_sizes):
        others, other_sizes, other_numbers, other_images, other_mapped = block.arrays
        step = max(1, PAIRS_AT_ONCE // max(1, len(others)))
        for first in range(0, len(points), step):
            rows = slice(first, first + step)
            both = sizes[rows, None] + other_sizes
            lengths = both - 2.0 * centered[rows] @ (others - secants.mean).T
            apart, counts = lengths > NEAR * both, numbers[rows, None] != other_numbers
            if secants.labels is not None:
                counts &= secants.labels[numbers[rows], None] == secants.labels[other_numbers]
            mapped = mapped_sizes[rows, None] + other_mapped - 2.0 * images[rows] @ other_images.T
            lengths[~(counts & apart)] = np.inf
            weights = np.where(counts & apart, weigh(mapped / lengths), 0.0)
            squares += 0.5 * float((weights**2).sum())  # every pair is met twice
            weights /= lengths
            product[rows] += weights.sum(axis=1)[:, None] * images[rows] - weights @ other_images
            for row in np.flatnonzero((counts & ~apart).any(axis=1)):
                v = points[first + row] - others[counts[row] & ~apart[row]]
                v = unit_rows(v[v.any(axis=1)])
                moved = v if psi is None else v @ psi.T
                c = weigh((moved**2).sum(axis=1))
                squares += 0.5 * float(c @ c)
                near += 0.5 * (c[:, None] * moved).T @ v
    total = sum_large(secants.comm, near + product.T @ centered)
    return float(sum_over_ranks(secants.comm, squares)), total


def secant_set(dataset: Dataset, secants: str = "all", n_neighbors: int = 10) -> SecantSet:
    """The secants of a data set: all, within a class, between nearest neighbors, or also sums.

    With sums the points are those of the data and their opposites, in turn: each difference counts
    twice, and ``|<Psi x, Psi y> - <x, y>|`` is at most ``delta (|x|^2 + |y|^2) / 2``.  An
    ``InputError`` for classes without labels, no neighbors or as many as points, or unfit points.
    """
    labels = neighbors = None
    if secants == "sums":
        rows, own = 2 * dataset.layout.rows, 2 * dataset.layout.local_rows
        sums = SecantSet(with_opposites(dataset.values), Layout(dataset.comm, rows, local_rows=own))
        sums.kind = "sums"
        return sums
    if secants == "within-class":
        with raise_on_all_ranks(dataset.comm):
            if dataset.labels is None:
                raise InputError("secants within a class need labels; give the data labels")
            if dataset.has_unlabeled_rows():
                raise InputError("some rows have no class; leave them out")
        labels = dataset.gather_labels()
    if secants == "neighbors":
        points = np.asarray(dataset.values, dtype=float)
        neighbors = nearest_neighbors(dataset.layout, points, n_neighbors)[0]
    return SecantSet(dataset.values, dataset.layout, labels=labels, neighbors=neighbors)


def nearest(rows: Any, k: int) -> np.ndarray:
    """The k nearest others of each row of a sparse matrix, shape (n, k), the first of equal ones.

    Products of rows that are far from 0 cancel: those that bounds leave in doubt are compared by
    their differences.
    """
    rows = scipy.sparse.csr_matrix(rows, dtype=float)
    n, squares = rows.shape[0], np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    rounding = (np.diff(rows.indptr).max(initial=0) + 16) * np.finfo(float).eps
    if not 1 <= k < n:
        raise InputError(f"n_neighbors must be at least 1 and below the number of rows, {n}")

    def apart(row: int, others: np.ndarray) -> np.ndarray:
        differences = rows[np.full(len(others), row)] - rows[others]
        return np.asarray(differences.multiply(differences).sum(axis=1)).ravel()

    nearest, step = np.empty((n, k), dtype=np.int64), max(1, 2**22 // n)
    for first in range(0, n, step):
        products = (rows[first : first + step] @ rows.T).tocoo()
        lowest = (1.0 - rounding) * (squares + squares[first : first + step, None])
        lowest[products.row, products.col] -= 2.0 * products.data
        np.fill_diagonal(lowest[:, first:], np.inf)
        for row, bounds in enumerate(lowest, first):
            others = np.flatnonzero(bounds <= apart(row, np.argpartition(bounds, k - 1)[:k]).max())
            nearest[row] = others[np.argsort(apart(row, others), kind="stable")[:k]]
    return nearest


def with_opposites(rows: Any) -> Any:
    """Each row and, after it, its opposite, of an array or a sparse matrix."""
    signs = np.resize(np.array([1, -1], dtype=np.int8), 2 * rows.shape[0])[:, None]
    twice = rows[np.repeat(np.arange(rows.shape[0]), 2)]
    return twice.multiply(signs).tocsr() if scipy.sparse.issparse(rows) else twice * signs

"""Points, pairs of them and maps as a scan takes them: checked, exact; sparse rows in one array."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse

from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import Layout, max_over_ranks, raise_on_all_ranks, refuse_differing

#: Largest entry of a map, so that squares of images are finite.
LARGEST_COMPONENT = 1e100


def rescaled_points(points: np.ndarray, layout: Layout) -> np.ndarray:
    """The points times a power of two, if single precision could not hold their squares.

    Collective.  An ``InputError`` where an entry would vanish beside the largest.
    """
    largest = 0.0
    if points.dtype.kind == "f":
        largest = max(float(points.max(initial=0.0)), -float(points.min(initial=0.0)))
    largest = max_over_ranks(layout.comm, largest)
    if largest == 0.0 or 1e-9 < largest < 1e9:
        return points
    exponent = math.frexp(largest)[1]
    with raise_on_all_ranks(layout.comm):
        scaled = np.asarray(np.ldexp(points.astype(float), -exponent))
        if not np.array_equal(np.ldexp(scaled, exponent), points):
            raise InputError(
                f"the points hold numbers from nearly 0 to {largest:.3g}, more than float64 can "
                "scale without loss; round the small ones to 0"
            )
    return scaled


def exact_points(points: np.ndarray, what: str = "points") -> np.ndarray:
    """The points without loss, contiguous: as they are if uint8, else float32 if they fit."""
    refuse_masked(points, f"the {what}")
    if points.ndim != 2:
        raise InputError(f"the {what} must be a table of rows, not of {points.ndim} dimensions")
    if points.dtype == np.uint8:
        return np.ascontiguousarray(points)  # images: a quarter of the memory and messages
    if points.dtype.kind in "iub" and points.dtype.itemsize <= 2:
        points = points.astype(np.float32)  # integers up to 2^24 are exact
    elif points.dtype.kind not in "fiub":
        raise InputError(f"the {what} hold {points.dtype}, not real numbers")
    elif points.dtype not in (np.float32, np.float64):
        original, points = points, points.astype(np.float32 if points.itemsize == 2 else np.float64)
        with np.errstate(invalid="ignore"):
            exact = points.astype(original.dtype) == original
        if not (exact | ~np.isfinite(points)).all():
            raise InputError(
                f"the {what} hold {original.dtype} that float64 cannot hold without loss; "
                "round them"
            )
    if not np.isfinite(points).all():
        raise InputError(f"the {what} hold a number that is not finite; remove NaN and infinity")
    return np.ascontiguousarray(points)


def checked_components(components: np.ndarray, dimension: int) -> np.ndarray:
    """Psi as a float64 matrix of the right width.

    Raises
    ------
    InputError
    """
    components = np.asanyarray(components)
    if components.ndim != 2 or components.shape[1] != dimension:
        shape = " x ".join(str(s) for s in components.shape)
        raise InputError(
            f"the components are {shape}, but the points have {dimension} columns; "
            f"give a matrix of shape rank x {dimension}"
        )
    components = exact_points(components, "components").astype(float)
    largest = float(np.abs(components).max(initial=0.0))
    if largest > LARGEST_COMPONENT:
        raise InputError(f"the components hold {largest:.3g}; scale them, to 1e100 at most")
    return components


@dataclass(frozen=True)
class SparseRows:
    """Some rows, each padded to as many entries as the fullest has.

    Attributes
    ----------
    packed
        Shape ``(n, 2 m)``, float64: in each row the numbers of the columns of its m entries,
        ascending, then the entries.  Entries that only fill up are zeros of column
        ``dimension``, behind the last.
    dimension
        Number of columns.
    """

    packed: np.ndarray
    dimension: int

    @classmethod
    def of(cls, matrix: Any, layout: Layout) -> Self:
        """This rank's rows of a matrix that SciPy calls sparse.  Collective.

        Raises
        ------
        InputError
            Entries that are not real and finite, or that float64 rounds.
        """
        with raise_on_all_ranks(layout.comm):
            rows = scipy.sparse.csr_matrix(matrix, copy=True)
            rows.data = exact_points(rows.data[None])[0].astype(float)
            rows.sum_duplicates()
            rows.eliminate_zeros()
        rows.data = rescaled_points(rows.data, layout)
        counts = np.diff(rows.indptr)
        width = int(max_over_ranks(layout.comm, float(counts.max(initial=0))))
        packed = np.zeros((rows.shape[0], 2 * width))
        packed[:, :width] = rows.shape[1]
        at = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(rows.data)) - np.repeat(rows.indptr[:-1], counts)
        packed[at, place] = rows.indices
        packed[at, width + place] = rows.data
        return cls(packed, int(rows.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.packed), self.dimension

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def entries(self) -> np.ndarray:
        """The entries, zeros that fill up included, shape ``(n, m)``."""
        return self.packed[:, self.packed.shape[1] // 2 :]

    def part(self, rows: np.ndarray) -> Self:
        """Some of the rows."""
        return replace(self, packed=np.ascontiguousarray(self.packed[rows]))

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Some of the rows with all their zeros, shape ``(k, dimension)``, float64."""
        chosen = self.packed[rows]
        width = chosen.shape[1] // 2
        dense = np.zeros((len(chosen), self.dimension + 1))
        np.put_along_axis(dense, chosen[:, :width].astype(np.int64), chosen[:, width:], axis=1)
        return dense[:, : self.dimension]


@dataclass(frozen=True)
class PairList:
    """Distinct pairs i < j of the global numbers of ``n_points`` points.

    ``keys`` are ``i * n + j`` of all pairs, sorted, on every rank, with their ``weights`` if they
    have any; ``own`` are the pairs of which i is this rank's, shape ``(m, 2)``.
    """

    n_points: int
    keys: np.ndarray
    own: np.ndarray
    weights: np.ndarray | None

    @classmethod
    def of(cls, layout: Layout, pairs: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Those among the pairs of all ranks; of equal ones the largest weight.  Collective."""
        pairs = np.sort(pairs, axis=1)
        distinct = pairs[:, 0] != pairs[:, 1]
        pairs = pairs[distinct]
        every = np.concatenate(layout.comm.allgather(pairs[:, 0] * layout.rows + pairs[:, 1]))
        keys, at = np.unique(every, return_inverse=True)
        if weights is not None:
            largest = np.zeros(len(keys))
            np.maximum.at(largest, at, np.concatenate(layout.comm.allgather(weights[distinct])))
            weights = largest
        i, j = np.divmod(keys, max(1, layout.rows))
        mine = (i >= layout.start) & (i < layout.stop)
        return cls(layout.rows, keys, np.stack([i[mine], j[mine]], axis=1), weights)

    @classmethod
    def given(cls, layout: Layout, pairs: np.ndarray, weights: np.ndarray | None) -> Self:
        """Those that every rank has, checked, and compared between the ranks.  Collective."""
        comm = layout.comm
        with raise_on_all_ranks(comm):
            pairs, weights = checked_pairs(pairs, weights, layout)
        refuse_differing(comm, "the pairs or their weights", pairs, weights)
        share = slice(comm.rank, None, comm.size)
        return cls.of(layout, pairs[share], None if weights is None else weights[share])

    @classmethod
    def between(cls, layout: Layout, neighbors: np.ndarray) -> Self:
        """This rank's points with their neighbors, global numbers ``(n_local, k)``.  Collective."""
        first = np.repeat(np.arange(layout.start, layout.stop), neighbors.shape[1])
        return cls.of(layout, np.stack([first, neighbors.astype(np.int64).ravel()], axis=1))

    def weights_of(self, pairs: np.ndarray) -> np.ndarray | None:
        """Weights of listed pairs, shape ``(m, 2)``; None without any."""
        if self.weights is None:
            return None
        return np.asarray(self.weights[np.searchsorted(self.keys, pairs @ (self.n_points, 1))])


def checked_pairs(
    pairs: np.ndarray, weights: np.ndarray | None, layout: Layout
) -> tuple[np.ndarray, np.ndarray | None]:
    """Integers from 0 to n - 1, shape ``(m, 2)``, and weights in (0, 1], or an ``InputError``."""
    refuse_masked(pairs, "the pairs")
    refuse_masked(weights, "the weights of pairs")
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"pairs must be integers in two columns, not {pairs.dtype}, {pairs.shape}")
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < layout.rows):
        wrong = pairs.min() if pairs.min() < 0 else pairs.max()
        raise InputError(f"the pairs must be points 0 to {layout.rows - 1}, not {wrong}")
    if weights is not None:
        try:
            weights = np.asarray(weights, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(f"the weights of pairs must be numbers: {error}") from error
        if weights.shape != (len(pairs),):
            raise InputError(
                f"there must be a weight for each of {len(pairs)} pairs, not weights of shape "
                f"{weights.shape}"
            )
        in_range = (weights > 0.0) & (weights <= 1.0)
        if not in_range.all():
            raise InputError(
                "the weights of pairs must be above 0 and at most 1, "
                f"not {weights[~in_range][0]}; divide them by the largest"
            )
    return pairs.astype(np.int64), weights

"""Points and maps as a scan takes them: checked, and exact; sparse rows in one array."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse

from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import Layout, max_over_ranks, raise_on_all_ranks

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
        places = chosen[:, :width].astype(np.int64)
        np.put_along_axis(dense, places, chosen[:, width:], axis=1)
        return dense[:, : self.dimension]

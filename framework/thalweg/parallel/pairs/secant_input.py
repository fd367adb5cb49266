"""What the secant oracle takes: points without loss, maps that fit them, listed pairs."""

from __future__ import annotations

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel.layout import Layout


def exact_points(points: np.ndarray) -> np.ndarray:
    """The points without loss, contiguous: as they are if uint8, else float32 if they fit."""
    if points.ndim != 2:
        raise InputError(f"the points must be a table of rows, not of {points.ndim} dimensions")
    if points.dtype == np.uint8:
        return np.ascontiguousarray(points)  # images: a quarter of the memory and messages
    if points.dtype.kind in "iub" and points.dtype.itemsize <= 2:
        points = points.astype(np.float32)  # integers up to 2^24 are exact
    elif points.dtype.kind not in "fiub":
        raise InputError(f"the points hold {points.dtype}, not real numbers")
    elif points.dtype not in (np.float32, np.float64):
        points = points.astype(np.float32 if points.dtype == np.float16 else np.float64)
    if not np.isfinite(points).all():
        raise InputError("the points hold a number that is not finite; remove NaN and infinity")
    return np.ascontiguousarray(points)


def checked_components(components: np.ndarray, dimension: int) -> np.ndarray:
    """Psi as a float64 matrix of the right width.

    Raises
    ------
    InputError
    """
    components = np.asarray(components)
    if components.ndim != 2 or components.shape[1] != dimension:
        shape = " x ".join(str(s) for s in components.shape)
        raise InputError(
            f"the components are {shape}, but the points have {dimension} columns; "
            f"give a matrix of shape rank x {dimension}"
        )
    if components.dtype.kind not in "fiub":
        raise InputError(f"the components hold {components.dtype}, not real numbers")
    components = np.ascontiguousarray(components, dtype=float)
    if not np.isfinite(components).all():
        raise InputError("the components hold a number that is not finite; remove NaN and infinity")
    return components


def listed_pairs(layout: Layout, neighbours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs i < j out of lists of neighbours.

    Returns the sorted keys ``i * n + j`` of all pairs, on every rank, and the pairs
    (i, j) whose i is this rank's.
    """
    first = np.repeat(np.arange(layout.start, layout.stop), neighbours.shape[1])
    second = neighbours.astype(np.int64).ravel()
    pairs = np.sort(np.stack([first, second], axis=1), axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    keys = np.unique(np.concatenate(layout.comm.allgather(pairs[:, 0] * layout.rows + pairs[:, 1])))
    i, j = np.divmod(keys, max(1, layout.rows))
    mine = (i >= layout.start) & (i < layout.stop)
    return keys, np.stack([i[mine], j[mine]], axis=1)

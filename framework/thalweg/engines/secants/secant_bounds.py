"""Bounds on every distortion of a tile, and the accuracy of a measured one, under rounding.

The points and the map are exact, the float64 numbers that they are.  Operations round to nearest
with unit ``u = 2^-53``, in single precision with ``v = 2^-24``; a sum of n products, in any order,
fused or not, errs by at most ``gamma_n = n u / (1 - n u)`` times the sum of the absolute products
(Higham, Accuracy and Stability of Numerical Algorithms, secs. 3.1, 3.5).  The page of mathematics
of near-isometric embeddings derives the bounds from that.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from thalweg.engines.secants.frame import PrincipalFrame, row_blocks
from thalweg.engines.secants.points import SparseRows
from thalweg.numerics import squared_distances

_DOUBLE = 2.0**-53
_SINGLE = 2.0**-24
#: Allowance for the few roundings of the kernel in single precision: at most 6 of the sizes
#: when bounds are rounded, added and subtracted, 4.1 for the rounded coordinates, 2 for
#: what vanishes below the smallest normal number.
_FEW = 16.0
#: Numbers of leading coordinates among which a scan chooses.
SIZES = (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)
#: Of each entry of a product that vanishes below the smallest normal number.
_VANISHED = 2.0**-124


def gamma(n: float, unit: float = _DOUBLE) -> float:
    """Higham's ``gamma_n``; infinite where ``n u`` reaches 1."""
    return n * unit / (1.0 - n * unit) if n * unit < 1.0 else np.inf


@dataclass(frozen=True)
class Accuracy:
    """Bounds on the error of the measured distortion of a pair.

    A pair whose squared length is at least ``close`` times the sum of its points' squared norms is
    measured through the images of the points, which err by ``image`` times the norm of a centered
    point; a closer one through the image of its difference.  With ``kappa`` the error of
    ``||Psi (x_i - x_j)||`` relative to ``||x_i - x_j||``, the ratio rho of the squared lengths errs
    by at most ``2 sqrt(rho) kappa + kappa^2`` and a relative ``relative``.
    """

    image: float
    close: float
    kappa: float
    relative: float

    @classmethod
    def of(cls, components: np.ndarray) -> Self:
        """For a map of this shape and size."""
        rank, dimension = components.shape
        norm = float(np.linalg.norm(components)) * (1.0 + gamma(rank * dimension + 4))
        image = 1.01 * gamma(dimension + 3) * norm
        longest = np.sqrt(np.einsum("ij,ij->i", components, components).max(initial=0.0))
        # Through the images while that costs no more than this; the rows of a
        # near-isometry are about as long as 1.
        tolerance = 1e-9 * max(1.0, float(longest))
        close = float(np.clip((1.5 * image / tolerance) ** 2, 1e-12, 2.0))
        relative = 2.1 * (gamma(dimension + 2) + gamma(rank + 2) + 2.0 * _DOUBLE)
        return cls(image, close, max(1.5 * image / np.sqrt(close), image) + 1e-100, relative)

    def interval(self, largest: float) -> tuple[float, float]:
        """Bounds of the isometry constant, if the largest measured distortion is this.

        Every pair's measured distortion lies at most this far from the true one, and a pair that
        was not measured has a true one below the largest measured.  So it is with weights of at
        most 1, since ``w (1 + L / w) <= 1 + L`` and ``w sqrt(1 + L / w) <= sqrt(1 + L)``.
        """
        if not np.isfinite(largest):
            return (0.0, np.inf)
        rho = 1.0 + largest
        error = 1.02 * (self.relative * rho + 2.1 * np.sqrt(rho) * self.kappa + self.kappa**2)
        error += 4.0 * _DOUBLE * (1.0 + rho)
        low, high = np.nextafter((largest - error, largest + error), (-np.inf, np.inf)).tolist()
        return max(0.0, low), high


@dataclass(frozen=True)
class SplitPoints:
    """Centered points as leading coordinates and what these leave out."""

    #: Coordinates along the leading directions, float32, shape ``(n_local, p)``.
    leading: np.ndarray
    #: Least and largest squared norm, and the norm of the rest, float32, shape ``(n_local, 3)``:
    #: for two points the squared distance is at least ``low_i + low_j - 2 (l_i . l_j + t_i t_j)``
    #: and at most ``high_i + high_j - 2 (l_i . l_j - t_i t_j)``, computed in single precision.
    bounds: np.ndarray
    #: Coordinates along the next directions, float32, shape ``(n_local, q)``; they sharpen
    #: the bounds of the few pairs that the leading ones leave undecided.
    further: np.ndarray
    #: As ``bounds``, for the leading and further coordinates together.
    further_bounds: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers p and q of leading and further coordinates."""
        return self.leading.shape[1], self.further.shape[1]


def split_points(
    points: np.ndarray | SparseRows, frame: PrincipalFrame, n_leading: int, n_further: int = 0
) -> SplitPoints:
    """Split this rank's points; all coordinates are the centered points themselves."""
    n, dimension = points.shape
    whole = n_leading >= dimension
    n_leading = dimension if whole else n_leading
    n_further = 0 if whole else min(n_further, len(frame.directions) - n_leading)
    count = n_leading + n_further
    single = np.empty((n, count), dtype=np.float32)
    bounds = np.empty((2, n, 3), dtype=np.float32)
    directions = frame.directions[:count]
    for block in row_blocks(n, dimension):
        rows = points[block] - frame.mean
        coordinates = rows if whole else rows @ directions.T
        single[block] = coordinates
        for k, p in enumerate((n_leading, count) if n_further else (n_leading,)):
            bounds[k, block] = _bounds(
                rows, coordinates[:, :p], None if whole else directions[:p], single[block, :p],
                frame.centered_sizes[block],
            )  # fmt: skip
    parts = single[:, :n_leading], single[:, n_leading:]
    leading, further = (np.ascontiguousarray(part) for part in parts)
    return SplitPoints(leading, bounds[0], further, bounds[1] if n_further else bounds[0])


def _bounds(
    rows: np.ndarray,
    coordinates: np.ndarray,
    directions: np.ndarray | None,
    single: np.ndarray,
    centered: np.ndarray,
) -> np.ndarray:
    """Bounds of some centered points; no directions where the coordinates are the entries."""
    dimension, count = rows.shape[1], coordinates.shape[1]
    size = np.einsum("ij,ij->i", single, single, dtype=float)
    deviation = 2.1 * _DOUBLE
    low = high = np.zeros(len(rows))
    if directions is not None:
        root = np.sqrt(count)
        product = directions @ directions.T
        product[np.diag_indices_from(product)] -= 1.0
        defect = float(np.linalg.norm(product)) + 2.1 * count * gamma(dimension + 1)
        missed = 1.1 * (gamma(dimension) * root + defect)
        deviation += 1.1 * defect + 2.2 * missed
        left = rows - coordinates @ directions
        rest = np.sqrt(np.einsum("ij,ij->i", left, left))
        error = gamma(count + 2) * (1.1 * root + 1.1) * np.sqrt(centered)
        error += gamma(dimension + 4) * rest
        low, high = np.maximum(rest - error, 0.0), rest + error
    slack = (gamma(count, _SINGLE) + _FEW * _SINGLE) * size
    slack += _FEW * _SINGLE * high**2 + 2.1 * deviation * centered
    slack += (count + 8) * _VANISHED
    bounds = (size + low**2 - slack, size + high**2 + slack, high * (1.0 + 2.0 * _SINGLE))
    return np.stack(bounds, axis=1).astype(np.float32)


def image_bounds(
    images: np.ndarray, frame: PrincipalFrame, accuracy: Accuracy
) -> tuple[np.ndarray, np.ndarray]:
    """Images in single precision, and bounds of their squared norms, shape ``(n_local, 2)``.

    They bound squared distances of images as :class:`SplitPoints` does, without a rest;
    ``images`` are those of the centered points.
    """
    rank = images.shape[1]
    # What overflows in single precision becomes infinite or NaN, and such pairs are measured.
    with np.errstate(over="ignore", invalid="ignore"):
        single = images.astype(np.float32)
        size = np.einsum("ij,ij->i", single, single, dtype=float)
        # 2 A B <= v A^2 + B^2 / v, with A the norms of two images and B their errors.
        slack = (2.1 / _SINGLE) * accuracy.image**2 * frame.centered_sizes
        slack += (gamma(rank, _SINGLE) + (_FEW + 2.0) * _SINGLE) * size
        slack += (rank + 8) * _VANISHED
    return single, np.stack([size - slack, size + slack], axis=1).astype(np.float32)


def cheapest_split(
    frame: PrincipalFrame,
    components: np.ndarray,
    threshold: float,
    present: tuple[int, int] = (0, 0),
) -> tuple[int, int]:
    """Numbers of leading and further coordinates that make a scan cheapest.

    Estimated on sampled points.  ``present`` is a choice that would cost nothing to prepare:
    it is kept where it is nearly as good.
    """
    dimension = components.shape[1]
    rows = frame.sampled - frame.mean
    images = rows @ components.T
    turned = rows @ frame.directions.T
    total = np.einsum("ij,ij->i", rows, rows)
    image_distances = squared_distances(images, images)
    lengths = squared_distances(rows, rows)
    # Of points at the same place products leave rounding: they have no distortion.
    distinct = lengths > 1e-12 * (total[:, None] + total)
    distortion = np.abs(image_distances / np.where(distinct, lengths, 1.0) - 1.0)
    distortion[~distinct] = 0.0
    third = np.partition(distortion, -3, axis=1)[:, -3]
    cutoff = np.minimum(np.maximum(third, min(threshold, 1e3)), distortion.max())[:, None]
    # Nanoseconds: a product's term, the pass over a pair, a measured pair; a pair that needs
    # the further coordinates, and a term of these.
    product, sweep, exact = 0.018, 0.5, 60.0 + 0.35 * dimension
    again, term = 15.0, 0.08
    sizes = [p for p in SIZES if p < min(0.85 * dimension, len(frame.directions))]
    above = image_distances / (1.0 + cutoff)
    below = image_distances / np.maximum(1.0 - cutoff, 1e-300)
    near, first = np.zeros_like(lengths), 0
    shares = {dimension: 0.0}
    for p in sizes:
        more = turned[:, first:p]
        near += squared_distances(more, more)
        first = p
        tail = np.sqrt(np.maximum(total - (turned[:, :p] ** 2).sum(axis=1), 0.0))
        suspect = above >= near + (tail[:, None] - tail) ** 2
        suspect |= (below <= near + (tail[:, None] + tail) ** 2) & (cutoff < 1.0)
        shares[p] = max(0.0, float(suspect.mean()) - 1.0 / len(rows))

    def cost(p: int, q: int) -> float:
        left = shares[p] * (again + term * q) if q else 0.0
        return product * p + sweep + left + exact * shares[p + q]

    choices = [(p, 0) for p in shares] + [(p, q - p) for p in sizes for q in sizes if q > p]
    best = min(choices, key=lambda choice: cost(*choice))
    return present if present in choices and cost(*present) < 1.15 * cost(*best) else best

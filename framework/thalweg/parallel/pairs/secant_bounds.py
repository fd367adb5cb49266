"""Bounds on every distortion of a tile from products of leading coordinates alone.

Along the leading principal directions two points' distance is a product in single
precision; what the other directions add lies between the difference and the sum of
the norms there.  The bounds leave room for rounding, so that they hold, and only pairs
that they cannot rule out are measured.
"""

from __future__ import annotations

import numpy as np

from thalweg.parallel.pairs.principal_frame import PrincipalFrame

_UNIT = 2.0**-24  # rounding unit of float32


def bounded_rows(
    points: np.ndarray,
    images: np.ndarray,
    components: np.ndarray,
    frame: PrincipalFrame,
    head: int,
) -> tuple[np.ndarray, ...]:
    """What a tile needs of these points: themselves, sizes, images, factors, bounds.

    Returns
    -------
    points, sizes, images
        For exact measurements.
    leading, single
        Factors of the tile's two products, float32, ``head`` and rank columns.
    bounds
        Least and largest squared norm, of the point and of its image, and the norm
        of what ``leading`` leaves out, float32, shape ``(n_local, 5)``.
    """
    dimension = points.shape[1]
    leading = frame.leading(points, head)
    shifted = images - components @ frame.mean
    single = shifted.astype(np.float32)
    # What the products see are the rounded numbers: their norms are taken of those.
    size = np.einsum("ij,ij->i", leading, leading, dtype=float)
    rest = np.maximum(frame.centred_sizes - size, 0.0) if head < dimension else 0 * size
    image_size = np.einsum("ij,ij->i", single, single, dtype=float)
    # Any order of summation of m products is within m units of the norms' product
    # (Higham, Accuracy and Stability, sec. 3.1); 16 more cover the few other roundings.
    slack = (head + 16) * _UNIT * size + 16 * _UNIT * (rest + 1e-7 * frame.centred_sizes)
    image_slack = (len(components) + 16) * _UNIT * image_size
    bounds = np.empty((len(points), 5), dtype=np.float32)
    bounds[:, 0] = size + rest - slack
    bounds[:, 1] = size + rest + slack
    bounds[:, 2] = image_size - image_slack
    bounds[:, 3] = image_size + image_slack
    bounds[:, 4] = np.sqrt(rest)
    return points, frame.sizes, images, leading, single, bounds


def cheapest_head(frame: PrincipalFrame, components: np.ndarray, level: float) -> int:
    """Number of coordinates that makes a scan cheapest, estimated on the sampled points."""
    dimension = components.shape[1]
    rows = frame.sampled - frame.mean
    images = rows @ components.T
    turned = rows @ frame.directions.T
    total = np.einsum("ij,ij->i", rows, rows)
    image_distances = squared_distances(images)
    lengths = np.maximum(squared_distances(rows), 1e-300)
    distortion = np.abs(image_distances / lengths - 1.0)
    np.fill_diagonal(distortion, 0.0)
    third = np.partition(distortion, -3, axis=1)[:, -3]
    bar = np.minimum(np.maximum(third, min(level, 1e3)), distortion.max())[:, None]
    best, cheapest = dimension, np.inf
    # Nanoseconds: a product's term, the pass over a pair, a measured pair.
    product, sweep, exact = 0.036, 0.5, 60.0 + 0.35 * dimension
    sizes = [
        p
        for p in (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)
        if p < min(0.85 * dimension, len(frame.directions))
    ]
    for p in [*sizes, dimension]:
        share = 0.0
        if p < dimension:
            near = squared_distances(turned[:, :p])
            tail = np.sqrt(np.maximum(total - (turned[:, :p] ** 2).sum(axis=1), 0.0))
            short = near + (tail[:, None] - tail) ** 2
            long = near + (tail[:, None] + tail) ** 2
            suspect = (image_distances >= (1 + bar) * short) | (image_distances <= (1 - bar) * long)
            share = float(suspect.mean()) - 1.0 / len(rows)
        cost = product * p + sweep + exact * max(share, 0.0)
        if cost < cheapest:
            best, cheapest = p, cost
    return best


def squared_distances(rows: np.ndarray) -> np.ndarray:
    """Squared distances between all rows, by products."""
    size = np.einsum("ij,ij->i", rows, rows)
    return np.maximum(size[:, None] + size - 2.0 * (rows @ rows.T), 0.0)

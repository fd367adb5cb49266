"""Lower bounds on the rank that any embedding of a given delta needs, linear or not.

D holds the squared distances of k points, E those of their images, M is E - D, and J projects
along ones; ``B = -J E J / 2``.  MATHEMATICS.md derives the bounds.  They are evaluated on subsets
of the points, which need no more rank than the whole; the subsets grow greedily.
"""

import numpy as np

#: Points of a subset at most: its bounds take the square of their number; chosen by hand.
LARGEST_SUBSET = 400


def weyl_bound(squared_distances: np.ndarray, delta: float) -> int:
    """Rank bound by Weyl's inequality; ``squared_distances`` has shape (k, k)."""
    gram = _centered(squared_distances) / -2.0
    radius = float(np.abs(np.linalg.eigvalsh(squared_distances)).max(initial=0.0))
    bar = 0.5 * delta * radius + 1e-12 * radius * max(1, len(gram))
    return int((np.linalg.eigvalsh(gram) > bar).sum())


def alon_bound(squared_distances: np.ndarray, delta: float) -> float:
    """Rank bound by Alon's inequality, a real number to be rounded up."""
    k = len(squared_distances)
    doubly = _centered(squared_distances)
    cross = delta * float((np.abs(doubly) * squared_distances).sum())
    tables = squared_distances, squared_distances**2, doubly**2
    total, squares, centered = (np.array([table.sum()]) for table in tables)
    return float(_alon(total, squares, centered, k, delta, cross)[0])


def _alon(
    total: np.ndarray, squares: np.ndarray, centered: np.ndarray, k: int, delta: float, cross: float
) -> np.ndarray:
    """The bound from sum D, ||D||_F^2 and ||J D J||_F^2 of several sets of k points.

    ``cross`` bounds ``<J D J, M>``; where it is infinite the product of the norms does.
    """
    if delta >= 1.0 or k < 2:
        return np.ones_like(total)
    mean = total / k
    s = np.linspace(-delta, delta, 101)[:, None]
    # Between two shifts the ratio is at least this with the better value of each part.
    low, high = s[:-1], s[1:]
    least = np.where((low < 0) & (high > 0), 0.0, np.minimum(low**2, high**2))
    rest = np.sqrt(np.maximum(delta**2 * squares - least * mean**2, 0.0))
    norm = np.sqrt(np.maximum(centered, 0.0)) * (1 + 1e-12)
    norm = np.sqrt(norm**2 + rest**2 + 2.0 * np.minimum(norm * rest, cross))
    # tr B = (1 + s) sum D / 2k and ||B||_F <= norm / 2: the halves cancel.
    return np.asarray((((1.0 + low) * mean / np.maximum(norm, 1e-300)) ** 2).min(axis=0))


def rank_lower_bound(points: np.ndarray, delta: float) -> int:
    """Certified lower bound on the rank of any embedding of isometry constant ``delta``.

    Subsets up to :data:`LARGEST_SUBSET` of ``points``, shape ``(m, dimension)``, are sought.  It is
    0 where the zero map will do, whose constant is 1, and else at least 1 if two points differ.
    """
    points = np.unique(np.asarray(points, dtype=float), axis=0)
    if len(points) < 2 or delta >= 1.0:  # the zero map has delta = 1
        return 0
    points = points - points.mean(axis=0)
    # Fourth powers are summed; the bound does not depend on the unit of length.
    points /= np.abs(points).max()
    size = np.einsum("ij,ij->i", points, points)
    distances = np.maximum(size[:, None] + size - 2.0 * (points @ points.T), 0.0)
    np.fill_diagonal(distances, 0.0)
    order, values = _grow(distances, delta, min(LARGEST_SUBSET, len(points)))
    best = float(values.max(initial=1.0))
    for k in sorted({2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, len(order)}):
        if k <= len(order):
            between = distances[np.ix_(order[:k], order[:k])]
            best = max(best, weyl_bound(between, delta), alon_bound(between, delta))
    return int(np.ceil(best * (1.0 - 1e-9) - 1e-9))


def _grow(distances: np.ndarray, delta: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in the order in which they raise Alon's bound most, and the bound after each."""
    order = [int(i) for i in np.unravel_index(int(distances.argmax()), distances.shape)]
    free = np.ones(len(distances), dtype=bool)
    free[order] = False
    sums = distances[:, order].sum(axis=1)  # of each point to the subset
    squares_to = (distances[:, order] ** 2).sum(axis=1)
    values = [alon_bound(distances[np.ix_(order, order)], delta)]
    while len(order) < most and free.any():
        k = len(order) + 1
        inside = sums[order]
        total = inside.sum() + 2.0 * sums
        squares = squares_to[order].sum() + 2.0 * squares_to
        cross = distances[:, order] @ inside
        row_squares = float(inside @ inside) + 2.0 * cross + squares_to + sums**2
        centered = squares - 2.0 / k * row_squares + total**2 / k**2
        bounds = np.where(free, _alon(total, squares, centered, k, delta, np.inf), -1.0)
        new = int(bounds.argmax())
        order.append(new)
        free[new] = False
        values.append(float(bounds[new]))
        sums = sums + distances[:, new]
        squares_to = squares_to + distances[:, new] ** 2
        if len(order) > 64 and max(values[-48:]) < max(values):
            break
    return np.array(order), np.array(values)


def _centered(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean())

"""Maps to start from: what rank to try first, and maps of another rank near a given one."""

import numpy as np

from thalweg.engines.secants import SecantSet


def truncated(psi: np.ndarray, rank: int) -> np.ndarray:
    """``Gamma^(1/2) U^T`` from the leading eigenpairs of ``Psi^T Psi`` (eq. 2.9)."""
    _, values, vectors = np.linalg.svd(psi, full_matrices=False)
    return np.asarray(values[:rank, None] * vectors[:rank])


def eigengap_rank(psi: np.ndarray, low: int, high: int) -> int:
    """Rank from ``low`` to ``high`` after which the eigenvalues of ``Psi^T Psi`` fall most.

    By the largest factor: their differences are those of the leading few, whatever the rank.
    """
    values = np.maximum(np.linalg.svd(psi, compute_uv=False), 1e-150)
    return low + int(np.argmax(values[low - 1 : high] / values[low : high + 1]))


def extended(psi: np.ndarray, rank: int, directions: np.ndarray, seed: int) -> np.ndarray:
    """``psi`` with more rows: the directions, most important first, that it does not see."""
    rest = directions - directions @ np.linalg.pinv(psi) @ psi if len(psi) else directions
    norms = np.linalg.norm(rest, axis=1)
    some = np.flatnonzero(norms > 0.5)[: rank - len(psi)]
    added = rest[some] / norms[some, None]
    if len(psi) + len(added) < rank:  # fewer directions than rows: any will do
        shape = rank - len(psi) - len(added), psi.shape[1]
        added = np.concatenate([added, np.random.default_rng(seed).standard_normal(shape) * 1e-3])
    return np.concatenate([psi, added])


def guessed_rank(secants: SecantSet, delta: float, adjust: str) -> int:
    """Rank to try first.

    The bracket begins where the leading directions alone are within twice delta on the
    secants of a sample: from there it goes down, by steps that double.  The published
    adjustment, which goes down by one, needs a first rank that serves: where the leading
    directions hold most of the variance.
    """
    if adjust == "published":
        share = np.cumsum(secants.spread) / max(float(secants.spread.sum()), 1e-300)
        return int(np.searchsorted(share, min(1.0 - 0.1 * delta, 1.0 - 1e-12)) + 1)
    _, points = secants.sample(200)
    points = points - points.mean(axis=0)
    upper = np.triu_indices(len(points), 1)
    lengths, good = _lengths(points)
    if not good.any():
        return 1
    mapped = np.zeros(int(good.sum()))
    for rank, direction in enumerate(secants.directions, start=1):
        at = points @ direction
        mapped += ((at[:, None] - at)[upper][good]) ** 2
        ratio = mapped / lengths[good]
        if ratio.max() - ratio.min() <= 2.0 * delta * (ratio.max() + ratio.min()):
            return rank
    return len(secants.directions)


def secant_moments(secants: SecantSet) -> np.ndarray:
    """Mean of ``(q^T v)^2`` over sampled unit secants v, for each principal direction q."""
    _, points = secants.sample(400)
    steps = [o for o in (1, 2, 3, 5) if o < len(points)]
    differences = np.concatenate([points[o:] - points[:-o] for o in steps])
    lengths = np.einsum("ij,ij->i", differences, differences)
    good = lengths > 0.0
    if not good.any():
        return np.ones(len(secants.directions))
    parts = differences[good] @ secants.directions.T
    return np.asarray((parts**2 / lengths[good, None]).mean(axis=0))


def sampled_ratios(points: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """``||Psi v||^2`` of the secants among some points."""
    points = points - points.mean(axis=0)
    lengths, good = _lengths(points)
    mapped, _ = _lengths(points @ psi.T)
    return np.asarray(mapped[good] / lengths[good])


def _lengths(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared lengths of the secants, and which are longer than the rounding of their ends."""
    size = np.einsum("ij,ij->i", rows, rows)
    upper = np.triu_indices(len(rows), 1)
    both = (size[:, None] + size)[upper]
    lengths = np.maximum(both - 2.0 * (rows @ rows.T)[upper], 0.0)
    return lengths, lengths > 1e-12 * both

"""Maps to start from: what rank to try first, and maps of another rank near a given one."""

from __future__ import annotations

import numpy as np

from thalweg.parallel.pairs import SecantSet


def truncated(psi: np.ndarray, rank: int) -> np.ndarray:
    """``Gamma^(1/2) U^T`` from the leading eigenpairs of ``Psi^T Psi`` (eq. 2.9)."""
    _, values, vectors = np.linalg.svd(psi, full_matrices=False)
    return np.asarray(values[:rank, None] * vectors[:rank])


def extended(psi: np.ndarray, rank: int, directions: np.ndarray, seed: int) -> np.ndarray:
    """``psi`` with more rows: the directions, most important first, that it does not see."""
    rest = directions - directions @ np.linalg.pinv(psi) @ psi if len(psi) else directions
    norms = np.linalg.norm(rest, axis=1)
    some = np.flatnonzero(norms > 0.5)[: rank - len(psi)]
    added = rest[some] / norms[some, None]
    if len(psi) + len(added) < rank:  # fewer directions than rows: any will do
        random = np.random.default_rng(seed)
        more = rank - len(psi) - len(added)
        noise = random.standard_normal((more, psi.shape[1])) * 1e-3
        added = np.concatenate([added, noise])
    return np.concatenate([psi, added])


def guessed_rank(secants: SecantSet, delta: float, adjust: str) -> int:
    """Rank at which the leading directions hold most of the variance that delta asks for."""
    share = np.cumsum(secants.spread) / max(float(secants.spread.sum()), 1e-300)
    wanted = 1.0 - (0.25 if adjust == "bracket" else 0.1) * delta
    return int(np.searchsorted(share, min(wanted, 1.0 - 1e-12)) + 1)


def sampled_ratios(points: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """``||Psi v||^2`` of the secants among some points."""
    points = points - points.mean(axis=0)
    images = points @ psi.T
    upper = np.triu_indices(len(points), 1)
    lengths, mapped = (_squared(rows)[upper] for rows in (points, images))
    good = lengths > 1e-9 * max(float(lengths.max(initial=0.0)), 1e-300)
    return np.asarray(mapped[good] / lengths[good])


def _squared(rows: np.ndarray) -> np.ndarray:
    size = np.einsum("ij,ij->i", rows, rows)
    return np.maximum(size[:, None] + size - 2.0 * rows @ rows.T, 0.0)

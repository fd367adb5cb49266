"""What compressions of vectors do to all pairs, and what a sample of pairs shows of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.isometry.sets import large_set
from sklearn.cluster import MiniBatchKMeans

from thalweg_isometry import certify

#: Rows of a set; pairs of a sample, columns of reduced vectors, bytes of a product code.
ROWS, SAMPLED, COLUMNS, PARTS = 60_000, 1_000_000, 64, 16


def compressed(points: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Names of compressions, and the rows that they leave."""
    random, (n, d) = np.random.default_rng(0), points.shape
    center = points.mean(axis=0)
    low, high = points.min(axis=0), points.max(axis=0)
    step = np.where(high > low, high - low, 1.0) / 255.0
    yield "8 bits a column", (np.rint((points - low) / step) * step + low).astype(np.float32)
    side = points > center
    means = [(points * s).sum(axis=0) / np.maximum(s.sum(axis=0), 1) for s in (side, ~side)]
    yield "1 bit a column", np.where(side, *means).astype(np.float32)
    columns = min(COLUMNS, d // 2)
    yield f"first {columns} columns", points[:, :columns]
    yield f"product codes of {PARTS} bytes", product_quantized(points, PARTS)
    directions = np.linalg.svd(points[:: max(1, n // 4000)] - center, full_matrices=False)[2]
    yield f"{columns} principal components", (points - center) @ directions[:columns].T
    gaussian = random.standard_normal((d, columns)) / np.sqrt(columns)
    yield f"random projection to {columns}", points @ gaussian


def product_quantized(points: np.ndarray, parts: int) -> np.ndarray:
    """Rows decoded from codes of one byte for each part of the columns; FAISS's if it is there."""
    parts = max(k for k in range(1, parts + 1) if points.shape[1] % k == 0)
    points = np.ascontiguousarray(points, dtype=np.float32)
    try:
        import faiss
    except ImportError:
        pieces = []
        for piece in np.split(points, parts, axis=1):
            means = MiniBatchKMeans(256, random_state=0, n_init=1).fit(piece)
            pieces.append(means.cluster_centers_[means.labels_])
        return np.concatenate(pieces, axis=1).astype(np.float32)
    quantizer = faiss.ProductQuantizer(points.shape[1], parts, 8)
    quantizer.train(points)
    return np.asarray(quantizer.decode(quantizer.compute_codes(points)))


def sampled(points: np.ndarray, vectors: np.ndarray) -> float:
    """Largest relative change of a squared distance among random pairs."""
    random, worst = np.random.default_rng(1), 0.0
    for _ in range(100):
        i, j = random.integers(0, len(points), (2, SAMPLED // 100))
        before, after = (
            ((rows[i].astype(float) - rows[j]) ** 2).sum(axis=1) for rows in (points, vectors)
        )
        some = before > 0
        worst = max(worst, float(np.abs(after[some] / before[some] - 1.0).max()))
    return worst


def compressions(
    before: list[dict[str, Any]], sets: list[str], folder: Path | None, rows: int, seconds: float
) -> Iterator[list[dict[str, Any]]]:
    """Certificates of each compression of each set, within so many seconds a set."""
    done = [row for row in before if row["set"] not in sets]
    for name in sets:
        points = np.ascontiguousarray(large_set(folder, name, rows), dtype=np.float32)
        began = time.perf_counter()
        for what, vectors in compressed(points):
            if time.perf_counter() - began > seconds:
                break
            start = time.process_time()
            found = certify(points, vectors)
            middle = time.process_time()
            near = certify(points, vectors, quantity="neighbors")
            done.append(
                {
                    **{"set": name, "rows": len(points), "columns": points.shape[1]},
                    **{"compression": what, "delta": found.delta, "pair": found.pair},
                    "quantiles": [list(row) for row in found.quantiles],
                    "sampled": sampled(points, vectors),
                    "cpu_seconds": middle - start,
                    "candidates": near.delta,
                    "candidate_quantiles": [list(row) for row in near.quantiles],
                    "neighbor_cpu_seconds": time.process_time() - middle,
                }
            )
            yield done

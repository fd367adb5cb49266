"""Table 7.3 and Figure 7.4: nearest neighbours after the embedding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.isometry.run import measure, reached, without_map
from hpc.bench.isometry.sets import classified, gist
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

#: Published: delta -> rank, errors of NuMax and FroMax, hours of each (Table 7.3).
TABLE_3 = {
    0.4: (72, 0.0309, 0.0300, 0.926, 0.411),
    0.25: (98, 0.0315, 0.0326, 1.273, 0.811),
    0.1: (167, 0.0331, 0.0342, 2.664, 1.358),
}


def table_3(folder: Path | None, quick: bool, seconds: float) -> dict[str, Any]:
    """One-nearest-neighbour error of images, in full and embedded."""
    rows, tests = (3000, 1000) if quick else (60_000, 10_000)
    train, labels, test, truth, data = classified(folder, rows, tests)
    scale = float(train.max())
    train, test = (np.asarray(a, dtype=np.float32) / np.float32(scale) for a in (train, test))

    def error(psi: np.ndarray | None) -> float:
        a, b = (train, test) if psi is None else (train @ psi.T, test @ psi.T)
        model = KNeighborsClassifier(1, algorithm="brute").fit(a, labels)
        guesses = np.concatenate([model.predict(part) for part in np.array_split(b, 20)])
        return float(np.mean(guesses != truth))

    found: dict[str, Any] = {"data": data, "points": len(train), "unprojected": error(None)}
    found["rows"] = []
    for delta, (rank, numax, fromax, *hours) in TABLE_3.items():
        if quick and delta == 0.1:
            continue
        # At the published rank, then with the rank free.
        for wanted in (min(rank, train.shape[1] - 1), None):
            one = measure(train, "hinge-lbfgs", delta, wanted, seconds)
            found["rows"].append(
                {
                    **without_map(one),
                    "reached": reached(one),
                    "error": error(one["components"]),
                    "published": {"rank": rank, "numax": numax, "fromax": fromax, "hours": hours},
                }
            )
    return found


def figure_4(folder: Path | None, quick: bool, seconds: float) -> dict[str, Any]:
    """Share of the 10 nearest neighbours of queries that survive, against the rank."""
    points, queries, data = gist(folder, 1000 if quick else 4000)
    before = NearestNeighbors(n_neighbors=10).fit(points).kneighbors(queries)[1]
    rows = []
    methods = ("hinge-lbfgs", "secant-pca", "random-projection")
    for rank in (10, 20, 40) if quick else (5, 10, 15, 20, 30, 40, 55, 70):
        for solver in methods if quick else (*methods, "nile-pro"):
            options = {"precision": 0.1} | ({"limit": 300} if solver == "nile-pro" else {})
            found = measure(points, solver, None, rank, seconds, **options)
            psi = found["components"]
            index = NearestNeighbors(n_neighbors=10).fit(points @ psi.T)
            after = index.kneighbors(queries @ psi.T)[1]
            kept = [len(np.intersect1d(a, b)) / 10 for a, b in zip(before, after, strict=True)]
            rows.append({**without_map(found), "kept": float(np.mean(kept))})
    return {"data": data, "points": len(points), "queries": len(queries), "rows": rows}

"""Other programs on data with several true clusterings.

NrKmeans, AutoNR and both orthogonal methods of ClustPy, and k-means and spectral
clustering of scikit-learn, which find one labeling, beside KDAC.  Sets: those that ClustPy
ships (fruit, stickfigures, aloi_small, nrLetters), and this project's.
"""

from __future__ import annotations

import importlib.util
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from thalweg_clustering import KDAC, compare_labelings
from thalweg_clustering.agreement import normalized_mutual_information

from .sets import authors_problems, four_groups

#: Rows of a set, evenly spread if there are more.
ROWS = 900

#: Seconds from which on a program is not run again for its memory.
LONG = 20.0

Labelings = list[np.ndarray]


def measure_rivals(
    folder: Path | None, seconds: float, only: tuple[str, ...] = ()
) -> Iterator[list[dict[str, Any]]]:
    """One row per program, set by set; a program is not begun after ``seconds`` on another set.

    Parameters
    ----------
    only
        First letters of the sets that are wanted; all by default.
    """
    slow: set[str] = set()
    for name, points, views in _sets(folder):
        if only and not name.startswith(only):
            continue
        rows: list[dict[str, Any]] = []
        for program, run in _programs([len(np.unique(view)) for view in views]).items():
            row = {
                "set": name,
                "program": program,
                "rows": len(points),
                "features": points.shape[1],
            }
            if program in slow:
                rows.append({**row, "error": f"not run: took more than {seconds:g} s before"})
                continue
            try:
                measured = _measured(run, points, views)
            except Exception as error:  # a rival may fail in any way; the row says how
                rows.append({**row, "error": f"failed: {type(error).__name__}: {error}"[:120]})
                continue
            if measured["seconds"] > seconds:
                slow.add(program)
            rows.append({**row, **measured})
        yield rows


def _measured(
    run: Callable[[np.ndarray, Labelings], Labelings], points: np.ndarray, views: Labelings
) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        found = run(points, views)
        spent = time.perf_counter() - began
        peak = _peak(lambda: run(points, views)) if spent < LONG else None
    table = [[normalized_mutual_information(view, labels) for labels in found] for view in views]
    pairs = [normalized_mutual_information(a, b) for a, b in combinations(found, 2)]
    return {
        "labelings": len(found),
        "nmi": [max(line) for line in table],
        "overlap": max(pairs, default=0.0),
        "confusion": compare_labelings(views, found)["best"],
        "seconds": spent,
        "mebibytes": peak,
    }


def _peak(call: Callable[[], Any]) -> float:
    """Peak of what a call allocates, MiB; it takes several times as long."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _programs(clusters: list[int]) -> dict[str, Callable[[np.ndarray, Labelings], Labelings]]:
    """Programs that turn rows and true views into labelings; the first one looks at a view."""
    from sklearn.cluster import KMeans, SpectralClustering

    def in_turn(points: np.ndarray, found: Labelings) -> Labelings:
        for count in clusters[len(found) :]:
            task = "alternative" if found else "unsupervised"
            model = KDAC(count, task=task, tuning="score", random_state=0)
            known = np.stack(found, axis=1) if found else None
            found = [*found, model.fit(points, known).labels_]
        return found

    def columns(labels: np.ndarray) -> Labelings:
        labels = np.asarray(labels)
        return [labels] if labels.ndim == 1 else list(labels.T)

    def rival(name: str) -> Callable[[np.ndarray, Labelings], Labelings]:
        def run(points: np.ndarray, views: Labelings) -> Labelings:
            from clustpy import alternative

            kind = getattr(alternative, name)
            if name == "AutoNR":
                return columns(kind(nrkmeans_repetitions=5, random_state=0).fit(points).labels_)
            extra = {"n_init": 10} if name == "NrKmeans" else {}
            return columns(kind(clusters, random_state=0, **extra).fit(points).labels_)

        return run

    def single(kind: Any) -> Callable[[np.ndarray, Labelings], Labelings]:
        return lambda points, views: [kind.fit(points).labels_]

    return {
        "KDAC, first view given": lambda points, views: in_turn(points, views[:1]),
        "KDAC, nothing given": lambda points, views: in_turn(points, []),
        "NrKmeans": rival("NrKmeans"),
        "AutoNR": rival("AutoNR"),
        "Orth1 (Cui et al.)": rival("OrthogonalClustering"),
        "Orth2 (Cui et al.)": rival("ClusteringInOrthogonalSpaces"),
        "k-means (scikit-learn)": single(KMeans(clusters[-1], n_init=10, random_state=0)),
        "spectral (scikit-learn)": single(
            SpectralClustering(clusters[-1], affinity="nearest_neighbors", random_state=0)
        ),
    }


def _sets(folder: Path | None) -> list[tuple[str, np.ndarray, Labelings]]:
    found = [four_groups()]
    if folder is not None:
        for problem in authors_problems(folder):
            if problem.truth is not None and problem.name.partition(" ")[0] in ("Moon", "MoonN"):
                found.append((problem.name, problem.points, [problem.given, problem.truth]))
            if problem.name == "Faces (pose given, k = 20)":
                found.append(("Faces", problem.points, [problem.given, problem.truth]))
    package = importlib.util.find_spec("clustpy")
    if package is None or package.origin is None:
        return found
    for name, count in (("fruit", 2), ("stickfigures", 2), ("aloi_small", 2), ("nrLetters", 3)):
        # As the package reads them; importing its readers would need torch.
        file = Path(package.origin).parent / "data" / "datasets" / f"{name}.data"
        held = np.genfromtxt(file, delimiter=",")
        points, labels = held[:, count:], held[:, :count].astype(int)
        chosen = np.unique(np.linspace(0, len(points) - 1, min(ROWS, len(points))).astype(int))
        points, labels = points[chosen], labels[chosen]
        points = points[:, points.std(axis=0) > 0]
        points = (points - points.mean(axis=0)) / points.std(axis=0)
        if points.shape[1] > 30:  # as for the faces: principal components of 90 % of the variance
            u, values, _ = np.linalg.svd(points, full_matrices=False)
            share = np.cumsum(values**2) / (values**2).sum()
            kept = int(np.searchsorted(share, 0.9)) + 1
            points = u[:, :kept] * values[:kept]
        found.append((f"{name} (ClustPy)", points, list(labels.T)))
    return found

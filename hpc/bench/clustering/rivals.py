"""Other programs on data with several true clusterings.

Nr-Kmeans, AutoNR and both orthogonal methods of ClustPy, and k-means and spectral
clustering of scikit-learn, which find one labeling, beside KDAC, each with its defaults.
Sets: those that ClustPy ships (fruit, stickfigures, aloi_small, nrLetters), the authors'
(moons, faces, WebKB), and generated designs on which no default was chosen.
"""

from __future__ import annotations

import contextlib
import importlib.util
import signal
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

from .designs import UNSEEN, design
from .sets import authors_problems, four_groups

#: Rows of a set, evenly spread if there are more.
ROWS = 2000

#: Generated designs.
DESIGNS = 10

#: Sets of the authors with both labelings, and what they are called here.
AUTHORS = {
    "Moon": "Moon",
    "MoonN": "MoonN",
    "Faces (pose given, k = 20)": "Faces",
    "WebKB (university given, paper's parameters)": "WebKB",
}

#: Seconds from which on a program is not run again for its memory.
LONG = 5.0

Labelings = list[np.ndarray]


def measure_rivals(
    folder: Path | None, seconds: float, only: tuple[str, ...] = ()
) -> Iterator[list[dict[str, Any]]]:
    """One row per program, set by set; each may take ``seconds`` of a processor on a set.

    Parameters
    ----------
    only
        First letters of the sets that are wanted; all by default.
    """
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
            try:
                with _limited(seconds):
                    measured = _measured(run, points, views)
            except Exception as error:  # a rival may fail in any way; the row says how
                rows.append({**row, "error": f"failed: {type(error).__name__}: {error}"[:120]})
                continue
            rows.append({**row, **measured})
        yield rows


def _measured(
    run: Callable[[np.ndarray, Labelings], Labelings], points: np.ndarray, views: Labelings
) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began, processor = time.perf_counter(), time.process_time()
        found = run(points, views)
        spent = time.perf_counter() - began
        processor = time.process_time() - processor
        peak = _peak(lambda: run(points, views)) if spent < LONG else None
    table = [[normalized_mutual_information(view, labels) for labels in found] for view in views]
    pairs = [normalized_mutual_information(a, b) for a, b in combinations(found, 2)]
    return {
        "labelings": len(found),
        "nmi": [max(line) for line in table],
        "overlap": max(pairs, default=0.0),
        "confusion": compare_labelings(views, found)["best"],
        "seconds": spent,
        "cpu": processor,
        "mebibytes": peak,
    }


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Seconds of a processor after which what runs inside ends in a TimeoutError."""

    def end(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds:g} CPU s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


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

    def told(points: np.ndarray, found: Labelings) -> Labelings:
        """One labeling after another, each with its true number of clusters."""
        for count in clusters[len(found) :]:
            task = "alternative" if found else "unsupervised"
            known = np.stack(found, axis=1) if found else None
            model = KDAC(count, task=task, random_state=0).fit(points, known)
            found = [*found, model.labels_]
        return found

    def searched(points: np.ndarray, given: np.ndarray | None) -> Labelings:
        """What one call with nothing but the number of views finds."""
        wanted = len(clusters) - (given is not None)
        task = "unsupervised" if given is None else "alternative"
        model = KDAC(n_alternatives=wanted, task=task, random_state=0).fit(points, given)
        first = [] if given is None else [given]
        return [*first, *(alternative.labels for alternative in model.alternatives_)]

    def columns(labels: np.ndarray) -> Labelings:
        labels = np.asarray(labels)
        return [labels] if labels.ndim == 1 else list(labels.T)

    def rival(name: str, *options: Any) -> Callable[[np.ndarray, Labelings], Labelings]:
        def run(points: np.ndarray, views: Labelings) -> Labelings:
            from clustpy import alternative

            model = getattr(alternative, name)(*options, random_state=0)
            return columns(model.fit(points).labels_)

        return run

    def single(kind: Any) -> Callable[[np.ndarray, Labelings], Labelings]:
        return lambda points, views: [kind.fit(points).labels_]

    return {
        "KDAC, first view given": lambda points, views: searched(points, views[0]),
        "KDAC, nothing told": lambda points, views: searched(points, None),
        "AutoNR": rival("AutoNR"),
        "KDAC, numbers told": lambda points, views: told(points, []),
        "Nr-Kmeans": rival("NrKmeans", clusters),
        "Nr-Kmeans, space of noise": rival("NrKmeans", [*clusters, 1]),
        "Orth1 (Cui et al.)": rival("OrthogonalClustering", clusters),
        "Orth2 (Cui et al.)": rival("ClusteringInOrthogonalSpaces", clusters),
        "k-means (scikit-learn)": single(KMeans(clusters[-1], n_init=10, random_state=0)),
        "spectral (scikit-learn)": single(
            SpectralClustering(clusters[-1], affinity="nearest_neighbors", random_state=0)
        ),
    }


def _sets(folder: Path | None) -> Iterator[tuple[str, np.ndarray, Labelings]]:
    yield four_groups()
    for problem in authors_problems(folder) if folder is not None else ():
        if problem.name in AUTHORS and problem.truth is not None:
            labels = [np.asarray(problem.given), np.asarray(problem.truth)]
            yield AUTHORS[problem.name], *_prepared(problem.points, labels)
    for seed in range(UNSEEN, UNSEEN + DESIGNS):
        one = design(seed)
        yield f"design {seed}", *_prepared(one.points, one.views)
    package = importlib.util.find_spec("clustpy")
    if package is not None and package.origin is not None:
        for name, count in (("fruit", 2), ("stickfigures", 2), ("aloi_small", 2), ("nrLetters", 3)):
            # As the package reads them; importing its readers would need torch.
            file = Path(package.origin).parent / "data" / "datasets" / f"{name}.data"
            held = np.genfromtxt(file, delimiter=",")
            labels = list(held[:, :count].astype(int).T)
            yield f"{name} (ClustPy)", *_prepared(held[:, count:], labels)


def _prepared(points: np.ndarray, views: Labelings) -> tuple[np.ndarray, Labelings]:
    """At most so many rows, standardized; of many columns the main components, as of the faces."""
    chosen = np.unique(np.linspace(0, len(points) - 1, min(ROWS, len(points))).astype(int))
    points = points[chosen]
    points = points[:, points.std(axis=0) > 0]
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    if points.shape[1] > 30:  # components of 90 % of the variance
        u, values, _ = np.linalg.svd(points, full_matrices=False)
        share = np.cumsum(values**2) / (values**2).sum()
        kept = int(np.searchsorted(share, 0.9)) + 1
        points = u[:, :kept] * values[:kept]
    return points, [view[chosen] for view in views]

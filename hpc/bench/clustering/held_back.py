"""Labels of rows held back, against a fit of all rows; and three splits of one set, in turn."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from thalweg_clustering import KDAC
from thalweg_clustering.agreement import normalized_mutual_information

from .sets import Problem, authors_problems, four_groups, generated_problems

#: Rows of the set of three splits, shares of rows that are held back, and draws of each.
ROWS, SHARES, DRAWS = 3000, (0.5, 0.3, 0.2, 0.1), 5


def measure_held_back(folder: Path | None) -> list[dict[str, Any]]:
    """One row per set of the paper and share: the median of five draws."""
    problems = authors_problems(folder) if folder is not None else generated_problems()
    kept = [p for p in problems if p.truth is not None and p.sigma > 0 and "k = 4" not in p.name
            and not p.name.startswith("WebKB")]  # fmt: skip
    return [_held_back(problem, share) for problem in kept for share in SHARES]


def _held_back(problem: Problem, share: float) -> dict[str, Any]:
    count = len(problem.points)
    labels = _fitted(problem, np.arange(count)).labels_
    found = []
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(count)
        new, old = np.split(order, [int(share * count)])
        part = _fitted(problem, np.sort(old))
        predicted = part.predict(problem.points[new])
        assert problem.truth is not None
        found.append(
            (
                normalized_mutual_information(predicted, labels[new]),
                normalized_mutual_information(part.labels_, labels[np.sort(old)]),
                normalized_mutual_information(predicted, problem.truth[new]),
                normalized_mutual_information(labels[new], problem.truth[new]),
            )
        )
    names = ("predicted", "refitted", "truth_predicted", "truth_refitted")
    medians = np.median(found, axis=0).tolist()
    return {"set": problem.name, "share": share, **dict(zip(names, medians, strict=True))}


def _fitted(problem: Problem, rows: np.ndarray) -> KDAC:
    model = KDAC(
        problem.clusters, problem.components, sigma=problem.sigma, lambda_=problem.penalty,
        random_state=0,
    )  # fmt: skip
    return model.fit(problem.points[rows], problem.given[rows])


def measure_splits() -> dict[str, Any]:
    """All alternatives of the set of three splits, from each of them."""
    _, points, views = four_groups(ROWS)
    rows = []
    for given, view in enumerate(views):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = KDAC(n_components=1, n_alternatives=5, sigma=1.5, random_state=0)
            model.fit(points, view)
        table = [
            [normalized_mutual_information(alternative.labels, other) for other in views]
            for alternative in model.alternatives_
        ]
        rows.append(
            {
                "given": given,
                "nmi": table,
                "reason": model.stop_reason_,
                "seconds": time.process_time() - began,
            }
        )
    return {"rows": ROWS, "runs": rows}

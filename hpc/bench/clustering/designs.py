"""Generated designs of several views, and data without any, for methods with their defaults.

A design has two to four views, each a subspace in which the rows form two to five clusters,
independent of those of the other views, and columns of noise.  Seeds below :data:`UNSEEN` are for
choosing defaults; those from there on are for judging them, once.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg_clustering import KDAC, compare_labelings

#: First seed of the designs that no default was chosen on.
UNSEEN = 1000

#: Normalized mutual information from which on an alternative counts as a view.
AGREEMENT = 0.8

#: Alternatives that are asked for beyond the views, and of data without views: of one alone,
#: KDAC does not say whether it counts.
FURTHER, NONE = 1, 2

SIZES = (400, 600, 1000, 1500, 3000, 3000, 6000, 20000)


@dataclass(frozen=True)
class Design:
    """Rows, the labelings that they show, and what distinguishes the design."""

    seed: int
    points: np.ndarray
    views: list[np.ndarray]
    given: np.ndarray
    facts: dict[str, Any]


def design(seed: int) -> Design:
    """Views in subspaces of their own, columns of noise, all in scales from 1 to ``scale``."""
    stream = np.random.default_rng(seed)
    rows = int(stream.choice(SIZES))
    count, noise = int(stream.integers(2, 5)), int(stream.choice([0, 2, 5, 10, 20]))
    equal = bool(stream.integers(2))  # whether every view has as many clusters
    unbalanced, rotated = bool(stream.integers(2)), bool(stream.random() < 0.25)
    scale, shape = float(stream.choice([1.0, 10.0, 100.0])), str(stream.choice(["normal", "ball"]))
    clusters = stream.integers(2, 6, count)
    if equal:
        clusters[:] = clusters[0]
    parts, views = [], []
    for k in clusters:
        labels = _labels(stream, rows, int(k), unbalanced)
        parts.append(_view(stream, labels, shape))
        views.append(labels)
    wide = stream.uniform(0.5, 3.0, noise)
    parts.append(wide * stream.standard_normal((rows, noise)))
    points = np.concatenate(parts, axis=1)
    if rotated:
        points = points @ np.linalg.qr(stream.standard_normal((points.shape[1],) * 2))[0]
    points = points * scale ** stream.random(points.shape[1])
    facts = {
        "rows": rows, "features": points.shape[1], "clusters": clusters.tolist(), "noise": noise,
        "scale": scale, "unbalanced": unbalanced, "rotated": rotated, "shape": shape,
    }  # fmt: skip
    return Design(seed, points + stream.normal(0, 100, points.shape[1]), views, views[0], facts)


def _labels(stream: np.random.Generator, rows: int, k: int, unbalanced: bool) -> np.ndarray:
    shares = stream.uniform(1, 5, k) if unbalanced else np.ones(k)
    return stream.choice(k, rows, p=shares / shares.sum())


def _view(stream: np.random.Generator, labels: np.ndarray, shape: str) -> np.ndarray:
    """Clusters of deviation about 1 along each axis, the nearest 5.5 to 8 apart."""
    k = int(labels.max()) + 1
    dimension = int(stream.integers(1 if k <= 3 else 2, 4))
    for _ in range(1000):
        centers = stream.standard_normal((k, dimension))
        apart = np.linalg.norm(centers[:, None] - centers, axis=2)[np.triu_indices(k, 1)]
        if apart.min() > 0.3 * apart.max():
            break
    centers *= stream.uniform(5.5, 8.0) / apart.min()
    rows = stream.standard_normal((len(labels), dimension))
    if shape == "ball":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows *= np.sqrt(dimension + 2) * stream.random((len(rows), 1)) ** (1 / dimension)
    return centers[labels] + rows


def structureless(seed: int) -> Design:
    """Rows of one cloud, or of the given clusters alone, with nothing else to find."""
    stream = np.random.default_rng(seed)
    rows = int(stream.choice(SIZES[:-1]))
    columns, kind = int(stream.integers(2, 25)), seed % 6
    names = ("normal", "correlated", "uniform", "skewed", "heavy tails", "given view alone")
    k = int(stream.integers(2, 6))
    given = _labels(stream, rows, k, bool(stream.integers(2)))
    normal = stream.standard_normal((rows, columns))
    points = {
        0: lambda: normal,
        1: lambda: normal @ stream.standard_normal((columns, columns)),
        2: lambda: stream.uniform(-1, 1, (rows, columns)),
        3: lambda: stream.exponential(size=(rows, columns)),
        4: lambda: stream.standard_t(5, (rows, columns)),
        5: lambda: np.concatenate([_view(stream, given, "normal"), normal], axis=1),
    }[kind]()
    facts = {"rows": rows, "features": points.shape[1], "clusters": [k], "shape": names[kind]}
    return Design(seed, points, [], given, facts)


Method = Callable[[Design, int], list[np.ndarray]]


def by_kdac(design: Design, wanted: int, **parameters: Any) -> list[np.ndarray]:
    """Alternatives to the labeling given, by the defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KDAC(n_alternatives=wanted, random_state=0, **parameters)
        model.fit(design.points, design.given)
    refused = model.alternatives_[0].objection(model.max_overlap) != ""
    return [] if refused else [alternative.labels for alternative in model.alternatives_]


def judged(design: Design, method: Method) -> dict[str, Any]:
    """How many views a method finds, what else it finds, and seconds."""
    others = design.views[1:]
    began, cpu = time.perf_counter(), time.process_time()
    labelings = method(design, len(others) + FURTHER if others else NONE)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    table = (
        compare_labelings(others, labelings)["table"] if others else np.zeros((0, len(labelings)))
    )
    best = table.max(axis=1, initial=0.0)
    false = int((table.max(axis=0, initial=0.0) < AGREEMENT).sum())
    return {
        "seed": design.seed, **design.facts, "asked": len(others), "nmi": best.tolist(),
        "found": int((best >= AGREEMENT).sum()), "false": false, "seconds": seconds, "cpu": cpu,
    }  # fmt: skip


def by_nrkmeans(design: Design, wanted: int) -> list[np.ndarray]:
    """ClustPy's Nr-Kmeans with its defaults, which is told the number of clusters of every view."""
    from clustpy.alternative import NrKmeans

    clusters = [len(np.unique(view)) for view in design.views] or [2] * wanted
    labels = np.asarray(NrKmeans([*clusters, 1], random_state=0).fit(design.points).labels_)
    return list(labels.reshape(len(labels), -1).T)


def measure_designs(
    unseen: bool, count: int, nulls: int, most_rows: int
) -> Iterator[dict[str, Any]]:
    """A row for each design and program, then for each set without structure."""
    first = UNSEEN if unseen else 0
    methods: dict[str, Method] = {"KDAC": by_kdac}
    if importlib.util.find_spec("clustpy") is not None:
        methods["Nr-Kmeans"] = by_nrkmeans
    for make, number in ((design, count), (structureless, nulls)):
        for seed in range(first, first + number):
            one = make(seed)
            for program, method in methods.items():
                if len(one.points) <= most_rows and (one.views or program == "KDAC"):
                    yield {"program": program, "unseen": unseen, **judged(one, method)}


def designs_section(rows: list[dict[str, Any]]) -> list[str]:
    """Counts of views found, and every design."""
    text = [
        "## Designs that nobody tuned for",
        "",
        "Generated sets of two to four views, two to five clusters each, columns of noise, scales "
        "from 1 to 1, 10 or 100; `KDAC(n_alternatives=...)` with its defaults is given the first "
        "view and asked for one more than there are. A view is found where the NMI is "
        f"{AGREEMENT} or more. Nr-Kmeans (ClustPy) is told all numbers of clusters. Other programs "
        "ran beside most rows: CPU seconds count.",
        "",
    ]
    for program in sorted({row["program"] for row in rows}):
        own = [row for row in rows if row["program"] == program and row["asked"]]
        nulls = [row for row in rows if row["program"] == program and not row["asked"]]
        whole = sum(row["found"] == row["asked"] for row in own)
        views = sum(row["found"] for row in own), sum(row["asked"] for row in own)
        others = sum(row["false"] for row in own)
        line = f"- {program}: all views of {whole} of {len(own)} designs, "
        line += f"{views[0]} of {views[1]} views, {others} others"
        if nulls:
            wrong = sum(row["false"] > 0 for row in nulls)
            line += f"; something in {wrong} of {len(nulls)} sets without structure"
        text.append(line + ".")
    text += [
        "",
        "| seed | program | rows | features | clusters | noise | scale | unbalanced | rotated "
        "| found | others | s | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        marks = ["yes" if row.get(name) else "" for name in ("unbalanced", "rotated")]
        text.append(
            f"| {row['seed']} | {row['program']} | {row['rows']} | {row['features']} | "
            f"{row['clusters'] if row['asked'] else row['shape']} | {row.get('noise', '')} | "
            f"{row.get('scale', '')} | {' | '.join(marks)} | {row['found']} of {row['asked']} | "
            f"{row['false']} | {row['seconds']:.1f} | {row['cpu']:.1f} |"
        )
    return [*text, ""]

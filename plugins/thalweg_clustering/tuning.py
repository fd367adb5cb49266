"""Choice of the kernel's width, the weight of the novelty and the subspace's dimension."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from thalweg.numerics import unit_rows
from thalweg.parallel import on_root
from thalweg_clustering.prepared_data import median_distance
from thalweg_clustering.settings import Settings

#: Rows on which the search is made; chosen by hand.
SAMPLE = 1000

#: Widths in medians of the distance, and weights, of the coarse grid; chosen by hand.
WIDTHS = (0.1, 0.2, 0.35, 0.6, 1.0)
PENALTIES = (0.1, 1.0)

#: Ratio of neighbors in the refinement; chosen by hand.
FINER = 1.4


@dataclass(frozen=True)
class Candidate:
    """One cell of the search."""

    #: Width, weight lambda, and dimension q.
    sigma: float
    penalty: float
    components: int
    #: Tightness times balance times (1 - novelty), from 0 to 1; -1 where the run failed.
    score: float = -1.0
    quality: float = 0.0  # CQ
    condition: float = 0.0  # left over right side of condition (10): it holds from 1 on
    eigengap_components: int = 0  # q of the widest eigengap at the solution


def tune(settings: Settings, components: int | None, rule: str = "score") -> Candidate:
    """Choose sigma, lambda and, unless given, q by a rule, ``"score"`` or ``"cq"``.  Collective.

    Both (MATHEMATICS.md) walk over a coarse grid in units of the median distance, and once around
    its best cell; large data are searched on an evenly spread sample.  Where no cell satisfies
    condition (10), ``"cq"`` chooses among the tenth that comes closest.

    Where ``components`` is None, q is k, half, three quarters or all but one of the features.
    """
    sample = settings.on_sample(SAMPLE)
    sample.common["bound"] = rule == "cq"
    # Small enough that ranks would only wait for each other.
    return on_root(settings.layout.comm, lambda: _chosen(sample, components, rule))


def _best(tried: list[Candidate], rule: str) -> Candidate:
    if rule == "score":
        return max(tried, key=lambda cell: cell.score)
    allowed = [cell for cell in tried if cell.condition >= 1]
    if not allowed:
        allowed = sorted(tried, key=lambda cell: -cell.condition)[: max(1, len(tried) // 10)]
    return max(allowed, key=lambda cell: cell.quality)


def _chosen(sample: Settings, components: int | None, rule: str) -> Candidate:
    d, k = sample.points.shape[1], sample.clusters
    median = median_distance(sample.layout, sample.points)
    # A place to start when every cell fails: what the objective takes by default.
    blank = Candidate(0.5 * median, 1.0, components or min(k, d - 1))
    if components is not None:
        dimensions = [components]
    elif rule == "cq":
        dimensions = [min(k, d - 1)]
    else:
        dimensions = sorted({min(max(1, q), d - 1) for q in (k, d // 2, 3 * d // 4, d - 1)})
    penalties = PENALTIES if sample.common["task"] == "alternative" else (1.0,)
    cells = (
        replace(blank, sigma=width * median, penalty=penalty, components=q)
        for q, width, penalty in product(dimensions, WIDTHS, penalties)
    )
    tried = [blank, *(_evaluated(sample, cell) for cell in cells)]
    best = _best(tried, rule)
    around = ((FINER, 1.0), (1 / FINER, 1.0), (1.0, 1 / 3), (1.0, 3.0))
    for width, weight in around[: 4 if len(penalties) > 1 else 2]:
        cell = replace(best, sigma=best.sigma * width, penalty=best.penalty * weight)
        tried.append(_evaluated(sample, cell))
    best = _best(tried, rule)
    if rule == "cq" and components is None and best.condition < 1 and best.eigengap_components:
        best = replace(best, components=min(best.eigengap_components, d - 1))
    return best


def _evaluated(sample: Settings, cell: Candidate) -> Candidate:
    if sample.common["task"] == "alternative":
        sample.weight = -cell.penalty
    outcome = sample.solved(cell.sigma, cell.components)
    if outcome is None:
        return replace(cell, score=-1.0, condition=0.0, quality=0.0)
    measures = outcome["measures"]
    tightness, balance = tightness_and_balance(
        outcome["embedding"], outcome["labels"], sample.clusters
    )
    # Labels to reproduce are no fault.
    novelty = measures["novelty"] if sample.common["task"] == "alternative" else 0.0
    sides = measures["condition_10"]
    ratio = sides["left"] / sides["right"] if sides["right"] > 0 else 0.0
    return replace(
        cell, score=tightness * balance * (1.0 - novelty), quality=measures["cq"],
        condition=float(ratio), eigengap_components=measures["eigengap_components"],
    )  # fmt: skip


def tightness_and_balance(
    embedding: np.ndarray, labels: np.ndarray, clusters: int
) -> tuple[float, float]:
    """Share of the variance of U's unit rows that clusters explain, and entropy of their sizes."""
    unit = unit_rows(embedding)
    parts = [unit[labels == c] for c in range(clusters)]
    within = sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts if len(part))
    spread = float(((unit - unit.mean(axis=0)) ** 2).sum())
    tightness = 1.0 - within / spread if spread > 0 else 0.0
    shares = np.array([len(part) for part in parts if len(part)]) / len(unit)
    return tightness, float(-(shares * np.log(shares)).sum() / np.log(max(2, clusters)))

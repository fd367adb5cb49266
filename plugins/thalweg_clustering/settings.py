"""A KDAC problem that is known but for its kernel, and what is chosen on a sample of its rows."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

import thalweg
from thalweg.errors import InputError
from thalweg.numerics import unit_rows
from thalweg.parallel import MPI, Layout, on_root
from thalweg_clustering.exact_sums import StreamedKernel
from thalweg_clustering.ism import ISM
from thalweg_clustering.kdac import KDACObjective
from thalweg_clustering.kernels import KernelFunction
from thalweg_clustering.prepared_data import distributed_sample, evenly_spread, median_distance
from thalweg_clustering.projected_kernel import ProjectedKernel
from thalweg_clustering.stiefel_objectives import LinkSum


@dataclass
class Settings:
    """Settings that a run on all rows and one on a sample have in common."""

    layout: Layout
    points: np.ndarray
    labels: list[np.ndarray]
    weight: float
    clusters: int
    function: KernelFunction
    pairs: np.ndarray | None
    common: dict[str, Any]

    def objective(self, kernel: ProjectedKernel, components: int, **options: Any) -> KDACObjective:
        """The objective with these labels and links."""
        return KDACObjective(
            kernel, self.labels, self.weight, self.clusters, components,
            links=self._link_sum(kernel.sigma), **{**self.common, **options},
        )  # fmt: skip

    def on_sample(self, count: int, over_ranks: bool = False) -> "Settings":
        """The same of evenly spread rows, whole on every rank or over the ranks.  Collective."""
        if over_ranks:
            layout, chosen, (points, *labels) = distributed_sample(
                self.layout, count, self.points, *self.labels
            )
        else:
            chosen, points = evenly_spread(self.layout, self.points, count)
            labels = [evenly_spread(self.layout, part, count)[1] for part in self.labels]
            layout = Layout(MPI.COMM_SELF, *points.shape)
        for index, part in enumerate(labels):  # a label may be missing from the sample
            here = np.unique(part[part >= 0])
            names = np.unique(np.concatenate(layout.comm.allgather(here)))
            labels[index] = np.where(part >= 0, np.searchsorted(names, part), -1)
        pairs = None
        if self.pairs is not None:
            places = np.searchsorted(chosen, self.pairs[:, :2])
            sampled = chosen[np.minimum(places, len(chosen) - 1)] == self.pairs[:, :2]
            pairs = np.column_stack([places, self.pairs[:, 2]])[sampled.all(axis=1)]
        common = {**self.common, "bound": False, "curvature": False}
        return Settings(layout, points, labels, self.weight, self.clusters, self.function,
                         pairs, common)  # fmt: skip

    def solved(
        self, sigma: float, components: int, start: str | np.ndarray = "spectral"
    ) -> dict[str, Any] | None:
        """Outcome of a short run on one rank; None where it failed."""
        kernel = StreamedKernel(self.layout, self.points, sigma, self.function)
        try:
            objective = self.objective(kernel, components, start=start)
            result = thalweg.minimize(objective, solver=ISM(rounds=15), seed=self.common["seed"])
        except thalweg.ThalwegError:
            return None
        return objective.outcome(result.x)

    def _link_sum(self, sigma: float) -> LinkSum | None:
        pairs, layout = self.pairs, self.layout
        if pairs is None or not len(pairs):
            return None
        rows = linked_rows(pairs, layout.rows)
        named = np.unique(rows)
        ends, places = layout.gather_some(self.points, named), np.searchsorted(named, rows)
        # As large together as the rows of U, whatever their number.  The weight of an alternative
        # is that of labels to avoid, and negative.
        weight = 1.0 if self.common["task"] == "alternative" else self.weight
        weights = weight * pairs[:, 2] * self.clusters / len(pairs)
        return LinkSum(self.function, sigma, ends[places[:, 0]], ends[places[:, 1]], weights)


def linked_rows(pairs: np.ndarray, count: int) -> np.ndarray:
    """Numbers of the rows that links name, of so many, shape ``(m, 2)``; refused others."""
    if pairs.ndim != 2 or pairs.shape[1] != 3 or not np.isfinite(pairs).all():
        raise InputError("links must be lines of three numbers: row, row, weight")
    rows = pairs[:, :2].astype(int)
    if rows.min() < 0 or rows.max() >= count or (rows != pairs[:, :2]).any():
        raise InputError(f"links must name rows from 0 to {count - 1}")
    return rows


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
        closest = sorted(tried, key=lambda cell: -cell.condition)
        allowed = closest[: max(1, len(tried) // 10)]
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

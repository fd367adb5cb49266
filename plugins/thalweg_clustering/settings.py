"""A KDAC problem that is known but for its kernel, on all rows or on a sample of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg_clustering.exact_sums import StreamedKernel
from thalweg_clustering.ism import ISM
from thalweg_clustering.kdac import KDACObjective
from thalweg_clustering.kernels import KernelFunction
from thalweg_clustering.prepared_data import distributed_sample
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
            chosen = self.layout.spread(count)
            points = self.layout.gather_some(self.points, chosen)
            labels = [self.layout.gather_some(part, chosen) for part in self.labels]
            layout = Layout(MPI.COMM_SELF, *points.shape)
        for index, part in enumerate(labels):  # a label may be missing from the sample
            names = np.unique(np.concatenate(layout.comm.allgather(np.unique(part[part >= 0]))))
            labels[index] = np.where(part >= 0, np.searchsorted(names, part), -1)
        pairs = None
        if self.pairs is not None:
            places = np.searchsorted(chosen, self.pairs[:, :2])
            sampled = chosen[np.minimum(places, len(chosen) - 1)] == self.pairs[:, :2]
            pairs = np.column_stack([places, self.pairs[:, 2]])[sampled.all(axis=1)]
        sample = replace(self, layout=layout, points=points, labels=labels, pairs=pairs)
        return replace(sample, common={**self.common, "bound": False, "curvature": False})

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

"""Several alternatives in turn, each unlike all before, until nothing new is left.

Each run of KDAC is given all labelings found so far.  An alternative counts if it is new, its
normalized mutual information with every earlier labeling at most ``max_overlap``, and clustered:
the eigenvalue lambda_(k-1) of the centered, normalized kernel (at 1 for k components that do not
touch), or the eigengap lambda_(k-1) - lambda_k, exceeds those of all 39 reference sets, drawn
uniformly from the box of the principal axes of the same rows, as for the gap statistic of
Tibshirani, Walther and Hastie (2001).  Rows without clusters pass by chance with a probability of
at most 1/20; rows with clusters may fail where sigma is large for the gaps between them, as half
the median distance often is.  Along a line that is long for the kernel the eigenvalue alone is
large for any rows; in thin curved clusters the gap is small.  The first alternative that does not
count ends the search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import Layout, on_root
from thalweg_clustering.agreement import normalized_mutual_information
from thalweg_clustering.build import build_kdac
from thalweg_clustering.kdac import KDACObjective
from thalweg_clustering.kernels import KernelFunction, symmetric
from thalweg_clustering.prepared_data import evenly_spread

#: Rows of a comparison with reference sets, and the number of these.
REFERENCE_ROWS, REFERENCES = 400, 39


@dataclass(frozen=True)
class Alternative:
    """One labeling, and the subspace that shows it.

    Attributes
    ----------
    labels
        This rank's rows.
    components
        Transposed W of the active features, shape ``(q, d)``.
    measures
        Metrics as in ``result.json``: cost, CQ, novelty, condition (10) and others.
    overlaps
        Normalized mutual information with each labeling given, then each one found before.
    separation, reference
        lambda_(k-1) and the eigengap of the rows, and the largest of the reference sets.
    outcome
        U, degrees and spectrum; see :meth:`KDACObjective.outcome`.
    result
        Result of the run.
    objective
        The objective that was minimized; None in a pickled copy.
    """

    labels: np.ndarray
    components: np.ndarray
    measures: dict[str, Any]
    overlaps: tuple[float, ...]
    separation: tuple[float, float]
    reference: tuple[float, float]
    outcome: dict[str, Any]
    result: thalweg.Result
    objective: KDACObjective | None

    def __getstate__(self) -> dict[str, Any]:
        """All but the objective, which holds the ranks' communicator: None in a copy."""
        return {**self.__dict__, "objective": None}

    @property
    def novelty(self) -> float:
        """Largest overlap: 0 is best."""
        return max(self.overlaps, default=0.0)

    def objection(self, max_overlap: float) -> str:
        """Why it is not a further alternative, or an empty string."""
        if self.measures["degenerate"]:
            return f"the clustering is degenerate: {self.measures['degenerate_because']}"
        if self.novelty > max_overlap:
            return (
                f"the clusters repeat an earlier labeling (normalized mutual information "
                f"{self.novelty:.2f}, allowed {max_overlap:.2f})"
            )
        if all(own <= other for own, other in zip(self.separation, self.reference, strict=True)):
            (value, gap), (most, widest) = self.separation, self.reference
            return (
                "the alternative is no better separated, in the kernel of width sigma = "
                f"{self.measures['sigma']:.3g}, than rows without clusters would be (eigenvalue "
                f"{value:.4f}, reference {most:.4f}; eigengap {gap:.4f}, reference {widest:.4f}); "
                "a smaller sigma may show that it is"
            )
        return ""


@dataclass(frozen=True)
class Alternatives:
    """Alternatives found, and the reason why the search ended.

    Attributes
    ----------
    found
        The alternatives, in the order found.
    refused
        The one that ended the search, or None where as many as wanted were found.
    reason
        Why the search ended.
    """

    found: tuple[Alternative, ...]
    refused: Alternative | None
    reason: str


def find_alternatives(
    dataset: Dataset,
    labelings: Sequence[np.ndarray] = (),
    n_alternatives: int = 10,
    solver: Any = "ism",
    max_overlap: float = 0.2,
    starts: Sequence[np.ndarray | None] = (),
    stop: Mapping[str, Any] | None = None,
    **options: Any,
) -> Alternatives:
    """Alternatives to the labelings given, one after another.  Collective.

    Parameters
    ----------
    dataset
        The rows; its labels do not count.
    labelings
        Labelings given, each of this rank's or of all rows; none begins with the
        unsupervised task.
    n_alternatives
        Maximum number to find.
    solver
        Name or object of a solver on the Stiefel manifold.
    max_overlap
        Largest normalized mutual information with an earlier labeling.
    starts
        W to start each alternative from; None, or none, for the option ``init``.
    stop
        Stopping rules of each run, as :func:`thalweg.minimize` takes them.
    options
        See :func:`~thalweg_clustering.build.build_kdac`.
    """
    comm, seed = dataset.comm, options.get("seed", 0)
    known = list(labelings)
    alternatives: list[Alternative] = []
    while len(alternatives) < n_alternatives:
        start = starts[len(alternatives)] if len(alternatives) < len(starts) else None
        chosen = dict(options)
        if not known:
            chosen["task"] = "unsupervised"
        objective = build_kdac(dataset, comm, **chosen, labelings=known, start=start)
        alternative = solved(objective, solver, seed, **(stop or {}))
        objection = alternative.objection(max_overlap)
        if objection and n_alternatives > 1:
            return Alternatives(tuple(alternatives), alternative, objection)
        alternatives.append(alternative)
        known.append(alternative.labels)
    return Alternatives(
        tuple(alternatives), None, f"as many as n_alternatives allows: {n_alternatives}"
    )


def solved(objective: KDACObjective, solver: Any, seed: int = 0, **stop: Any) -> Alternative:
    """The alternative that one run finds.  Collective."""
    result = thalweg.minimize(objective, solver=solver, seed=seed, **stop)
    outcome = objective.outcome(result.x)
    overlaps = tuple(
        normalized_mutual_information(outcome["labels"], labels, objective.comm)
        for labels in (objective.labelings if objective.task == "alternative" else ())
    )
    projected = objective.kernel.points @ outcome["components"]
    separation, reference = compared_with_reference(
        objective.rows, projected / objective.kernel.sigma, objective.kernel.function,
        objective.clusters, seed,
    )  # fmt: skip
    return Alternative(
        outcome["labels"], outcome["components"].T, outcome["measures"], overlaps, separation,
        reference, outcome, result, objective,
    )  # fmt: skip


def compared_with_reference(
    layout: Layout, z: np.ndarray, function: KernelFunction, clusters: int, seed: int = 0
) -> tuple[tuple[float, float], tuple[float, float]]:
    """lambda_(k-1) and eigengap of evenly spread rows, and the largest of the reference sets.

    ``z``: this rank's projected rows in units of sigma, shape ``(n_local, q)``.  Collective.
    """
    sample = evenly_spread(layout, z, REFERENCE_ROWS)[1]

    def compared() -> tuple[tuple[float, float], tuple[float, float]]:
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2001,)))
        center = sample.mean(axis=0)
        axes = np.linalg.svd(sample - center, full_matrices=False)[2]
        turned = (sample - center) @ axes.T
        low, high = turned.min(axis=0), turned.max(axis=0)
        drawn = [stream.uniform(low, high, turned.shape) for _ in range(REFERENCES)]
        own, *others = [_separation(rows, function, clusters) for rows in (turned, *drawn)]
        return own, (max(value for value, _ in others), max(gap for _, gap in others))

    return on_root(layout.comm, compared)


def _separation(z: np.ndarray, function: KernelFunction, clusters: int) -> tuple[float, float]:
    """lambda_(k-1), and how far lambda_k is below; of the trace where nothing is normalized."""
    kernel = function.value(function.beta(z, z))
    if function.normalized:
        scale = 1.0 / np.sqrt(kernel.sum(axis=1))
        kernel = kernel * scale[:, None] * scale
    kernel = kernel - kernel.mean(axis=0)
    kernel = kernel - kernel.mean(axis=1)[:, None]
    index = len(kernel) - max(1, clusters - 1)
    # All of them: LAPACK does not find two alone where many are equal.
    values = np.linalg.eigvalsh(symmetric(kernel))[index - 1 : index + 1]
    if not function.normalized:
        values = values / max(float(np.trace(kernel)), 1e-300)
    return float(values[1]), float(values[1] - values[0])


def choose_clusters(
    dataset: Dataset, labelings: Sequence[np.ndarray], largest: int = 10, **options: Any
) -> int:
    """The number of clusters whose eigengap lambda_(k-1) - lambda_k of U is widest.

    A run on a sample for every k from 2 to ``largest``; the centered kernel has k - 1
    eigenvalues near 1 where there are k clusters.  Collective.
    """
    points = evenly_spread(dataset.layout, dataset.values, 1000)[1]
    known = [evenly_spread(dataset.layout, labels, 1000)[1] for labels in labelings]

    def widest_gap() -> int:
        sample = Dataset.from_array(np.asarray(points, float))
        best, widest = 2, -np.inf
        for k in range(2, min(largest, len(points) // 4) + 1):
            task = {} if known else {"task": "unsupervised"}
            trial = {**options, **task, "clusters": k, "condition": False}
            try:
                objective = build_kdac(sample, sample.comm, **trial, labelings=known)
                result = thalweg.minimize(objective, solver="ism", seed=options.get("seed", 0))
            except thalweg.ThalwegError:
                continue
            values = objective.outcome(result.x)["embedding_values"]
            gap = float(values[k - 2] - values[k - 1])
            if gap > widest:
                best, widest = k, gap
        return best

    return on_root(dataset.comm, widest_gap)

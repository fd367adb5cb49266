"""Choice of the kernel's width, the weight of the novelty and the subspace's dimension.

The paper walks through a grid of a million cells for the highest CQ among those
that satisfy condition (10).  CQ alone grows without bound on usefulness as sigma
falls (K tends to I and CQ to k), and on real data no cell satisfies (10).  Here
a coarse grid in units of the median distance, then one refinement round its
best cell, is scored by what the user would look at: how tight and how balanced
the clusters of the embedding are, and how novel.  Large data are searched on an
evenly spread sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import thalweg
from thalweg.errors import ThalwegError
from thalweg.parallel import MPI, Layout
from thalweg_clustering.ism import ISM
from thalweg_clustering.kdac import make_kdac
from thalweg_clustering.prepared_data import median_distance

#: Rows on which the search is made.
SAMPLE = 1000

#: Widths in medians of the distance, and weights, of the coarse grid.
WIDTHS = (0.1, 0.2, 0.35, 0.6, 1.0)
PENALTIES = (0.1, 1.0)

#: Ratio of neighbors in the refinement.
FINER = 1.4


@dataclass(frozen=True)
class Candidate:
    """One cell of the search.

    Attributes
    ----------
    sigma, penalty, components
        Width, weight lambda, and dimension q.
    score
        Tightness times balance times (1 - novelty), from 0 to 1.
    tightness
        Share of the variance of the unit rows of U that the clusters explain.
    balance
        Entropy of the clusters' sizes, relative to equal ones.
    novelty, quality
        NMI with the clustering given, and CQ.
    condition
        Whether condition (10) holds.
    """

    sigma: float
    penalty: float
    components: int
    score: float
    tightness: float
    balance: float
    novelty: float
    quality: float
    condition: bool


@dataclass(frozen=True)
class Search:
    """The chosen values, and every candidate tried."""

    sigma: float
    penalty: float
    components: int
    candidates: tuple[Candidate, ...]


def search_parameters(
    layout: Layout,
    points: np.ndarray,
    given: np.ndarray,
    clusters: int,
    components: int | None = None,
    seed: int = 0,
) -> Search:
    """Choose sigma, lambda and, unless given, q.  Collective.

    Parameters
    ----------
    layout, points
        This rank's centred rows, shape ``(n_local, d)``.
    given
        The clustering given, of all rows.
    clusters
        k.
    components
        q; None tries k, and half, three quarters and all but one of the features.

    Returns
    -------
    Search
    """
    rows = np.unique(np.linspace(0, layout.rows - 1, min(SAMPLE, layout.rows)).astype(int))
    mine = rows[(rows >= layout.start) & (rows < layout.stop)]
    sample = np.concatenate(layout.comm.allgather(points[mine - layout.start]))
    labels = np.unique(given[rows], return_inverse=True)[1]
    found: list[Candidate] | None = None
    if layout.comm.rank == 0:  # small enough that the ranks would only wait for each other
        found = _candidates(sample, labels, clusters, components, seed)
    tried = layout.comm.bcast(found, root=0)
    best = max(tried, key=lambda candidate: candidate.score)
    return Search(best.sigma, best.penalty, best.components, tuple(tried))


def _candidates(
    sample: np.ndarray, labels: np.ndarray, clusters: int, components: int | None, seed: int
) -> list[Candidate]:
    d = sample.shape[1]
    layout = Layout(MPI.COMM_SELF, *sample.shape)
    median = median_distance(layout, sample)
    # A place to start when every cell fails: what the objective takes by default.
    blank = Candidate(0.5 * median, 1.0, components or min(clusters, d - 1),
                      -1.0, 0.0, 0.0, 1.0, 0.0, False)  # fmt: skip
    if components is not None:
        dimensions = [components]
    else:
        dimensions = sorted({min(max(1, q), d - 1) for q in (clusters, d // 2, 3 * d // 4, d - 1)})
    tried = [blank]
    for q in dimensions:
        for width in WIDTHS:
            for penalty in PENALTIES:
                cell = replace(blank, sigma=width * median, penalty=penalty, components=q)
                tried.append(_scored(layout, sample, labels, clusters, cell, seed))
    best = max(tried, key=lambda candidate: candidate.score)
    for width, weight in ((FINER, 1.0), (1 / FINER, 1.0), (1.0, 1 / 3), (1.0, 3.0)):
        cell = replace(best, sigma=best.sigma * width, penalty=best.penalty * weight)
        tried.append(_scored(layout, sample, labels, clusters, cell, seed))
    return tried


def _scored(
    layout: Layout,
    sample: np.ndarray,
    labels: np.ndarray,
    clusters: int,
    cell: Candidate,
    seed: int,
) -> Candidate:
    try:
        objective = make_kdac(
            layout, sample, labels, clusters, cell.components, cell.sigma, cell.penalty, seed=seed
        )
        result = thalweg.minimize(objective, solver=ISM(rounds=15), seed=seed)
    except ThalwegError:
        return replace(cell, score=-1.0)
    x = objective.layout.vec_from(result.x)
    outcome = objective.outcome(x)
    x.destroy()
    measures, vectors = outcome["measures"], outcome["embedding"]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, np.finfo(float).tiny)
    centres = [unit[outcome["labels"] == c] for c in range(clusters)]
    within = sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in centres if len(part))
    spread = float(((unit - unit.mean(axis=0)) ** 2).sum())
    tightness = 1.0 - within / spread if spread > 0 else 0.0
    shares = np.array([len(part) for part in centres if len(part)]) / len(unit)
    balance = float(-(shares * np.log(shares)).sum() / np.log(max(2, clusters)))
    return replace(
        cell,
        score=tightness * balance * (1.0 - measures["novelty"]),
        tightness=tightness,
        balance=balance,
        novelty=measures["novelty"],
        quality=measures["cq"],
        condition=bool(measures["condition_10"]["holds"]),
    )

"""Search for a view: a subspace in which rows fall into clusters unlike those that are known.

Of rows without the means of known clusters, independent component analysis (Hyvarinen, 1999) gives
directions; those that depend on one another span a subspace, in which cells of k-means are joined
where no valley of the density lies between them (MATHEMATICS.md).  The clusters count if one does,
between every two, on rows that had no part in finding them.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.linalg
from scipy.special import bdtr, chdtrc
from scipy.stats import normaltest

from thalweg.parallel import MPI, Array, Layout
from thalweg_clustering.agreement import mutual_information
from thalweg_clustering.kernels import squared_distances
from thalweg_clustering.kmeans import kmeans

#: Most and least rows on which a view is searched, and share that finds one; chosen by hand.
VIEW_ROWS, LEAST_ROWS, SHARE = 2000, 60, 0.65

#: Rows below which four divisions of them are tried together, in place of two in turn, and above
#: which values are cut into six parts, not three, to see whether they depend.
FEW_ROWS, MANY_ROWS = 1000, 400

#: Number of rows in a valley, relative to that at its sides, that it must fall short of, and
#: probability of doing so by chance: on the rows that find a view, and on the others.
RATIO, JOINED, SEPARATED = 0.6, 0.01, 0.02

#: Levels at which directions depend on one another, and at which one is not normal; chosen by hand.
DEPENDENT, NORMAL = 1e-6, 1e-2

#: Most dimensions, cells, principal directions of a view, rows of a curved cell; by hand.
DIMENSIONS, CELLS, PRINCIPAL, CELL_ROWS = 3, 10, 60, 40

#: Width of the kernel, as a share of the least distance between centers: less, and directions in
#: which a few rows lie alone show larger eigenvalues than the view.
WIDTH = 0.4


@dataclass(frozen=True)
class View:
    """A view found, and what KDAC needs to show it."""

    scale: np.ndarray  # what each feature is divided by, shape ``(d,)``
    components: np.ndarray  # W for the features so divided, shape ``(d, q)``
    clusters: int
    sigma: float  # a share of the distance between the nearest clusters


def find_view(
    points: np.ndarray, labelings: list[np.ndarray], columns: int | None = None, seed: int = 0
) -> View | None:
    """The view with the most information in its clusters, or None.

    ``points`` are rows without constant features, ``labelings`` integers from 0, ``columns`` the
    dimension of the subspace if it is given.
    """
    deviations = points.std(axis=0)
    scale = np.where(deviations > 0, deviations, 1.0)
    values = (points - points.mean(axis=0)) / scale
    if (values**2 > 0.5 * len(values)).any():  # an outlier makes most of a feature's variance
        return None
    indicators = [np.eye(labels.max() + 1)[labels] for labels in labelings]
    known = np.concatenate([np.ones((len(values), 1)), *indicators], axis=1)
    rest = values - known @ np.linalg.lstsq(known, values, rcond=None)[0]
    candidates, few = list[tuple[np.ndarray, np.ndarray]](), len(rest) < FEW_ROWS
    for division in range(2 + 2 * few if len(rest) >= LEAST_ROWS else 0):
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1999, division)))
        order = stream.permutation(len(rest))
        first, second = np.split(order, [int(SHARE * len(rest))])
        for directions, labels in _candidates(rest[first], rest[second], stream):
            candidates.append((directions, labels[np.argsort(order)]))
        if candidates and not few:
            break
    if not candidates:
        return None
    candidates.sort(key=lambda c: -_information(c[1], c[1])[0])
    single = (c for c in candidates if not _is_product(rest @ c[0], c[1], candidates))
    directions, labels = next(single, candidates[0])
    q = columns or directions.shape[1]
    further = np.linalg.eigh(np.cov(values.T))[1]  # those along which rows vary least first
    w = np.linalg.qr(np.concatenate([directions, further], axis=1)[:, :q])[0]
    projected = values @ w
    centers = np.array([projected[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    nearest = squared_distances(centers, centers) + np.diag(np.full(len(centers), np.inf))
    return View(scale, w, len(centers), WIDTH * float(np.sqrt(nearest.min())))


def _information(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Mutual information of two labelings, and the probability of so much by chance."""
    sizes = int(a.max()) + 1, int(b.max()) + 1
    table = np.bincount(a * sizes[1] + b, minlength=sizes[0] * sizes[1]).reshape(sizes)
    information = mutual_information(table / len(a))
    degrees = (sizes[0] - 1) * (sizes[1] - 1)
    return information, float(chdtrc(degrees, 2.0 * len(a) * information))


def _is_product(
    rows: np.ndarray, labels: np.ndarray, candidates: list[tuple[np.ndarray, np.ndarray]]
) -> bool:
    """Whether the clusters are two independent labelings, and their places a sum, of two views."""

    def rest(*labelings: np.ndarray) -> np.ndarray:
        groups = np.concatenate([np.eye(own.max() + 1)[own] for own in labelings], axis=1)
        return rows - groups @ np.linalg.lstsq(groups, rows, rcond=None)[0]

    for _, coarser in candidates:
        if (
            coarser.max() < labels.max()
            and _information(labels, coarser)[0] > 0.4 * _information(coarser, coarser)[0]
        ):
            other = _clusters(rest(coarser))
            unexplained = float((rest(coarser, other) ** 2).sum())
            if (
                other.max() > 0
                and _information(coarser, other)[1] > 1e-4
                and unexplained < 1.2 * float((rest(labels) ** 2).sum())
            ):
                return True
    return False


def _candidates(
    first: np.ndarray, second: np.ndarray, stream: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Directions of views, and clusters of the rows that find them, then of the others."""
    mean = first.mean(axis=0)
    _, lengths, axes = np.linalg.svd(first - mean, full_matrices=False)
    if not lengths[0] > 0:
        return
    few = min(len(first) // 8, PRINCIPAL, int((lengths > 1e-3 * lengths[0]).sum()))
    white = axes[:few].T / lengths[:few] * np.sqrt(len(first))
    own, others = (first - mean) @ white, (second - mean) @ white
    directions = np.concatenate([_single_features(own, first - mean), _independent(own, stream)])
    done = list[np.ndarray]()
    for span in _spans(own, directions):
        span, labels = _refined(own, span, _clusters(own @ span))
        enough = 0.97 * _information(labels, labels)[0]  # to differ in hardly a row
        if any(_information(labels, o)[0] > enough for o in done if o.max() == labels.max()):
            continue
        done.append(labels)
        if labels.max() > 0 and span.shape[1] < min(DIMENSIONS, own.shape[1]):
            further = _unequal_directions(own, labels, span)[:, : DIMENSIONS - span.shape[1]]
            wider = np.linalg.qr(np.concatenate([span, further], axis=1))[0]
            wider, finer = _refined(own, wider, _clusters(own @ wider))
            if finer.max() > labels.max():
                span, labels = wider, finer
        if labels.max() == 0:
            continue
        parts = own @ span, others @ span
        centers = np.array([parts[0][labels == c].mean(axis=0) for c in range(labels.max() + 1)])
        here, there = (squared_distances(part, centers).argmin(axis=1) for part in parts)
        none_empty = len(np.unique(here)) == len(centers)
        if none_empty and _chance(parts[0], here, parts[1], there).max() <= SEPARATED:
            yield white @ span, np.concatenate([here, there])


def _single_features(rows: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Directions along features, those least normal if there are many, as rows."""
    spread = features.std(axis=0)
    features = features[:, spread > 1e-6 * spread.max()]  # the others are those of known clusters
    chosen = features[:, np.argsort(normaltest(features)[1], kind="stable")[:PRINCIPAL]]
    directions = chosen.T @ rows
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))


def _independent(rows: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Directions that are least normal, for symmetric and for skew departures, as rows."""
    from sklearn.decomposition import FastICA

    def skew(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return u**2, 2.0 * u.mean(axis=-1)

    found = []
    for contrast in ("logcosh", skew):
        start = np.linalg.qr(stream.standard_normal((rows.shape[1],) * 2))[0]
        analysis = FastICA(whiten=False, fun=contrast, max_iter=100, w_init=start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # directions of noise do not converge
            found.append(analysis.fit(rows).components_)
    return np.concatenate(found)


def _spans(rows: np.ndarray, directions: np.ndarray) -> Iterator[np.ndarray]:
    """Each direction that shows clusters, and each with those that depend on it."""
    values, count = rows @ directions.T, 6 if len(rows) > MANY_ROWS else 3
    bounds = np.quantile(values, np.arange(1, count) / count, axis=0)
    parts = (values > bounds[:, None]).sum(axis=0)
    shown = np.eye(count)[parts].transpose(1, 2, 0).reshape(-1, len(rows))
    table = (shown @ shown.T).reshape(len(directions), count, len(directions), count)
    held = shown.sum(axis=1).reshape(len(directions), count)  # not alike where values repeat
    expected = held[:, :, None, None] * held / len(rows)
    terms = table * np.log(np.maximum(table, 1e-300) / np.maximum(expected, 1e-300))
    statistic, cells = 2.0 * terms.sum(axis=(1, 3)), np.count_nonzero(held, axis=1)
    degrees = np.maximum(1, np.outer(cells - 1, cells - 1))
    unusual, done = normaltest(values)[1] < NORMAL, list[np.ndarray]()
    for index, direction in enumerate(directions):
        order = np.argsort(-statistic[index], kind="stable")
        order = order[chdtrc(degrees[index, order], statistic[index, order]) < DEPENDENT][:6]
        _, lengths, axes = np.linalg.svd(directions[order])
        size = min(DIMENSIONS, int((lengths > 0.5 * lengths[0]).sum()))
        spans = [axes[:size].T] if size > 1 else []
        spans += [direction[:, None]] if unusual[index] else []
        for span in spans:
            alike = (other for other in done if other.shape == span.shape)
            if all(((other.T @ span) ** 2).sum() < 0.9 * span.shape[1] for other in alike):
                done.append(span)
                yield span


def _clusters(rows: np.ndarray) -> np.ndarray:
    """Cells of k-means, the nearest joined until a valley lies between every two."""
    cells = max(1, min(CELLS if rows.shape[1] > 1 else 8, len(rows) // 12))
    layout = Layout(MPI.COMM_SELF, *rows.shape)
    labels = np.unique(kmeans(layout, rows, cells, starts=2).labels, return_inverse=True)[1]
    chance = _chance(rows, labels, rows, labels)
    while True:
        centers = np.array([rows[labels == c].mean(axis=0) for c in range(len(chance))])
        apart = np.where(chance > JOINED, squared_distances(centers, centers), np.inf)
        a, b = divmod(int(apart.argmin()), len(chance))
        if not np.isfinite(apart[a, b]):
            return labels
        a, b = min(a, b), max(a, b)
        labels = np.where(labels == b, a, labels)
        labels -= labels > b
        chance = np.delete(np.delete(chance, b, 0), b, 1)
        chance[a] = chance[:, a] = _chance(rows, labels, rows, labels, a)[a]


def _discriminants(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Directions in which clusters differ by more than their spread, at least one, as columns."""
    groups = np.eye(int(labels.max()) + 1)[labels]
    means = groups.T @ rows / groups.sum(axis=0)[:, None]
    within = _covariance(rows, means[labels])
    values, vectors = scipy.linalg.eigh(np.cov(means[labels].T).reshape(within.shape), within)
    count = max(1, min(DIMENSIONS, int((values > 0.5).sum())))
    return np.ascontiguousarray(vectors[:, ::-1][:, :count])


def _refined(
    rows: np.ndarray, span: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The directions in which clusters differ most, and the clusters that they show, in turn."""
    for _ in range(4 if labels.max() > 0 else 0):
        span, before = _discriminants(rows, labels), labels
        labels = _clusters(rows @ span)
        if labels.max() == 0 or np.array_equal(labels, before):
            break
    return span, labels


def _unequal_directions(rows: np.ndarray, labels: np.ndarray, span: np.ndarray) -> np.ndarray:
    """Directions beside the span in which variances of clusters differ, as columns.

    A cluster that is several has more variance along the line between these than others have.
    Sliced average variance estimation (Cook and Weisberg, 1991), with clusters as slices.
    """
    beside = np.linalg.svd(span)[0][:, span.shape[1] :]
    parts = [rows[labels == c] @ beside for c in range(int(labels.max()) + 1)]
    shares = [len(part) / len(rows) for part in parts]
    spreads = [_covariance(part, part.mean(axis=0)) for part in parts]
    mean = sum(share * own for share, own in zip(shares, spreads, strict=True))
    # In units of the mean spread, the identity is what clusters of equal spread have.
    values, vectors = np.linalg.eigh(mean)
    unit = vectors / np.sqrt(values)
    excess = [unit.T @ own @ unit - np.eye(len(unit)) for own in spreads]
    unequal = sum(share * own @ own for share, own in zip(shares, excess, strict=True))
    return beside @ unit @ np.linalg.eigh(unequal)[1][:, ::-1]


def _covariance(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Covariance of rows about their centers, regular where all lie at these."""
    within = np.atleast_2d(np.cov((rows - centers).T))
    return np.asarray(within + 1e-5 * rows.var(axis=0).mean() * np.eye(len(within)))


def _chance(
    rows: Array, labels: np.ndarray, others: Array, of_others: np.ndarray, only: int | None = None
) -> Array:
    """Probability that there is no valley between two clusters, 0 on the diagonal.

    Windows are laid on ``rows``, and counted in ``others``; ``only`` pairs with one cluster.
    """
    count = int(labels.max()) + 1
    means = np.array([rows[labels == c].mean(axis=0) for c in range(count)])
    lines = np.linalg.solve(_covariance(rows, means[labels]), means.T)
    chance = np.zeros((count, count))
    for b, a in combinations(range(count), 2):
        if only in (None, a, b):
            line = lines[:, a] - lines[:, b]
            pair = [rows[labels == c] @ line for c in (b, a)]
            seen = others[(of_others == a) | (of_others == b)] @ line
            chance[a, b] = chance[b, a] = _no_valley(pair, np.sort(seen))
    return chance


def chance_without_valley(rows: np.ndarray, labels: np.ndarray) -> float:
    """The largest probability of two clusters of projected rows without a valley between them.

    Clusters may be curved: valleys are sought between cells of theirs that are near each other.
    """
    if not np.ptp(rows, axis=0).any():
        return 1.0
    labels = np.unique(labels, return_inverse=True)[1]
    chance = _chance(rows, labels, rows, labels)
    if chance.max() <= SEPARATED:
        return float(chance.max())
    cells, owners = np.zeros(len(rows), dtype=int), list[int]()
    for cluster in range(len(chance)):
        own = rows[labels == cluster]
        layout = Layout(MPI.COMM_SELF, *own.shape)
        parts = kmeans(layout, own, min(4, 1 + len(own) // CELL_ROWS), starts=1).labels
        cells[labels == cluster] = len(owners) + np.unique(parts, return_inverse=True)[1]
        owners += [cluster] * len(np.unique(parts))
    owner, of_cells, curved = np.array(owners), _chance(rows, cells, rows, cells), 0.0 * chance
    centers = np.array([rows[cells == cell].mean(axis=0) for cell in range(len(owner))])
    for cell, place in enumerate(squared_distances(centers, centers)):
        for other in np.unique(owner[owner != owner[cell]]):
            pair = tuple(sorted((owner[cell], other)))
            near = np.where(owner == other, place, np.inf).argmin()
            curved[pair] = max(curved[pair], of_cells[cell, near])
    return float(np.minimum(chance, curved + np.tril(np.ones_like(chance))).max())


def _no_valley(pair: list[np.ndarray], seen: np.ndarray) -> float:
    """Probability of so few of ``seen`` in the emptiest window between two clusters on a line."""
    ends = [np.sort(part)[[(len(part) - 1) // 2, len(part) // 2]].mean() for part in pair]
    low, high = float(ends[0]), float(ends[1])
    values, width = np.sort(np.concatenate(pair)), (high - low) / 5
    if not width > 0:
        return 1.0
    edges = np.linspace(low - 1.5 * width, high + 0.5 * width, 41)

    def counts(rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.searchsorted(rows, edges + width) - np.searchsorted(rows, edges))

    laid, own = counts(values), counts(seen)
    between = np.arange(12, 29)
    lowest = between[laid[between] == laid[between].min()]
    valley = int(lowest[len(lowest) // 2])
    left = int(laid[: valley - 5].argmax())
    right = valley + 6 + int(laid[valley + 6 :].argmax())
    least = min(int(own[left]), int(own[right]))
    inside = int(own[valley])
    return float(bdtr(inside, inside + least, RATIO / (1.0 + RATIO))) if least else 1.0

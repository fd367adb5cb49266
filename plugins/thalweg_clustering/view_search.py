"""Search for a view: a subspace in which rows fall into clusters unlike those that are known.

Of rows without the means of known clusters, independent component analysis (Hyvarinen, 1999) gives
directions; those that depend on one another span a subspace, in which cells of k-means are joined
where no valley of the density lies between them (MATHEMATICS.md).  The clusters count if one does,
between every two, on rows that had no part in finding them.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.special import chdtrc
from scipy.stats import normaltest

from thalweg.numerics import squared_distances, unit_rows
from thalweg.parallel import MPI, Layout
from thalweg_clustering.agreement import mutual_information, shared_rows
from thalweg_clustering.kmeans import kmeans
from thalweg_clustering.valleys import JOINED, SEPARATED, Valleys, cluster_means, covariance

#: Most and least rows on which a view is searched, and share that finds one; chosen by hand.
VIEW_ROWS, LEAST_ROWS, SHARE = 2000, 60, 0.65

#: Rows below which four divisions of them are tried together, in place of two in turn, and above
#: which values are cut into six parts, not three, to see whether they depend.
FEW_ROWS, MANY_ROWS = 1000, 400

#: Levels at which directions depend on one another, and at which one is not normal; chosen by hand.
DEPENDENT, NORMAL = 1e-6, 1e-2

#: Most dimensions, cells and principal directions of a view; by hand.
DIMENSIONS, CELLS, PRINCIPAL = 3, 10, 60

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
    distinct = list[tuple[np.ndarray, np.ndarray]]()
    for candidate in sorted(candidates, key=lambda c: -_information(c[1], c[1])):
        if not _repeats(candidate[1], [labels for _, labels in distinct], 0.9):
            distinct.append(candidate)
    found = [labels for _, labels in distinct]
    single = (c for c in distinct if not _is_product(rest @ c[0], c[1], found))
    directions, labels = next(single, distinct[0])
    q = columns or directions.shape[1]
    further = np.linalg.eigh(np.cov(values.T))[1]  # those along which rows vary least first
    w = np.linalg.qr(np.concatenate([directions, further], axis=1)[:, :q])[0]
    projected = values @ w
    centers = cluster_means(projected, labels)
    nearest = squared_distances(centers, centers) + np.diag(np.full(len(centers), np.inf))
    return View(scale, w, len(centers), WIDTH * float(np.sqrt(nearest.min())))


def _information(a: np.ndarray, b: np.ndarray) -> float:
    """Mutual information of two labelings; their entropy if they are one."""
    return mutual_information(shared_rows(a, b))


def _repeats(labels: np.ndarray, others: list[np.ndarray], share: float) -> bool:
    """Whether one of the others has as many clusters, and such a share of the information."""
    enough = share * _information(labels, labels)
    return any(_information(labels, o) > enough for o in others if o.max() == labels.max())


def _is_product(rows: np.ndarray, labels: np.ndarray, labelings: list[np.ndarray]) -> bool:
    """Whether the clusters are two independent labelings, and their places a sum, of two views."""

    def rest(*labelings: np.ndarray) -> np.ndarray:
        groups = np.concatenate([np.eye(own.max() + 1)[own] for own in labelings], axis=1)
        return rows - groups @ np.linalg.lstsq(groups, rows, rcond=None)[0]

    most = 1.2 * float((rest(labels) ** 2).sum())
    for coarser in labelings:
        entropy = _information(coarser, coarser)
        if coarser.max() >= labels.max() or _information(labels, coarser) <= 0.4 * entropy:
            continue
        other = _clusters(rest(coarser))
        dependence = 2.0 * len(rows) * _information(coarser, other)
        degrees = int(coarser.max()) * int(other.max())
        independent = degrees > 0 and chdtrc(degrees, dependence) > 1e-4
        if independent and float((rest(coarser, other) ** 2).sum()) < most:
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
        if _repeats(labels, done, 0.97):  # they differ in hardly a row
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
        centers = cluster_means(parts[0], labels)
        here, there = (squared_distances(part, centers).argmin(axis=1) for part in parts)
        if len(np.unique(here)) < len(centers):
            continue
        b, a = np.triu_indices(len(centers), 1)
        if Valleys(parts[0], here, parts[1], there).chance(a, b).max() <= SEPARATED:
            yield white @ span, np.concatenate([here, there])


def _single_features(rows: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Directions along features, those least normal if there are many, as rows."""
    spread = features.std(axis=0)
    features = features[:, spread > 1e-6 * spread.max()]  # the others are those of known clusters
    chosen = features[:, np.argsort(normaltest(features)[1], kind="stable")[:PRINCIPAL]]
    return unit_rows(chosen.T @ rows)


def _independent(rows: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Directions that are least normal, for symmetric and for skew departures, as rows."""
    from sklearn.decomposition import FastICA

    def skew(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return u**2, 2.0 * u.mean(axis=-1)

    directions = []
    for contrast in ("logcosh", skew):
        start = np.linalg.qr(stream.standard_normal((rows.shape[1],) * 2))[0]
        analysis = FastICA(whiten=False, fun=contrast, max_iter=100, w_init=start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # directions of noise do not converge
            directions.append(analysis.fit(rows).components_)
    return np.concatenate(directions)


def _spans(rows: np.ndarray, directions: np.ndarray) -> Iterator[np.ndarray]:
    """Each direction that shows clusters, and each with those that depend on it."""
    values, count = rows @ directions.T, 6 if len(rows) > MANY_ROWS else 3
    bounds = np.quantile(values, np.arange(1, count) / count, axis=0)
    parts = (values > bounds[:, None]).sum(axis=0)
    shown = np.eye(count)[parts].transpose(1, 2, 0).reshape(-1, len(rows))
    table = (shown @ shown.T).reshape(len(directions), count, len(directions), count)
    sizes = shown.sum(axis=1).reshape(len(directions), count)  # not alike where values repeat
    expected = sizes[:, :, None, None] * sizes / len(rows)
    terms = table * np.log(np.maximum(table, 1e-300) / np.maximum(expected, 1e-300))
    statistic, cells = 2.0 * terms.sum(axis=(1, 3)), np.count_nonzero(sizes, axis=1)
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
    labels = np.unique(
        kmeans(layout, rows, cells, starts=1, iterations=10).labels, return_inverse=True
    )[1]
    apart = np.zeros((cells, cells), dtype=bool)  # between which there is a valley
    while labels.max() > 0:
        valleys = Valleys(rows, labels)
        a, b = np.triu_indices(len(valleys.means), 1)
        between = squared_distances(valleys.means, valleys.means)[a, b]
        for pair in np.argsort(between, kind="stable"):
            first, second = a[pair], b[pair]
            if apart[first, second]:
                continue
            if valleys.chance([second], [first])[0] > JOINED:
                labels = np.where(labels == second, first, labels)
                labels -= labels > second
                apart = np.delete(np.delete(apart, second, 0), second, 1)
                apart[first] = apart[:, first] = False
                break
            apart[first, second] = True
        else:
            break
    return labels


def _discriminants(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Directions in which clusters differ by more than their spread, at least one, as columns."""
    means = cluster_means(rows, labels)
    within = covariance(rows, means[labels])
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
    spreads = [covariance(part, part.mean(axis=0)) for part in parts]
    mean = sum(share * own for share, own in zip(shares, spreads, strict=True))
    # In units of the mean spread, the identity is what clusters of equal spread have.
    values, vectors = np.linalg.eigh(mean)
    unit = vectors / np.sqrt(values)
    excess = [unit.T @ own @ unit - np.eye(len(unit)) for own in spreads]
    unequal = sum(share * own @ own for share, own in zip(shares, excess, strict=True))
    return beside @ unit @ np.linalg.eigh(unequal)[1][:, ::-1]

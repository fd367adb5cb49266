"""Search for a view: a subspace in which rows fall into clusters unlike those that are known.

Of rows without the means of known clusters, independent component analysis (Hyvarinen, 1999) gives
directions; those that depend on one another span a subspace, in which cells of k-means are joined
where no valley of the density lies between them (MATHEMATICS.md).  The clusters count if one does,
between every two, on rows that had no part in finding them.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.special import chdtrc
from scipy.stats import normaltest

from thalweg.numerics import squared_distances, unit_rows
from thalweg.parallel import MPI, Layout, agreed, on_root, one_blas_thread, raise_on_all_ranks
from thalweg_clustering.agreement import mutual_information, shared_rows
from thalweg_clustering.kmeans import kmeans
from thalweg_clustering.valleys import JOINED, SEPARATED, Valleys, cluster_means, covariance, dither

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

#: Directions of a span, as columns, and the clusters that rows show in it.
Candidate = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class View:
    """A view found, and what KDAC needs to show it."""

    scale: np.ndarray  # what each feature is divided by, shape ``(d,)``
    components: np.ndarray  # W for the features so divided, shape ``(d, q)``
    clusters: int
    sigma: float  # a share of the distance between the nearest clusters


def find_view(
    points: np.ndarray,
    labelings: list[np.ndarray],
    columns: int | None = None,
    seed: int = 0,
    comm: MPI.Comm = MPI.COMM_SELF,
) -> View | None:
    """The view with the most information in its clusters, or None.  Collective.

    ``points`` are rows without constant features, ``labelings`` integers from 0, ``columns`` the
    dimension of the subspace if it is given; the same on all ranks, which share the work.
    """
    deviations = points.std(axis=0)
    scale = np.where(deviations > 0, deviations, 1.0)
    values = (dither(points) - points.mean(axis=0)) / scale
    # An outlier makes most of a feature's variance.
    if len(points) < LEAST_ROWS or agreed(comm, bool((values**2 > 0.5 * len(values)).any())):
        return None
    candidates, few = list[Candidate](), len(values) < FEW_ROWS
    with one_blas_thread():  # of many small products
        rest = on_root(comm, lambda: _without_means(values, *labelings))
        for division in range(2 + 2 * few):
            candidates += _candidates(comm, rest, (seed, division))
            if candidates and not few:
                break

        def best() -> View:
            """That with the most information in its clusters that is no product of two others."""
            distinct = _distinct(sorted(candidates, key=lambda c: -_information(c[1], c[1])), 0.9)
            labelings = [labels for _, labels in distinct]
            single = (c for c in distinct if not _is_product(rest @ c[0], c[1], labelings))
            directions, labels = next(single, distinct[0])
            q = columns or directions.shape[1]
            further = np.linalg.eigh(np.cov(values.T))[1]  # those along which rows vary least first
            w = np.linalg.qr(np.concatenate([directions, further], axis=1)[:, :q])[0]
            centers = cluster_means(values @ w, labels)
            nearest = squared_distances(centers, centers) + np.diag(np.full(len(centers), np.inf))
            return View(scale, w, len(centers), WIDTH * float(np.sqrt(nearest.min())))

        return on_root(comm, best) if candidates else None


def _without_means(rows: np.ndarray, *labelings: np.ndarray) -> np.ndarray:
    """Residuals of rows from their least-squares fit by clusters: two labelings add up."""
    groups = [np.ones((len(rows), 1)), *(np.eye(own.max() + 1)[own] for own in labelings)]
    known = np.concatenate(groups, axis=1)
    rest: np.ndarray = rows - known @ np.linalg.lstsq(known, rows, rcond=None)[0]
    return rest


def _information(a: np.ndarray, b: np.ndarray) -> float:
    """Mutual information of two labelings; their entropy if they are one."""
    return mutual_information(shared_rows(a, b))


def _distinct(candidates: list[Candidate], share: float) -> list[Candidate]:
    """Those of which none before has as many clusters, and such a share of the information."""
    distinct = list[Candidate]()
    for span, labels in candidates:
        enough = share * _information(labels, labels)
        alike = (before for _, before in distinct if before.max() == labels.max())
        if all(_information(labels, before) <= enough for before in alike):
            distinct.append((span, labels))
    return distinct


def _is_product(rows: np.ndarray, labels: np.ndarray, labelings: list[np.ndarray]) -> bool:
    """Whether the clusters are two independent labelings, and their places a sum, of two views."""
    most = 1.2 * float((_without_means(rows, labels) ** 2).sum())
    for coarser in labelings:
        entropy = _information(coarser, coarser)
        if coarser.max() >= labels.max() or _information(labels, coarser) <= 0.4 * entropy:
            continue
        other = _clusters(_without_means(rows, coarser))
        dependence = 2.0 * len(rows) * _information(coarser, other)
        degrees = int(coarser.max()) * int(other.max())
        independent = degrees > 0 and chdtrc(degrees, dependence) > 1e-4
        if independent and float((_without_means(rows, coarser, other) ** 2).sum()) < most:
            return True
    return False


def _candidates(comm: MPI.Comm, rest: np.ndarray, key: tuple[int, int]) -> list[Candidate]:
    """Directions of views and clusters of the rows, found in a part of them.  Collective.

    ``key`` are the seed and the number of the division into the rows that find and the others.
    """
    stream = np.random.default_rng(np.random.SeedSequence(key[0], spawn_key=(1999, key[1])))
    order = stream.permutation(len(rest))
    first, second = np.split(order, [int(SHARE * len(rest))])
    white, own, spans = on_root(comm, lambda: _whitened(rest[first], stream))
    others = (rest[second] - rest[first].mean(axis=0)) @ white
    shown = _shared(comm, spans, lambda span: _refined(own, span, _clusters(own @ span)))
    distinct = on_root(comm, lambda: _distinct(shown, 0.97))  # others differ in hardly a row

    def judged(span: np.ndarray, labels: np.ndarray) -> Candidate | None:
        span, labels = _widened(own, span, labels)
        if labels.max() == 0:
            return None
        parts = own @ span, others @ span
        centers = cluster_means(parts[0], labels)
        here, there = (squared_distances(part, centers).argmin(axis=1) for part in parts)
        if len(np.unique(here)) < len(centers):
            return None
        b, a = np.triu_indices(len(centers), 1)
        if Valleys(parts[0], here, parts[1], there).chance(a, b).max() > SEPARATED:
            return None
        return white @ span, np.concatenate([here, there])[np.argsort(order)]

    candidates = _shared(comm, distinct, lambda candidate: judged(*candidate))
    return [candidate for candidate in candidates if candidate is not None]


def _shared(comm: MPI.Comm, items: list[Any], work: Callable[[Any], Any]) -> list[Any]:
    """What work makes of each item, dealt out to the ranks.  Collective."""
    with raise_on_all_ranks(comm):
        own = [work(item) for item in items[comm.rank :: comm.size]]
    parts = comm.allgather(own)
    return [parts[index % comm.size][index // comm.size] for index in range(len(items))]


def _whitened(
    rows: np.ndarray, stream: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Columns that whiten, the rows without their mean so whitened, and spans to look at."""
    centered = rows - rows.mean(axis=0)
    _, lengths, axes = np.linalg.svd(centered, full_matrices=False)
    few = min(len(rows) // 8, PRINCIPAL, int((lengths > 1e-3 * lengths[0]).sum()))
    white = axes[:few].T / lengths[:few] * np.sqrt(len(rows))
    own = centered @ white
    if few == 0:
        return white, own, []
    directions = np.concatenate([_single_features(own, centered), _independent(own, stream)])
    return white, own, list(_spans(own, directions))


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


def _refined(rows: np.ndarray, span: np.ndarray, labels: np.ndarray) -> Candidate:
    """The directions in which clusters differ most, and the clusters that they show, in turn."""
    for _ in range(4 if labels.max() > 0 else 0):
        span, before = _discriminants(rows, labels), labels
        labels = _clusters(rows @ span)
        if labels.max() == 0 or np.array_equal(labels, before):
            break
    return span, labels


def _widened(rows: np.ndarray, span: np.ndarray, labels: np.ndarray) -> Candidate:
    """The same with further directions, where these show more clusters."""
    if labels.max() > 0 and span.shape[1] < min(DIMENSIONS, rows.shape[1]):
        further = _unequal_directions(rows, labels, span)[:, : DIMENSIONS - span.shape[1]]
        wider = np.linalg.qr(np.concatenate([span, further], axis=1))[0]
        wider, finer = _refined(rows, wider, _clusters(rows @ wider))
        if finer.max() > labels.max():
            return wider, finer
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

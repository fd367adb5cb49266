"""Approximate nearest neighbors of distributed rows: no rank ever holds all of them.

Rows go to the rank that has their part of space, copies to the ranks of the next nearest cells.
Neighbors are found in the leaves of random projection trees (Dasgupta and Freund 2008), and then,
with those on other ranks, among the neighbors of neighbors (Dong, Moses and Li 2011).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from thalweg.engines.neighbors import nearest_neighbors
from thalweg.parallel import (
    Layout,
    RowExchange,
    RowPlan,
    RowRoutes,
    kernel,
    max_over_ranks,
    min_over_ranks,
    run_on_threads,
    sum_over_ranks,
)
from thalweg_embedding.affinities.coarse_cells import CoarseCells
from thalweg_embedding.relocation import Relocation

#: Nearest cells whose ranks get a copy of a row, and most such ranks.
NEAREST_CELLS, COPIES = 8, 2

#: Trees, and rows of a leaf: so many, or more where many neighbors are wanted.
TREES, LEAF = 10, 256

#: First neighbors whose first neighbors are tried, how often at most, and what recall is enough.
FRIENDS, ROUNDS, ENOUGH = 20, 3, 0.95

#: Rows that one thread improves at a time.
CHUNK = 128

#: Numbers of rows fetched at a time in a round: at least, and for each of a rank's own.
FETCHED, FETCHED_PER_OWN = 2**21, 4

#: Rows below which exact search is quicker.
FEW_ROWS = 1000

#: Rows on which the recall is measured.
JUDGED = 200


class ApproximateNeighbors(NamedTuple):
    """Most of the nearest neighbors of each row of this rank: of shape (local_rows, k)."""

    indices: np.ndarray  # global row numbers, int64, the nearest first
    squared: np.ndarray  # squared distances, float64
    recall: float  # share of the true neighbors found, on a sample
    exact_because: str = ""  # why the search was exact after all; empty where it was not


def approximate_neighbors(
    layout: Layout, values: np.ndarray, k: int, seed: int = 0, cells: CoarseCells | None = None
) -> ApproximateNeighbors:
    """Most of the k nearest neighbors of each of this rank's rows, by Euclidean distance.

    Collective.  The result is the same for a given seed and number of ranks.  Rows that lie on
    the ranks that ``cells`` choose stay where they are.  A rank works with its rows
    and at most twice as many copies of others.  Distances are exact.  Where a rank would have few
    rows the search is exact, and the result says so.
    """
    comm = layout.comm
    values = np.ascontiguousarray(values)
    if layout.rows < max(FEW_ROWS, 4 * k) * comm.size:
        reason = f"{layout.rows:,} rows are few for {comm.size} rank{'s' * (comm.size > 1)}"
        return ApproximateNeighbors(*nearest_neighbors(layout, values, k), 1.0, reason)
    cells = cells or CoarseCells.of(layout, values, seed)
    places = _Places(layout, cells.scaled(values), cells.ranks_near(values, NEAREST_CELLS))
    if min_over_ranks(comm, places.own) < 4 * k:
        reason = "the rows lie so unevenly that some rank's part of space has hardly any"
        return ApproximateNeighbors(*nearest_neighbors(layout, values, k), 1.0, reason)
    recall_of = _judge(places, k)
    indices, squared = _by_trees(places, k, seed)
    recall = recall_of(squared)
    for _ in range(ROUNDS):
        _refine(places, indices, squared)
        if (recall := recall_of(squared)) >= ENOUGH:
            break
    returned = places.moved.backward(places.moved.original_numbers(indices))
    distances = places.moved.backward(squared)
    order = np.lexsort((returned, distances))
    distances = np.ldexp(np.take_along_axis(distances, order, 1), -2 * cells.shift)
    return ApproximateNeighbors(np.take_along_axis(returned, order, 1), distances, recall)


class _Places:
    """Rows at the ranks of their cells, and copies of others near them."""

    def __init__(self, layout: Layout, values: np.ndarray, near: np.ndarray) -> None:
        self.moved = Relocation(layout, near[:, 0])  # from the rows' owners to here
        self.layout = self.moved.layout
        rows_here = self.moved.forward(values)
        self.own = len(rows_here)
        numbers = np.arange(self.layout.start, self.layout.stop)
        ranks = self.moved.forward(near)  # of each row's nearest cells
        taken = ranks[:, :1]
        rows, wanted = [np.arange(0)], [np.arange(0)]
        for column in ranks[:, 1:].T:
            new = ~(taken == column[:, None]).any(axis=1) & ((taken >= 0).sum(axis=1) <= COPIES)
            rows.append(np.flatnonzero(new))
            wanted.append(column[new])
            taken = np.concatenate([taken, np.where(new, column, -1)[:, None]], axis=1)
        copies = RowRoutes(layout.comm, np.concatenate(wanted), np.concatenate(rows))
        # Of the rows here and of the copies; the numbers are those at the new places.
        self.values = np.concatenate([rows_here, copies.deliver(rows_here)])
        self.numbers = np.concatenate([numbers, copies.deliver(numbers)])


def _by_trees(places: _Places, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Neighbors among the rows and copies here, as numbers at the new places; nearest first."""
    values = places.values
    found = np.full((places.own, k), -1, dtype=np.int64)
    squared = np.full((places.own, k), np.inf)
    middle = values.mean(axis=0)
    single = np.asarray(values - middle, dtype=np.float32)
    squares = np.einsum("ij,ij->i", single, single)

    def try_leaf(part: np.ndarray) -> None:
        rows = part[: np.searchsorted(part, places.own)]  # parts ascend: copies come last
        products = single[rows] @ single[part].T
        _insert_leaf(values, squares, rows, part, products, found, squared)

    for tree in range(TREES):
        generator = np.random.default_rng([seed, places.layout.comm.rank, tree])
        leaves = _leaves(single, max(LEAF, 4 * k), generator)
        # No two leaves of a tree have a row in common; each thread has a product of its own.
        run_on_threads(try_leaf, leaves)
    return places.numbers[found], squared


def _leaves(rows: np.ndarray, size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Leaves of a random projection tree: numbers of size/2 to size rows, ascending."""
    parts, leaves = [np.arange(len(rows))], []
    while parts:
        part = parts.pop()
        if len(part) <= size:
            leaves.append(part)
            continue
        # Whoever splits a part keeps halves of the same size.
        one, other = generator.choice(len(part), 2, replace=False)
        along = rows[part] @ (rows[part[one]] - rows[part[other]])
        half = len(part) // 2
        order = np.argpartition(along, half)
        parts += [part[np.sort(order[:half])], part[np.sort(order[half:])]]
    return leaves


def _refine(places: _Places, indices: np.ndarray, squared: np.ndarray) -> None:
    """Try the neighbors of neighbors, in place.  Collective."""
    layout, comm = places.layout, places.layout.comm
    friends = min(FRIENDS, indices.shape[1])
    short = np.ascontiguousarray(indices[:, :friends])
    plan = RowPlan.of(layout, short)
    exchange = RowExchange(plan)
    theirs = exchange.with_ghosts(short)
    # Rows of candidates are fetched for a part of the rows at a time.
    fetched = max(FETCHED, FETCHED_PER_OWN * layout.columns * layout.rows // comm.size)
    step = max(1, fetched // (friends * friends * max(1, layout.columns)))
    steps = int(max_over_ranks(comm, math.ceil(places.own / step)))
    own = np.ascontiguousarray(places.values[: places.own])
    for number in range(steps):
        rows = slice(number * step, min((number + 1) * step, places.own))
        candidates = theirs[plan.positions(short[rows])].reshape(-1, friends * friends)
        wanted = RowPlan.of(layout, candidates)
        fetching = RowExchange(wanted)
        values = fetching.with_ghosts(own)
        at = wanted.positions(candidates)
        first = layout.start + (rows.start if rows.start < places.own else 0)
        lists = own[rows], candidates, at, indices[rows], squared[rows]

        def improve(start: int, values=values, first=first, lists=lists) -> None:
            mine, *others = (part[start : start + CHUNK] for part in lists)
            _improve(values, mine, first + start, *others)

        run_on_threads(improve, list(range(0, len(lists[0]), CHUNK)))


def _judge(places: _Places, k: int) -> Callable[[np.ndarray], float]:
    """Share of the true neighbors of a sample of rows that distances tell of.  Collective."""
    layout = places.layout
    chosen = np.unique(np.linspace(0, layout.rows - 1, min(JUDGED, layout.rows)).astype(np.int64))
    mine, total = layout.own(chosen), len(chosen) * k
    limits = nearest_neighbors(layout, places.values[: places.own], k, mine)[1][:, -1:]

    def recall(squared: np.ndarray) -> float:
        hits = (squared[mine] <= limits * (1.0 + 1e-12)).sum()
        return float(sum_over_ranks(layout.comm, float(hits))) / total

    return recall


@njit(inline="always")
def _insert(distance, candidate, distances, names):
    """Put a candidate into an ascending list, unless it is there; the last falls out."""
    low, high = 0, distances.size
    while low < high:
        middle = (low + high) // 2
        if distances[middle] < distance:
            low = middle + 1
        else:
            high = middle
    # The same pair has the same distance, to the bit.
    i = low
    while i < distances.size and distances[i] == distance:
        if names[i] == candidate:
            return
        i += 1
    for i in range(distances.size - 1, low, -1):
        distances[i] = distances[i - 1]
        names[i] = names[i - 1]
    distances[low] = distance
    names[low] = candidate


@njit(inline="always")
def _distance(a, b, limit):
    """Squared distance of two rows, or what is known of it when it exceeds the limit.

    In four sums, which need not wait for one another; their order is the same wherever it is used.
    """
    one = two = three = four = total = np.float64(0.0)
    c = 0
    while c + 4 <= a.size:
        stop = min(c + 32, a.size - a.size % 4)
        while c < stop:
            first = np.float64(a[c]) - np.float64(b[c])
            second = np.float64(a[c + 1]) - np.float64(b[c + 1])
            third = np.float64(a[c + 2]) - np.float64(b[c + 2])
            fourth = np.float64(a[c + 3]) - np.float64(b[c + 3])
            one += first * first
            two += second * second
            three += third * third
            four += fourth * fourth
            c += 4
        total = (one + two) + (three + four)
        if total >= limit:
            return total
    while c < a.size:
        first = np.float64(a[c]) - np.float64(b[c])
        total += first * first
        c += 1
    return total


@kernel()
def _insert_leaf(values, squares, rows, part, products, found, squared):
    """Try all pairs of a leaf whose distances in single precision are small enough."""
    k = found.shape[1]
    for n in range(rows.size):
        row = rows[n]
        for j in range(part.size):
            both = squares[row] + squares[part[j]]
            rough = both - np.float32(2.0) * products[n, j] - np.float32(1e-5) * both
            if rough < squared[row, k - 1] and part[j] != row:
                distance = _distance(values[row], values[part[j]], squared[row, k - 1])
                if distance < squared[row, k - 1]:
                    _insert(distance, part[j], squared[row], found[row])


@kernel()
def _improve(values, own, first, candidates, places, indices, squared):
    """Put candidates that are nearer into the ascending lists of neighbors of the rows ``own``."""
    k = indices.shape[1]
    for n in range(own.shape[0]):
        for j in range(candidates.shape[1]):
            if candidates[n, j] != first + n:
                distance = _distance(own[n], values[places[n, j]], squared[n, k - 1])
                if distance < squared[n, k - 1]:
                    _insert(distance, candidates[n, j], squared[n], indices[n])

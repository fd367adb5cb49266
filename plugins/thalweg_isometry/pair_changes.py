"""All pairs of rows before and after a compression: how much distances or products change.

A pair is bounded by one product of its rows in either table.  What the bounds leave open, and what
may be the worst pair, is measured from the rows themselves.  The products may be those of coarser
arithmetic, whose rounding the bounds contain.
"""

import importlib.util
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.engines.neighbors import nearest_neighbors
from thalweg.engines.secants import (
    LARGEST_COMPONENT,
    Block,
    Edges,
    WorstPair,
    exact_points,
    gamma,
    row_blocks,
    visit_pairs,
)
from thalweg.errors import InputError
from thalweg.numerics import unit_rows
from thalweg.parallel import MPI, Layout, raise_on_all_ranks, refuse_differing, rows_at, sum_large
from thalweg_isometry import pair_kernels as kernels

#: Matrix product of float64 arrays, and a bound of its error for so many terms, relative to the
#: norms of the factors.
Products = tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Callable[[int], float]]
DOUBLE: Products = (np.matmul, gamma)

#: Largest relative error of a factor that is rounded; cut off, as tensor cores may, in tf32.
ROUNDING = {"float64": 0.0, "float32": 2.0**-24, "tf32": 2.0**-10, "bfloat16": 2.0**-8}


def products_in(arithmetic: str) -> Products:
    """Products in an arithmetic, those below double precision by JAX, on a GPU where it has one.

    A certificate by coarse ones holds as well; more pairs are left to be measured in double.
    """
    if arithmetic not in ROUNDING:
        raise InputError(
            f"no arithmetic is named {arithmetic!r}; give one of {', '.join(ROUNDING)}"
        )
    if arithmetic == "float64":
        return DOUBLE
    if importlib.util.find_spec("jax") is None:
        raise InputError(f"products in {arithmetic} need JAX: pip install 'thalweg[jax]'")
    import jax

    single = jax.numpy.float32
    number = jax.numpy.bfloat16 if arithmetic == "bfloat16" else single
    # Other devices than GPUs may round to bfloat16 by default.
    how = "default" if arithmetic == "tf32" and jax.default_backend() == "gpu" else "highest"

    @jax.jit
    def multiply(a: Any, b: Any) -> Any:
        a, b = a.astype(number), b.astype(number)
        return jax.numpy.matmul(a, b, precision=how, preferred_element_type=single)

    # Sums on tensor cores are cut off, not rounded, and of a few bits fewer.
    return scaled(multiply, ROUNDING[arithmetic], 2.0**-22)


def scaled(multiply: Callable[[Any, Any], Any], rounding: float, unit: float) -> Products:
    """Products by ``multiply`` of float32 arrays, which rounds factors, and sums to a unit.

    Rows are scaled by powers of two, which is exact, to components below 1: nothing overflows, and
    what underflows is next to nothing beside the norms.
    """

    def product(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        sides = [np.abs(rows).max(axis=1, initial=0.0), np.abs(columns).max(axis=0, initial=0.0)]
        up, left = (np.frexp(side)[1] for side in sides)
        factors = np.ldexp(rows, -up[:, None]), np.ldexp(columns, -left)
        products = np.asarray(multiply(*(factor.astype(np.float32) for factor in factors)))
        return np.ldexp(products.astype(float), up[:, None] + left)

    def error(terms: int) -> float:
        rounded = (1.0 + 2.0**-24) * (1.0 + rounding)
        return rounded**2 * (1.0 + gamma(terms, unit)) - 1.0 + terms * 2.0**-120

    return product, error


#: Rows about whose median distances are computed; number of classes of bounds.
SAMPLE, CLASSES = 384, 2 ** (63 - kernels.BELOW)

#: Rows whose bounds the ranks compare at a time; size below which squares of whole numbers and
#: their sums are exact; rows beyond the nearest that may be as near, at first, and then of some.
STEP, WHOLE, SPARE, MORE = 2**22, 2**16, 6, 120


class Table:
    """This rank's rows before or after a compression, taken as exact.  Collective."""

    def __init__(self, layout: Layout, rows: Any, quantity: str, products: Products) -> None:
        with raise_on_all_ranks(layout.comm):
            self.rows = _checked(np.asanyarray(rows), layout.local_rows)
        refuse_differing(layout.comm, "the numbers of columns", self.rows.shape[1])
        types = layout.comm.allgather(self.rows.dtype.char)
        self.rows = self.rows.astype(np.result_type(*types), copy=False)
        terms, self.multiply = self.rows.shape[1] + 8, products[0]
        self.center, own = np.zeros(self.rows.shape[1]), 0.0
        if quantity == "cosine":
            self.rows, own = unit_rows(self.rows.astype(float)), 2.1 * gamma(terms)
        elif quantity == "distance":  # outliers do not move the median
            sample = layout.gather_some(self.rows, layout.spread(SAMPLE)).astype(float)
            self.center = np.median(sample, axis=0)
        #: Errors of bounded pairs, relative to norms, and of measured ones, to their sums' terms.
        self.errors = 1.05 * (products[1](terms) + gamma(terms)) + own, 1.05 * gamma(terms) + own
        self.norms = np.empty(len(self.rows))
        for block in row_blocks(*self.rows.shape):
            factors = self.rows[block].astype(float) - self.center
            self.norms[block] = np.sqrt((factors**2).sum(axis=1))

    def strip(self, rows: tuple[np.ndarray, ...], columns: tuple[np.ndarray, ...]) -> Any:
        """What kernels take as a table, of rows and columns and their norms."""
        values, others = rows[0].astype(float), columns[0].astype(float)
        products = self.multiply(values - self.center, (others - self.center).T)
        return (products, rows[1], columns[1], values, others, *self.errors)

    def blur(self, layout: Layout) -> float:
        """By what measured distances that are equal may differ; 0 of whole numbers.  Collective."""
        parts = (self.rows[block].astype(float) for block in row_blocks(*self.rows.shape))
        whole = all(((part == np.rint(part)) & (np.abs(part) < WHOLE)).all() for part in parts)
        return 0.0 if all(layout.comm.allgather(whole)) else 2.5 * self.errors[1]


def _strips(tables: list[Table], low: Block, high: Block, edges: Edges) -> list[Any]:
    """Of each table what kernels take."""
    top, bottom, left, right = edges
    rows = low.part(slice(top - low.start, bottom - low.start)).arrays
    columns = high.part(slice(left - high.start, right - high.start)).arrays
    parts = (slice(2 * k, 2 * k + 2) for k in range(len(tables)))
    return [table.strip(rows[k], columns[k]) for table, k in zip(tables, parts, strict=True)]


def _checked(rows: np.ndarray, count: int) -> np.ndarray:
    rows = exact_points(rows)
    if len(rows) != count:
        raise InputError(f"there are {len(rows)} compressed rows for {count} rows")
    for block in row_blocks(*rows.shape):
        size = np.abs(rows[block].astype(float))  # in single precision 1e100 is infinite
        if ((size > LARGEST_COMPONENT) | ((size > 0) & (size < 1.0 / LARGEST_COMPONENT))).any():
            raise InputError("the rows hold numbers above 1e100 or below 1e-100; scale them")
    return rows


class PairChanges:
    """How much compressed rows change a quantity of two rows, over all pairs.  Collective.

    ``points`` and ``vectors`` are this rank's rows before and after, of any widths, taken as exact;
    an ``InputError`` if they are not finite, too large or small, or of different numbers.  The
    quantity is ``"distance"``, squared; ``"inner-product"``; or ``"cosine"``, 0 with a row of
    zeros.  Relative changes are divided by the absolute value before: one from 0 is infinite.
    ``progress`` is called on every rank with the number of pairs that it has just done;
    ``products`` bound the pairs.

    ``worst`` has bounds of the largest change; ``row_worst``, shape ``(n_local, 2)``, those of each
    of this rank's rows; ``classes``, shape ``(2, CLASSES)``, are numbers of pairs by the classes of
    both bounds.
    """

    def __init__(
        self,
        layout: Layout,
        points: Any,
        vectors: Any,
        quantity: str = "distance",
        is_relative: bool = True,
        progress: Callable[[int], None] | None = None,
        products: Products = DOUBLE,
    ) -> None:
        tables = [Table(layout, rows, quantity, products) for rows in (points, vectors)]
        self.worst, row_worst = WorstPair(), np.zeros((layout.rows, 2))
        self.classes, lock, done = np.zeros((2, CLASSES)), threading.Lock(), 0

        def visit(low: Block, high: Block, edges: Edges) -> None:
            nonlocal done
            before, after = _strips(tables, low, high, edges)
            here = slice(*edges[:2]), slice(*edges[2:])
            with lock:  # together: another thread's pair must not go with this one's bounds
                worst = np.array([self.worst.least, self.worst.change])
                pair = np.array(self.worst.pair)
            bounds = [np.zeros((count, 2)) for count in before[0].shape]
            counts = np.zeros(self.classes.shape, dtype=np.int64)
            kernels.compare_pairs(
                before, after, edges[0], edges[2], quantity == "distance", is_relative, worst, pair,
                *bounds, counts,
            )  # fmt: skip
            with lock:
                done += int(counts[0].sum())
                self.classes += counts
                self.worst.offer(float(worst[1]), (int(pair[0]), int(pair[1])), float(worst[0]))
                for rows, own in zip(here, bounds, strict=True):
                    np.maximum(row_worst[rows], own, out=row_worst[rows])

        arrays = tuple(array for table in tables for array in (table.rows, table.norms))
        visit_pairs(layout, arrays, visit, lambda: done, progress)
        for other in layout.comm.allgather(self.worst):
            self.worst.offer(other.change, other.pair, other.least)
        for first in range(0, layout.rows, STEP):
            layout.comm.Allreduce(MPI.IN_PLACE, row_worst[first : first + STEP], op=MPI.MAX)
        self.row_worst = np.array(layout.local(row_worst))
        sum_large(layout.comm, self.classes)

    def quantile(self, share: float) -> tuple[float, float]:
        """Bounds of the least change that this share of all pairs does not exceed."""
        counts = np.cumsum(self.classes, axis=1)
        place = max(1, int(np.ceil(share * counts[0, -1])))
        low, high = (int(np.searchsorted(count, place)) for count in counts)
        ends = np.array([low, high + 1], dtype=np.int64) << kernels.BELOW
        lower, upper = ends.view(float).tolist()
        return lower, min(self.worst.change, upper)  # that of the last class is NaN


def candidates(
    layout: Layout, points: Any, vectors: Any, count: int, products: Products = DOUBLE
) -> tuple[np.ndarray, np.ndarray]:
    """How many others are no farther from each row, after, than any of its nearest.  Collective.

    ``points`` and ``vectors`` are those of :class:`PairChanges`; ``count`` are nearest before.
    Returns of each of this rank's rows bounds of the number, shape ``(n_local, 2)``, and the
    farthest.  Limits are widened by what rounding may hide; rows that it makes as near count in
    the upper bound, which is all others where they are more than ``MORE``.
    """
    original, table = (Table(layout, rows, "distance", products) for rows in (points, vectors))
    blur, close, lock = original.blur(layout), table.blur(layout), threading.Lock()
    wide = min(count + SPARE, max(count, layout.rows - 1))
    neighbors, before = nearest_neighbors(layout, original.rows, wide)
    values, first = table.rows.astype(float), np.arange(wide) < count
    squares, last = squares_to(layout, values, values, neighbors), before[:, count - 1 : count]
    maybe = first | ((before <= last * (1.0 + blur)) & (last * blur > 0.0))
    sure = first & (~(maybe & ~first).any(axis=1, keepdims=True) | (before < last * (1.0 - blur)))
    ends = np.stack([np.where(one, squares, 0.0).max(axis=1) for one in (sure, maybe)], axis=1)
    many, most = np.flatnonzero(maybe.all(axis=1)), min(wide + MORE, layout.rows - 1)
    if wide < most and any(layout.comm.allgather(len(many) > 0)):
        others, before = nearest_neighbors(layout, original.rows, most, many)
        maybe = before <= last[many] * (1.0 + blur)
        more = np.where(maybe, squares_to(layout, values, values[many], others), 0.0)
        ends[many, 1] = more.max(axis=1, initial=0.0)
        ends[many[maybe.all(axis=1)], 1] = np.inf
    ends *= (1.0 - close, 1.0 + close)
    limits, counts = layout.gather_rows(ends), np.zeros((layout.rows, 2))

    def visit(low: Block, high: Block, edges: Edges) -> None:
        here, (strip,) = (slice(*edges[:2]), slice(*edges[2:])), _strips([table], low, high, edges)
        within = [np.zeros((size, 2)) for size in strip[0].shape]
        kernels.count_within(strip, edges[0], edges[2], *(limits[rows] for rows in here), *within)
        with lock:
            for rows, own in zip(here, within, strict=True):
                counts[rows] += own

    visit_pairs(layout, (table.rows, table.norms), visit, lambda: 0)
    numbers = np.array(layout.local(sum_large(layout.comm, counts))).astype(np.int64)
    numbers[:, 0] += (sure & (squares > ends[:, :1])).sum(axis=1)  # which are certainly within
    farthest = neighbors[np.arange(len(values)), squares[:, :count].argmax(axis=1)]
    return np.maximum(numbers, count), farthest


def squares_to(layout: Layout, whole: Any, rows: Any, neighbors: np.ndarray) -> np.ndarray:
    """Of this rank's rows from these of the whole, numbered, shape ``(n, k)``.  Collective."""
    squares = np.empty(neighbors.shape[::-1])
    for column, own in zip(neighbors.T, squares, strict=True):
        kernels.square_distances(rows, rows_at(layout, whole, column), own)
    return squares.T

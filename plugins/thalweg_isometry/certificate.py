"""The certificate: what is proved of a linear map, or of compressed rows, over all pairs."""

from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np

from thalweg.data import Dataset
from thalweg.engines.secants import SecantSet, checked_components
from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import (
    MPI,
    agreed,
    collective_call,
    nth_over_ranks,
    raise_on_all_ranks,
    refuse_differing,
)
from thalweg.plugins import Option
from thalweg_isometry.pair_changes import PairChanges, Products, candidates, products_in
from thalweg_isometry.rank_bounds import rank_lower_bound

#: Points among which the rank bound is sought; chosen by hand.
POINTS = 1000

#: What is compared of two rows, or of one before and after.
QUANTITIES = ("distance", "inner-product", "cosine", "neighbors")

#: Shares of pairs, or of rows, whose quantiles are told; rows that a decoder is given at a time.
SHARES, DECODED = (0.5, 0.9, 0.99, 0.999), 4096


@dataclass(frozen=True)
class Certificate:
    """Certificate of a linear map over all secants of a set, or of compressed rows over all pairs.

    The largest change of a quantity of two rows lies between ``delta_lower`` and ``delta``; each
    pair is either bounded or measured.  Of a map it is the isometry constant, the largest
    ``| ||Psi v||^2 - 1 |`` over all secants v.

    Attributes
    ----------
    delta
        Upper end of the interval: no pair changes by more.
    delta_lower
        Lower end: ``pair`` changes by at least this.
    pair
        Numbers of the two points that were measured to change most; None where no change is
        certain.  Of neighbors a row, and the one of its nearest that is farthest, compressed.
    n_points, n_secants, n_coincident
        Points; pairs of distinct points; pairs of points at the same place.  Of compressed rows
        all pairs, or rows with their nearest, and None.
    rank, rank_lower_bound
        Rank of Psi, numerically; no embedding of these points with this delta, linear or not, has
        a lower rank than the second.  None of compressed rows.
    secants
        ``"all"``, ``"within-class"``, ``"neighbors"``, or ``"pairs"`` that were given, or
        ``"weighted pairs"``, whose changes are multiplied by their weights; or ``"sums"``, those of
        the points and their opposites, whose numbers are 2 i and 2 i + 1.
    quantity, relative
        What changes; see :func:`certify`.
    quantiles
        Of compressed rows: shares of the pairs, of neighbors shares of the rows, each with two
        bounds of the least change, or number, that this share of them does not exceed.
    row_worst
        Of compressed rows: bounds of the largest change, or the number, of each of this rank's,
        shape ``(n, 2)``.

    Notes
    -----
    MATHEMATICS.md says what is proved, and under which assumptions.  Both ends are rounded outward.
    The interval of a map is about 1e-8 wide; it widens with the map's norm and number of columns.
    """

    delta: float
    delta_lower: float
    pair: tuple[int, int] | None
    n_points: int
    n_secants: int
    n_coincident: int | None
    rank: int | None
    rank_lower_bound: int | None
    secants: str
    quantity: str = "distance"
    relative: bool = True
    quantiles: tuple[tuple[float, float, float], ...] = ()
    row_worst: np.ndarray | None = None

    def as_dict(self) -> dict[str, Any]:
        """The attributes but for ``row_worst``, for JSON."""
        facts = {**asdict(self), "pair": None if self.pair is None else list(self.pair)}
        del facts["row_worst"]
        return facts

    def __str__(self) -> str:
        where = "every distance is kept" if self.rank is not None else "no change is certain"
        if self.pair is not None:
            where = f"attained by points {self.pair[0]} and {self.pair[1]}"
        # The last digit is rounded up: what is printed holds as well.
        shown = Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float
        delta = shown(self.delta)
        if self.rank is None:
            what = f"{'relative' if self.relative else 'absolute'} change of the {self.quantity}"
            if self.quantity == "neighbors":
                what = f"place of the {self.n_secants // self.n_points} nearest among candidates"
            shares = (f"; of {part:.1%} at most {shown(x):g}" for part, _, x in self.quantiles)
            return (
                f"{what} at most {delta:g} over {self.n_secants} pairs of {self.n_points} rows, "
                f"{where}{''.join(shares)}"
            )
        return (
            f"delta {delta:g} over {self.n_secants} secants of {self.n_points} points "
            f"({self.secants}), {where}; "
            f"{self.n_coincident} coincident pairs; rank {self.rank}, "
            f"and no embedding of this delta has rank below {self.rank_lower_bound}"
        )


@collective_call(lambda original, *_, **__: getattr(original, "comm", MPI.COMM_SELF))
def certify(
    original: Any,
    compressed: Any,
    *,
    quantity: str = "distance",
    relative: bool = True,
    n_neighbors: int = 10,
    decoder: Callable[[Any], Any] | None = None,
    arithmetic: str = "float64",
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Certify how much a compression changes distances or products, over all pairs.  Collective.

    Parameters
    ----------
    original
        Rows, an array; a :class:`thalweg.Dataset`, whose rows may be distributed; or a
        :class:`SecantSet`.
    compressed
        This rank's compressed rows, of any width, or codes.  Of a secant set Psi, shape ``(rank,
        dimension)``, equal on all ranks, whose isometry constant is certified.
    quantity
        Of two rows their squared ``"distance"``, ``"inner-product"``, or ``"cosine"``, which is 0
        with a row of zeros.  Or ``"neighbors"``: how many other rows are, compressed, no farther
        from a row than the farthest of those that were nearest; these are among so many first
        candidates, in whatever order equal distances stand; rounding widens the interval.
    relative
        Whether changes are divided by the absolute value before: one from 0 is then infinite.
    n_neighbors
        How many nearest neighbors of each row count; of equally near ones the first.
    decoder
        Makes rows of a block of codes, some thousand at a time.  They are taken as exact.
    arithmetic
        Of the products that bound pairs: ``"float64"``; or, by JAX and on its GPU if it has one,
        ``"float32"``, ``"tf32"`` or ``"bfloat16"``. What is certified is as rigorous, and the worst
        pair the same; quantiles and rows have wider bounds.
    progress
        Called on every rank with the number of pairs that it has just done.

    Raises
    ------
    InputError
        Rows or components that do not fit, or are not finite; an unknown quantity.
    """
    comm = getattr(original, "comm", MPI.COMM_SELF)
    refuse_differing(comm, "arguments of certify", quantity, relative, n_neighbors, arithmetic)
    if not isinstance(relative, bool | np.bool_):
        raise InputError(f"relative must be True or False, not {relative!r}")
    if quantity not in QUANTITIES:
        raise InputError(f"no quantity is named {quantity!r}; give one of {', '.join(QUANTITIES)}")
    n_neighbors = Option("n_neighbors", int, 10, "rows", minimum=1).check(n_neighbors, "certify")
    if isinstance(original, SecantSet):
        if (quantity, relative, decoder, arithmetic) != ("distance", True, None, "float64"):
            raise InputError("of a map relative distances count, in float64; give certify its rows")
        return _certified_map(original, compressed, progress)
    data = original if isinstance(original, Dataset) else Dataset.from_array(original)
    layout, points = data.layout, data.values
    if layout.rows < 2:
        raise InputError("there are fewer than two rows, and so no pair")
    with raise_on_all_ranks(layout.comm):
        if decoder is not None:
            compressed = _decoded(decoder, compressed)
        if hasattr(compressed, "toarray"):
            raise InputError("the compressed rows are a sparse matrix; give their toarray()")
        products = products_in(arithmetic)
    if quantity == "neighbors":
        return _certified_neighbors(data, compressed, n_neighbors, products)
    changes = PairChanges(layout, points, compressed, quantity, relative, progress, products)
    worst, pairs = changes.worst, layout.rows * (layout.rows - 1) // 2
    quantiles = tuple((share, *changes.quantile(share)) for share in SHARES)
    return Certificate(
        worst.change, worst.least, worst.pair if worst.least > 0.0 else None, layout.rows, pairs,
        None, None, None, "all", quantity, relative, quantiles, changes.row_worst,
    )  # fmt: skip


def _decoded(decoder: Callable[[Any], Any], codes: Any) -> np.ndarray:
    """The rows of all codes."""
    if not callable(decoder) or not np.ndim(codes):
        raise InputError("a decoder is a function of a block of codes, and codes are an array")
    parts = []
    for first in range(0, max(1, np.shape(codes)[0]), DECODED):
        # Copies, since decoders may write into their block, or return the same array each time.
        part = decoder(copy(codes[first : first + DECODED]))
        refuse_masked(part, "the decoded rows")
        parts.append(np.array(part, ndmin=1))
    if len({part.shape[1:] for part in parts}) > 1:
        raise InputError("the decoder makes rows of different widths")
    return np.concatenate(parts)


def _certified_neighbors(data: Dataset, rows: Any, count: int, products: Products) -> Certificate:
    layout = data.layout
    counts, farthest = candidates(layout, data.values, rows, count, products)
    places = [int(np.ceil(share * layout.rows)) - 1 for share in (1.0, *SHARES)]
    (low, *least), (high, *most) = (
        [int(nth_over_ranks(layout.comm, ends, place)) for place in places] for ends in counts.T
    )
    at = int(np.argmax(counts[:, 0] == low)) if low in counts[:, 0] else None
    pair = None if at is None else (layout.start + at, int(farthest[at]))
    pairs = [each for each in layout.comm.allgather(pair) if each is not None]
    return Certificate(
        high, low, pairs[0], layout.rows, layout.rows * count, None, None, None,
        "neighbors", "neighbors", False, tuple(zip(SHARES, least, most, strict=True)), counts,
    )  # fmt: skip


def _certified_map(
    secants: SecantSet, components: np.ndarray, progress: Callable[[int], None] | None
) -> Certificate:
    with raise_on_all_ranks(secants.comm):
        components = checked_components(components, secants.dimension)
    refuse_differing(secants.comm, "the components", components)
    scan = secants.scan(components, progress=progress)
    rank = agreed(secants.comm, int(np.linalg.matrix_rank(components)) if len(components) else 0)
    return Certificate(
        scan.delta, scan.delta_lower, None if scan.pair[0] < 0 else scan.pair, secants.n_points,
        scan.n_secants, scan.n_coincident, rank, lower_bound(secants, scan.delta), secants.kind,
    )  # fmt: skip


def lower_bound(secants: SecantSet, delta: float) -> int:
    """Least rank of an embedding of this delta, sought among some of the points.  Collective.

    With listed secants only, no subset has all its secants, and the
    bound is that of a single one: of rank 0 is a map of the heaviest one's delta.
    """
    nothing, heaviest = np.zeros((1, secants.dimension)), 1.0
    if secants.weighted:  # coincident pairs have weights too
        heaviest = secants.scan(nothing).delta_lower
    if delta >= heaviest or secants.listed:
        return int(delta < heaviest)
    numbers, points = secants.sample(POINTS)
    labels = np.zeros(len(numbers)) if secants.labels is None else secants.labels[numbers]
    bound = max(rank_lower_bound(points[labels == c], delta) for c in np.unique(labels))
    return agreed(secants.comm, max(bound, 1))  # some may be equal points, of a class

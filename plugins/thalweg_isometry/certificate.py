"""The certificate: what is proved of a linear map over all secants of a set."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np

from thalweg.engines.secants import SecantSet, checked_components
from thalweg.errors import InputError
from thalweg.parallel import agreed, raise_on_all_ranks, refuse_differing
from thalweg_isometry.rank_bounds import rank_lower_bound

#: Points among which the rank bound is sought.
POINTS = 1000


@dataclass(frozen=True)
class Certificate:
    """Certificate of a linear map over all secants of a set.

    The isometry constant is the largest ``| ||Psi v||^2 - 1 |`` over all secants v, each of
    which is either bounded or measured.  It lies between ``delta_lower`` and ``delta``.

    Attributes
    ----------
    delta
        Upper end of the interval: no secant's squared length changes by a larger share.
    delta_lower
        Lower end: the secant of ``pair`` changes by at least this share.
    pair
        Numbers of the two points whose secant was measured to change most; None where
        every measured change is zero.
    n_points, n_secants, n_coincident
        Points; pairs of distinct points; pairs of points at the same place.
    rank
        Rank of Psi, numerically.
    rank_lower_bound
        No embedding of these points with this delta, linear or not, has a lower rank.
    secants
        ``"all"``, ``"within-class"``, ``"neighbors"``, or ``"pairs"`` that were given, or
        ``"weighted pairs"``, whose changes are multiplied by their weights.

    Notes
    -----
    Proved under these assumptions: the points and the map are exactly the numbers given
    (float64, float32 or integers up to 2^53, and float64); arithmetic is IEEE 754 with rounding to
    nearest; matrix products are sums of products in some order, with or without fused
    multiply-adds, and so err by at most ``gamma_n`` (Higham, Accuracy and Stability of
    Numerical Algorithms, sec. 3.5), which excludes fast multiplication as of Strassen.
    Both ends are rounded outward.  The interval is about 1e-8 wide; it widens
    with the norm of the map and the number of columns.
    ``rank_lower_bound`` is computed in float64 with a margin of 1e-9, not proved to the
    last rounding.
    """

    delta: float
    delta_lower: float
    pair: tuple[int, int] | None
    n_points: int
    n_secants: int
    n_coincident: int
    rank: int
    rank_lower_bound: int
    secants: str

    def as_dict(self) -> dict[str, Any]:
        """The attributes, for JSON."""
        return {**asdict(self), "pair": None if self.pair is None else list(self.pair)}

    def __str__(self) -> str:
        where = "every distance is kept"
        if self.pair is not None:
            where = f"attained by points {self.pair[0]} and {self.pair[1]}"
        # The last digit is rounded up: what is printed holds as well.
        shown = Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(self.delta)
        return (
            f"delta {shown:g} over {self.n_secants} secants of {self.n_points} points "
            f"({self.secants}), {where}; "
            f"{self.n_coincident} coincident pairs; rank {self.rank}, "
            f"and no embedding of this delta has rank below {self.rank_lower_bound}"
        )


def certify(
    secants: SecantSet, components: np.ndarray, progress: Callable[[int], None] | None = None
) -> Certificate:
    """Certify the isometry constant of a map over every secant.  Collective.

    Parameters
    ----------
    secants
        The set.
    components
        Psi, shape ``(rank, dimension)``, equal on all ranks.
    progress
        Called on every rank with the number of pairs that it has just done.

    Raises
    ------
    InputError
        Components that do not fit the points, or are not finite; arguments in the other
        order.
    """
    if not isinstance(secants, SecantSet):
        raise InputError(
            "the first argument of certify must be a SecantSet, "
            f"not {type(secants).__name__}; call certify(secants, components)"
        )
    with raise_on_all_ranks(secants.comm):
        components = checked_components(components, secants.dimension)
    refuse_differing(secants.comm, "the components", components)
    scan = secants.scan(components, progress=progress)
    return Certificate(
        delta=scan.delta,
        delta_lower=scan.delta_lower,
        pair=None if scan.pair[0] < 0 else scan.pair,
        n_points=secants.n_points,
        n_secants=scan.n_secants,
        n_coincident=scan.n_coincident,
        rank=agreed(secants.comm, int(np.linalg.matrix_rank(components)) if len(components) else 0),
        rank_lower_bound=lower_bound(secants, scan.delta),
        secants=secants.kind,
    )


def lower_bound(secants: SecantSet, delta: float) -> int:
    """Least rank of an embedding of this delta, sought among some of the points.  Collective.

    With listed secants only, no subset has all its secants, and the
    bound is that of a single one.
    """
    if delta >= 1.0:
        return 0
    if secants.listed:
        return 1
    numbers, points = secants.sample(POINTS)
    if secants.labels is None:
        bound = rank_lower_bound(points, delta)
    else:
        labels = secants.labels[numbers]
        bound = max(rank_lower_bound(points[labels == c], delta) for c in np.unique(labels))
    return agreed(secants.comm, max(bound, 1))

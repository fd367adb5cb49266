"""The certificate: what is true of a linear map over all secants of a set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from thalweg.parallel.pairs.secant_input import checked_components
from thalweg.parallel.pairs.secants import SecantSet
from thalweg_isometry.rank_bounds import rank_lower_bound

#: Points among which the rank bound is sought.
POINTS = 1000


@dataclass(frozen=True)
class Certificate:
    """Facts established by looking at every secant.

    Attributes
    ----------
    delta
        Isometry constant: largest ``| ||Psi v||^2 - 1 |`` over all secants v.
    pair
        Numbers of the two points whose secant attains it; None where every distance is kept.
    n_points, n_secants, n_coincident
        Points; pairs of distinct points; pairs of points at the same place.
    rank
        Rank of Psi.
    rank_lower_bound
        No embedding of these points with this delta, linear or not, has a lower rank.
    secants
        ``"all"``, ``"within-class"`` or ``"neighbours"``.
    """

    delta: float
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
        return (
            f"delta {self.delta:.6g} over {self.n_secants} secants of {self.n_points} points "
            f"({self.secants}), {where}; "
            f"{self.n_coincident} coincident pairs; rank {self.rank}, "
            f"and no embedding of this delta has rank below {self.rank_lower_bound}"
        )


def certify(
    secants: SecantSet, components: np.ndarray, progress: Callable[[int], None] | None = None
) -> Certificate:
    """Look at every secant.  Collective.

    Parameters
    ----------
    secants
        The set.
    components
        Psi, shape ``(rank, dimension)``, equal on all ranks.

    Raises
    ------
    InputError
        Components that do not fit the points, or are not finite.
    """
    components = checked_components(components, secants.dimension)
    scan = secants.scan(components, progress=progress)
    return Certificate(
        delta=scan.delta,
        pair=None if scan.pair[0] < 0 else scan.pair,
        n_points=secants.n_points,
        n_secants=scan.n_secants,
        n_coincident=scan.n_coincident,
        rank=int(np.linalg.matrix_rank(components)) if len(components) else 0,
        rank_lower_bound=lower_bound(secants, scan.delta),
        secants=kind_of(secants),
    )


def kind_of(secants: SecantSet) -> str:
    """Which pairs of points are secants."""
    if secants.listed:
        return "neighbours"
    return "all" if secants.labels is None else "within-class"


def lower_bound(secants: SecantSet, delta: float) -> int:
    """Least rank of an embedding of this delta, sought among some of the points.  Collective.

    With secants between neighbours only, no subset has all its secants, and the
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
    return int(secants.comm.bcast(max(bound, 1)))

"""What an objective offers to the engine: bounds on the lengths of all secants of a set."""

from typing import TYPE_CHECKING

import numpy as np

from thalweg.capability import Capability

if TYPE_CHECKING:
    from thalweg.engines.secants.secants import SecantSet


class SecantConstraints(Capability):
    """Bounds on how much a linear map may change the length of any secant of a set.

    The variable is the map Psi, replicated, with at least as many rows as the
    largest rank allowed; rows that are zero do not count.

    Attributes
    ----------
    secants
        The oracle that finds the secants whose length changes most.
    wanted_delta
        Largest relative change of a squared length that is allowed; None to minimize it.
    wanted_rank
        Rank of Psi; None to minimize it.
    cuts
        Pairs of points, global numbers, shape ``(m, 2)``, that a solver works on from the
        start, some from each rank; None: none.
    last_cuts
        This rank's cuts at the end of the last run of a solver by cutting planes.
    """

    phrase = "secant set"
    secants: "SecantSet"
    wanted_delta: float | None
    wanted_rank: int | None
    cuts: np.ndarray | None = None
    last_cuts: np.ndarray | None = None

"""The capability that the preconditioner ``sd-minus`` needs."""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any

from thalweg.interfaces import Capability
from thalweg.parallel import Vector


class RepulsiveBlocks(Capability):
    """The positive part of the repulsive Hessian that is block diagonal over columns.

    For SD-: ``8 lambda L^xx_(i.,i.)`` with positive weights only.
    """

    phrase = "block-diagonal repulsive Hessian"

    @abstractmethod
    def repulsive_product(self, x: Vector, direction: Vector, product: Vector) -> None:
        """Overwrite ``product`` with the block-diagonal part times ``direction``."""

    @classmethod
    def check(cls, objective: Any, x: Vector) -> None:
        """Check that the repulsive part is symmetric and never negative.  Collective."""
        from thalweg.testing import applied, check_symmetric, random_direction

        u, v = random_direction(objective, 11), random_direction(objective, 12)

        product = functools.partial(objective.repulsive_product, x)
        check_symmetric(product, u, v, "the repulsive part")
        bu = applied(product, u, "the repulsive part")
        curvature = u.dot(bu)
        assert curvature >= -1e-10 * u.norm() * bu.norm(), (
            f"the repulsive part has negative curvature {curvature:.3e} along a direction"
        )

"""The capability that the preconditioner ``sd-minus`` needs."""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any

from thalweg.interfaces import Capability
from thalweg.parallel import Array


class RepulsiveBlocks(Capability):
    """The positive part of the repulsive Hessian that is block diagonal over columns.

    For SD-: ``8 lambda L^xx_(i.,i.)`` with positive weights only.
    """

    phrase = "block-diagonal repulsive Hessian"

    @abstractmethod
    def repulsive_product(self, x: Array, direction: Array) -> Array:
        """The block-diagonal part times ``direction``."""

    @classmethod
    def check(cls, objective: Any, x: Array) -> None:
        """Check that the repulsive part is symmetric and never negative.  Collective."""
        from thalweg.testing import applied, check_symmetric, random_direction

        layout = objective.layout
        u, v = random_direction(objective, 11), random_direction(objective, 12)

        product = functools.partial(objective.repulsive_product, x)
        check_symmetric(product, layout, u, v, "the repulsive part")
        bu = applied(product, layout, u, "the repulsive part")
        curvature = layout.dot(u, bu)
        assert curvature >= -1e-10 * layout.norm(u) * layout.norm(bu), (
            f"the repulsive part has negative curvature {curvature:.3e} along a direction"
        )

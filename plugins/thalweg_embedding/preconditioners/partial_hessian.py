"""SD-: the attractive Laplacian and the convex block-diagonal part of the repulsion."""

import functools
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from thalweg.engines.laplacian import AttractiveLaplacian
from thalweg.interfaces import Capability, Objective, Preconditioner, Rows
from thalweg.numerics import conjugate_gradients
from thalweg.parallel import Array, Layout
from thalweg.plugins import Help
from thalweg_embedding.preconditioners.spectral import SpectralDirection
from thalweg_embedding.relocation import RowMatrix, degrees_and_free, placed_weights


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
        from thalweg.testing import applied, check_symmetric

        layout = objective.layout
        u, v = objective.layout.random_normal(11), objective.layout.random_normal(12)

        product = functools.partial(objective.repulsive_product, x)
        check_symmetric(product, layout, u, v, "the repulsive part")
        bu = applied(product, layout, u, "the repulsive part")
        curvature = layout.dot(u, bu)
        assert curvature >= -1e-10 * layout.norm(u) * layout.norm(bu), (
            f"the repulsive part has negative curvature {curvature:.3e} along a direction"
        )


#: So small that conjugate gradients may take the spectral direction for linear.
INNER_RESIDUAL = 1e-2


@dataclass(frozen=True)
class Memory:
    """The previous solution, from which the next inner iteration starts."""

    previous: Rows


@dataclass
class PartialHessian(Preconditioner):
    """B = 4 L+ + 8 lambda L^xx_(i.,i.), solved with by conjugate gradients.

    L^xx is taken at the present iterate, block diagonal over the columns of the map and
    with positive weights only.  The inner iteration starts from the previous solution.

    Parameters
    ----------
    neighbors
        kappa of the spectral factor inside (see ``spectral``).
    tolerance
        Relative residual at which the inner iteration ends.
    inner_iterations
        Most inner steps.
    inner
        Preconditioner of the inner iteration: ``"spectral"``, or ``"none"`` as in the paper.
    """

    neighbors: Annotated[int | None, Help("weights kept per row of its factor", minimum=0)] = None
    tolerance: Annotated[float, Help("relative residual of the inner CG", above=0)] = 0.1
    inner_iterations: Annotated[int, Help("most steps of the inner CG", minimum=1)] = 50
    inner: Annotated[Literal["spectral", "none"], Help("factor of the inner CG")] = "spectral"
    _factor: SpectralDirection | None = field(default=None, init=False, repr=False)

    requires: ClassVar[tuple[type[Capability], ...]] = (AttractiveLaplacian, RepulsiveBlocks)

    def setup(self, objective: Objective, x: Array) -> None:
        self._objective: Any = objective
        self._layout: Layout = objective.layout
        self._take_weights(x)
        if self.inner == "spectral":
            self._factor = SpectralDirection(self.neighbors, residual=INNER_RESIDUAL)
            self._factor.setup(objective, x)
        self._point = x
        self._previous = np.zeros_like(x)

    def update(self, x: Array) -> None:
        """Remember the iterate at which the repulsion's part is taken."""
        self._point = x
        if self._objective.attraction_changes:
            self._take_weights(x)
        if self._factor is not None:
            self._factor.update(x)

    def _take_weights(self, x: Array) -> None:
        weights, places = placed_weights(self._objective, x)
        degrees, self._free = degrees_and_free(self._objective, x)
        self._degrees = degrees[:, None]
        self._weights = RowMatrix(self._layout, weights, places)

    def _product(self, direction: Array) -> Array:
        repelled = self._objective.repulsive_product(self._point, direction)
        pulled = self._degrees * direction - self._weights.multiply(direction)
        return repelled + self._objective.attraction_scale * self._free * pulled

    def apply(self, residual: Array) -> Array:
        """Preconditioned conjugate gradients on B direction = residual."""
        layout, direction = self._layout, self._previous
        image = self._product(direction)
        # Of the previous solution that multiple is taken which fits best.
        curvature = layout.dot(direction, image)
        share = layout.dot(residual, direction) / curvature if curvature > 0.0 else 0.0
        direction = share * direction
        rest = layout.combine(residual, (-share,), (image,))
        goal = (self.tolerance * layout.norm(residual)) ** 2
        self._previous = conjugate_gradients(
            self._product, direction, rest, layout.dot, goal, self.inner_iterations,
            None if self._factor is None else self._factor.apply,
            lambda a, weight, b: layout.combine(a, (weight,), (b,)),
        ).x  # fmt: skip
        return self._previous

    def state(self) -> Any:
        """The previous solution, as a :class:`Memory`."""
        return Memory(self._previous)

    def restore(self, state: Any) -> None:
        self._previous = state.previous

    def close(self) -> None:
        if self._factor is not None:
            self._factor.close()

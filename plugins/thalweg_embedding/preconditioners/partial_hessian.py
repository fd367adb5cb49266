"""SD-: the attractive Laplacian and the convex block-diagonal part of the repulsion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from thalweg.engines.laplacian import AttractiveLaplacian, RowMatrix
from thalweg.interfaces import Capability, Objective, Preconditioner
from thalweg.parallel import Layout, Vector
from thalweg.plugins import Help
from thalweg_embedding.preconditioners.spectral import SpectralDirection
from thalweg_embedding.repulsive_blocks import RepulsiveBlocks


class _InnerSolver(SpectralDirection):
    """The spectral direction, so accurate that conjugate gradients may take it for linear."""

    residual: ClassVar[float] = 1e-2


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

    neighbors: Annotated[
        int | None,
        Help("weights kept per row of the Laplacian that preconditions the inner CG", minimum=0),
    ] = None
    tolerance: Annotated[float, Help("relative residual of the inner CG", above=0)] = 0.1
    inner_iterations: Annotated[int, Help("maximum number of steps of the inner CG", minimum=1)] = (
        50
    )
    inner: Annotated[Literal["spectral", "none"], Help("preconditioner of the inner CG")] = (
        "spectral"
    )
    _factor: SpectralDirection | None = field(default=None, init=False, repr=False)

    requires: ClassVar[tuple[type[Capability], ...]] = (AttractiveLaplacian, RepulsiveBlocks)

    def setup(self, objective: Objective, x: Vector) -> None:
        """Factor the attractive part."""
        self._objective = objective
        self._layout: Layout = objective.layout
        assert isinstance(objective, AttractiveLaplacian)
        self._take_weights(objective, x)
        if self.inner == "spectral":
            self._factor = _InnerSolver(self.neighbors)
            self._factor.setup(objective, x)
        self._point = x.copy()
        self._previous = x.duplicate()
        self._previous.set(0.0)

    def update(self, x: Vector) -> None:
        """Remember the iterate at which the repulsion's part is taken."""
        x.copy(self._point)
        objective = self._objective
        assert isinstance(objective, AttractiveLaplacian)
        if objective.attraction_changes:
            self._take_weights(objective, x)
        if self._factor is not None:
            self._factor.update(x)

    def _take_weights(self, objective: AttractiveLaplacian, x: Vector) -> None:
        weights, places = objective.placed_weights(x)
        degrees = np.asarray(weights.sum(axis=1), dtype=float).reshape(-1, 1)
        self._degrees = degrees if places is None else places.backward(degrees)
        self._weights = RowMatrix(self._layout, weights, places)

    def _product(self, vector: Vector, product: Vector) -> None:
        objective, layout = self._objective, self._layout
        assert isinstance(objective, AttractiveLaplacian)
        assert isinstance(objective, RepulsiveBlocks)
        objective.repulsive_product(self._point, vector, product)
        rows = layout.reading(vector)
        pulled = self._degrees * rows - self._weights.multiply(rows)
        with layout.writing(product) as out:
            out += objective.attraction_scale * pulled

    def apply(self, residual: Vector, direction: Vector) -> None:
        """Preconditioned conjugate gradients on B direction = residual."""
        self._previous.copy(direction)
        image, rest, search, scaled = (residual.duplicate() for _ in range(4))
        self._product(direction, image)
        # Of the previous solution that multiple is taken which fits best.
        curvature = direction.dot(image)
        share = residual.dot(direction) / curvature if curvature > 0.0 else 0.0
        direction.scale(share)
        residual.copy(rest)
        rest.axpy(-share, image)
        self._improve(residual.norm(), direction, rest, search, image, scaled)
        direction.copy(self._previous)

    def _improve(
        self,
        size: float,
        direction: Vector,
        rest: Vector,
        search: Vector,
        image: Vector,
        scaled: Vector,
    ) -> None:
        alignment = 0.0
        for step in range(self.inner_iterations):
            if rest.norm() <= self.tolerance * size:
                return
            if self._factor is not None:
                self._factor.apply(rest, scaled)
            else:
                rest.copy(scaled)
            last, alignment = alignment, rest.dot(scaled)
            if not alignment > 0.0:
                return
            search.aypx(0.0 if step == 0 else alignment / last, scaled)
            self._product(search, image)
            curvature = search.dot(image)
            if not curvature > 0.0:
                return
            direction.axpy(alignment / curvature, search)
            rest.axpy(-alignment / curvature, image)

    def state(self) -> Mapping[str, Any]:
        """The previous solution, from which the next inner iteration starts."""
        return {"previous": self._previous}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back the previous solution."""
        state["previous"].copy(self._previous)

    def close(self) -> None:
        """Free the factor.  Collective."""
        if self._factor is not None:
            self._factor.close()

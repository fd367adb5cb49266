"""Anchored points: places of the map that points keep, or that they are drawn to."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import (
    Array,
    Layout,
    on_root,
    raise_on_all_ranks,
    refuse_differing,
    sum_over_ranks,
)
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding
from thalweg_embedding.preconditioners.spectral import SpectralDirection
from thalweg_embedding.relocation import RowMatrix, degrees_and_free, placed_weights


def anchor_table(given: Any, layout: Layout, numbers: np.ndarray | None = None) -> np.ndarray:
    """Numbers of anchored points, and after each its place; shape (n_anchored, 1 + columns).

    ``given``: that table, also as a dictionary or the name of a file, ``.npy`` or lines ``number,
    x, y``; or an array of places, also ``.npy``, NaN of points that are free as those beyond the
    last are.  A file names rows of the source, which ``numbers`` tells as points, -1 as none.
    """
    numbers = numbers if isinstance(given, str | Path) else None
    numbered = isinstance(given, Mapping)
    refuse_masked(given, "the anchors")
    try:
        if isinstance(given, Mapping):
            given = [(row, *np.ravel(place)) for row, place in given.items()]
        elif isinstance(given, str | Path):
            file = Path(given).expanduser()
            numbered = file.suffix != ".npy"
            given = np.load(file) if file.suffix == ".npy" else np.loadtxt(file, delimiter=",")
        table = np.atleast_2d(np.asarray(given))
        if np.iscomplexobj(table) or not table.size:
            raise TypeError("there are no real ones")
        table = table.astype(float)
    except (OSError, TypeError, ValueError) as error:
        raise InputError(f"the anchors cannot be read as an array of numbers: {error}") from error
    if table.shape[1:] == (layout.columns,) and not numbered:
        table = np.column_stack([np.arange(len(table)), table])[~np.isnan(table).all(axis=1)]
    fits = table.shape == (len(np.unique(table[:, 0])), 1 + layout.columns) and table.size > 0
    count = layout.rows if numbers is None else len(numbers)
    if not (fits and np.isin(table[:, 0], np.arange(count)).all() and np.isfinite(table).all()):
        raise InputError(
            f"anchors must be rows of {layout.columns} coordinates, NaN for free points, or of the "
            f"number of a point, each once from 0 to {count - 1}, and its coordinates"
        )
    if numbers is not None:
        table[:, 0] = numbers[table[:, 0].astype(int)]
        table = table[table[:, 0] >= 0]
        if not len(table):
            raise InputError("no anchor is among the rows that [data] chooses")
    return table


@dataclass(frozen=True)
class Anchors:
    """Which of this rank's points have a place of their own, and how they are held there.

    Where ``free`` is False, shape (local_rows, 1), a point stays at its row of ``places``; to where
    ``pull`` is above 0, of that shape too, 2 pull |x - t|^2 draws it.
    """

    layout: Layout
    places: np.ndarray  # zeros for points without one
    pull: np.ndarray
    free: np.ndarray

    @classmethod
    def of(
        cls, given: Any, weight: float | None, layout: Layout, numbers: np.ndarray | None = None
    ) -> "Anchors | None":
        """What a user gives, the same on all ranks.  Collective.

        A weight of 1 draws as strongly as a point's neighbors do where they are near.
        """
        if given is None:
            if weight is not None:
                raise InputError("anchor_weight has no meaning without anchors; leave it out")
            return None
        with raise_on_all_ranks(layout.comm):
            own = given if isinstance(given, str | Path) else anchor_table(given, layout)
        refuse_differing(layout.comm, "the anchors", own)
        table = on_root(layout.comm, lambda: anchor_table(own, layout, numbers))
        rows = table[:, 0].astype(int) - layout.start
        here, places = (rows >= 0) & (rows < layout.local_rows), np.zeros(layout.shape)
        anchored, rows = np.zeros((layout.local_rows, 1), dtype=bool), rows[here]
        places[rows], anchored[rows] = table[here, 1:], True
        pull = (weight or 0.0) / layout.rows * anchored
        return cls(layout, places, pull, ~anchored | bool(weight))


class AnchoredEmbedding(PairwiseEmbedding):
    """An embedding some of whose points are anchored.

    Points that stay are no variables: the objective takes them from their places whatever is in
    their rows, and derivatives along them are zero.  :meth:`solution` has the places; in ``x``
    these rows have no meaning.
    """

    anchors: Anchors

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "anchors": self.anchors}

    def _placed(self, x: Array) -> Array:
        return np.where(self.anchors.free, x, self.anchors.places)

    def draw_start(self) -> None:
        """Add to the start where affinities draw points that anchored ones are near.  Collective.

        Of sum p_nm d_nm, with anchors, that is the minimum, which one step by 4 L+ reaches.
        """
        start = self.start
        detail = np.zeros(self.layout.shape) if start.fixed is None else start.fixed
        x, whole = self._placed(detail), SpectralDirection(self.layout.rows, residual=1e-3)
        whole.setup(self, x)
        degrees, free = degrees_and_free(self, x)
        slopes = degrees[:, None] * x - RowMatrix(self.layout, *placed_weights(self, x)).multiply(x)
        slopes -= self.anchors.pull * self.anchors.places
        x = x - whole.apply(self.attraction_scale * free * slopes)
        whole.close()
        noise = start.scale if start.fixed is None else start.noise
        self.start = replace(start, fixed=x + detail, noise=noise)

    def initial_point(self, seed: int) -> Array:
        return self._placed(super().initial_point(seed))

    def solution(self, x: Array) -> np.ndarray:
        return self._placed(x)

    def metrics(self, x: Array) -> Mapping[str, Any]:
        return super().metrics(self._placed(x))

    def _with_pull(self, x: Array, value: float) -> float:
        square = float((self.anchors.pull * (x - self.anchors.places) ** 2).sum())
        pulled, attracted = 2.0 * float(sum_over_ranks(self.comm, square)), self._last[1]
        self._last = value + pulled, attracted + pulled, self._last[2]
        return value + pulled

    def value(self, x: Array) -> float:
        return self._with_pull(x, super().value(self._placed(x)))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        value, gradient = super().value_and_gradient(self._placed(x))
        gradient += 4.0 * self.anchors.pull * (x - self.anchors.places)
        return self._with_pull(x, value), self.anchors.free * gradient

    def hessian_product(self, x: Array, direction: Array) -> Array:
        moved = self.anchors.free * direction
        product = super().hessian_product(self._placed(x), moved)
        return self.anchors.free * (product + 4.0 * self.anchors.pull * moved)

    def hessian_diagonal(self, x: Array) -> Array:
        return np.asarray(self.anchors.free * super().hessian_diagonal(self._placed(x)))

    def rowwise_diagonal(self, x: Array) -> Array:
        return super().rowwise_diagonal(x) + 4.0 * self.anchors.pull

    def repulsive_product(self, x: Array, direction: Array) -> Array:
        moved = self.anchors.free * direction
        return self.anchors.free * super().repulsive_product(self._placed(x), moved)

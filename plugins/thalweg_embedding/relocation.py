"""Rows of a graph placed where their edges are: rows that attract each other lie on one rank.

Where rows are in no order, a graph's edges name nearly every row on every rank, and a fetch of
ghost rows brings the whole array.  Of rows that were relocated only those at borders are fetched.
"""

from typing import Any

import numpy as np
import scipy.sparse

from thalweg.engines.laplacian import AttractiveLaplacian
from thalweg.parallel import Array, Layout, RowExchange, RowPlan, RowRoutes, rows_at
from thalweg_embedding.affinities.symmetric import renumbered


class Relocation:
    """Rows of a layout at ranks chosen row by row, and their exchange in both directions.

    Rows that a graph's edges connect, or that lie close together, come to one rank: exchanges of
    ghost rows are then as small as the borders.  Collective, as all its methods.

    ``destinations`` are the ranks that this rank's rows go to, shape (local_rows,); ``origin`` is
    the layout of the rows as given, and ``layout`` that at their new places, with new numbers.
    """

    def __init__(self, layout: Layout, destinations: np.ndarray) -> None:
        self.origin = layout
        self._routes = RowRoutes(layout.comm, destinations)
        arrived = int(self._routes.received.sum())
        self.layout = Layout(layout.comm, layout.rows, layout.columns, local_rows=arrived)

    def forward(self, block: np.ndarray) -> np.ndarray:
        """The rows that are placed at this rank, from the ranks' rows ``block`` of the origin."""
        return self._routes.deliver(block)

    def backward(self, block: np.ndarray) -> np.ndarray:
        """This rank's rows of the origin, from the rows placed at the ranks: the inverse."""
        return self._routes.give_back(block)

    def new_numbers(self, rows: np.ndarray) -> np.ndarray:
        """New numbers of rows given by their numbers in the origin; int64, of the same shape."""
        numbers = self.backward(np.arange(self.layout.start, self.layout.stop))
        return rows_at(self.origin, numbers, rows)

    def backward_matrix(self, matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
        """This rank's rows of the origin, of a square matrix with rows and columns as placed."""
        own = self.forward(np.arange(self.origin.start, self.origin.stop))
        return renumbered(matrix, self.layout, own, self.origin)


class RowMatrix:
    """A matrix distributed by rows, which multiplies arrays distributed in the same way.

    ``rows`` are this rank's, shape (local_rows, rows), CSR or dense, and ``places`` tells where the
    matrix's rows lie, if not where the arrays' do.  Collective, as all its methods.
    """

    def __init__(
        self,
        layout: Layout,
        rows: scipy.sparse.csr_matrix | np.ndarray,
        places: Relocation | None = None,
    ) -> None:
        self._layout = layout = layout if places is None else places.layout
        self._rows, self._places = rows, places
        self._exchange: RowExchange | None = None
        if not isinstance(rows, np.ndarray):
            plan = RowPlan.of(layout, rows.indices)
            self._exchange = RowExchange(plan)
            self._rows = scipy.sparse.csr_matrix(
                (rows.data, plan.positions(rows.indices), rows.indptr),
                shape=(layout.local_rows, layout.local_rows + len(plan.ghosts)),
            )

    def multiply(self, block: np.ndarray) -> np.ndarray:
        """This rank's rows of the product with the array whose rows here are ``block``."""
        places = self._places
        here = block if places is None else places.forward(block)
        gather = self._layout.gather_rows if self._exchange is None else self._exchange.with_ghosts
        product = np.asarray(self._rows @ gather(here))
        return product if places is None else places.backward(product)


def placed_weights(
    objective: AttractiveLaplacian, x: Array
) -> tuple[scipy.sparse.csr_matrix | np.ndarray, Relocation | None]:
    """The attractive weights where an objective holds them, and how its rows come there.

    An objective says so by a method ``placed_weights(x)``; those of others lie as the variable
    does, with None.
    """
    own: Any = getattr(objective, "placed_weights", None)
    return (objective.attractive_weights(x), None) if own is None else own(x)


def degrees_and_free(objective: Any, x: Array) -> tuple[np.ndarray, np.ndarray]:
    """Row sums of the attractive weights with pulls to anchors, and whether points may move."""
    weights, places = placed_weights(objective, x)
    sums = np.asarray(weights.sum(axis=1), dtype=float).ravel()
    if places is not None:
        sums = places.backward(sums)
    if (anchors := getattr(objective, "anchors", None)) is not None:
        return sums + anchors.pull[:, 0], anchors.free
    return sums, np.ones((len(sums), 1), dtype=bool)

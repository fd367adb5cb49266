"""SD, the spectral direction: the attractive Laplacian 4 L+, factored once."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy.sparse

from thalweg.engines.laplacian import AttractiveLaplacian, LaplacianSolver, component_labels
from thalweg.interfaces import Capability, Objective, Preconditioner
from thalweg.parallel import Array, Layout, kernel, min_over_ranks
from thalweg.plugins import Help
from thalweg_embedding.affinities.symmetric import Weights, transposed
from thalweg_embedding.defaults import FULL_LIMIT, MAX_NEIGHBORS, MIN_NEIGHBORS, SHARE_OF_NEIGHBORS
from thalweg_embedding.preconditioners.diagonal import floored
from thalweg_embedding.relocation import degrees_and_free, placed_weights

#: mu as a share of the smallest diagonal entry; the second where the graph falls apart.
SHIFT = 1e-10
SHIFT_OF_PIECES = 1e-2

#: Degree of a point that stays where it is, over its own: others see it at rest.
AT_REST = 1e10

#: Relative residuals of solves.
LOOSE, EXACT = 0.1, 1e-8


@dataclass
class SpectralDirection(Preconditioner):
    """B = 4 (D+ - W_kappa) + mu I, of Vladymyrov and Carreira-Perpinan (2012).

    Parameters
    ----------
    neighbors
        kappa: the largest weights kept in a row of W, made symmetric.  The degrees D+
        are always those of the whole graph, so that 0 is the fixed-point iteration and N
        the full Laplacian.  None: all weights up to 1,000 points; beyond, a sixth of what a
        row has on average, but 7 to 20.
    method
        Method of :class:`~thalweg.engines.laplacian.LaplacianSolver`.
    residual
        Relative residual of a solve, where it is iterated.  By default the direction is that of
        the paper to 1e-8; as H0 of L-BFGS, which takes as many steps with either, 0.1.

    Notes
    -----
    mu is 1e-10 times the smallest diagonal entry.  Where a full graph falls into several
    pieces, B would not see how these lie to each other; mu is then 1e-2 times that entry.
    Affinities that would make up less, were all between a point and others as small, do not
    count: they may be 1e-40.
    """

    neighbors: Annotated[
        int | None, Help("largest weights kept per row; all to 1,000 points, or 7 to 20", minimum=0)
    ] = None
    method: Annotated[
        Literal["auto", "cholmod", "petsc", "mumps", "blocks", "dense", "superlu",
                "amg", "icc", "jacobi"],
        Help("how linear systems with the Laplacian are solved"),
    ] = "auto"  # fmt: skip
    residual: Annotated[
        float | None, Help("relative, of a solve; 0.1 in L-BFGS, else 1e-8", above=0, below=1)
    ] = None

    requires: ClassVar[tuple[type[Capability], ...]] = (AttractiveLaplacian,)

    def setup(self, objective: Objective, x: Array) -> None:
        self._objective: Any = objective
        self.constant = not objective.attraction_changes  # type: ignore[attr-defined]
        self._solver = self._factored(x)

    def update(self, x: Array) -> None:
        if self._objective.attraction_changes:
            self._solver.close()
            self._solver = self._factored(x)

    def _factored(self, x: Array) -> LaplacianSolver:
        objective = self._objective
        layout, scale = objective.layout, objective.attraction_scale
        weights: Any
        weights, self._places = placed_weights(objective, x)
        degrees, self._free = degrees_and_free(objective, x)
        free = self._free[:, 0]
        if self._places is not None:
            layout = self._places.layout.with_columns(layout.columns)
            degrees, free = self._places.forward(degrees), self._places.forward(free)
        degrees = floored(layout, degrees)
        kappa = self.neighbors
        if kappa is None:
            here = weights.nnz if scipy.sparse.issparse(weights) else np.count_nonzero(weights)
            average = layout.comm.allreduce(int(here)) / layout.rows
            kappa = int(min(MAX_NEIGHBORS, max(MIN_NEIGHBORS, average / SHARE_OF_NEIGHBORS)))
            kappa = layout.rows if layout.rows <= FULL_LIMIT else kappa
        share = SHIFT
        least = min_over_ranks(layout.comm, float(degrees.min(initial=np.inf)))
        if kappa < layout.rows - 1:
            weights = strongest(layout, weights, kappa)
        elif component_labels(layout, weights > SHIFT_OF_PIECES * least / layout.rows)[0] > 1:
            share = SHIFT_OF_PIECES
        degrees = np.where(free, degrees, AT_REST * degrees)
        rtol = self.residual or (LOOSE if self.loose else EXACT)
        how: Any = {"shift": share * scale * least, "method": self.method, "rtol": rtol}
        solver = LaplacianSolver(layout, weights, scale=scale, degrees=degrees, **how)
        self.note(f"the spectral direction solves with the Laplacian by {solver.description}")
        return solver

    def apply(self, residual: Array) -> Array:
        if self._places is None:
            return self._free * self._solver.solve(residual)
        solution = self._solver.solve(self._places.forward(residual))
        return self._free * self._places.backward(solution)

    def close(self) -> None:
        if hasattr(self, "_solver"):  # a run may be refused before set-up
            self._solver.close()


def strongest(layout: Layout, weights: Weights, kappa: int) -> scipy.sparse.csr_matrix:
    """Each row's kappa largest weights, made symmetric.  Collective.

    An entry of ``weights``, symmetric over the ranks, shape (local_rows, rows), stays if it is
    among the kappa largest of its row or of its column; ties go to the smaller column.
    """
    sparse = scipy.sparse.csr_matrix(weights)
    if not sparse.has_sorted_indices:
        sparse = sparse.sorted_indices()
    starts = np.concatenate([[0], np.cumsum(np.minimum(np.diff(sparse.indptr), kappa))])
    heaviest = np.empty(starts[-1], dtype=np.int64)
    _select(sparse.indptr, sparse.data, starts, heaviest)
    entries = sparse.data[heaviest], sparse.indices[heaviest], starts
    one_way = scipy.sparse.csr_matrix(entries, shape=sparse.shape)
    return one_way.maximum(transposed(layout, one_way)).tocsr()


@kernel()
def _select(indptr, weights, starts, heaviest):  # type: ignore[no-untyped-def]
    """Positions of each row's largest weights, in ascending order."""
    # Numba takes ten seconds to compile a partition, and some to compile a parallel loop.
    for n in range(indptr.size - 1):
        row, chosen = weights[indptr[n] : indptr[n + 1]], heaviest[starts[n] : starts[n + 1]]
        if chosen.size == 0:
            continue
        largest = np.full(chosen.size, -np.inf)
        for weight in row:
            place = chosen.size
            while place > 0 and largest[place - 1] < weight:
                place -= 1
            for later in range(chosen.size - 1, place, -1):
                largest[later] = largest[later - 1]
            if place < chosen.size:
                largest[place] = weight
        ties = chosen.size - (largest > largest[-1]).sum()  # the first ones stay
        place = 0
        for entry in range(row.size):
            if row[entry] > largest[-1] or (row[entry] == largest[-1] and ties > 0):
                ties -= row[entry] == largest[-1]
                chosen[place] = indptr[n] + entry
                place += 1

"""Springs between nearest neighbors, and a repulsion of all pairs: the engines from outside.

Everything comes from the public names of thalweg: the exact neighbor search, row exchanges,
sums over all pairs with a kernel of one's own, the Laplacian solver, and the secant oracle.
"""

import numpy as np
import scipy.sparse

from thalweg.engines.laplacian import AttractiveLaplacian, LaplacianSolver
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.engines.secants import SecantSet
from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import RowExchange, RowPlan, RowRoutes, sum_over_ranks
from thalweg_clustering.kernel_sums import KernelSums


class SpringMap(Objective, AttractiveLaplacian):
    """``E(Y) = 1/2 sum_ij w_ij |y_i - y_j|² + sum_ij (1 + |y_i - y_j|²)^-2``, over ordered pairs.

    ``w`` is 1 for rows of the data of which one is among the nearest of the other, else 0.

    Parameters
    ----------
    dataset
        The data, rows on the ranks.
    comm
        The ranks.
    dimension
        Dimensions of the map.
    neighbors
        Nearest neighbors of a row.
    """

    attraction_scale = 2.0

    def __init__(self, dataset, comm, dimension=2, neighbors=5):
        super().__init__(comm, dataset.layout.with_columns(dimension))
        self.data, self.data_layout = dataset.values, dataset.layout
        self.weights = neighbor_graph(dataset, neighbors)
        self.degrees = np.asarray(self.weights.sum(axis=1))
        plan = RowPlan.of(self.layout, self.weights.indices)
        self.exchange = RowExchange(plan)
        self.springs = scipy.sparse.csr_matrix(  # with columns of own rows, then of others'
            (self.weights.data, plan.positions(self.weights.indices), self.weights.indptr),
            shape=(self.layout.local_rows, self.layout.local_rows + len(plan.ghosts)),
        )
        self.values = KernelSums(self.layout, lambda squared: (1 + squared) ** -2)
        self.slopes = KernelSums(self.layout, lambda squared: -2 * (1 + squared) ** -3)

    def value_and_gradient(self, x):
        """Both terms; their gradients are Laplacians of w and of the kernel's slopes, times Y."""
        gradient = 2 * (self.degrees * x - self.springs @ self.exchange.with_ghosts(x))
        attraction = 0.5 * float(np.vdot(x, gradient))
        weighted, totals = self.slopes.sums(x, values=x)
        gradient += 4 * (totals[:, None] * x - weighted)
        local = attraction + float(self.values.sums(x)[1].sum())
        return sum_over_ranks(self.comm, local), gradient

    def attractive_weights(self, x):
        """The springs."""
        return self.weights

    def metrics(self, x):
        """How much the squared distances of the data change if two columns are kept."""
        secants = SecantSet(self.data, self.data_layout)
        kept = np.eye(min(2, self.data_layout.columns), self.data_layout.columns)
        return {"distortion_of_two_columns": secants.scan(kept).delta}


class GraphLaplacian(Preconditioner):
    """The Hessian of the springs, with a little of the identity."""

    requires = (AttractiveLaplacian,)

    def __init__(self, shift=1.0):
        self.shift = shift
        self.solver = None

    def setup(self, objective, x):
        """Set the Laplacian up, once."""
        weights, scale = objective.attractive_weights(x), objective.attraction_scale
        self.solver = LaplacianSolver(objective.layout, weights, scale, self.shift)

    def apply(self, residual):
        """Solve with it."""
        return self.solver.solve(residual)

    def close(self):
        """Free the factor."""
        if self.solver is not None:
            self.solver.close()
            self.solver = None


def neighbor_graph(dataset, count):
    """This rank's rows of the symmetric graph of the nearest neighbors, weights 0 and 1."""
    layout = dataset.layout
    found, _ = nearest_neighbors(layout, dataset.values, count)
    here = np.repeat(np.arange(layout.start, layout.stop), count)
    there = found.ravel()
    routes = RowRoutes(layout.comm, layout.owners(there))
    rows = np.concatenate([here, routes.deliver(there)]) - layout.start
    columns = np.concatenate([there, routes.deliver(here)])
    ones = np.ones(len(rows))
    shape = (layout.local_rows, layout.rows)
    graph = scipy.sparse.csr_matrix((ones, (rows, columns)), shape=shape)
    graph.data[:] = 1.0  # pairs that are each other's neighbors were added twice
    return graph

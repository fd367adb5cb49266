"""Graph Laplacians as PETSc matrices, set up once and solved with many times."""

import numpy as np
import scipy.sparse

from thalweg.engines.laplacian.components import MeanRemoval, component_labels
from thalweg.engines.laplacian.contract import MatrixRows, System
from thalweg.engines.laplacian.methods import METHODS, available, create_method, describe, has_petsc
from thalweg.errors import InputError, suggestion
from thalweg.parallel import Array, Layout, min_over_ranks, phase, raise_on_all_ranks, sum_large

#: Default shift, relative to the smallest positive diagonal entry.
SHIFT = 1e-10

#: Rows after which random numbers that tell weights that are not symmetric come again: a prime; and
#: the difference of their sums, relative to that of the weights, beyond that of single precision.
_PERIOD, ASYMMETRY = 1021, 1e-6

#: A row whose diagonal exceeds the others' sum by less than this part of it has no slack.
_SLACK = 1e-9

# Where all but a few rows have this much slack, a part of their diagonal, the eigenvalues lie
# close enough for iterations: Jacobi's take off three decimals in about 10, incomplete factors'
# in two thirds as many, and either way they cost less than the entries that a factor adds.
_DOMINANCE, _EXCEPTIONS = 0.05, 0.01

# What "auto" goes by otherwise, by times of one machine: rows up to which a dense factor on one
# rank is quickest, or bearable; rows up to which any sparse factor is; density and rows of graphs
# with little fill.
_TINY, _DENSE_ROWS = 500, 6000
_ANY_FILL_ROWS = 10_000
_LIGHT_ROW, _LIGHT_ROWS = 20, 200_000


class LaplacianSolver:
    """Solves ``(scale * (D - W) + mu I) X = R`` for X and R of ``rows x columns``.

    Collective, as all its methods.

    Parameters
    ----------
    layout
        Rows, their distribution, and the number of right-hand sides.
    weights
        This rank's rows of the symmetric, non-negative W, shape ``(local_rows, rows)``: a
        CSR matrix, or a dense array.  Its diagonal has no effect without ``degrees``.
    scale
        Factor of the Laplacian; 4 makes it the Hessian of the sum over ordered pairs of
        ``w_ij |x_i - x_j|^2``, as in Vladymyrov and Carreira-Perpinan (2012).
    shift
        mu; by default 1e-10 times the smallest positive diagonal entry of ``scale * D``.
    degrees
        This rank's diagonal of D, shape ``(local_rows,)``, if it is not the row sums of W: the
        degrees of a full graph of which W keeps the heaviest edges.  At least the row sums.
    method
        Factors on rank 0: ``"cholmod"``, ``"mumps-serial"``, ``"petsc"``, ``"superlu"`` (SciPy's),
        ``"dense"`` (LAPACK); distributed ones: ``"mumps"``; CG on all ranks: ``"blocks"`` (complete
        factors of each rank's block), ``"icc"`` (incomplete ones), ``"amg"`` (hypre's BoomerAMG,
        else PETSc's GAMG), ``"jacobi"`` (also for dense W); or ``"auto"``.  All but superlu, dense
        and jacobi need PETSc.
    rtol, iterations
        Relative residual, and number, at which the CG iterations for a column end.  Jacobi's run
        in single precision from a residual of 1e-4 on.

    Attributes
    ----------
    name : str
        The method taken.
    shift : float
        mu.
    components : int
        Number of components whose constants the matrix cannot see (below).
    description : str
        The method, where its iterations end, and its cost, in words.

    Raises
    ------
    InputError
        Weights that are negative, not finite or not symmetric, degrees below the row sums, an
        unknown method, or one that this PETSc or number of ranks cannot run.
    NumericalError
        The matrix could not be factored.

    Notes
    -----
    *Null space.*  Where a connected component has no slack (D equals the row sums and mu
    is tiny), a vector that is constant there has no curvature but mu, and solving would
    turn the rounding errors of the right-hand side into a drift 1e10 times as large.  So
    each column's mean over each such component is taken off the right-hand side and off
    the solution: the answer is that for mu going to 0.  A row without neighbors is a
    component of its own, and gets 0.

    *Memory.*  A sparse factor of a nearest-neighbor graph of high-dimensional data holds
    many times the non-zeros of W: with 70,000 rows and 662,000 non-zeros about 0.2 GiB.
    A dense one takes ``8 rows^2`` bytes on rank 0.  Finding the components takes some 30
    bytes for each of a rank's rows and ghost rows, for a moment.

    *Choice.*  ``"auto"`` goes by sizes alone, so that bits repeat.  Up to 500 rows, and for dense
    weights, LAPACK on rank 0 takes less than messages would.  With a dominant matrix few
    iterations solve: on one rank, or without PETSc, those of ``"jacobi"``, on several ``"icc"``.
    Elsewhere complete factors are taken, if they fit: CHOLMOD's on one rank, on several those of
    ``"blocks"``.  Not ``"mumps"``, which adds up in the order in which messages arrive: on several
    ranks even two solves with one factor differ in their last bits.

    *Options.*  PETSc options under the prefix ``thalweg_laplacian_`` take precedence over
    the method's own, for instance ``-thalweg_laplacian_pc_type gamg``.
    """

    def __init__(
        self,
        layout: Layout,
        weights: MatrixRows,
        scale: float = 4.0,
        shift: float | None = None,
        degrees: np.ndarray | None = None,
        method: str = "auto",
        rtol: float = 1e-8,
        iterations: int = 500,
    ) -> None:
        weights, sums = _checked(layout, weights, scale, shift)
        diagonal = scale * _full_degrees(layout, sums, degrees)
        least = min_over_ranks(layout.comm, np.min(diagonal[diagonal > 0], initial=np.inf))
        least = least if np.isfinite(least) else 1.0
        self.shift = SHIFT * least if shift is None else float(shift)
        slack = diagonal + self.shift - scale * sums
        self.removal = _mean_removal(layout, weights, slack <= _SLACK * np.maximum(diagonal, least))
        self.components = len(self.removal.sizes)
        n_weak = int((slack < _DOMINANCE * diagonal).sum())
        diagonally_dominant = layout.comm.allreduce(n_weak) <= _EXCEPTIONS * layout.rows
        entries = layout.comm.allreduce(int(weights.size))
        self.name = _chosen(layout, weights, entries, method, diagonally_dominant)
        rows = _laplacian(layout, weights, diagonal + self.shift, scale)
        null_vectors = tuple(self.removal.null_vectors(limit=16))
        system = System(layout, rows, self.name, rtol, iterations, null_vectors)
        self.method = create_method(system)
        self.description = describe(system, entries, self.method.factor_entries)

    def solve(self, rhs: Array) -> Array:
        """The solution for ``rhs``.  Collective."""
        with phase("laplacian"):
            block = rhs.copy()
            self.removal.apply(block)
            solution = np.array(self.method.solve(block))
            self.removal.apply(solution)
            return solution

    def close(self) -> None:
        """Free what PETSc holds.  Collective."""
        self.method.close()


def _mean_removal(layout: Layout, weights: MatrixRows, zero_slack: np.ndarray) -> MeanRemoval:
    """Removal of means over the components all of whose rows have no slack."""
    if not layout.comm.allreduce(int(zero_slack.sum())):
        return MeanRemoval(layout, 1, np.zeros(layout.local_rows, np.int32), np.array([False]))
    count, labels = component_labels(layout, weights)
    with_slack = np.bincount(labels[~zero_slack], minlength=count).astype(np.int64)
    return MeanRemoval(layout, count, labels, sum_large(layout.comm, with_slack) == 0)


def _checked(
    layout: Layout, weights: MatrixRows, scale: float, shift: float | None
) -> tuple[MatrixRows, np.ndarray]:
    """Weights as canonical CSR or array, of float64, and their row sums.  Collective."""
    if not scale > 0:
        raise InputError(f"the scale of a Laplacian must be positive, not {scale!r}")
    if shift is not None and not shift > 0:
        raise InputError(f"the shift of a Laplacian must be positive, not {shift!r}")
    with raise_on_all_ranks(layout.comm):
        shape = (layout.local_rows, layout.rows)
        if weights.shape != shape:
            raise InputError(f"weights must have shape {shape} here, not {weights.shape}")
        if scipy.sparse.issparse(weights):
            weights = scipy.sparse.csr_matrix(weights, dtype=float)
            if not weights.has_canonical_format:
                weights = weights.copy()
                weights.sum_duplicates()
            entries = weights.data
        else:
            weights = entries = np.asarray(weights, dtype=float)
        sums = np.asarray(weights.sum(axis=1), dtype=float).reshape(-1)
        if not np.isfinite(sums).all() or (entries.size and entries.min() < 0):
            raise InputError("the weights of a Laplacian must be finite and not negative")
    # y'Wz and z'Wy for random y and z, which repeat, so that no rank holds one of all rows.
    y_and_z = np.random.default_rng(0).standard_normal((_PERIOD, 2))
    own = y_and_z[np.arange(layout.start, layout.stop) % _PERIOD]
    if isinstance(weights, np.ndarray):
        products = weights @ np.resize(y_and_z, (layout.rows, 2))
    else:
        of = weights.data, weights.indices % _PERIOD, weights.indptr
        products = scipy.sparse.csr_matrix(of, (layout.local_rows, _PERIOD)) @ y_and_z
    mine = *(own * products[:, ::-1]).sum(axis=0), sums.sum()
    one, other, size = sum_large(layout.comm, np.array(mine))
    if not abs(one - other) <= ASYMMETRY * size:
        raise InputError("the weights of a Laplacian must be symmetric; take (W + W.T) / 2")
    return weights, sums


def _full_degrees(layout: Layout, sums: np.ndarray, degrees: np.ndarray | None) -> np.ndarray:
    if degrees is None:
        return sums
    with raise_on_all_ranks(layout.comm):
        full = np.asarray(degrees, dtype=float)
        if full.shape != sums.shape or not (full >= sums * (1.0 - 1e-12)).all():
            raise InputError("degrees must have one entry per row, none below its sum of weights")
    return np.maximum(full, sums)


def _laplacian(
    layout: Layout, weights: MatrixRows, diagonal: np.ndarray, scale: float
) -> MatrixRows:
    """This rank's rows of ``diag(diagonal) - scale W``."""
    local = np.arange(layout.local_rows)
    if not scipy.sparse.issparse(weights):
        rows = -scale * weights
        rows[local, layout.start + local] += diagonal
        return rows
    here = scipy.sparse.csr_matrix(
        (diagonal, layout.start + local, np.arange(layout.local_rows + 1)), shape=weights.shape
    )
    rows = (here - scale * weights).tocsr()
    rows.sort_indices()
    return rows


def _chosen(layout: Layout, weights: MatrixRows, entries: int, method: str, dominant: bool) -> str:
    """The method asked for, if it can run here; for ``"auto"``, one that fits."""
    sparse = scipy.sparse.issparse(weights)
    if method != "auto":
        if method not in METHODS:
            raise InputError(
                f"no Laplacian method is named '{method}'{suggestion(method, METHODS)}"
            )
        if not available(method):
            lacking = "this PETSc cannot run" if has_petsc() else "without PETSc there is no"
            raise InputError(f"{lacking} method '{method}'; use 'auto'")
        if not sparse and method not in ("dense", "jacobi"):
            raise InputError(f"method '{method}' of a Laplacian needs sparse weights")
        return method
    rows = layout.rows
    if rows <= _TINY or (entries > 0.2 * rows * rows and rows <= _DENSE_ROWS):
        return "dense"
    several = layout.comm.size > 1 and has_petsc()
    if not sparse or (dominant and not several):
        return "jacobi"
    if dominant:
        return "icc"
    light = entries <= _LIGHT_ROW * rows
    if rows <= _ANY_FILL_ROWS or (light and rows <= _LIGHT_ROWS):
        serial = ("cholmod", "mumps-serial", "petsc", "superlu")
        return "blocks" if several else next(name for name in serial if available(name))
    return "jacobi" if not available("amg") else "amg" if light else "icc"

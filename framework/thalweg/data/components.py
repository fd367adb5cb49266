"""Principal components of distributed rows."""

from __future__ import annotations

import numpy as np

from thalweg.data.scaling import column_means
from thalweg.errors import InputError
from thalweg.parallel import Layout, sum_large

#: Up to this many columns, or else rows, a matrix of that size is decomposed as a whole.
EXACT_SIZE = 4096

#: Subspace iterations beyond that end when no variance changes by more than this.
_TOLERANCE = 1e-9
_ITERATIONS = 100
_EXTRA = 20


def principal_components(values: np.ndarray, layout: Layout, components: int) -> np.ndarray:
    """Rows projected on their leading principal directions.  Collective.

    With few columns their covariance matrix is summed over the ranks and
    decomposed; with few rows, their matrix of inner products.  With more than
    :data:`EXACT_SIZE` of both, block subspace iteration finds the directions
    from products with the rows alone.

    Parameters
    ----------
    values
        This rank's rows, shape ``(local_rows, columns)``; left as they are.

    Returns
    -------
    ndarray, shape (local_rows, components)
        In the type of ``values``, the largest variance first, each direction
        signed so that its largest entry is positive.

    Raises
    ------
    InputError
        More components than rows or columns.
    """
    most = min(layout.rows, values.shape[1])
    if components > most:
        raise InputError(
            f"option 'components' of [data] is {components}, but data of {layout.rows} rows and "
            f"{values.shape[1]} columns have at most {most}"
        )
    centered = values - column_means(values, layout).astype(values.dtype)
    if values.shape[1] <= EXACT_SIZE:
        basis = _from_covariance(centered, layout, components)
    elif layout.rows <= EXACT_SIZE:
        basis = _from_inner_products(centered, layout, components)
    else:
        basis = _from_subspace(centered, layout, components)
    peak = basis[np.abs(basis).argmax(axis=0), np.arange(components)]
    basis *= np.where(peak < 0, -1.0, 1.0)
    return np.ascontiguousarray(centered @ basis.astype(values.dtype))


def _from_covariance(centered: np.ndarray, layout: Layout, components: int) -> np.ndarray:
    scatter = sum_large(layout.comm, np.asarray(centered.T @ centered, dtype=float))
    basis = None
    if layout.comm.rank == 0:
        _, vectors = np.linalg.eigh(scatter)
        basis = np.ascontiguousarray(vectors[:, ::-1][:, :components])
    return layout.comm.bcast(basis, root=0)


def _from_inner_products(centered: np.ndarray, layout: Layout, components: int) -> np.ndarray:
    """Directions X' u / |X' u| from the eigenvectors u of X X'."""
    comm = layout.comm
    mine = np.empty((layout.local_rows, layout.rows), dtype=centered.dtype)
    for owner, count in enumerate(layout.counts()):
        block = centered if owner == comm.rank else np.empty((count, centered.shape[1]), mine.dtype)
        comm.Bcast(block, root=owner)
        mine[:, layout.starts[owner] : layout.starts[owner + 1]] = centered @ block.T
    whole = layout.gather_rows(mine)
    leading = None
    if comm.rank == 0:
        _, vectors = np.linalg.eigh(whole.astype(float))
        leading = np.ascontiguousarray(vectors[:, ::-1][:, :components])
    leading = layout.local(comm.bcast(leading, root=0)).astype(centered.dtype)
    basis = sum_large(comm, np.asarray(centered.T @ leading, dtype=float))
    lengths = np.linalg.norm(basis, axis=0)
    # Centered rows span one dimension less than there are rows: that direction stays zero.
    lengths[lengths <= 1e-7 * lengths[0]] = np.inf
    return basis / lengths


def _from_subspace(centered: np.ndarray, layout: Layout, components: int) -> np.ndarray:
    columns = centered.shape[1]
    width = min(components + _EXTRA, layout.rows, columns)
    start = np.random.default_rng(0).standard_normal((columns, width))
    basis = np.linalg.qr(start)[0]
    before = np.zeros(width)
    for _ in range(_ITERATIONS):
        block = basis.astype(centered.dtype)
        product = sum_large(layout.comm, np.asarray(centered.T @ (centered @ block), dtype=float))
        # Rayleigh-Ritz within the subspace: ordered directions, and variances to watch.
        variances, rotation = np.linalg.eigh(basis.T @ product)
        basis, _ = np.linalg.qr(product @ rotation[:, ::-1])
        basis = layout.comm.bcast(basis, root=0)
        now = layout.comm.bcast(variances[::-1], root=0)
        watched = slice(components)
        if np.all(np.abs(now[watched] - before[watched]) <= _TOLERANCE * now[0]):
            break
        before = now
    block = basis.astype(centered.dtype)
    product = sum_large(layout.comm, np.asarray(centered.T @ (centered @ block), dtype=float))
    _, rotation = np.linalg.eigh(basis.T @ product)
    rotation = layout.comm.bcast(rotation, root=0)
    return np.ascontiguousarray(basis @ rotation[:, ::-1][:, :components])

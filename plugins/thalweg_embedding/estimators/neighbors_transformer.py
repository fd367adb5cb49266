"""The search for nearest neighbors, as a transformer for programs that take scikit-learn's."""

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.neighbors import KNeighborsTransformer

from thalweg.data import check_magnitude, validate_data
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, job_threads
from thalweg.plugins import Option
from thalweg_embedding.affinities.distances import nearest_by
from thalweg_embedding.new_points import dataset_of, nearest_known


class NeighborsTransformer(KNeighborsTransformer):  # type: ignore[misc]
    """scikit-learn's ``KNeighborsTransformer`` with the search of the maps.

    Its graph serves UMAP, Isomap or spectral clustering with ``metric="precomputed"``.  Rows are
    those of one process; maps on several ranks search by themselves.

    Parameters
    ----------
    n_neighbors, mode
        As there: neighbors beside the row itself, and ``"distance"`` or ``"connectivity"``.
    metric, neighbor_search, n_jobs
        As of the maps, the metric one that scikit-learn has, too; of negative numbers
        "braycurtis" is SciPy's.

    Attributes
    ----------
    n_samples_fit_, n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> NeighborsTransformer(n_neighbors=10).fit_transform(load_iris().data).nnz
    1650
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        mode: str = "distance",
        metric: str = "euclidean",
        neighbor_search: str = "exact",
        n_jobs: int | None = None,
    ) -> None:
        # Brute force keeps the rows, and makes no tree.
        super().__init__(
            mode=mode, n_neighbors=n_neighbors, algorithm="brute", metric=metric, n_jobs=n_jobs
        )
        self.neighbor_search = neighbor_search

    def fit(self, X: Any, y: Any = None) -> "NeighborsTransformer":
        """Keep the rows of X, real numbers neither too small nor too large to square."""
        validate_data(self, X, accept_sparse="csr")
        super().fit(X, y)
        self._fit_X: Any = _numbers(self._fit_X)
        return self

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """Distances and numbers of the nearest fitted rows of each row of X, the nearest first.

        Without X those of the fitted rows, of which none is its own neighbor.

        Raises
        ------
        InputError
            More neighbors than there are rows, or an unknown search or metric.
        """
        count = self.n_neighbors if n_neighbors is None else n_neighbors
        Option("n_neighbors", int, 5, "", minimum=1).check(count, type(self).__name__)
        search = self.neighbor_search
        if count > self.n_samples_fit_ - (X is None) or search not in ("exact", "approximate"):
            raise InputError(
                "neighbor_search must be 'exact' or 'approximate', and n_neighbors less than the "
                f"{self.n_samples_fit_} fitted rows, not {search!r} and {count}"
            )
        fitted, metric = dataset_of(self._fit_X, None), self.effective_metric_  # as in the fit
        with job_threads(self.n_jobs):
            if X is None:
                numbers, squared = nearest_by(fitted, count, metric, search)
            elif X is self._fit_X:
                numbers, squared = nearest_by(fitted, max(1, count - 1), metric, search)
                own = np.arange(len(numbers))[:, None]
                numbers = np.hstack([own, numbers])[:, :count]
                squared = np.hstack([0.0 * own, squared])[:, :count]
            else:
                X = _numbers(validate_data(self, X, accept_sparse="csr", reset=False))
                numbers, squared = nearest_known(self._fit_X, None, X, count, metric)
        return (np.sqrt(squared), numbers) if return_distance else numbers

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """The graph of the rows of X."""
        return self.fit(X).transform(self._fit_X)


def _numbers(rows: Any) -> Any:
    """The rows, checked, in single precision at least."""
    if rows.dtype.kind not in "buif":
        raise InputError(f"the data must be real numbers, not {rows.dtype}")
    rows = rows.astype(np.result_type(rows.dtype, np.float32), copy=False)
    values = rows.data if scipy.sparse.issparse(rows) else rows
    check_magnitude(values, Layout(MPI.COMM_SELF, *rows.shape))
    return rows

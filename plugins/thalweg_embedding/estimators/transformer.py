"""What all estimators of embeddings have in common: their maps place new points."""

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thalweg.data import Dataset, validate_data
from thalweg.errors import InputError
from thalweg.parallel import MPI, job_threads, raise_on_all_ranks
from thalweg.plugins import estimator
from thalweg_embedding.affinities.distances import SparseDataset


def places_new_points(model: "MapTransformer") -> bool:
    """Whether the estimator has what :meth:`MapTransformer.transform` needs."""
    if model._of_affinities:
        raise AttributeError("new points are placed by distances, and affinities were fitted")
    if getattr(model, "_placed", model.keep_data or None) is None:  # as it was fitted, if it is
        raise AttributeError(
            "new points are placed among the fitted ones, which keep_data=False does not keep; "
            "fit again with keep_data=True"
        )
    return True


@estimator
class MapParameters:
    """Parameters of all maps.

    Parameters
    ----------
    n_components
        Dimensions of the map.
    keep_data
        Whether the fitted estimator holds X, by reference where it can; ``transform`` needs it.
    n_jobs
        Threads of this process: None for those of ``OMP_NUM_THREADS`` or all cores, -1 for all
        cores.
    """

    n_components: int = 2
    _: KW_ONLY
    keep_data: bool = True
    n_jobs: int | None = None
    random_state: Any = None


class MapTransformer(  # type: ignore[misc]
    MapParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of estimators whose ``fit`` leaves ``embedding_`` and a map that places new points."""

    #: Kinds of rows that it takes, as ``validate_data`` names them.
    _sparse_rows: ClassVar[Any] = False

    #: Whether X holds affinities, without distances to place new points by.
    _of_affinities: ClassVar[bool] = False

    #: Labels of this rank's points, -1 for unknown ones, and by how much the map follows them.
    _labels: Any = None
    target_weight: float = 0.0

    embedding_: np.ndarray
    _placed: Any

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Embed the rows of X; returns the map, shape (n_samples, n_components)."""
        return np.array(self.fit(X, y).embedding_)

    def transform(self, X: Any) -> np.ndarray:
        """Places of new points in the map, which stays as it is; shape (n_new, n_components).

        A point that was fitted gets its own place, one near it a place near by, and others the
        minimum of their part of the objective (see
        :meth:`~thalweg_embedding.new_points.PlacedMap.place`, and of eigenvectors
        :meth:`~thalweg_embedding.eigenmaps.new_rows.ExtendedMap.place`).  In a map fitted on
        several ranks this is a collective call: every rank gives its own new points, an array or
        its part of a :class:`thalweg.Dataset`, perhaps without rows, and gets their places.  With
        ``metric="precomputed"`` the distances to all fitted points are given, and with the
        ``affinity="precomputed"`` of Laplacian eigenmaps the weights.
        """
        placed = self._fitted_map()
        comm = placed.layout.comm if placed.layout else MPI.COMM_SELF
        with raise_on_all_ranks(comm):
            new = self._checked_new_points(X, placed.layout is not None)
        with job_threads(self.n_jobs, comm):
            return np.asarray(placed.place(new).astype(self.embedding_.dtype))

    def _dataset(self, X: Any) -> Dataset:
        if isinstance(X, Dataset):
            self.n_features_in_ = X.layout.columns
            return X
        # The caller may write into its array later, as into a buffer of batches.
        X = self._validated(X, ensure_min_samples=3, copy=self.keep_data)
        return SparseDataset.of(X) if scipy.sparse.issparse(X) else Dataset.from_array(X)

    def _fitted_map(self) -> Any:
        check_is_fitted(self, "embedding_")
        assert self._placed is not None
        return self._placed

    def _validated(self, X: Any, **others: Any) -> Any:
        kinds = {"accept_sparse": self._sparse_rows, "dtype": (np.float64, np.float32)}
        return validate_data(self, X, **kinds, **others)

    def _checked_new_points(self, X: Any, several_ranks: bool) -> Any:
        given = isinstance(X, Dataset)
        rows, least = X.values if given else X, 0 if several_ranks or given else 1
        try:
            return self._validated(rows, reset=False, ensure_min_samples=least)
        except ValueError as error:
            raise InputError(str(error)) from error

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])


# Outside what scikit-learn wraps around each class's own transform, which hides conditions.
MapTransformer.transform = available_if(places_new_points)(  # type: ignore[method-assign]
    MapTransformer.transform
)

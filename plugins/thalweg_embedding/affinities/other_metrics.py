"""Approximate neighbors by pynndescent: of sparse rows, and in the metrics that it knows."""

import importlib.util
import warnings
from typing import Any

import numpy as np
import scipy.sparse

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import on_root

#: Names that pynndescent 0.5.12 and later know of metrics without further parameters.  To ask it
#: costs a minute, since its functions are compiled when they are imported.
METRICS = (
    "braycurtis", "canberra", "chebyshev", "correlation", "cosine", "dice", "direct_cosine", "dot",
    "euclidean", "hamming", "haversine", "hellinger", "inner_product", "jaccard", "jensen-shannon",
    "kantorovich", "kulsinski", "linf", "linfinity", "linfty", "manhattan", "matching", "minkowski",
    "rogerstanimoto", "russellrao", "sinkhorn", "sokalmichener", "sokalsneath", "spearmanr",
    "sqeuclidean", "symmetric-kl", "taxicab", "true_angular", "tsss", "wasserstein",
    "wasserstein-1d", "yule",
)  # fmt: skip


def neighbors_by_descent(
    dataset: Dataset, k: int, metric: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Most of the k nearest neighbors of this rank's rows, and squared distances.  Collective.

    They are in ascending order.  Rank 0 gathers the data and searches.
    """
    if importlib.util.find_spec("pynndescent") is None:
        raise InputError(
            f"metric '{metric}', or an approximate search among sparse rows, needs pynndescent; "
            "install it with pip install 'thalweg[large]', or use 'euclidean', 'cosine', "
            "'correlation' or 'cityblock' with an exact search"
        )
    layout = dataset.layout
    sparse = getattr(dataset, "sparse", None)
    whole: Any
    if sparse is None:
        whole = layout.gather_rows(np.asarray(dataset.values, dtype=np.float32))
    else:
        parts = layout.comm.gather(sparse, root=0)
        whole = None if parts is None else scipy.sparse.vstack(parts).astype(np.float32).tocsr()

    def search() -> tuple[np.ndarray, ...]:
        from pynndescent import NNDescent

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            index = NNDescent(whole, n_neighbors=k + 1, random_state=seed, metric=metric)
        indices, distances = index.neighbor_graph
        if (indices < 0).any() or not np.isfinite(distances).all():
            raise InputError(
                f"pynndescent finds fewer than {k} neighbors of some rows by metric '{metric}'; "
                "use another metric, or fewer neighbors or a smaller perplexity"
            )
        # Each row's neighbors but itself; where it is not among them, the last goes.
        own = indices == np.arange(len(indices))[:, None]
        own[~own.any(axis=1), -1] = True
        lists = indices[~own].astype(np.int64), distances[~own].astype(float)
        return tuple(entries.reshape(len(indices), k) for entries in lists)

    indices, distances = (part[layout.start : layout.stop] for part in on_root(layout.comm, search))
    return indices, distances**2

"""pynndescent's approximate search: of sparse rows, and in the metrics that it alone knows."""

import importlib.util
from typing import Any

from thalweg.errors import InputError

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


def descent(metric: str, seed: int) -> Any:
    """The search as a transformer of scikit-learn."""
    if importlib.util.find_spec("pynndescent") is None:
        raise InputError(
            f"metric '{metric}', or an approximate search among sparse rows, needs pynndescent; "
            "install it with pip install 'thalweg[large]', or use 'euclidean', 'cosine', "
            "'correlation' or 'cityblock' with an exact search"
        )
    from pynndescent import PyNNDescentTransformer

    return PyNNDescentTransformer(metric=metric, random_state=seed)

"""The spectrum of maps between force-directed layouts and t-SNE, and beyond, as one path."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import Array
from thalweg.plugins import Option
from thalweg_embedding.affinities.affinities_from_data import Affinities
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.embedding_from_data import embedding
from thalweg_embedding.families import T_SNE, stop_name, student_sne
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding
from thalweg_embedding.preconditioners.spectral import SpectralDirection

#: Weights of the repulsion at which a map is kept: the widest gaps are where maps change least.
LAMBDAS = (1 / 30, 1 / 20, 1 / 12, 1 / 8, 1 / 5, 1 / 3, 1 / 2, 0.7, 0.85, 1.0)

#: Side of a map, in units of the kernel's width, from which on it has unfolded.
UNFOLDED = 1.0

#: Relative decrease in 20 iterations that ends a stop, as that of single runs, at a weight of 1.
DECREASE = 1e-2


def spectrum(
    data: Dataset | np.ndarray,
    lambdas: Sequence[float] = LAMBDAS,
    degrees_of_freedom: Sequence[float] = (),
    **options: Any,
) -> dict[str, thalweg.Result]:
    """Maps along the spectrum of Boehm, Berens and Kobak (2022), each as good as one by itself.

    Affinities and the factor of the spectral direction are computed once, and each stop starts from
    a prediction by the two before it.  Collective on the communicator of a data set.

    Parameters
    ----------
    data
        Points as rows, shape (n_samples, n_features), or a :class:`thalweg.Dataset`.
    lambdas
        Weights of the repulsion, ascending: 1 is t-SNE.
    degrees_of_freedom
        Of Student's kernel in further stops with the last weight, each from the map before: fewer
        than 1 show finer clusters than t-SNE.
    **options
        Of :func:`~thalweg_embedding.embedding`, such as ``perplexity``.

    Returns
    -------
    dict
        By the name of each stop its :class:`thalweg.Result`, whose ``x`` are this rank's rows of
        the map.

    Raises
    ------
    InputError
        Weights that are not positive and ascending, or too close; data or options not to be used.
    """
    if scipy.sparse.issparse(data):
        data = SparseDataset.of(data)
    elif not isinstance(data, Dataset):
        data = Dataset.from_array(np.asanyarray(data, dtype=float))
    values, freedoms = (
        Option(name, list, [], "", entries=float, above=0).check(
            np.asarray(of).tolist(), "spectrum"
        )
        for name, of in (("lambdas", lambdas), ("degrees_of_freedom", degrees_of_freedom))
    )
    if not values or values != sorted({*values}):
        raise InputError(f"lambdas must be positive and ascending, not {values}")
    finer = [f"{of:g} degrees of freedom" + ": finer than t-SNE" * (of < 1.0) for of in freedoms]
    names = [*map(stop_name, values), *finer]
    if len({*names}) < len(names):
        raise InputError(f"two stops have one name, rounded: {', '.join(names)}")
    if options.get("density"):
        raise InputError("spectrum takes no density: its stops differ by the repulsion alone")
    options["early_exaggeration"] = 1.0
    objective, factor = embedding(T_SNE, data, **options), _Factor()
    stops: dict[str, thalweg.Result] = {}
    maps: list[Array] = []
    try:
        for place, value in enumerate(values):
            objective.homotopy_parameter = value
            start = _predicted(objective, maps, values[: place + 1])
            # The part of the value that a map changes is about as small as the weight.
            decrease = DECREASE * min(1.0, value)
            result = thalweg.minimize(objective, start, None, factor, decrease=decrease)
            stops[names[place]] = result
            maps.append(result.x)
        known = Affinities(objective.weights, places=objective.places)
        options |= {"weights": known, "lambda_": values[-1], "init": "random"}
        for name, freedom in zip(names[len(values) :], freedoms, strict=True):
            objective = embedding(student_sne(freedom), data, **options)
            stops[name] = result = thalweg.minimize(objective, result.x, preconditioner=factor)
    finally:
        SpectralDirection.close(factor)
    return stops


def _predicted(
    objective: PairwiseEmbedding, maps: Sequence[Array], lambdas: list[float]
) -> Array | None:
    """The last map, moved on as from the one before in the logarithm, if that is lower.

    None where there is no map yet, or it has hardly unfolded, which it might in another way.
    """
    if not maps or objective.widest_side(maps[-1]) < UNFOLDED:
        return None
    last = maps[-1]
    if len(maps) < 2:
        return last
    rate = np.log(lambdas[-1] / lambdas[-2]) / np.log(lambdas[-2] / lambdas[-3])
    further = last + rate * (last - maps[-2])
    return further if objective.value(further) < objective.value(last) else last


class _Factor(SpectralDirection):
    """The spectral direction of the first run, for all of them: they attract alike."""

    def setup(self, objective: Any, x: Array) -> None:
        if not hasattr(self, "_solver"):
            super().setup(objective, x)

    def close(self) -> None:
        """Nothing: the next run needs it."""

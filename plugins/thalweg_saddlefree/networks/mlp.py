"""Multilayer perceptrons: labels, or columns, predicted from the data rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.plugins import Help, with_options
from thalweg_saddlefree.networks.activations import ACTIVATIONS
from thalweg_saddlefree.networks.losses import Loss, SoftmaxCrossEntropy, SquaredError
from thalweg_saddlefree.networks.network import Network, checked_sizes
from thalweg_saddlefree.networks.objective import NetworkObjective
from thalweg_saddlefree.networks.options import NetworkOptions


@dataclass(frozen=True, kw_only=True)
class MlpOptions(NetworkOptions):
    """Options of the objective ``mlp``."""

    layers: Annotated[
        Sequence[int] | None,
        Help(
            "all sizes, from the columns to the number of labels; one hidden layer of 64 if none",
            minimum=1,
        ),
    ] = None
    loss: Annotated[
        Literal["cross-entropy", "squared"],
        Help("softmax cross-entropy, or half the squared error"),
    ] = "cross-entropy"


@with_options(MlpOptions)
def build_mlp(dataset: Dataset, comm: MPI.Comm, **options: Any) -> NetworkObjective:
    """Objective ``mlp``: classify the data rows by their labels.

    The options are :class:`MlpOptions`.  ``"cross-entropy"`` has softmax outputs;
    ``"squared"`` compares the output activation with one-hot rows.

    Raises
    ------
    InputError
        No labels, or layer sizes that do not fit the data.
    """
    chosen = MlpOptions(**options)
    if dataset.labels is None:
        raise InputError("objective 'mlp' needs labels; name them in [data] or use 'autoencoder'")
    known = np.unique(np.concatenate(comm.allgather(np.unique(dataset.labels))))
    columns, classes = dataset.layout.columns, len(known)
    sizes = list(chosen.layers) if chosen.layers is not None else [columns, 64, classes]
    checked_sizes(sizes)
    if sizes[0] != columns or sizes[-1] != classes:
        raise InputError(
            f"the layers lead from {sizes[0]} to {sizes[-1]} units, but the data have {columns} "
            f"columns and {classes} labels; write layers = [{columns}, ..., {classes}]"
        )
    mine = np.searchsorted(known, dataset.labels)
    targets = np.zeros((len(mine), classes))
    targets[np.arange(len(mine)), mine] = 1.0
    criterion: Loss = SoftmaxCrossEntropy()
    if chosen.loss == "squared":
        criterion = SquaredError(ACTIVATIONS[chosen.output])
    network = Network(sizes, [ACTIVATIONS[chosen.activation]] * (len(sizes) - 2), criterion)
    return NetworkObjective.of_data(comm, dataset, targets, network, chosen)

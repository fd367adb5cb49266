"""Multilayer perceptrons: labels, or columns, predicted from the data rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.plugins import Help
from thalweg_saddlefree.networks.activations import ACTIVATIONS
from thalweg_saddlefree.networks.losses import Loss, SoftmaxCrossEntropy, SquaredError
from thalweg_saddlefree.networks.network import Network, checked_sizes
from thalweg_saddlefree.networks.objective import NetworkObjective
from thalweg_saddlefree.networks.options import (
    Activation,
    HeldOut,
    Initialization,
    OutputActivation,
    Precision,
    Scale,
    WeightDecay,
)


def build_mlp(
    dataset: Dataset,
    comm: MPI.Comm,
    *,
    layers: Annotated[
        Sequence[int] | None,
        Help(
            "all sizes, from the columns to the number of labels; one hidden layer of 64 if none",
            minimum=1,
        ),
    ] = None,
    activation: Activation = "tanh",
    output: OutputActivation = "linear",
    loss: Annotated[
        Literal["cross-entropy", "squared"],
        Help("softmax cross-entropy, or half the squared error"),
    ] = "cross-entropy",
    l2: WeightDecay = 0.0,
    initialization: Initialization = "glorot",
    scale: Scale = 1.0,
    precision: Precision = "double",
    held_out: HeldOut = 0.0,
) -> NetworkObjective:
    """Objective ``mlp``: classify the data rows by their labels.

    The options are described where they are declared.  ``"cross-entropy"`` has softmax outputs;
    ``"squared"`` compares the output activation with one-hot rows.

    Raises
    ------
    InputError
        No labels, or layer sizes that do not fit the data.
    """
    if dataset.labels is None:
        raise InputError("objective 'mlp' needs labels; name them in [data] or use 'autoencoder'")
    known = np.unique(np.concatenate(comm.allgather(np.unique(dataset.labels))))
    columns, classes = dataset.layout.columns, len(known)
    sizes = list(layers) if layers is not None else [columns, 64, classes]
    checked_sizes(sizes)
    if sizes[0] != columns or sizes[-1] != classes:
        raise InputError(
            f"the layers lead from {sizes[0]} to {sizes[-1]} units, but the data have {columns} "
            f"columns and {classes} labels; write layers = [{columns}, ..., {classes}]"
        )
    mine = np.searchsorted(known, dataset.labels)
    targets = np.zeros((len(mine), classes))
    targets[np.arange(len(mine)), mine] = 1.0
    criterion: Loss
    criterion = (
        SoftmaxCrossEntropy() if loss == "cross-entropy" else SquaredError(ACTIVATIONS[output])
    )
    return NetworkObjective.of_data(
        comm,
        dataset,
        targets,
        Network(sizes, [ACTIVATIONS[activation]] * (len(sizes) - 2), criterion),
        held_out=held_out,
        l2=l2,
        initialization=initialization,
        scale=scale,
        precision=precision,
    )

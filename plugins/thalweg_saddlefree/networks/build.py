"""Objectives of networks by their options: perceptrons, autoencoders, a deep linear network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, max_over_ranks, min_over_ranks, refuse_differing
from thalweg.plugins import Help, with_options
from thalweg_saddlefree.networks.functions import (
    ACTIVATIONS,
    LogisticCrossEntropy,
    Loss,
    SoftmaxCrossEntropy,
    SquaredError,
)
from thalweg_saddlefree.networks.network import Network, checked_sizes
from thalweg_saddlefree.networks.objective import NetworkObjective, NetworkOptions


@dataclass(frozen=True, kw_only=True)
class MlpOptions(NetworkOptions):
    """Options of the objective ``mlp``."""

    layers: Annotated[
        Sequence[int] | None,
        Help("all sizes, from columns to labels; one hidden layer of 64 if none", minimum=1),
    ] = None
    loss: Annotated[
        Literal["cross-entropy", "squared"], Help("softmax cross-entropy, half the squared error")
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
    chosen = MlpOptions.agreed(comm, options)
    if dataset.labels is None:
        raise InputError("objective 'mlp' needs labels; name them in [data] or use 'autoencoder'")
    if dataset.has_unlabeled_rows():
        raise InputError("some rows have no label; leave them out, or use 'autoencoder'")
    known = np.unique(np.concatenate(comm.allgather(np.unique(dataset.labels))))
    columns, classes = dataset.layout.columns, len(known)
    sizes = list(chosen.layers) if chosen.layers is not None else [columns, 64, classes]
    checked_sizes(sizes)
    if sizes[0] != columns or sizes[-1] != classes:
        raise InputError(
            f"the layers lead from {sizes[0]} to {sizes[-1]} units, but the data have {columns} "
            f"columns and {classes} labels; write layers = [{columns}, ..., {classes}]"
        )
    targets = np.eye(classes)[np.searchsorted(known, dataset.labels)]
    criterion: Loss = SoftmaxCrossEntropy()
    if chosen.loss == "squared":
        criterion = SquaredError(ACTIVATIONS[chosen.output])
    network = Network(sizes, [ACTIVATIONS[chosen.activation]] * (len(sizes) - 2), criterion)
    return NetworkObjective.of_data(comm, dataset, targets, network, chosen)


@dataclass(frozen=True, kw_only=True)
class AutoencoderOptions(NetworkOptions):
    """Options of the objective ``autoencoder``."""

    layers: Annotated[
        Sequence[int] | None,
        Help(
            "sizes from the columns to the code, then mirrored: [4, 3, 2] is 4-3-2-3-4; or all "
            "sizes, if the last equals the first; d, d/2, d/8 if none",
            minimum=1,
        ),
    ] = None
    code: Annotated[str, Help("activation of the code layer", choices=tuple(ACTIVATIONS))] = (
        "linear"
    )
    loss: Annotated[
        Literal["squared", "cross-entropy"],
        Help("half the squared error, or cross-entropy with logistic outputs"),
    ] = "squared"


@with_options(AutoencoderOptions)
def build_autoencoder(dataset: Dataset, comm: MPI.Comm, **options: Any) -> NetworkObjective:
    """Objective ``autoencoder``.

    The options are :class:`AutoencoderOptions`.  Without ``layers`` they are d, d/2, d/8
    for d columns.  An encoder does not widen again after its narrowest layer; the code is the
    middle layer.  ``"cross-entropy"`` has logistic outputs and needs values between 0 and 1.

    Raises
    ------
    InputError
        Layer sizes that do not fit the data; values that do not fit the loss.
    """
    chosen = AutoencoderOptions.agreed(comm, options)
    sizes = whole_network(chosen.layers, dataset.layout.columns)
    hidden = [ACTIVATIONS[chosen.activation]] * (len(sizes) - 2)
    hidden[len(hidden) // 2] = ACTIVATIONS[chosen.code]
    criterion: Loss
    if chosen.loss == "cross-entropy":
        _refuse_outside_unit_interval(dataset, comm)
        criterion = LogisticCrossEntropy()
    else:
        criterion = SquaredError(ACTIVATIONS[chosen.output])
    network = Network(sizes, hidden, criterion)
    return NetworkObjective.of_data(comm, dataset, dataset.values, network, chosen)


def whole_network(layers: Sequence[int] | None, columns: int) -> list[int]:
    """Sizes of all layers, those of an encoder mirrored."""
    encoder = [columns, max(1, columns // 2), max(1, columns // 8)]
    if layers is not None:
        encoder = list(layers)
    checked_sizes(encoder)
    if encoder[0] != columns:
        raise InputError(
            f"the first of the layers is {encoder[0]}, but the data have {columns} columns; "
            f"write layers = [{columns}, ...]"
        )
    whole = len(encoder) > 2 and encoder[-1] == encoder[0]
    narrowest = min(encoder)
    if not whole and narrowest < min(encoder[0], encoder[-1]):
        raise InputError(
            f"layers = {encoder} widen again after {narrowest} but do not end with the "
            f"{columns} columns; end them with {columns} for a whole network, or at the code for "
            "an encoder, which is mirrored"
        )
    return encoder if whole else [*encoder, *encoder[-2::-1]]


def _refuse_outside_unit_interval(dataset: Dataset, comm: MPI.Comm) -> None:
    values = dataset.values
    low = min_over_ranks(comm, float(values.min()) if values.size else 0.0)
    high = max_over_ranks(comm, float(values.max()) if values.size else 0.0)
    if not (low >= 0.0 and high <= 1.0):
        raise InputError(
            f"cross-entropy needs values between 0 and 1, but the data reach from {low:g} to "
            f"{high:g}; scale the data or take loss = 'squared'"
        )


def build_deep_linear(
    dataset: Dataset | None,
    comm: MPI.Comm,
    *,
    size: Annotated[int, Help("rows and columns of the matrices", minimum=1)] = 6,
    depth: Annotated[int, Help("number of matrices", minimum=1)] = 3,
    start: Annotated[float, Help("standard deviation of the starting weights", above=0.0)] = 0.1,
    seed: Annotated[int, Help("seed of the target", minimum=0)] = 0,
) -> NetworkObjective:
    """Objective ``deep-linear``: half the mean squared gap of ``W_1 ... W_depth`` to a target.

    All matrices zero is a saddle point (for depth 3 and more even the Hessian is
    singular there), and so is every product of lower rank that fits a part of
    the target's singular values; every local minimum is global (Kawaguchi, 2016).

    The singular values of the target fall from 2 to 1/2; a small ``start`` is near the saddle.
    """
    refuse_differing(comm, "the options of the network", size, depth, start, seed)
    stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(997,)))
    left, _ = np.linalg.qr(stream.standard_normal((size, size)))
    right, _ = np.linalg.qr(stream.standard_normal((size, size)))
    target = left @ np.diag(np.geomspace(2.0, 0.5, size)) @ right
    rows = Layout(comm, size, size)
    # A row of the identity in, the row of the product out; sqrt(size) undoes the mean over rows.
    inputs = rows.local(np.sqrt(size) * np.eye(size))
    targets = rows.local(np.sqrt(size) * target)
    linear = ACTIVATIONS["linear"]
    network = Network([size] * (depth + 1), [linear] * (depth - 1), SquaredError(linear))
    return NetworkObjective(
        comm, rows, network, inputs, targets, initialization="normal", scale=start
    )

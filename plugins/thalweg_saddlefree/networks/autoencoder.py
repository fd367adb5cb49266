"""Deep autoencoders: the data set is its own target."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, max_over_ranks, min_over_ranks
from thalweg.plugins import Help, with_options
from thalweg_saddlefree.networks.activations import ACTIVATIONS
from thalweg_saddlefree.networks.losses import LogisticCrossEntropy, Loss, SquaredError
from thalweg_saddlefree.networks.network import Network, checked_sizes
from thalweg_saddlefree.networks.objective import NetworkObjective
from thalweg_saddlefree.networks.options import NetworkOptions


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
    chosen = AutoencoderOptions(**options)
    sizes = _whole_network(chosen.layers, dataset.layout.columns)
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


def _whole_network(layers: Sequence[int] | None, columns: int) -> list[int]:
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

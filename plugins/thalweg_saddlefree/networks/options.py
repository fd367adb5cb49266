"""Options that all networks have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from thalweg.plugins import Help
from thalweg_saddlefree.networks.activations import ACTIVATIONS
from thalweg_saddlefree.networks.initialization import INITIALIZATIONS

_NONLINEAR = tuple(name for name in ACTIVATIONS if name != "linear")


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Layers of a network, its first weights, and how it is trained."""

    layers: Annotated[Sequence[int] | None, Help("sizes of all layers", minimum=1)] = None
    activation: Annotated[str, Help("activation of the hidden layers", choices=_NONLINEAR)] = "tanh"
    output: Annotated[
        str, Help("activation of the output with the squared loss", choices=("linear", *_NONLINEAR))
    ] = "linear"
    l2: Annotated[
        float, Help("weight decay: half of it times the squared weights is added", minimum=0.0)
    ] = 0.0
    initialization: Annotated[
        str, Help("scheme of the starting weights", choices=tuple(INITIALIZATIONS))
    ] = "glorot"
    scale: Annotated[float, Help("factor of the starting weights", above=0.0)] = 1.0
    precision: Annotated[
        str, Help("precision of the matrix products", choices=("double", "single"))
    ] = "double"
    held_out: Annotated[
        float, Help("share of rows held out, evaluated after each epoch", minimum=0, below=1)
    ] = 0.0

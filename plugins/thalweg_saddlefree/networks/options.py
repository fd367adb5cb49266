"""Options that all networks have."""

from __future__ import annotations

from typing import Annotated

from thalweg.plugins import Help
from thalweg_saddlefree.networks.activations import ACTIVATIONS
from thalweg_saddlefree.networks.initialization import INITIALIZATIONS

_NONLINEAR = tuple(name for name in ACTIVATIONS if name != "linear")

Activation = Annotated[str, Help("activation of the hidden layers", choices=_NONLINEAR)]
OutputActivation = Annotated[
    str, Help("activation of the output with the squared loss", choices=("linear", *_NONLINEAR))
]
HeldOut = Annotated[
    float,
    Help(
        "share of the rows held out of training and evaluated after each epoch", minimum=0, below=1
    ),
]

WeightDecay = Annotated[
    float,
    Help(
        "weight decay: half of it times the sum of squared weights is added to the loss",
        minimum=0.0,
    ),
]
Initialization = Annotated[
    str, Help("scheme of the starting weights", choices=tuple(INITIALIZATIONS))
]
Scale = Annotated[float, Help("factor of the starting weights", above=0.0)]
Precision = Annotated[str, Help("precision of the matrix products", choices=("double", "single"))]

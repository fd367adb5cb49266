"""Saddle-free Hessian-free optimization and its rivals: |H|-based steps from products.

>>> from thalweg_saddlefree import JaxObjective, SaddleFree
>>> thalweg.minimize(JaxObjective(comm, function, parameters), solver=SaddleFree())

Names are imported when first used, so that listing plugins stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg_saddlefree.hessian_free import HessianFree
    from thalweg_saddlefree.jax_objective import JaxObjective
    from thalweg_saddlefree.networks.autoencoder import build_autoencoder
    from thalweg_saddlefree.networks.mlp import build_mlp
    from thalweg_saddlefree.networks.objective import NetworkObjective
    from thalweg_saddlefree.saddle_free import SaddleFree

_WHERE = {
    "HessianFree": "hessian_free",
    "JaxObjective": "jax_objective",
    "NetworkObjective": "networks.objective",
    "SaddleFree": "saddle_free",
    "build_autoencoder": "networks.autoencoder",
    "build_mlp": "networks.mlp",
}

__all__ = [
    "HessianFree",
    "JaxObjective",
    "NetworkObjective",
    "SaddleFree",
    "build_autoencoder",
    "build_mlp",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)

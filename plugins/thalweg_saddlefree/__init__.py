"""Saddle-free second-order methods for networks and other functions with saddles.

See the README of this folder for the methods, and :mod:`thalweg_saddlefree.optax` for an
optimizer in the style of optax.

Names are imported when first used, so that listing plugins stays quick.
"""

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg_saddlefree.hessian_free import HessianFree
    from thalweg_saddlefree.jax_network import JaxNetwork
    from thalweg_saddlefree.jax_objective import JaxObjective
    from thalweg_saddlefree.kronecker import KroneckerPreconditioner
    from thalweg_saddlefree.minibatches import BatchSchedule, Minibatches, RowSet, StochasticState
    from thalweg_saddlefree.networks.build import build_autoencoder, build_mlp
    from thalweg_saddlefree.networks.objective import NetworkObjective
    from thalweg_saddlefree.saddle_free import SaddleFree
    from thalweg_saddlefree.subspace.solver import SubspaceSaddleFree

__all__ = [
    "BatchSchedule", "HessianFree", "JaxNetwork", "JaxObjective", "KroneckerPreconditioner",
    "Minibatches", "NetworkObjective", "RowSet", "SaddleFree", "StochasticState",
    "SubspaceSaddleFree", "build_autoencoder", "build_mlp",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)

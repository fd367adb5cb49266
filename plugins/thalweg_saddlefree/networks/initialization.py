"""Starting weights of a network, the same for a seed on any number of ranks."""

from __future__ import annotations

import numpy as np

from thalweg_saddlefree.networks.network import Network

#: Incoming connections of a unit in the sparse scheme.
CONNECTIONS = 15


def glorot(network: Network, seed: int, scale: float) -> np.ndarray:
    """Uniform weights of variance ``2 / (fan_in + fan_out)``, zero biases.

    Glorot and Bengio (2010), equation 16, times ``scale``.
    """
    flat = np.zeros(network.parameters)
    for layer in range(network.depth):
        weights = network.weights(flat, layer)
        bound = np.sqrt(6.0 / sum(weights.shape))
        weights[...] = scale * _stream(seed, layer).uniform(-bound, bound, weights.shape)
    return flat


def sparse(network: Network, seed: int, scale: float) -> np.ndarray:
    """At most 15 standard normal incoming weights a unit, the others and the biases zero.

    Martens (2010), section 5; units neither saturate nor become alike.
    """
    flat = np.zeros(network.parameters)
    for layer in range(network.depth):
        weights = network.weights(flat, layer)
        stream = _stream(seed, layer)
        count = min(CONNECTIONS, weights.shape[0])
        for unit in range(weights.shape[1]):
            chosen = stream.choice(weights.shape[0], size=count, replace=False)
            weights[chosen, unit] = scale * stream.standard_normal(count)
    return flat


def normal(network: Network, seed: int, scale: float) -> np.ndarray:
    """Independent normal weights of standard deviation ``scale``, zero biases."""
    flat = np.zeros(network.parameters)
    for layer in range(network.depth):
        weights = network.weights(flat, layer)
        weights[...] = scale * _stream(seed, layer).standard_normal(weights.shape)
    return flat


#: Schemes by the name that users write.
INITIALIZATIONS = {"glorot": glorot, "sparse": sparse, "normal": normal}


def _stream(seed: int, layer: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(layer,)))

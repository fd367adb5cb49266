"""Starting weights, the same for a seed on any number of ranks."""

from collections.abc import Callable

import numpy as np

from thalweg_saddlefree.networks.network import Network

#: Incoming connections of a unit in the sparse scheme.
CONNECTIONS = 15


def starting_weights(network: Network, scheme: str, seed: int, scale: float) -> np.ndarray:
    """All parameters: weights by one of :data:`INITIALIZATIONS`, times ``scale``; zero biases."""
    flat = np.zeros(network.parameters)
    for layer in range(network.depth):
        weights = network.weights(flat, layer)
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(layer,)))
        INITIALIZATIONS[scheme](weights, stream, scale)
    return flat


def _glorot(weights: np.ndarray, stream: np.random.Generator, scale: float) -> None:
    """Uniform, of variance ``2 / (fan_in + fan_out)``: Glorot and Bengio (2010), equation 16."""
    bound = np.sqrt(6.0 / sum(weights.shape))
    weights[...] = scale * stream.uniform(-bound, bound, weights.shape)


def _sparse(weights: np.ndarray, stream: np.random.Generator, scale: float) -> None:
    """At most 15 standard normal incoming weights a unit, the others zero.

    Martens (2010), section 5; units neither saturate nor become alike.
    """
    count = min(CONNECTIONS, weights.shape[0])
    for unit in range(weights.shape[1]):
        chosen = stream.choice(weights.shape[0], size=count, replace=False)
        weights[chosen, unit] = scale * stream.standard_normal(count)


def _normal(weights: np.ndarray, stream: np.random.Generator, scale: float) -> None:
    """Independent standard normal."""
    weights[...] = scale * stream.standard_normal(weights.shape)


#: Schemes by the name that users write.
INITIALIZATIONS: dict[str, Callable[[np.ndarray, np.random.Generator, float], None]] = {
    "glorot": _glorot,
    "sparse": _sparse,
    "normal": _normal,
}

"""First-order rivals in JAX and optax: from the same start, with schedules that fit the time."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg_saddlefree.networks.network import Network
from thalweg_saddlefree.networks.objective import NetworkObjective

#: Rates tried, and the batches they are tried with.
GRID = {
    "adam": {"rate": (3e-4, 1e-3, 3e-3), "batch": 200},
    "nag": {"rate": (3e-3, 1e-2, 3e-2), "batch": 200},
    "muon": {"rate": (3e-3, 1e-2, 3e-2), "batch": 500},
}

#: Updates that are timed, off the clock, to fit a schedule to the time.
TIMED = 20


def available() -> bool:
    """Whether JAX and optax are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("jax", "optax"))


def loss_of(network: Network) -> Callable[..., Any]:
    """``loss(tree, inputs, targets)`` in JAX: the mean loss of a network of this project."""
    import jax
    import jax.numpy as jnp

    functions = {
        "Tanh": jnp.tanh,
        "Sigmoid": jax.nn.sigmoid,
        "Relu": jax.nn.relu,
        "Linear": lambda z: z,
    }
    hidden = [functions[type(activation).__name__] for activation in network.activations]
    kind = type(network.loss).__name__
    last = (
        functions[type(getattr(network.loss, "activation", None)).__name__]
        if (kind == "SquaredError")
        else None
    )

    def loss(tree: Any, inputs: Any, targets: Any) -> Any:
        a = inputs
        for k, (weights, biases) in enumerate(tree):
            z = a @ weights + biases
            a = hidden[k](z) if k < network.depth - 1 else z
        if kind == "SquaredError":
            total = 0.5 * jnp.sum((last(a) - targets) ** 2)
        elif kind == "LogisticCrossEntropy":
            total = jnp.sum(jnp.logaddexp(0.0, a) - targets * a)
        else:
            total = jnp.sum(jax.nn.logsumexp(a, axis=1) - jnp.sum(targets * a, axis=1))
        return total / len(inputs)

    return loss


@dataclass
class FirstOrder:
    """An optimizer of optax on the rows of an objective.

    Parameters
    ----------
    name
        ``"adam"``, ``"nag"`` (Nesterov's gradient with the momentum schedule of Sutskever
        et al. 2013, at most 0.99), or ``"muon"``.
    rate
        Peak of the learning rate; after a rise over 5 % of the updates it falls to zero
        by a cosine at the end of the time.
    batch
        Data rows of an update.
    """

    name: str
    rate: float
    batch: int
    began: float = 0.0
    finished: bool = False

    def run(
        self, objective: NetworkObjective, seconds: float, clock: Callable[[], float]
    ) -> Iterator[tuple[int, float, np.ndarray]]:
        """Updates, epochs and parameters, at the end of every epoch, until the time is up."""
        import jax
        import jax.numpy as jnp

        network = objective.network
        start = objective.layout.reading(objective.initial_point(0))[:, 0]
        tree = [
            tuple(
                jnp.asarray(part(start, k), dtype=jnp.float32)
                for part in (network.weights, network.biases)
            )
            for k in range(network.depth)
        ]
        inputs, targets = jnp.asarray(objective.inputs), jnp.asarray(objective.targets)
        rows = len(inputs)
        batch = min(self.batch, rows)
        loss = loss_of(network)
        update, memory = self._update(loss, tree, 1000)
        stream = np.random.default_rng(0)
        trial = (tree, memory)
        chosen = stream.permutation(rows)[:batch]
        trial = update(*trial, inputs[chosen], targets[chosen])  # compile off the clock
        jax.block_until_ready(trial)
        began = clock()
        for _ in range(TIMED):
            trial = update(*trial, inputs[chosen], targets[chosen])
        jax.block_until_ready(trial)
        count = max(10, int(seconds / ((clock() - began) / TIMED)))
        update, memory = self._update(loss, tree, count)
        jax.block_until_ready(update(tree, memory, inputs[chosen], targets[chosen]))
        done = 0
        #: Reading of the clock at the first update; the caller's pauses do not count.
        self.began = clock()
        while done < count and clock() - self.began < 1.02 * seconds:
            order = stream.permutation(rows)
            for first in range(0, rows - batch + 1, batch):
                chosen = order[first : first + batch]
                tree, memory = update(tree, memory, inputs[chosen], targets[chosen])
                done += 1
                if done == count:
                    break
            jax.block_until_ready(tree)
            self.finished = done == count
            flat = np.concatenate([np.asarray(leaf).ravel() for pair in tree for leaf in pair])
            yield done, done * batch / rows, flat

    def _update(self, loss: Callable[..., Any], tree: Any, count: int) -> tuple[Any, Any]:
        import jax
        import optax
        import optax.contrib

        rate = optax.warmup_cosine_decay_schedule(
            0.1 * self.rate, self.rate, max(1, count // 20), count
        )
        if self.name == "adam":
            rule = optax.adam(rate)
        elif self.name == "muon":
            rule = optax.contrib.muon(rate)
        else:
            rule = optax.inject_hyperparams(
                lambda learning_rate, momentum: optax.sgd(
                    learning_rate, momentum=momentum, nesterov=True
                )
            )(
                learning_rate=rate,
                # Sutskever et al. (2013), equation 5: 1 - 2^(-1 - log2(t/250 + 1)).
                momentum=lambda t: jax.numpy.minimum(0.99, 1.0 - 0.5 / (t // 250 + 1.0)),
            )

        @jax.jit
        def update(tree: Any, memory: Any, inputs: Any, targets: Any) -> Any:
            slope = jax.grad(loss)(tree, inputs, targets)
            change, memory = rule.update(slope, memory, tree)
            return optax.apply_updates(tree, change), memory

        return update, rule.init(tree)

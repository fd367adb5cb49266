"""Rivals in JAX: first-order methods of optax and kfac-jax, from the same start."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hpc.bench.saddlefree.characters import Transformer
from hpc.bench.saddlefree.soap_jax import soap

from thalweg_saddlefree.networks.network import Network
from thalweg_saddlefree.networks.objective import NetworkObjective

#: Settings tried: the peak of the learning rate, for kfac-jax the first damping; and data rows
#: of an update.
GRID: dict[str, list[dict[str, float]]] = {
    "adam": [{"rate": rate, "batch": 200} for rate in (3e-4, 1e-3, 3e-3)],
    "nag": [{"rate": rate, "batch": 200} for rate in (3e-3, 1e-2, 3e-2)],
    "muon": [{"rate": rate, "batch": 500} for rate in (3e-3, 1e-2, 3e-2)],
    "soap": [{"rate": rate, "batch": 500} for rate in (3e-3, 1e-2, 3e-2)],
    "kfac-jax": [{"damping": 1.0, "batch": batch} for batch in (1000, 2500)],
}

#: Most that Adam's rate is for what Muon leaves to it in the transformer.
ADAM_BESIDE_MUON = 3e-3

#: Part of the time over which a learning rate rises.
RISE = 0.05


def available(name: str) -> bool:
    """Whether the packages of a rival are installed.

    kfac-jax 0.0.8, which needs JAX before 0.7, and heavyball, which needs PyTorch, are not
    among the extras; without them the record keeps what it had.
    """
    others = {"kfac-jax": ("jax", "optax", "kfac_jax"), "soap": ("torch", "heavyball")}
    needed = others.get(name, ("jax", "optax"))
    return all(importlib.util.find_spec(package) is not None for package in needed)


def model_of(network: Network) -> tuple[Callable[..., Any], str]:
    """``outputs(tree, inputs)`` of a network of this project in JAX, and the kind of its loss.

    The outputs are those that the loss compares with the targets: pre-activations for
    cross-entropies.
    """
    import jax
    import jax.numpy as jnp

    functions = {
        "Tanh": jnp.tanh,
        "Sigmoid": jax.nn.sigmoid,
        "Relu": jax.nn.relu,
        "Linear": lambda z: z,
    }
    kind = type(network.loss).__name__
    chain = [type(activation).__name__ for activation in network.activations]
    squared = kind == "SquaredError"
    chain.append(type(getattr(network.loss, "activation", None)).__name__ if squared else "Linear")

    def outputs(tree: Any, inputs: Any) -> Any:
        a = inputs
        for (weights, biases), name in zip(tree, chain, strict=True):
            a = functions[name](a @ weights + biases)
        return a

    return outputs, kind


def loss_of(network: Network, registered: bool = False) -> Callable[..., Any]:
    """``loss(tree, (inputs, targets))``: the mean loss, made known to kfac-jax if asked for."""
    import jax
    import jax.numpy as jnp

    model, kind = model_of(network)

    def loss(tree: Any, rows: tuple[Any, Any]) -> Any:
        inputs, targets = rows
        z = model(tree, inputs)
        if registered:
            import kfac_jax

            if kind == "SquaredError":
                kfac_jax.register_normal_predictive_distribution(z, targets, variance=1.0)
            elif kind == "LogisticCrossEntropy":
                kfac_jax.register_multi_bernoulli_predictive_distribution(z, targets)
            else:
                kfac_jax.register_categorical_predictive_distribution(z, targets.argmax(axis=1))
        if kind == "SquaredError":
            total = 0.5 * jnp.sum((z - targets) ** 2)
        elif kind == "LogisticCrossEntropy":
            total = jnp.sum(jnp.logaddexp(0.0, z) - targets * z)
        else:
            total = jnp.sum(jax.nn.logsumexp(z, axis=1) - jnp.sum(targets * z, axis=1))
        return total / len(inputs)

    return loss


def schedule(part: float) -> float:
    """Factor of the learning rate after a part of the time."""
    if part < RISE:
        return 0.1 + 0.9 * part / RISE
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (part - RISE) / (1 - RISE))))


class Rival:
    """An optimizer in JAX on the rows of an objective.

    Parameters
    ----------
    name
        ``"adam"``, ``"nag"`` (Nesterov's gradient with the momentum schedule of Sutskever
        et al. 2013, at most 0.99), ``"muon"``, or ``"kfac-jax"`` with its adaptive rate,
        momentum and damping and otherwise its defaults.
    settings
        ``rate``: the learning rate rises to it over 5 % of the time and falls to zero by a
        cosine at its end. Or ``damping``: the first one. ``batch``: data rows
        of an update. ``decay``: weight decay, by default none; decoupled from the
        gradient, as each of these methods has it, but for kfac-jax a term of the loss.
    seed
        Of the order of the rows.
    constant
        Keep the learning rate as it is.
    """

    def __init__(
        self, name: str, settings: dict[str, float], seed: int, constant: bool = False
    ) -> None:
        self.name, self.settings, self.seed, self.constant = name, settings, seed, constant
        #: Reading of the clock at the first update.
        self.began = 0.0
        #: Seconds after which a point comes within an epoch too.
        self.step = math.inf

    def run(
        self,
        objective: NetworkObjective,
        start: np.ndarray,
        seconds: float,
        clock: Callable[[], float],
    ) -> Iterator[tuple[int, float, np.ndarray]]:
        """Updates, epochs and parameters, at the end of every epoch, until the time is up."""
        import jax
        import jax.numpy as jnp

        tree, (inputs, targets) = self._begun(objective, start)
        rows = len(inputs)
        batch = min(int(self.settings["batch"]), rows)
        stream = np.random.default_rng(self.seed)
        chosen = stream.permutation(rows)[:batch]

        def timed(update: Any, memory: Any, updates: int) -> float:
            # On copies, since an update may take the memory of its arguments.
            copied = jax.tree_util.tree_map(jnp.array, (tree, memory))
            began = clock()
            for _ in range(updates):
                copied = update(*copied, (inputs[chosen], targets[chosen]))
            jax.block_until_ready(copied)
            return clock() - began

        update, memory = self._update(objective, tree, (inputs[chosen], targets[chosen]))
        # What compiling takes is not counted; kfac-jax compiles another step for every fifth
        # update, and takes the memory of its arguments, so that it is given copies.
        trial = jax.tree_util.tree_map(jnp.array, (tree, memory))
        for _ in range(6):
            trial = update(*trial, (inputs[chosen], targets[chosen]), 0.0)
        jax.block_until_ready(trial)
        done, shown = 0, 0.0
        self.began = clock()
        while (spent := clock() - self.began) < seconds:
            order = stream.permutation(rows)
            for first in range(0, rows - batch + 1, batch):
                chosen = order[first : first + batch]
                part = (inputs, targets) if batch == rows else (inputs[chosen], targets[chosen])
                tree, memory = update(tree, memory, part, self._factor(spent / seconds))
                jax.block_until_ready(tree)
                done += 1
                if (spent := clock() - self.began) >= seconds:
                    break
                if spent >= shown + self.step:
                    yield done, done * batch / rows, self._flat(objective, tree)
                    shown = spent
            yield done, done * batch / rows, self._flat(objective, tree)

    def _factor(self, part: float) -> float:
        return 1.0 if self.constant else schedule(part)

    def _begun(self, objective: Any, start: np.ndarray) -> tuple[Any, tuple[Any, Any]]:
        """Parameters to start from as a tree, and the training rows."""
        import jax.numpy as jnp

        if isinstance(objective, Transformer):
            return objective.unravel(jnp.asarray(start, jnp.float32)), objective.local_rows
        network = objective.network
        tree = [
            tuple(
                jnp.asarray(part(start, k), dtype=jnp.float32)
                for part in (network.weights, network.biases)
            )
            for k in range(network.depth)
        ]
        return tree, (objective.inputs, objective.targets)

    def _flat(self, objective: Any, tree: Any) -> np.ndarray:
        if isinstance(objective, Transformer):
            return objective.ravel(tree)
        return np.concatenate([np.asarray(leaf).ravel() for pair in tree for leaf in pair])

    def _update(self, objective: Any, tree: Any, rows: Any) -> tuple[Any, Any]:
        """``update(tree, memory, rows, scale)``, and its first memory."""
        if self.name == "kfac-jax":
            return self._kfac(objective.network, tree, rows)
        import jax
        import optax
        import optax.contrib

        sequences = isinstance(objective, Transformer)
        loss = objective.mean_loss if sequences else loss_of(objective.network)
        rate, decay = self.settings["rate"], self.settings.get("decay", 0.0)
        if self.name == "adam":
            rule = optax.adamw(rate, weight_decay=decay)
        elif self.name == "soap":
            rule = soap(rate, decay)
        elif self.name == "muon" and sequences:
            # What enters and leaves the blocks gets AdamW, as in Muon's own examples.
            hidden = optax.contrib.MuonDimensionNumbers()
            numbers = {
                name: {
                    part: None if part == "bias" or name in ("embedding", "output") else hidden
                    for part in layer
                }
                for name, layer in tree.items()
            }
            rule = optax.contrib.muon(
                rate, weight_decay=decay, adam_weight_decay=decay,
                adam_learning_rate=min(rate, ADAM_BESIDE_MUON),
                muon_weight_dimension_numbers=numbers,
            )  # fmt: skip
        elif self.name == "muon":
            rule = optax.contrib.muon(rate, weight_decay=decay)
        else:
            rule = optax.inject_hyperparams(
                lambda momentum: optax.sgd(rate, momentum=momentum, nesterov=True)
            )(
                # Sutskever et al. (2013), equation 5: 1 - 2^(-1 - log2(t/250 + 1)).
                momentum=lambda t: jax.numpy.minimum(0.99, 1.0 - 0.5 / (t // 250 + 1.0))
            )

        @jax.jit
        def update(tree: Any, memory: Any, rows: Any, scale: Any) -> Any:
            change, memory = rule.update(jax.grad(loss)(tree, rows), memory, tree)
            # All three are linear in the rate.
            change = jax.tree_util.tree_map(lambda leaf: scale * leaf, change)
            return optax.apply_updates(tree, change), memory

        return update, rule.init(tree)

    def _kfac(self, network: Network, tree: Any, rows: Any) -> tuple[Any, Any]:
        import jax
        import kfac_jax

        decay, mean = self.settings.get("decay", 0.0), loss_of(network, registered=True)

        def loss(tree: Any, rows: Any) -> Any:
            squares = sum((weights**2).sum() for weights, _ in tree) if decay else 0.0
            return mean(tree, rows) + 0.5 * decay * squares

        optimizer = kfac_jax.Optimizer(
            jax.value_and_grad(loss),
            l2_reg=decay,
            use_adaptive_learning_rate=True,
            use_adaptive_momentum=True,
            use_adaptive_damping=True,
            initial_damping=self.settings["damping"],
            num_burnin_steps=0,
        )
        keys = iter(range(10**9))

        def update(tree: Any, memory: Any, rows: Any, _: float) -> Any:
            key = jax.random.PRNGKey(self.seed * 10**6 + next(keys))
            return optimizer.step(tree, memory, key, batch=rows)[:2]

        return update, optimizer.init(tree, jax.random.PRNGKey(self.seed), rows)

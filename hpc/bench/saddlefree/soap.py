"""SOAP of the package heavyball, in PyTorch, from the same start.

Adam in the eigenvectors of Shampoo's factors (Vyas et al., 2024, arXiv:2409.11321).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hpc.bench.saddlefree.rivals import Rival, schedule

from thalweg_saddlefree.networks.network import Network
from thalweg_saddlefree.networks.objective import NetworkObjective

#: Updates between two renewals of the eigenvectors, as in the paper.
RENEWED = 10


class Soap(Rival):
    """SOAP on the rows of an objective, in PyTorch."""

    def run(
        self,
        objective: NetworkObjective,
        start: np.ndarray,
        seconds: float,
        clock: Callable[[], float],
    ) -> Iterator[tuple[int, float, np.ndarray]]:
        """Updates, epochs and parameters, at the end of every epoch, until the time is up."""
        import heavyball
        import torch

        torch.set_num_threads(1)
        heavyball.utils.compile_mode = None
        network, rate = objective.network, self.settings["rate"]
        tree = [
            torch.tensor(part(start, k), dtype=torch.float32, requires_grad=True)
            for k in range(network.depth)
            for part in (network.weights, network.biases)
        ]
        # The mean of a gradient and of its square over 20 updates, as in the paper.
        rule = heavyball.SOAP(
            tree,
            lr=rate,
            betas=(0.95, 0.95),
            weight_decay=self.settings.get("decay", 0.0),
            precondition_frequency=RENEWED,
            merge_dims=False,
        )
        loss = loss_of(network, torch)
        inputs = torch.from_numpy(objective.inputs)
        targets = torch.from_numpy(objective.targets)
        rows = len(inputs)
        batch = min(int(self.settings["batch"]), rows)
        stream = np.random.default_rng(self.seed)
        done = 0
        self.began = clock()
        while (spent := clock() - self.began) < seconds:
            order = torch.from_numpy(stream.permutation(rows))
            for first in range(0, rows - batch + 1, batch):
                chosen = order[first : first + batch]
                rule.zero_grad()
                loss(tree, inputs[chosen], targets[chosen]).backward()
                factor = 1.0 if self.constant else schedule(spent / seconds)
                rule.param_groups[0]["lr"] = rate * factor
                rule.step()
                done += 1
                if (spent := clock() - self.began) >= seconds:
                    break
            flat = np.concatenate([leaf.detach().numpy().ravel() for leaf in tree])
            yield done, done * batch / rows, flat


def loss_of(network: Network, torch: Any) -> Callable[..., Any]:
    """``loss(tree, inputs, targets)`` in PyTorch: the mean loss of a network."""
    functions = {
        "Tanh": torch.tanh,
        "Sigmoid": torch.sigmoid,
        "Relu": torch.relu,
        "Linear": lambda z: z,
    }
    kind = type(network.loss).__name__
    chain = [type(activation).__name__ for activation in network.activations]
    chain.append(
        type(getattr(network.loss, "activation", None)).__name__
        if kind == "SquaredError"
        else "Linear"
    )

    def loss(tree: list[Any], inputs: Any, targets: Any) -> Any:
        z = inputs
        for weights, biases, name in zip(tree[::2], tree[1::2], chain, strict=True):
            z = functions[name](torch.addmm(biases, z, weights))
        if kind == "SquaredError":
            return 0.5 * ((z - targets) ** 2).sum() / len(inputs)
        if kind == "LogisticCrossEntropy":
            return (torch.nn.functional.softplus(z) - targets * z).sum() / len(inputs)
        return (torch.logsumexp(z, 1) - (targets * z).sum(1)).sum() / len(inputs)

    return loss

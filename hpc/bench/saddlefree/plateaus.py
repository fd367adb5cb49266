"""Networks that stall from small weights: seconds to the known minimum.

The saddle points of a deep linear autoencoder are those networks that pass on some of
the leading principal components but not all (Baldi and Hornik, 1989); from small
weights a method passes by one after the other.  The minimum is what principal
components leave.  In a long chain of tanh layers without shortcuts gradients all but
vanish; its minimum is zero.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from hpc.bench.saddlefree.rivals import Rival, available
from hpc.bench.saddlefree.soap import Soap
from hpc.bench.saddlefree.training import DIGITS, DIVERGED, Watch, build_problem
from sklearn.datasets import load_digits

import thalweg
from thalweg.errors import ThalwegError
from thalweg.parallel import MPI, Layout
from thalweg_saddlefree.kronecker import KroneckerPreconditioner
from thalweg_saddlefree.networks.functions import ACTIVATIONS, SquaredError
from thalweg_saddlefree.networks.network import Network
from thalweg_saddlefree.networks.objective import NetworkObjective
from thalweg_saddlefree.subspace.solver import SubspaceSaddleFree

#: Part of the way to the minimum that is to be made.
WAY = 0.999

OURS: dict[str, dict[str, Any]] = {
    "saddle-free-subspace": {},
    "saddle-free-subspace, two Lanczos vectors": {"lanczos": 2},
    "saddle-free-subspace, Gauss-Newton": {"curvature": "gauss-newton"},
    "saddle-free": {},
    "lbfgs": {},
    "tao:ntr": {},
}


@dataclass(frozen=True)
class Plateau:
    """A network of this part.

    Attributes
    ----------
    sizes
        Layers of a deep linear autoencoder; empty for the chain.
    scale
        Factor of Glorot's weights.
    rates
        Constant rates of first-order methods, since the time to the goal is what is
        sought; every one is shown.
    batch
        Data rows of their updates, and of the first batches of ours; by default 200 and our
        default.
    """

    scale: float
    rates: Mapping[str, tuple[float, ...]]
    sizes: list[int] = field(default_factory=list)
    batch: int | None = None

    def build(self) -> tuple[NetworkObjective, float]:
        """The objective, and its least value."""
        if self.sizes:
            return linear_autoencoder(self.sizes)
        return build_problem("deep-plain", None, DIGITS).train, 0.0


LINEAR = {
    "adam": (3e-3, 1e-2, 3e-2),
    "nag": (3e-2, 1e-1, 3e-1),
    "muon": (3e-3, 1e-2, 3e-2),
    "soap": (3e-3, 1e-2, 3e-2),
}
CHAIN = {
    "adam": (3e-4, 1e-3, 3e-3),
    "nag": (1e-2, 3e-2, 1e-1),
    "muon": (3e-3, 1e-2, 3e-2),
    "soap": (1e-3, 3e-3, 1e-2),
}

#: Every method, in the order of the table.
METHODS = (*OURS, *LINEAR)

#: The linear networks are to find few components, whose variances are within a factor of 4,
#: and many, whose variances are within a factor of 42; the product of their six layers is
#: nearly zero at first.
NETWORKS = {
    "8 components": Plateau(0.3, LINEAR, [64, 32, 16, 8, 16, 32, 64], 2000),
    "32 components": Plateau(0.3, LINEAR, [64, 48, 40, 32, 40, 48, 64], 2000),
    "chain": Plateau(1.0, CHAIN),
    "chain, from 0.8 times": Plateau(0.8, CHAIN),
}


def linear_autoencoder(sizes: list[int]) -> tuple[NetworkObjective, float]:
    """A network on scikit-learn's digits, and its least value."""
    pixels = load_digits().data / 16.0
    linear = ACTIVATIONS["linear"]
    network = Network(sizes, [linear] * (len(sizes) - 2), SquaredError(linear))
    objective = NetworkObjective(
        MPI.COMM_SELF,
        Layout(MPI.COMM_SELF, len(pixels), pixels.shape[1]),
        network,
        pixels,
        pixels,
        precision="single",
    )
    variances = np.linalg.eigvalsh(np.cov(pixels.T, bias=True))
    return objective, 0.5 * float(variances[: -min(sizes)].sum())


def measure_plateaus(
    record: dict[str, Any], network: str, methods: Sequence[str], seconds: float, seeds: int
) -> None:
    """For methods and seeds the curve: core-seconds, updates, part of the way left.

    What ``record`` holds of other methods is kept.
    """
    plateau = NETWORKS[network]
    runs: dict[str, Callable[[int], list[list[float]]]] = {
        name: partial(_ours, plateau, name, options, seconds)
        for name, options in OURS.items()
        if name in methods
    }
    for name, rates in plateau.rates.items():
        for rate in rates if name in methods and available(name) else ():
            runs[f"{name}, rate {rate:g}"] = partial(_rival, plateau, name, rate, seconds)
    record.update(seconds=seconds, way=WAY)
    curves = record.setdefault("networks", {}).setdefault(network, {"curves": {}})["curves"]
    for name, run in runs.items():
        curves[name] = [run(seed) for seed in range(seeds)]


class Course:
    """Part of the way that is left, measured off the clock."""

    def __init__(self, plateau: Plateau, seed: int) -> None:
        self.train, self.least = plateau.build()
        self.watched = plateau.build()[0]
        # Glorot's biases are zero.
        self.start = plateau.scale * self.train.initial_point(seed)
        self.whole = self.watched.value(self.start) - self.least
        self.watch = Watch("cpu")
        self.curve = [[0.0, 0.0, 1.0]]

    def note(self, spent: float, updates: int, x: Any) -> bool:
        """Add a point of the curve; whether the goal is reached, or out of reach."""
        left = self.watch.pause(lambda: (self.watched.value(x) - self.least) / self.whole)
        self.curve.append([spent, float(updates), left if np.isfinite(left) else DIVERGED])
        return not 1 - WAY < left < DIVERGED


def _ours(
    plateau: Plateau, name: str, options: dict[str, Any], seconds: float, seed: int
) -> list[list[float]]:
    course = Course(plateau, seed)
    solver: Any = name
    if name.startswith("saddle-free-subspace"):
        metric = KroneckerPreconditioner()
        solver = SubspaceSaddleFree(
            preconditioner=metric, seed=seed, batch=plateau.batch, **options
        )
    began = course.watch.now()

    def note(iterate: Any) -> bool:
        spent = course.watch.now() - began
        return course.note(spent, iterate.iteration, iterate.state.x) or spent >= seconds

    # Where a method fails its curve shows how far it came.
    with contextlib.suppress(ThalwegError):
        thalweg.minimize(
            course.train, course.start, solver=solver, callback=note, iterations=None, decrease=None
        )
    return course.curve


def _rival(
    plateau: Plateau, name: str, rate: float, seconds: float, seed: int
) -> list[list[float]]:
    course = Course(plateau, seed)
    settings = {"rate": rate, "batch": plateau.batch or 200}
    rival = (Soap if name == "soap" else Rival)(name, settings, seed, constant=True)
    start = course.start[:, 0]
    for updates, epochs, flat in rival.run(course.train, start, seconds, course.watch.now):
        if epochs == updates and updates % 10:
            continue
        spent = course.watch.now() - rival.began
        if course.note(spent, updates, np.asarray(flat, dtype=float)[:, None]):
            break
    return course.curve


def seconds_to_goal(curve: list[list[float]], way: float) -> float | None:
    """Core-seconds until that part of the way was made, or None."""
    return next((spent for spent, _, left in curve if left <= 1 - way), None)

"""A deep linear autoencoder from beside its saddle: seconds to the known minimum.

Its saddle points are those networks that pass on some of the leading principal
components but not all (Baldi and Hornik, 1989); from small weights a method passes by
one after the other.  The minimum is what principal components leave.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
from hpc.bench.saddlefree.rivals import Rival, available
from hpc.bench.saddlefree.training import DIVERGED, Watch
from sklearn.datasets import load_digits

import thalweg
from thalweg.errors import ThalwegError
from thalweg.parallel import MPI, Layout
from thalweg_saddlefree.kronecker.preconditioner import KroneckerPreconditioner
from thalweg_saddlefree.networks.activations import ACTIVATIONS
from thalweg_saddlefree.networks.losses import SquaredError
from thalweg_saddlefree.networks.network import Network
from thalweg_saddlefree.networks.objective import NetworkObjective
from thalweg_saddlefree.subspace.saddle_free import SubspaceSaddleFree

#: Layers of the networks, by the number of components that they are to find: few, whose
#: variances are within a factor of 4, and many, whose variances are within a factor of 42.
NETWORKS = {
    "8 components": [64, 32, 16, 8, 16, 32, 64],
    "32 components": [64, 48, 40, 32, 40, 48, 64],
}

#: Factor of Glorot's weights; the product of six layers is then nearly zero.
SCALE = 0.3

#: Part of the way to the minimum that is to be made.
WAY = 0.999

OURS: dict[str, dict[str, Any]] = {
    "saddle-free-subspace": {"batch": 2000},
    "saddle-free-subspace, two Lanczos vectors": {"batch": 2000, "lanczos": 2},
    "saddle-free-subspace, Gauss-Newton": {"batch": 2000, "curvature": "gauss-newton"},
    "saddle-free": {},
    "lbfgs": {},
    "tao:ntr": {},
}

#: Constant rates, since the time to the goal is what is sought; every one is shown.
RATES = {
    "adam": (3e-3, 1e-2, 3e-2),
    "nag": (3e-2, 1e-1, 3e-1),
    "muon": (3e-3, 1e-2, 3e-2),
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
        scale=SCALE,
        precision="single",
    )
    variances = np.linalg.eigvalsh(np.cov(pixels.T, bias=True))
    return objective, 0.5 * float(variances[: -min(sizes)].sum())


def measure_plateaus(seconds: float, seeds: int) -> dict[str, Any]:
    """For every network, method and seed the curve: core-seconds, updates, part of the way left."""
    networks: dict[str, Any] = {}
    for network, sizes in NETWORKS.items():
        curves: dict[str, list[list[list[float]]]] = {}
        for seed in range(seeds):
            for name, options in OURS.items():
                curve = _ours(sizes, name, options, seconds, seed)
                curves.setdefault(name, []).append(curve)
            for name, rates in RATES.items():
                for rate in rates if available(name) else ():
                    curve = _rival(sizes, name, rate, seconds, seed)
                    curves.setdefault(f"{name}, rate {rate:g}", []).append(curve)
        networks[network] = {"sizes": sizes, "curves": curves}
    return {"seconds": seconds, "scale": SCALE, "way": WAY, "networks": networks}


def _ours(
    sizes: list[int], name: str, options: dict[str, Any], seconds: float, seed: int
) -> list[list[float]]:
    objective, least = linear_autoencoder(sizes)
    start = objective.initial_point(seed)
    whole = objective.value(start) - least
    curve: list[list[float]] = []
    solver: Any = name
    if name.startswith("saddle-free-subspace"):
        solver = SubspaceSaddleFree(preconditioner=KroneckerPreconditioner(), seed=seed, **options)
    began = time.process_time()

    def note(iterate: Any) -> bool:
        left = (float(iterate.objective) - least) / whole
        curve.append([time.process_time() - began, float(iterate.iteration), left])
        return left <= 1 - WAY or curve[-1][0] >= seconds

    # Where a method fails its curve shows how far it came.
    with contextlib.suppress(ThalwegError):
        thalweg.minimize(
            objective, start, solver=solver, callback=note, iterations=None, decrease=None
        )
    return curve


def _rival(
    sizes: list[int], name: str, rate: float, seconds: float, seed: int
) -> list[list[float]]:
    objective, least = linear_autoencoder(sizes)
    x = objective.initial_point(seed)
    start = objective.layout.reading(x)[:, 0].copy()
    whole = objective.value(x) - least
    curve = [[0.0, 0.0, 1.0]]
    settings = {"rate": rate, "batch": len(objective.inputs)}
    watch = Watch("cpu")
    rival = Rival(name, settings, seed, constant=True)

    def part_left(flat: np.ndarray) -> float:
        with objective.layout.writing(x) as target:
            target[:, 0] = flat
        return (objective.value(x) - least) / whole

    for updates, _, flat in rival.run(objective, start, seconds, watch.now):
        if updates % 10:
            continue
        spent = watch.now() - rival.began
        left = watch.pause(lambda flat=flat: part_left(flat))
        curve.append([spent, float(updates), left if np.isfinite(left) else DIVERGED])
        if not 1 - WAY < left < DIVERGED:
            break
    return curve


def seconds_to_goal(curve: list[list[float]], way: float) -> float | None:
    """Core-seconds until that part of the way was made, or None."""
    return next((spent for spent, _, left in curve if left <= 1 - way), None)

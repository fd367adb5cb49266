"""Training a deep autoencoder: squared error per case against seconds and against work."""

from __future__ import annotations

import gzip
import importlib.util
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg_saddlefree.networks.autoencoder import build_autoencoder
from thalweg_saddlefree.networks.objective import NetworkObjective

METHODS = ("saddle-free", "hessian-free", "lbfgs", "adam")


def images(folder: Path | None, rows: int) -> np.ndarray:
    """Training images with pixels between 0 and 1, shape ``(rows, pixels)``."""
    if folder is None:
        return load_digits().data[:rows] / 16.0
    folder = folder / "mnist" if (folder / "mnist").is_dir() else folder
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as stream:
        raw = np.frombuffer(stream.read(), np.uint8, offset=16)
    return raw.reshape(-1, 784)[:rows] / 255.0


def layers(pixels: int, quick: bool) -> list[int]:
    """Hinton and Salakhutdinov's network for MNIST, a small one for quick runs and digits."""
    if pixels != 784:
        return [pixels, 64, 32, 8]
    return [784, 256, 64, 16] if quick else [784, 1000, 500, 250, 30]


def build(values: np.ndarray, sizes: list[int]) -> NetworkObjective:
    """The objective that all methods minimise: half the squared error per case."""
    return build_autoencoder(
        Dataset.from_array(values, comm=MPI.COMM_WORLD),
        MPI.COMM_WORLD,
        layers=sizes,
        activation="tanh",
        output="sigmoid",
        loss="squared",
        precision="single",
    )


def measure_autoencoder(
    folder: Path | None, rows: int, seconds: float, quick: bool, methods: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """Curves of (seconds, gradient equivalents, squared error per case).

    Yields what is known after each method, so that it can be kept.
    """
    values = images(folder, rows)
    sizes = layers(values.shape[1], quick)
    sample = max(1, len(values) // 4)
    setting = {
        "data": "MNIST" if folder else "digits",
        "rows": len(values),
        "layers": sizes,
        "curvature_rows": sample,
        "seconds": seconds,
    }
    curves: dict[str, list[list[float]]] = {}
    for method in methods:
        if method == "adam":
            curve = adam(values, sizes, seconds)
            if curve is None:
                continue
        else:
            curve = second_order(method, build(values, sizes), seconds, sample)
        curves[method] = curve
        yield {"setting": setting, "curves": dict(curves)}


def second_order(
    method: str, objective: NetworkObjective, seconds: float, sample: int
) -> list[list[float]]:
    """Curve of one of the solvers of this project."""
    curve: list[list[float]] = []

    def note(iterate: Any) -> None:
        curve.append([iterate.seconds, objective.work, 2.0 * iterate.objective])
        sys.stderr.write(f"{method}: {curve[-1]}\n")

    options: dict[str, Any] = {"memory": 20}
    if method != "lbfgs":
        # The clock is looked at between steps only, so that a step must not take minutes.
        options = {"curvature_rows": sample, "steps": 100}
    thalweg.minimize(
        objective,
        solver=method,
        callback=note,
        seconds=seconds,
        iterations=10**6,
        decrease=0.0,
        **options,
    )
    return curve


def adam(values: np.ndarray, sizes: list[int], seconds: float) -> list[list[float]] | None:
    """Curve of Adam from the same start, mini-batches of 200; None where JAX is not installed.

    The training error is measured after every epoch, off the clock.
    """
    if importlib.util.find_spec("jax") is None or importlib.util.find_spec("optax") is None:
        return None
    import jax
    import jax.numpy as jnp
    import optax

    objective = build(values, sizes)
    network = objective.network
    start = objective.layout.reading(objective.initial_point(0))[:, 0]
    parameters = [
        (
            jnp.asarray(network.weights(start, k), dtype=jnp.float32),
            jnp.asarray(network.biases(start, k), dtype=jnp.float32),
        )
        for k in range(network.depth)
    ]
    middle = (network.depth - 1) // 2

    def loss(tree: Any, rows: Any) -> Any:
        a = rows
        for k, (weights, biases) in enumerate(tree):
            z = a @ weights + biases
            a = jax.nn.sigmoid(z) if k == network.depth - 1 else (z if k == middle else jnp.tanh(z))
        return 0.5 * jnp.sum((a - rows) ** 2) / len(rows)

    count, batch = len(values), min(200, len(values))
    epochs = 1000
    schedule = optax.cosine_decay_schedule(1e-3, epochs * (count // batch), alpha=0.05)
    optimiser = optax.adam(schedule)
    memory = optimiser.init(parameters)

    @jax.jit
    def update(tree: Any, memory: Any, rows: Any) -> Any:
        slope = jax.grad(loss)(tree, rows)
        change, memory = optimiser.update(slope, memory)
        return optax.apply_updates(tree, change), memory

    whole = jnp.asarray(values, dtype=jnp.float32)
    error = jax.jit(lambda tree: 2.0 * loss(tree, whole))
    stream = np.random.default_rng(0)
    update(parameters, memory, whole[:batch])  # compile off the clock
    curve = [[0.0, 0.0, float(error(parameters))]]
    clock, work = 0.0, 0.0
    while clock < seconds:
        begin = time.perf_counter()
        order = stream.permutation(count)
        for first in range(0, count - batch + 1, batch):
            parameters, memory = update(parameters, memory, whole[order[first : first + batch]])
        jax.block_until_ready(parameters)
        clock += time.perf_counter() - begin
        work += (count // batch) * batch / count
        curve.append([clock, work, float(error(parameters))])
    sys.stderr.write(f"adam: {curve[-1]}\n")
    return curve

"""A deep linear network: a product of matrices fitted to a given one."""

from typing import Annotated

import numpy as np

from thalweg.data import Dataset
from thalweg.parallel import MPI, Layout
from thalweg.plugins import Help
from thalweg_saddlefree.networks.activations import ACTIVATIONS
from thalweg_saddlefree.networks.losses import SquaredError
from thalweg_saddlefree.networks.network import Network
from thalweg_saddlefree.networks.objective import NetworkObjective


def build_deep_linear(
    dataset: Dataset | None,
    comm: MPI.Comm,
    *,
    size: Annotated[int, Help("rows and columns of the matrices", minimum=1)] = 6,
    depth: Annotated[int, Help("number of matrices", minimum=1)] = 3,
    start: Annotated[float, Help("standard deviation of the starting weights", above=0.0)] = 0.1,
    seed: Annotated[int, Help("seed of the target", minimum=0)] = 0,
) -> NetworkObjective:
    """Objective ``deep-linear``: half the mean squared gap of ``W_1 ... W_depth`` to a target.

    All matrices zero is a saddle point (for depth 3 and more even the Hessian is
    singular there), and so is every product of lower rank that fits a part of
    the target's singular values; every local minimum is global (Kawaguchi, 2016).

    The singular values of the target fall from 2 to 1/2; a small ``start`` is near the saddle.
    """
    stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(997,)))
    left, _ = np.linalg.qr(stream.standard_normal((size, size)))
    right, _ = np.linalg.qr(stream.standard_normal((size, size)))
    target = left @ np.diag(np.geomspace(2.0, 0.5, size)) @ right
    rows = Layout(comm, size, size)
    # A row of the identity in, the row of the product out; sqrt(size) undoes the mean over rows.
    inputs = rows.local(np.sqrt(size) * np.eye(size))
    targets = rows.local(np.sqrt(size) * target)
    network = Network(
        [size] * (depth + 1),
        [ACTIVATIONS["linear"]] * (depth - 1),
        SquaredError(ACTIVATIONS["linear"]),
    )
    return NetworkObjective(
        comm, rows, network, inputs, targets, initialization="normal", scale=start
    )

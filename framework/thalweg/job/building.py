"""From a configuration to live parts: data, objective, solver."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from thalweg.config import Configuration
from thalweg.data import Dataset, load_data
from thalweg.driver.minimize import build_preconditioner, build_solver
from thalweg.errors import PluginError
from thalweg.interfaces import Objective, Solver
from thalweg.parallel import MPI
from thalweg.plugins import ObjectiveSpec, plugins


def build_objective(
    configuration: Configuration, comm: MPI.Comm
) -> tuple[Dataset | None, Objective]:
    """Load the data and build the objective.  Collective."""
    spec, _ = plugins().find(ObjectiveSpec, configuration.objective["name"])
    dataset = None if configuration.data is None else load_data(configuration.data, comm)
    options = {k: v for k, v in configuration.objective.items() if k != "name"}
    return dataset, spec.resolve()(dataset, comm, **options)


def build_method(configuration: Configuration, objective: Objective) -> Solver[Any]:
    """The solver of a configuration, round its preconditioner; nothing is set up yet."""
    section = configuration.preconditioner
    preconditioner = None
    if section is not None:
        options = {k: v for k, v in section.items() if k != "name"}
        preconditioner = build_preconditioner(objective, section["name"], options)
    solver = configuration.solver
    options = {k: v for k, v in solver.items() if k != "name"}
    return build_solver(objective, solver["name"], options, preconditioner)


def refuse_different_plugins(comm: MPI.Comm) -> None:
    """Raise on all ranks if they do not see the same plugins.  Collective.

    Raises
    ------
    PluginError
    """
    seen = comm.allgather(plugins().signature())
    for rank, other in enumerate(seen):
        if other != seen[0]:
            raise PluginError(
                f"rank {rank} sees other plugins than rank 0: {other or 'none'} "
                f"against {seen[0] or 'none'}"
            )


def data_digest(dataset: Dataset | None) -> str:
    """Text that tells one data set from another, the same at any rank count.  Collective."""
    if dataset is None:
        return ""
    rows = np.ascontiguousarray(dataset.values)
    raw = rows.view(np.uint8).reshape(len(rows), -1).astype(np.uint64)
    weights = np.random.default_rng(1).integers(1, 2**63, raw.shape[1], dtype=np.uint64)
    numbers = np.arange(dataset.layout.start, dataset.layout.stop, dtype=np.uint64)
    # Wrapping sums modulo 2**64: exact, so the order of the ranks does not matter.
    local = ((raw @ weights) * (2 * numbers + 1)).sum(dtype=np.uint64) if len(rows) else 0
    total = sum(int(part) for part in dataset.comm.allgather(int(local))) % 2**64
    text = f"{dataset.layout.rows}x{dataset.layout.columns}:{rows.dtype}:{total}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]

"""Where a run starts: at a point from a file, or where the objective says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from thalweg.config import Configuration
from thalweg.data.numpy_files import map_npy
from thalweg.errors import InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, PETSc, on_root


def starting_point(configuration: Configuration, objective: Objective) -> PETSc.Vec:
    """The point in ``run.start``, or the objective's own for ``run.seed``.  Collective.

    Raises
    ------
    InputError
        The file is missing or no npy file, or its content has another shape than the
        variable or is not finite.
    """
    if configuration.run["start"] is None:
        return objective.initial_point(configuration.run["seed"])
    layout = objective.layout
    path = Path(configuration.run["start"])

    def read() -> np.ndarray:
        stored = _mapped(path)
        wanted = (layout.rows, layout.columns)
        if stored.dtype.kind not in "fiu":
            raise InputError(f"the starting point '{path}' must hold numbers, not {stored.dtype}")
        if stored.shape != wanted:
            raise InputError(
                f"the starting point '{path}' must have shape {wanted}, not {stored.shape}"
            )
        whole = np.array(stored, dtype=float)
        if not np.isfinite(whole).all():
            row = int(np.flatnonzero(~np.isfinite(whole).all(axis=1))[0])
            raise InputError(f"the starting point '{path}' is not finite in row {row}")
        return whole

    whole: np.ndarray = on_root(objective.comm, read)
    return layout.vec_from(layout.local(whole))


def given_start_digest(configuration: Configuration, comm: MPI.Comm) -> str:
    """Text that tells one given starting point from another, empty if none is.  Collective."""
    if configuration.run["start"] is None:
        return ""
    path = Path(configuration.run["start"])

    def digest() -> str:
        return hashlib.sha256(np.ascontiguousarray(_mapped(path)).tobytes()).hexdigest()[:16]

    return str(on_root(comm, digest))


def _mapped(path: Path) -> np.ndarray:
    try:
        return map_npy(path)
    except OSError as error:
        raise InputError(
            f"cannot read the starting point '{path}': {error.strerror or error}"
        ) from error

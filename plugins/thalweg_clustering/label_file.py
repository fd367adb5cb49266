"""Labels of a text file, one a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI, on_root


def read_labels(comm: MPI.Comm, path: str) -> np.ndarray:
    """Labels of every row, on every rank.  Collective.

    A line holds one label, or a row of zeros with a single one (one-hot).

    Raises
    ------
    InputError
        The file cannot be read.
    """

    def read() -> np.ndarray:
        try:
            table = np.loadtxt(Path(path).expanduser(), delimiter=",", ndmin=2)
        except (OSError, ValueError) as error:
            raise InputError(f"the labels in {path} cannot be read: {error}") from error
        return table[:, 0] if table.shape[1] == 1 else table.argmax(axis=1)

    return np.asarray(on_root(comm, read))

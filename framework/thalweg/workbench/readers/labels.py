"""Labels of the rows, read from a file of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thalweg.data.labels import encode_labels
from thalweg.parallel import MPI, on_root
from thalweg.workbench.readers.formats import format_of


def read_labels(path: Path | str, comm: MPI.Comm = MPI.COMM_SELF) -> np.ndarray:
    """Labels of every row, integers from 0, on every rank.  Collective.

    Parameters
    ----------
    path
        File of numbers or strings, one per row, or of a one-hot table.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    InputError
        On all ranks: a file that is missing or damaged, or holds no labels.
    """
    file = Path(path).expanduser()
    labels = on_root(comm, lambda: encode_labels(raw_labels(file), f"the labels of '{file}'")[0])
    return np.asarray(labels)


def raw_labels(file: Path, key: str | None = None) -> np.ndarray:
    """Content of the file, a label or a one-hot row each; ``key`` chooses among arrays."""
    source = format_of(file).resolve()(file, {"key": key})
    if source.whole is not None:
        return source.whole
    assert source.reader is not None
    return source.reader(slice(None))

"""Data sets that come with scikit-learn, and those of OpenML, which it fetches and keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import numpy as np

from thalweg.data.dataset import Dataset
from thalweg.data.labels import encode_labels
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg.plugins import Help
from thalweg.workbench.readers.distribute import local_rows, open_source, scatter_labels
from thalweg.workbench.readers.source import Source

#: Values, labels or None, and the names of their classes.
Found = tuple[np.ndarray, np.ndarray | None, tuple[str, ...] | None]


def digits(comm: MPI.Comm) -> Dataset:
    """1,797 images of handwritten digits, 8 x 8 pixels with values 0 to 16, 10 classes."""
    return replace(_load(comm, "digits"), image_shape=(8, 8), label_names=None)


def iris(comm: MPI.Comm) -> Dataset:
    """150 flowers, 4 lengths, 3 species."""
    return _load(comm, "iris")


def wine(comm: MPI.Comm) -> Dataset:
    """178 wines, 13 measurements, 3 cultivars."""
    return _load(comm, "wine")


def breast_cancer(comm: MPI.Comm) -> Dataset:
    """569 tumors, 30 measurements, 2 classes."""
    return _load(comm, "breast_cancer")


def diabetes(comm: MPI.Comm) -> Dataset:
    """442 patients, 10 measurements, no classes."""
    return _load(comm, "diabetes")


def _load(comm: MPI.Comm, name: str) -> Dataset:
    def read() -> Found:
        import sklearn.datasets

        found = getattr(sklearn.datasets, f"load_{name}")()
        if (classes := getattr(found, "target_names", None)) is None:
            return np.asarray(found.data, dtype=float), None, None
        labels = np.asarray(found.target, dtype=np.int64)
        return np.asarray(found.data, dtype=float), labels, tuple(map(str, classes))

    return _shared_out(comm, name.replace("_", "-"), name, read)


def _shared_out(comm: MPI.Comm, name: str, what: str, read: Callable[[], Found]) -> Dataset:
    """The data set that ``read`` gives on rank 0: values, and labels with their classes' names."""
    names: tuple[str, ...] | None = None

    def opened() -> Source:
        nonlocal names
        values, labels, names = read()
        return Source.of(values, f"data set '{what}'", labels)

    source, full = open_source(comm, opened)
    layout = Layout(comm, source.rows, source.columns)
    values = local_rows(source, full, layout, None)
    labels = None if full is None else full.labels
    labeled, names = comm.bcast((labels is not None, names), root=0)
    labels = scatter_labels(labels, layout) if labeled else None
    return Dataset(values, layout, labels, name, names)


def openml(
    comm: MPI.Comm,
    dataset: Annotated[str, Help("name of the data set at OpenML")] = "",
    version: Annotated[
        int | None, Help("version at OpenML, by default the active one", minimum=1)
    ] = None,
) -> Dataset:
    """A data set of OpenML by its name, fetched once and then kept by scikit-learn.

    Raises
    ------
    InputError
        It cannot be fetched, or it has columns of strings.
    """

    def read() -> Found:
        values, target = _fetch(dataset, version)
        # A target that is measured, and no class, makes no labels.
        with contextlib.suppress(InputError):
            if target is not None:
                return values, *encode_labels(np.asarray(target).astype(str), "the target")
        return values, None, None

    return _shared_out(comm, dataset, f"openml:{dataset}", read)


def _fetch(dataset: str, version: int | None) -> tuple[np.ndarray, np.ndarray | None]:
    import sklearn.datasets

    try:
        found = sklearn.datasets.fetch_openml(
            dataset, version=version or "active", as_frame=False, parser="liac-arff"
        )
    except (OSError, ValueError, sklearn.datasets._openml.OpenMLError) as error:
        raise InputError(
            f"data set '{dataset}' cannot be fetched from OpenML: {str(error) or type(error)}"
        ) from error
    values = found.data
    if hasattr(values, "toarray"):
        values = values.toarray()
    try:
        return np.asarray(values, dtype=float), found.target
    except (ValueError, TypeError) as error:
        raise InputError(f"data set 'openml:{dataset}' has columns of strings") from error

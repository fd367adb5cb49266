"""Data sets that come with scikit-learn, so that nothing needs to be fetched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thalweg.data.dataset import Dataset
from thalweg.data.distribute import broadcast_labels, local_rows, open_source
from thalweg.data.source import Source
from thalweg.parallel import MPI, Layout


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
    names: tuple[str, ...] | None = None

    def read() -> Source:
        import sklearn.datasets

        nonlocal names
        found = getattr(sklearn.datasets, f"load_{name}")()
        classes = getattr(found, "target_names", None)
        labels = None if classes is None else np.asarray(found.target, dtype=np.int64)
        names = None if classes is None else tuple(str(c) for c in classes)
        return Source.of(np.asarray(found.data, dtype=float), f"data set '{name}'", labels)

    source, full = open_source(comm, read)
    layout = Layout(comm, source.rows, source.columns)
    values = local_rows(source, full, layout, None)
    names = comm.bcast(names, root=0)
    labels = None
    if names is not None:
        labels = broadcast_labels(comm, None if full is None else full.labels, source.rows)
    return Dataset(values, layout, labels, name.replace("_", "-"), names)

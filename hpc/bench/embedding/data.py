"""Data of the embedding benchmark: from a folder, or bundled with scikit-learn."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


@dataclass(frozen=True)
class Images:
    """Images as rows, their labels, and what to call them."""

    values: np.ndarray
    labels: np.ndarray
    name: str


def small_images(folder: Path | None, rows: int) -> Images:
    """COIL-20's objects 10 to 19 (10 views each 5 degrees), else digits."""
    file = None if folder is None else folder / "coil20" / "coil20_proc_128.npz"
    if file is not None and file.exists():
        with np.load(file) as stored:
            chosen = (stored["obj"] >= 10) & (stored["obj"] <= 19)
            values = stored["X"][chosen].reshape(chosen.sum(), -1) / 255.0
            labels = stored["obj"][chosen]
        step = max(1, len(values) // rows)
        return Images(values[::step], labels[::step], "COIL-20, objects 10 to 19")
    digits = load_digits()
    return Images(digits.data[:rows] / 16.0, digits.target[:rows], "digits")


def mnist(folder: Path | None, rows: int) -> Images:
    """MNIST's 70,000 images reduced to 50 principal components, else digits."""
    files = [] if folder is None else [folder / "mnist" / name for name in _MNIST]
    if files and all(file.exists() for file in files):
        images = [_idx(file, 16).reshape(-1, 784) for file in files[::2]]
        labels = np.concatenate([_idx(file, 8) for file in files[1::2]])[:rows]
        values = np.concatenate(images)[:rows] / 255.0
        return Images(_principal(values, 50), labels, "MNIST, 50 principal components")
    digits = load_digits()
    return Images(digits.data[:rows] / 16.0, digits.target[:rows], "digits")


_MNIST = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _idx(file: Path, offset: int) -> np.ndarray:
    with gzip.open(file) as stream:
        return np.frombuffer(stream.read(), np.uint8, offset=offset)


def _principal(values: np.ndarray, count: int) -> np.ndarray:
    centered = values - values.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return np.asarray(centered @ vectors[:, ::-1][:, :count], dtype=np.float32)

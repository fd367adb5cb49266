"""Data of the embedding benchmark: from a folder, or bundled with scikit-learn."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits, load_iris


@dataclass(frozen=True)
class Images:
    """Images, or other points, as rows, their labels if they have any, and what to call them."""

    values: np.ndarray
    labels: np.ndarray | None
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


def mnist(folder: Path | None, rows: int, components: int | None = 50) -> Images:
    """MNIST's 70,000 images reduced to principal components, or in full; else digits."""
    files = [] if folder is None else [folder / "mnist" / name for name in _MNIST]
    if files and all(file.exists() for file in files):
        images = [_idx(file, 16).reshape(-1, 784) for file in files[::2]]
        labels = np.concatenate([_idx(file, 8) for file in files[1::2]])[:rows]
        values = np.concatenate(images)[:rows] / 255.0
        if components is None:
            return Images(values, labels, "MNIST, all 784 columns")
        values = _principal(values, components)
        return Images(values, labels, f"MNIST, {components} principal components")
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


def _digits(folder: Path) -> Images:
    digits = load_digits()
    return Images(digits.data, digits.target, "digits")


def _iris(folder: Path) -> Images:
    iris = load_iris()
    return Images(iris.data, iris.target, "iris")


def _coil20(folder: Path) -> Images:
    with np.load(folder / "coil20" / "coil20_proc_128.npz") as stored:
        values, labels = stored["X"].reshape(len(stored["obj"]), -1) / 255.0, stored["obj"]
    left, singular, _ = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
    return Images((left * singular)[:, :100], labels, "COIL-20, 100 components")


def _texts(folder: Path) -> Images:
    """WebKB: words of at least three pages, log(1 + count) by inverse frequency, unit length."""
    with np.load(folder / "webkb" / "webkb_counts_rebuilt.npz") as stored:
        parts = (stored["full_data"], stored["full_indices"], stored["full_indptr"])
        counts = scipy.sparse.csr_matrix(parts, stored["full_shape"]).astype(float)
        topics = stored["topic"]
    pages = np.bincount(counts.indices, minlength=counts.shape[1])
    counts, pages = counts[:, pages >= 3], pages[pages >= 3]
    values = np.log1p(counts.toarray()) * np.log(counts.shape[0] / pages)
    values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9)
    left, singular, _ = np.linalg.svd(values, full_matrices=False)
    return Images((left * singular)[:, :200], topics, "WebKB texts, 200 components")


def _patches(folder: Path) -> Images:
    stored = np.load(folder / "patches" / "scene15_patches8x8_1M.npy", mmap_mode="r")
    rows = np.random.default_rng(0).choice(len(stored), 30_000, replace=False)
    return Images(stored[rows].astype(float), None, "patches")


def _cells(folder: Path, rows: int = 25_000, kinds: int = 25, genes: int = 1000) -> Images:
    """Counts as of single cells: families of kinds, trajectories within, unequal sizes."""
    random = np.random.default_rng(1)
    labels = random.choice(kinds, rows, p=random.dirichlet(np.full(kinds, 0.6)))
    family = random.normal(size=(6, genes))[random.integers(0, 6, kinds)]
    means = random.normal(size=genes) + 0.7 * family
    means = means + 1.5 * _some(random, kinds, genes, 0.1)
    ways = 1.5 * _some(random, kinds, genes, 0.05)
    values = np.empty((rows, genes), np.float32)
    for part in np.array_split(np.arange(rows), max(1, rows // 5000)):
        log_rates = means[labels[part]] + random.random((len(part), 1)) * ways[labels[part]] - 1.0
        depth = random.gamma(4.0, 0.25, size=(len(part), 1))
        counts = random.poisson(
            np.exp(log_rates) * depth * random.gamma(3.0, 1.0 / 3.0, size=log_rates.shape)
        )
        values[part] = np.log1p(1000.0 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
    return Images(_principal(values.astype(float), 50), labels, "generated cells")


def _some(random: np.random.Generator, rows: int, columns: int, share: float) -> np.ndarray:
    return random.normal(size=(rows, columns)) * (random.random((rows, columns)) < share)


def _branches(folder: Path, rows: int = 12_000, branches: int = 18, columns: int = 40) -> Images:
    """A tree of curves, whose points lie more or less densely, with noise of unequal width."""
    random = np.random.default_rng(2)
    ends, labels, parts = [np.zeros(columns)], [], []
    sizes = random.multinomial(rows, random.dirichlet(np.full(branches, 1.0)))
    for branch, size in enumerate(sizes):
        begin = ends[random.integers(len(ends))]
        way, bend = random.normal(size=(2, columns))
        along = random.beta(0.8, 1.2, size=(size, 1))
        width = random.uniform(0.1, 0.5)
        noise = width * random.normal(size=(size, columns))
        parts.append(begin + along * way + along * (1.0 - along) * bend + noise)
        ends.append(begin + way)
        labels.append(np.full(size, branch))
    return Images(np.concatenate(parts), np.concatenate(labels), "generated branches")


def _manifolds(folder: Path, rows: int = 8_000, columns: int = 30) -> Images:
    """Balls, spheres and sheets of one to ten dimensions, of unequal sizes, some of them linked."""
    random = np.random.default_rng(3)
    labels, parts = [], []
    for kind, size in enumerate(random.multinomial(rows, random.dirichlet(np.full(20, 2.0)))):
        dimensions = random.integers(1, 11)
        inner = random.normal(size=(size, dimensions))
        if kind % 3 == 0:
            inner /= np.maximum(np.linalg.norm(inner, axis=1, keepdims=True), 1e-9)
        frame, _ = np.linalg.qr(random.normal(size=(columns, dimensions)))
        center = random.normal(size=columns) * random.uniform(0.3, 1.5)
        noise = 0.05 * random.normal(size=(size, columns))
        parts.append(center + inner * random.uniform(0.5, 2.0) @ frame.T + noise)
        labels.append(np.full(size, kind))
    return Images(np.concatenate(parts), np.concatenate(labels), "generated manifolds")


#: Sets of the part "sets", each read from the folder of the data or generated.  By the last two
#: no default was chosen.
SETS: dict[str, Callable[[Path], Images]] = {
    "iris": _iris,
    "digits": _digits,
    "coil20": _coil20,
    "texts": _texts,
    "mnist": lambda folder: mnist(folder, 10_000),
    "cells": _cells,
    "patches": _patches,
    "branches": _branches,
    "manifolds": _manifolds,
}

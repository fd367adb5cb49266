"""Generated data sets: each rank makes its own rows, the same at any number of ranks."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from scipy.special import ndtr

from thalweg.data.dataset import Dataset
from thalweg.parallel import MPI, Layout
from thalweg.plugins import Help

#: Classes into which a curve's parameter is cut, for colors.
_PIECES = 10

Rows = Annotated[int, Help("number of rows to make", minimum=1)]
Seed = Annotated[int, Help("seed of the random numbers", minimum=0)]
Noise = Annotated[float, Help("standard deviation of normal noise", minimum=0)]


def blobs(
    comm: MPI.Comm,
    rows: Rows = 1000,
    seed: Seed = 0,
    dimension: Annotated[int, Help("number of columns", minimum=1)] = 10,
    clusters: Annotated[int, Help("number of clusters", minimum=1)] = 5,
    spread: Annotated[float, Help("standard deviation of a cluster", minimum=0)] = 1.0,
    separation: Annotated[float, Help("standard deviation of the centers", minimum=0)] = 4.0,
) -> Dataset:
    """Gaussian clusters around random centers; row i belongs to cluster ``i % clusters``."""
    layout = Layout(comm, rows, dimension)
    centers = np.random.default_rng((seed, 1)).standard_normal((clusters, dimension))
    numbers = np.arange(layout.start, layout.stop)
    values = separation * centers[numbers % clusters] + layout.random_normal(seed, spread)
    return Dataset(values, layout, numbers % clusters, "blobs")


def swiss_roll(comm: MPI.Comm, rows: Rows = 1000, seed: Seed = 0, noise: Noise = 0.0) -> Dataset:
    """A rolled-up rectangle in three dimensions; labels are tenths of its length."""
    layout, (along, across), bumps = _curve(comm, rows, seed)
    angle = 1.5 * np.pi * (1 + 2 * along)
    values = np.column_stack([angle * np.cos(angle), 21 * across, angle * np.sin(angle)])
    return Dataset(values + noise * bumps, layout, _pieces(along), "swiss-roll")


def s_curve(comm: MPI.Comm, rows: Rows = 1000, seed: Seed = 0, noise: Noise = 0.0) -> Dataset:
    """A sheet bent to an S in three dimensions; labels are tenths of its length."""
    layout, (along, across), bumps = _curve(comm, rows, seed)
    angle = 3 * np.pi * (along - 0.5)
    values = np.column_stack([np.sin(angle), 2 * across, np.sign(angle) * (np.cos(angle) - 1)])
    return Dataset(values + noise * bumps, layout, _pieces(along), "s-curve")


def moons(comm: MPI.Comm, rows: Rows = 1000, seed: Seed = 0, noise: Noise = 0.05) -> Dataset:
    """Two interleaved half circles in the plane; even rows lie on one, odd rows on the other."""
    layout, (along, _), bumps = _curve(comm, rows, seed)
    other = np.arange(layout.start, layout.stop) % 2
    angle = np.pi * along
    values = np.column_stack(
        [
            np.where(other, 1 - np.cos(angle), np.cos(angle)),
            np.where(other, 0.5 - np.sin(angle), np.sin(angle)),
        ]
    )
    return Dataset(values + noise * bumps[:, :2], layout.with_columns(2), other, "moons")


def _curve(
    comm: MPI.Comm, rows: int, seed: int
) -> tuple[Layout, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Layout for three columns, two uniform parameters in (0, 1), and normal noise."""
    layout = Layout(comm, rows, 3)
    drawn = layout.with_columns(5).random_normal(seed)
    # The normal distribution function makes normal numbers uniform.
    uniform = ndtr(drawn[:, :2])
    return layout, (uniform[:, 0], uniform[:, 1]), drawn[:, 2:]


def _pieces(along: np.ndarray) -> np.ndarray:
    return np.minimum((along * _PIECES).astype(np.int64), _PIECES - 1)

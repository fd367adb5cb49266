"""The named data sets: scikit-learn's, generated ones, OpenML's, and those of plugins.

Of a generated set each rank makes its own rows, the same at any number of ranks.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from scipy.special import ndtr

from thalweg.data import Dataset
from thalweg.data.entries import encode_labels
from thalweg.errors import InputError, suggestion
from thalweg.parallel import MPI, Layout, on_root
from thalweg.plugins import DataSpec, Help, plugins
from thalweg.workbench.readers.source import check_array

#: Data sets of the core, described as a plugin describes its own.
CORE: tuple[DataSpec, ...] = tuple(
    DataSpec(
        name=name,
        summary=summary,
        load=f"thalweg.workbench.readers.named_sets:{name.replace('-', '_')}",
        variant="dataset" if name == "openml" else "",
    )
    for name, summary in (
        ("digits", "1,797 digits of 8 x 8 pixels, 10 classes (scikit-learn)"),
        ("iris", "150 flowers, 4 measurements, 3 species (scikit-learn)"),
        ("wine", "178 wines, 13 measurements, 3 cultivars (scikit-learn)"),
        ("breast-cancer", "569 tumors, 30 measurements, 2 classes (scikit-learn)"),
        ("diabetes", "442 patients, 10 measurements, no classes (scikit-learn)"),
        ("blobs", "Gaussian clusters around random centers (generated)"),
        ("swiss-roll", "a rolled-up rectangle in three dimensions (generated)"),
        ("s-curve", "a sheet bent to an S in three dimensions (generated)"),
        ("moons", "two interleaved half circles in the plane (generated)"),
        ("openml", "any numeric data set of OpenML"),
    )
)


def data_sets() -> list[DataSpec]:
    """All named data sets, those of plugins included, sorted by name."""
    return sorted([*CORE, *plugins().specs(DataSpec)], key=lambda spec: spec.name)


def find_data_set(name: str) -> tuple[DataSpec, dict[str, Any]]:
    """Data set of that name, and the option that ``openml:NAME`` fills."""
    core = {spec.name: spec for spec in CORE}
    family, _, rest = name.partition(":")
    if family == "openml":
        if not rest:
            raise InputError("name a data set of OpenML as 'openml:NAME'")
        return core["openml"], {"dataset": rest}
    # Underscores are forgiven, since scikit-learn's own names have them.
    plain = name.replace("_", "-")
    if plain in core:
        return core[plain], {}
    manager = plugins()
    names = [spec.shown_name for spec in data_sets()]
    if name in {spec.name for spec in manager.specs(DataSpec)}:
        return manager.find(DataSpec, name)
    text = f"no data set is called '{name}'{suggestion(name, names)}"
    if manager.broken:
        text += " (not loaded: " + "; ".join(f"{b}: {b.error}" for b in manager.broken) + ")"
    raise InputError(text)


#: Values, labels or None, and the names of their classes.
Table = tuple[np.ndarray, np.ndarray | None, tuple[str, ...] | None]


def _bundled(name: str, comm: MPI.Comm) -> Dataset:
    """A data set that comes with scikit-learn."""

    def read() -> Table:
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, f"load_{name}")()
        values = np.asarray(bunch.data, dtype=float)
        if (classes := getattr(bunch, "target_names", None)) is None:
            return values, None, None
        return values, np.asarray(bunch.target, dtype=np.int64), tuple(map(str, classes))

    return _shared_out(comm, name.replace("_", "-"), name, read)


iris, wine, breast_cancer, diabetes = (
    partial(_bundled, name) for name in ("iris", "wine", "breast_cancer", "diabetes")
)


def digits(comm: MPI.Comm) -> Dataset:
    """Images of handwritten digits, whose pixels are 0 to 16."""
    return replace(_bundled("digits", comm), image_shape=(8, 8), label_names=None)


def _shared_out(comm: MPI.Comm, name: str, what: str, read: Callable[[], Table]) -> Dataset:
    """The data set that ``read`` gives on rank 0, its rows shared out."""
    arrays: list[np.ndarray | None] = [None, None]

    def described() -> tuple[tuple[int, ...], bool, tuple[str, ...] | None]:
        values, labels, names = read()
        check_array(values.dtype, values.shape, f"data set '{what}'")
        arrays[:] = values, labels
        return values.shape, labels is not None, names

    shape, labeled, names = on_root(comm, described)
    layout = Layout(comm, *shape)
    values = layout.scatter_from_root(arrays[0], shape[1:], float)
    labels = layout.scatter_from_root(arrays[1], (), np.int64) if labeled else None
    return Dataset(values, layout, labels, name, names)


def openml(
    comm: MPI.Comm,
    dataset: Annotated[str, Help("name of the data set at OpenML")] = "",
    version: Annotated[int | None, Help("version, by default the active one", minimum=1)] = None,
) -> Dataset:
    """A data set of OpenML by its name, fetched once and then kept by scikit-learn."""

    def read() -> Table:
        import sklearn.datasets

        try:
            bunch = sklearn.datasets.fetch_openml(
                dataset, version=version or "active", as_frame=False, parser="liac-arff"
            )
        except (OSError, ValueError, sklearn.datasets._openml.OpenMLError) as error:
            raise InputError(
                f"data set '{dataset}' cannot be fetched from OpenML: {str(error) or type(error)}"
            ) from error
        table = bunch.data.toarray() if hasattr(bunch.data, "toarray") else bunch.data
        try:
            values, target = np.asarray(table, dtype=float), bunch.target
        except (ValueError, TypeError) as error:
            raise InputError(f"data set 'openml:{dataset}' has columns of strings") from error
        # A target that is measured, and no class, makes no labels.
        with contextlib.suppress(InputError):
            if target is not None:
                return values, *encode_labels(np.asarray(target).astype(str), "the target")
        return values, None, None

    return _shared_out(comm, dataset, f"openml:{dataset}", read)


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
) -> Dataset:
    """Gaussian clusters around random centers; row i belongs to cluster ``i % clusters``."""
    layout = Layout(comm, rows, dimension)
    centers = np.random.default_rng((seed, 1)).standard_normal((clusters, dimension))
    numbers = np.arange(layout.start, layout.stop)
    values = 4.0 * centers[numbers % clusters] + layout.random_normal(seed, spread)
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
    across = np.where(other, 1 - np.cos(angle), np.cos(angle))
    values = np.column_stack([across, np.where(other, 0.5 - np.sin(angle), np.sin(angle))])
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

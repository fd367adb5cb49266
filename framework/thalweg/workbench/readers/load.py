"""From the section ``[data]`` of a configuration to a data set on the ranks, checked and scaled."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data.dataset import Dataset
from thalweg.data.entries import check_magnitude, encode_labels, entry_error, first_unusable
from thalweg.errors import InputError
from thalweg.numerics.principal import check_components, column_means, principal_components
from thalweg.parallel import MPI, Layout, max_over_ranks, min_over_ranks, on_root, rows_at
from thalweg.parallel.reductions import sum_over_ranks, values_of_all_ranks
from thalweg.plugins import DataSpec, FormatSpec, Option, resolve_options
from thalweg.workbench.readers.formats import format_of, format_options, raw_labels
from thalweg.workbench.readers.named_sets import find_data_set
from thalweg.workbench.readers.source import Source, column_numbers, local_rows, open_source

_OWNER = "section [data]"


@dataclass(frozen=True)
class ColumnOption(Option):
    """An option that is a string or a column number."""

    def check(self, value: Any, owner: str) -> Any:
        """``value`` if it is a string or an integer."""
        if value is None or (isinstance(value, int | str) and not isinstance(value, bool)):
            return value
        raise InputError(
            f"option '{self.name}' of {owner} must be a string or a column number, not {value!r}"
        )


#: Options that every data set has, whatever it comes from.
COMMON: tuple[Option, ...] = (
    Option("path", str, None, "file, or folder of pictures, to read; instead of name"),
    Option("name", str, None, "named data set, openml:NAME included; instead of path"),
    ColumnOption("labels", str, None, "file of labels, or column or key of the data file"),
    Option("labels_key", str, None, "array of the labels file, if that holds several"),
    Option("rows", int, None, "number of rows to use, by default all", minimum=1),
    Option("sample", bool, False, "choose the rows at random instead of taking the first"),
    Option("seed", int, 0, "seed of the choice of rows, and of generated data", minimum=0),
    Option("columns", list, None, "columns to use, by number from 0, or by name in a table"),
    Option(
        "scale", str, "none",
        "unit: divide by the largest absolute value, unsigned integers of 8 or 16 bits by 255 or "
        "65,535; standard: give each column mean 0 and variance 1",
        choices=("none", "unit", "standard"),
    ),
    Option(
        "components", int, None,
        "number of principal components to keep, after scaling; by default all", minimum=1,
    ),
    Option("dtype", str, "float64", "type of the numbers", choices=("float64", "float32")),
)  # fmt: skip

#: Rows of a generated data set from which its shape is known.
FEW_ROWS = 64


def data_options(name: str | None = None) -> list[Option]:
    """Options of the section ``[data]``: all that apply to any file, or to a named data set.

    Raises
    ------
    InputError
        Unknown name.
    """
    if name is None:
        return [*COMMON, *format_options()]
    own = find_data_set(name)[0].declared_options
    taken = {option.name for option in own}
    return [*(option for option in COMMON if option.name not in taken), *own]


def load_data(
    section: Mapping[str, Any], comm: MPI.Comm = MPI.COMM_SELF, folder: Path | str | None = None
) -> Dataset:
    """Read, select, scale and distribute a data set.  Collective.

    Every rank ends with its rows alone; ``.npy``, uncompressed IDX, vectors, HDF5, Zarr, Parquet
    and folders of pictures are read by each rank for itself, other formats on rank 0.
    More ranks than rows leave some ranks without any.

    Parameters
    ----------
    section
        The section ``[data]``: ``path`` or ``name``, and the options that
        :func:`data_options` lists.  Equal on all ranks.
    comm
        The ranks that share the rows.
    folder
        Folder that relative paths start from; by default the current one.

    Returns
    -------
    Dataset
        Finite numbers, with labels from 0 if there are any.

    Raises
    ------
    InputError
        On all ranks: an unknown or ill-fitting option, a file that is missing,
        damaged, empty or not of numbers, NaN or infinity, integers that float64
        rounds, values whose squares overflow or vanish, labels that do not fit.

    Examples
    --------
    >>> from thalweg.workbench.readers import load_data
    >>> load_data({"name": "digits", "rows": 100, "scale": "unit"}).values.shape
    (100, 64)
    """
    section = _with_one_source(section)
    return _from_file(section, comm, folder) if "path" in section else _from_set(section, comm)


def data_shape(section: Mapping[str, Any], folder: Path | str | None = None) -> tuple[int, int]:
    """Rows and columns of the data set that :func:`load_data` would return.  Not collective.

    Files of whose rows each rank reads its own are opened alone; other formats are read.  Of a
    generated set a few rows are made.
    """
    return data_size(section, folder)[:2]


def data_size(section: Mapping[str, Any], folder: Path | str | None = None) -> tuple[int, int, int]:
    """As :func:`data_shape`, and the bytes of rows that rank 0 reads for all, else 0."""
    section, whole = _with_one_source(section), 0
    if "path" in section:
        path, kind, options = _file_options(section, MPI.COMM_SELF, folder)
        source = kind.resolve()(path, options)
        _refuse_strings(source, path)
        what, chosen = f"'{path.name}'", source.columns_chosen
        rows, columns = _choose_rows(options, source.rows, what)[0], source.columns
        whole = 0 if source.whole is None else source.whole.nbytes
    else:
        spec, own, options = _set_options(section)
        what, chosen = spec.owner, False
        known = own.get("rows")  # some sets are made with as many rows as asked for
        few = own if known is None else {**own, "rows": min(known, FEW_ROWS)}
        layout = spec.build(MPI.COMM_SELF, options=few).layout
        rows = known if known is not None else _choose_rows(options, layout.rows, what)[0]
        columns = layout.columns
    if options["columns"] is not None and not chosen:
        columns = len(column_numbers(options["columns"], (), columns, what))
    if options["components"] is not None:
        check_components(rows, columns, options["components"])
        columns = options["components"]
    return rows, columns, whole


def _with_one_source(section: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, with one of path and name."""
    options = {name: value for name, value in section.items() if value is not None}
    if ("path" in options) == ("name" in options):
        resolve_options(data_options(), options, _OWNER)
        which = "both 'path' and 'name'" if "path" in options else "neither 'path' nor 'name'"
        raise InputError(f"{_OWNER} has {which}; give one of them")
    for option in COMMON[:2]:
        if option.name in options:
            option.check(options[option.name], _OWNER)
    return options


def _refuse_strings(source: Source, path: Path) -> None:
    if source.dtype.kind in "US":
        raise InputError(f"'{path}' holds strings, not numbers")


# -- files -----------------------------------------------------------------------------------


def _file_options(
    section: Mapping[str, Any], comm: MPI.Comm, folder: Path | str | None
) -> tuple[Path, FormatSpec, dict[str, Any]]:
    """The file, its format, and what the format's reader is given.  Collective."""
    path = (folder := Path(folder or ".")) / section["path"]
    kind = on_root(comm, lambda: format_of(path))
    options = _resolved(section, [*COMMON, *kind.declared_options], f"'{path.name}'")
    return path, kind, {**options, "folder": folder}


def _from_file(section: Mapping[str, Any], comm: MPI.Comm, folder: Path | str | None) -> Dataset:
    path, kind, options = _file_options(section, comm, folder)
    source, full = open_source(comm, lambda: kind.resolve()(path, options))
    _refuse_strings(source, path)
    what = f"'{path.name}'"
    rows, chosen = _choose_rows(options, source.rows, what)
    layout = Layout(comm, rows, source.columns)
    values = local_rows(source, full, layout, chosen)
    shape = source.image_shape
    if options["columns"] is not None and not source.columns_chosen:
        values = values[:, column_numbers(options["columns"], (), source.columns, what)]
        layout, shape = layout.with_columns(values.shape[1]), None
    labels, names = _labels(full, layout, options, path, chosen)
    mask = _mask(source.rows, rows, chosen)
    dataset = Dataset(values, layout, labels, path.name, names, shape, source.notes, "", mask)
    return _prepared(dataset, options, chosen)


def _labels(
    full: Source | None,
    layout: Layout,
    options: Mapping[str, Any],
    path: Path,
    chosen: np.ndarray | None,
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Labels of this rank's share of the chosen rows, from the data file or one of their own."""
    codes: np.ndarray | None = None

    def read() -> tuple[str, ...] | None:
        nonlocal codes
        assert full is not None
        raw = full.labels
        if raw is None and options["labels"] is not None:
            labels = options["labels"]
            if isinstance(labels, int):
                raise InputError(
                    f"labels = {labels} is a column number, but '{path.name}' is not a text table"
                )
            if not (options["folder"] / labels).exists():
                raise InputError(
                    f"labels = '{labels}' is neither a file nor a column or array of '{path.name}'"
                )
            raw = raw_labels(options["folder"] / labels, options["labels_key"])
        if raw is None:
            return None
        codes, names = encode_labels(raw, f"the labels of '{path.name}'")
        if len(codes) != full.rows:
            raise InputError(f"'{path.name}' has {full.rows} rows, but {len(codes)} labels")
        codes, names = _keep_labels(codes, names, slice(layout.rows) if chosen is None else chosen)
        return names or ()

    names = on_root(layout.comm, read)
    if names is None:
        return None, None
    return layout.scatter_from_root(codes, (), np.int64), names or None


def _choose_rows(
    options: Mapping[str, Any], available: int, what: str
) -> tuple[int, np.ndarray | None]:
    """Number of rows, and their numbers in ascending order; None for the first ones."""
    rows = options["rows"]
    if rows is None:
        return available, None
    if rows > available:
        raise InputError(f"option 'rows' of [data] is {rows}, but {what} has {available} rows")
    if not options["sample"] or rows == available:
        return rows, None
    drawn = np.random.default_rng(options["seed"]).choice(available, rows, replace=False)
    return rows, np.sort(drawn)


def _mask(available: int, rows: int, chosen: np.ndarray | None) -> np.ndarray | None:
    """Which of the available rows are taken: the chosen ones or the first; None for all."""
    if rows == available:
        return None
    numbers = np.arange(rows) if chosen is None else chosen
    return np.isin(np.arange(available), numbers, assume_unique=True)


# -- named data sets -------------------------------------------------------------------------


def _set_options(section: Mapping[str, Any]) -> tuple[DataSpec, dict[str, Any], dict[str, Any]]:
    """The data set, its own options, and all that the section may have."""
    spec, filled = find_data_set(section["name"])
    options = _resolved({**section, **filled}, data_options(section["name"]), spec.owner)
    return spec, {option.name: options[option.name] for option in spec.declared_options}, options


def _from_set(section: Mapping[str, Any], comm: MPI.Comm) -> Dataset:
    spec, own, options = _set_options(section)
    dataset, chosen = spec.build(comm, options=own), None
    if "rows" not in own:
        dataset, chosen = _take_rows(dataset, options, spec.owner)
    if options["columns"] is not None:
        columns = column_numbers(options["columns"], (), dataset.layout.columns, spec.owner)
        dataset = dataset.with_values(np.ascontiguousarray(dataset.values[:, columns]))
    if options["labels"] is not None:
        raise InputError(f"option 'labels' of [data] goes with 'path': {spec.owner} has its own")
    return _prepared(dataset, options, chosen)


def _take_rows(
    dataset: Dataset, options: Mapping[str, Any], what: str
) -> tuple[Dataset, np.ndarray | None]:
    """Some rows of a data set, shared out evenly.  Collective."""
    before = dataset.layout
    rows, chosen = _choose_rows(options, before.rows, what)
    if rows == before.rows:
        return dataset, None
    numbers = np.arange(rows) if chosen is None else chosen
    layout = Layout(before.comm, rows, before.columns)
    values = rows_at(before, dataset.values, layout.local(numbers))
    labels, names = dataset.gather_labels(), dataset.label_names
    if labels is not None:
        labels, names = _keep_labels(labels, names, numbers)
        labels = layout.local(labels).copy()
    mask = _mask(before.rows, rows, chosen)
    taken = replace(
        dataset, values=values, layout=layout, labels=labels, label_names=names, chosen=mask
    )
    return taken, chosen


# -- both ------------------------------------------------------------------------------------


def _resolved(section: Mapping[str, Any], allowed: list[Option], what: str) -> dict[str, Any]:
    """The options that apply here; one that exists elsewhere is told from one that does not."""
    names = {option.name for option in allowed}
    everywhere = {option.name for option in data_options()}
    for name in section:
        if name not in names and name in everywhere:
            raise InputError(f"option '{name}' of [data] has no meaning for {what}")
    options = resolve_options(allowed, section, _OWNER, everywhere)
    columns = options["columns"]
    if columns is not None and (not columns or len({*columns}) < len(columns)):
        raise InputError(
            f"option 'columns' of {_OWNER} must be a list of different column numbers or names, "
            f"not {columns!r}"
        )
    return options


def _prepared(dataset: Dataset, options: Mapping[str, Any], chosen: np.ndarray | None) -> Dataset:
    """The data set in the wanted type, checked, scaled and projected.  Collective."""
    layout, stored, scale = dataset.layout, dataset.values.dtype, options["scale"]
    wanted = np.dtype(options["dtype"])  # what it rounds is rounded when scaled
    exact = scale == "none" or (scale == "unit" and np.can_cast(stored, wanted))
    kind = wanted if exact else np.float64
    with np.errstate(over="ignore"):
        values = np.array(dataset.values, dtype=kind, order="C")
    if stored.kind == "f" or values.dtype == np.float64:  # float32 rounds, as who asks for it knows
        entries = values if stored.kind == "f" else dataset.values
        check_entries(entries, layout, chosen, f"'{dataset.name}'")
    notes, digest = dataset.notes, dataset.digest
    if scale == "standard" or options["components"] is not None:
        digest = layout.digest(values)
    if scale == "unit":
        scale_unit(values, layout, stored)
    elif scale == "standard":
        notes += scale_standard(values, layout)
    sizes = dataset.values if scale == "none" and stored.kind == "f" else values
    check_magnitude(sizes, layout, f"'{dataset.name}'", wanted)
    values = values.astype(wanted, copy=False)
    dataset = replace(dataset, values=values, notes=notes, digest=digest)
    if options["components"] is None:
        return dataset
    return dataset.with_values(principal_components(values, layout, options["components"]))


def _keep_labels(
    labels: np.ndarray, names: tuple[str, ...] | None, chosen: np.ndarray | slice
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Labels of chosen rows, numbered without gaps again."""
    labels_left, positions = np.unique(labels[chosen], return_inverse=True)
    if names is None and np.array_equal(labels_left, np.arange(len(labels_left))):
        return labels[chosen], None
    texts = [str(value) if names is None else names[value] for value in labels_left]
    return positions.astype(np.int64), tuple(texts)


#: A feature whose standard deviation is below this times its size is constant.
_CONSTANT = 1e-13


def scale_unit(values: np.ndarray, layout: Layout, stored: np.dtype) -> None:
    """Divide, in place, pixels of 8 or 16 bits by 255 or 65,535, others by the largest size."""
    if stored.kind == "u" and stored.itemsize <= 2:
        largest = float(np.iinfo(stored).max)
    else:
        largest = max_over_ranks(layout.comm, np.abs(values).max(initial=0.0))
    if largest > 0:
        values /= values.dtype.type(largest)


def scale_standard(values: np.ndarray, layout: Layout) -> tuple[str, ...]:
    """Give each feature, in place, mean zero and variance one; notes on constant ones, now zero."""
    largest = np.maximum(values.max(axis=0, initial=0.0), -values.min(axis=0, initial=0.0))
    largest = values_of_all_ranks(layout.comm, largest).max(axis=0)
    # By a power of two, which rounds nothing, to at most 1, so that squares are finite.
    np.ldexp(values, -np.frexp(largest)[1], out=values)
    mean = column_means(values, layout)
    values -= mean.astype(values.dtype)
    squares = sum_over_ranks(layout.comm, np.einsum("ij,ij->j", values, values, dtype=float))
    deviation = np.sqrt(np.asarray(squares) / layout.rows)
    constant = deviation <= _CONSTANT * np.maximum(np.abs(mean), np.finfo(float).tiny)
    values /= np.where(constant, 1.0, deviation).astype(values.dtype)
    values[:, constant] = 0.0
    if not constant.any():
        return ()
    which = np.flatnonzero(constant)
    if len(which) == len(mean):
        raise InputError("every column of the data is constant, so they cannot be standardized")
    shown = ", ".join(map(str, which[:5])) + (", ..." if len(which) > 5 else "")
    some = "1 column is" if len(which) == 1 else f"{len(which)} columns are"
    return (f"{some} constant and set to zero by scale = 'standard': {shown}",)


def check_entries(values: np.ndarray, layout: Layout, chosen: np.ndarray | None, what: str) -> None:
    """Refuse NaN, infinity and integers that float64 rounds, naming the first.  Collective."""
    at = first_unusable(values)
    first = min_over_ranks(layout.comm, math.inf if at < 0 else layout.start + at // layout.columns)
    if first == math.inf:
        return
    owner = int(layout.owners(np.array([first]))[0])
    entry = at % layout.columns, values.reshape(-1)[at].item() if layout.comm.rank == owner else 0
    column, value = layout.comm.bcast(entry, root=owner)
    row = int(first) if chosen is None else int(chosen[int(first)])
    raise entry_error(f"{what} has", value, row, column)

"""Parquet through pyarrow; each rank reads the groups of rows in which its own lie."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data.scaling import ROUNDED, first_unusable
from thalweg.errors import InputError
from thalweg.lazy import extra
from thalweg.workbench.readers.delimited import column_number, labels_column
from thalweg.workbench.readers.source import Rows, Source, check_array, refused

#: Columns in which pandas stores an index that has no name.
_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class ParquetRows:
    """Rows of some columns of a file; ``shape`` and ``dtype`` are those of all rows together."""

    path: Path
    columns: tuple[str, ...]
    shape: tuple[int, int]
    dtype: np.dtype

    def __call__(self, rows: Rows) -> np.ndarray:
        """Read the groups in which these rows lie, one after the other."""
        from pyarrow import parquet

        wanted = np.arange(self.shape[0])[rows] if isinstance(rows, slice) else rows
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        with parquet.ParquetFile(self.path) as file:
            first = 0
            for group in range(file.num_row_groups):
                stop = first + file.metadata.row_group(group).num_rows
                here = (wanted >= first) & (wanted < stop)
                if here.any():
                    table = file.read_row_group(group, columns=list(self.columns))
                    out[here] = self._numbers(table)[wanted[here] - first]
                first = stop
        return out

    def _numbers(self, table: Any) -> np.ndarray:
        from pyarrow import types

        out = np.empty((len(table), self.shape[1]), dtype=self.dtype)
        first = 0
        for name in self.columns:
            column = table.column(name)
            width = getattr(column.type, "list_size", 1)
            if width > 1 and column.null_count:
                raise InputError(f"column '{name}' of '{self.path}' has rows without a value")
            flat = column.combine_chunks().flatten() if width > 1 else column
            if self.dtype == np.float64 and types.is_integer(flat.type):
                whole = np.array(flat.drop_null())
                at = first_unusable(whole)
                if at >= 0:
                    raise InputError(f"column '{name}' of '{self.path}' has {whole[at]}, {ROUNDED}")
            numbers = flat.to_numpy(zero_copy_only=False) if width > 1 else flat.to_numpy()
            out[:, first : first + width] = numbers.reshape(len(table), width)
            first += width
        return out


def read_parquet(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of the columns of a Parquet file; its rows stay on disk.

    A column of lists of one length counts as that many columns.  ``labels`` may name a column, or
    give its number from 0; that column is then no part of the data.  A number that is missing
    is read as NaN.
    """
    pyarrow = extra("pyarrow", "formats", f"the Parquet file '{path}'")
    from pyarrow import parquet

    with (
        refused((pyarrow.ArrowException, OSError), f"'{path}' is damaged, or not a Parquet file"),
        parquet.ParquetFile(path) as file,
    ):
        schema, rows = file.schema_arrow, file.metadata.num_rows
        names = [name for name in schema.names if not _INDEX.fullmatch(name)]
        label = labels_column(options, names, len(names), path)
        labels = None if label is None else _labels(file, names[label], path)
        gaps = _may_have_gaps(file.metadata)
    chosen = options.get("columns")
    if chosen is None:
        numbers = [number for number in range(len(names)) if number != label]
    else:
        numbers = [column_number(column, names, len(names), path) for column in chosen]
    columns = tuple(names[number] for number in numbers)
    types = [_type_of(schema.field(name), path, name in gaps) for name in columns]
    width = sum(width for width, _ in types)
    check_array(np.dtype(float), (rows, width), f"'{path}'")
    dtype = np.result_type(*(dtype for _, dtype in types))
    reader = ParquetRows(path, columns, (rows, width), dtype)
    return Source(rows, (width,), dtype, reader, labels=labels, columns_chosen=True)


def _may_have_gaps(metadata: Any) -> set[str]:
    """Columns of which the file does not say that no value is missing."""
    found = set()
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if column.statistics is None or column.statistics.null_count != 0:
                found.add(column.path_in_schema.partition(".")[0])
    return found


def _type_of(field: Any, path: Path, gaps: bool) -> tuple[int, np.dtype]:
    """Number of columns in the data, and type of their numbers."""
    import pyarrow
    from pyarrow import types

    kind, width = field.type, 1
    if types.is_fixed_size_list(kind):
        kind, width = field.type.value_type, field.type.list_size
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise InputError(
            f"column '{field.name}' of '{path}' holds values of type {field.type}, not real "
            f"numbers; make it the labels, or choose other columns by 'columns'"
        )
    # A number that is missing is read as NaN, which integers do not have.
    exact = types.is_floating(kind) or not gaps
    empty = pyarrow.array([], kind).to_numpy(zero_copy_only=False)
    return width, empty.dtype if exact else np.dtype(np.float64)


def _labels(file: Any, name: str, path: Path) -> np.ndarray:
    column = file.read(columns=[name]).column(name)
    if column.null_count:
        raise InputError(f"column '{name}' of '{path}' has rows without a label")
    return np.asarray(column.to_pylist())

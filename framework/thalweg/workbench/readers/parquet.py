"""Parquet through pyarrow; each rank reads the groups of rows in which its own lie."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data.entries import ROUNDED, first_unusable
from thalweg.errors import InputError
from thalweg.lazy import extra
from thalweg.workbench.readers.source import (
    Rows,
    Source,
    check_array,
    column_numbers,
    labels_column,
    refused,
)

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

        numbers = np.arange(self.shape[0])[rows]
        out = np.empty((len(numbers), self.shape[1]), dtype=self.dtype)
        with parquet.ParquetFile(self.path) as file:
            first = 0
            for group in range(file.num_row_groups):
                stop = first + file.metadata.row_group(group).num_rows
                here = (numbers >= first) & (numbers < stop)
                if here.any():
                    table = file.read_row_group(group, columns=list(self.columns))
                    out[here] = self._numbers(table.take(numbers[here] - first))
                first = stop
        return out

    def _numbers(self, table: Any) -> np.ndarray:
        parts = []
        for name in self.columns:
            column = table.column(name).combine_chunks()
            flat = column.flatten() if hasattr(column.type, "list_size") else column
            if column.null_count or flat.null_count:
                raise InputError(f"column '{name}' of '{self.path}' has rows without a value")
            numbers = flat.to_numpy(zero_copy_only=False).reshape(len(table), -1)
            at = first_unusable(numbers) if numbers.dtype.kind in "iu" else -1
            if self.dtype == np.float64 and at >= 0:
                raise InputError(
                    f"column '{name}' of '{self.path}' has {numbers.flat[at]}, {ROUNDED}"
                )
            parts.append(numbers)
        return np.concatenate(parts, axis=1)


def read_parquet(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of the columns of a Parquet file; its rows stay on disk.

    A column of lists of one length counts as that many columns.  ``labels`` may name a column, or
    give its number from 0; that column is then no part of the data.
    """
    pyarrow = extra("pyarrow", "formats", f"the Parquet file '{path}'")
    from pyarrow import parquet, types

    with (
        refused((pyarrow.ArrowException, OSError), f"'{path}' is damaged, or not a Parquet file"),
        parquet.ParquetFile(path) as file,
    ):
        schema, rows = file.schema_arrow, file.metadata.num_rows
        names = [name for name in schema.names if not _INDEX.fullmatch(name)]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"'{path}' has several columns named '{name}'; rename them")
        label = labels_column(options, names, len(names), path)
        labels = None
        if label is not None:
            column = file.read(columns=[names[label]]).column(names[label])
            if column.null_count:
                raise InputError(f"column '{names[label]}' of '{path}' has rows without a label")
            labels = np.asarray(column.to_pylist())
    chosen = options.get("columns")
    if chosen is None:
        numbers = [number for number in range(len(names)) if number != label]
    else:
        numbers = column_numbers(chosen, names, len(names), f"'{path}'")
    columns = tuple(names[number] for number in numbers)
    width, kinds = 0, []
    for field in map(schema.field, columns):  # of which one may hold lists of one length
        kind = field.type.value_type if types.is_fixed_size_list(field.type) else field.type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise InputError(
                f"column '{field.name}' of '{path}' holds values of type {field.type}, not real "
                f"numbers; make it the labels, or choose other columns by 'columns'"
            )
        width += 1 if kind == field.type else field.type.list_size
        kinds.append(pyarrow.array([], kind).to_numpy(zero_copy_only=False).dtype)
    check_array(np.dtype(float), (rows, width), f"'{path}'")
    dtype = np.result_type(*kinds)
    reader = ParquetRows(path, columns, (rows, width), dtype)
    return Source(rows, (width,), dtype, reader, labels=labels, columns_chosen=True)

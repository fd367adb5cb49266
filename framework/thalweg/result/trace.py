"""The record of a run: one row per iterate, columns declared beforehand."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np


class Trace:
    """Table of numbers with fixed columns, one row for each recorded iterate.

    Recording is not displaying: a trace never prints.

    Parameters
    ----------
    columns
        Column names, in the order in which they are written.
    """

    #: Column with the number of a homotopy's stage, after that of its parameter.
    STAGE = "stage"

    def __init__(self, columns: Sequence[str]) -> None:
        if len(set(columns)) != len(columns):
            raise ValueError(f"trace columns repeat: {list(columns)}")
        #: Names of the columns.
        self.columns = tuple(columns)
        self._rows: list[tuple[float, ...]] = []

    @property
    def homotopy_parameter(self) -> str | None:
        """Name of the column with the parameter of a homotopy, that before ``stage``, if any."""
        if self.STAGE not in self.columns[1:]:
            return None
        return self.columns[self.columns.index(self.STAGE) - 1]

    def append(self, row: Mapping[str, float]) -> None:
        """Add one row; a column that ``row`` lacks becomes NaN, an unknown one is an error."""
        unknown = set(row) - set(self.columns)
        if unknown:
            raise KeyError(f"trace has no column {sorted(unknown)}; it has {list(self.columns)}")
        self._rows.append(tuple(float(row.get(name, np.nan)) for name in self.columns))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, column: str) -> np.ndarray:
        """Values of one column, shape ``(len(self),)``, float64."""
        if column not in self.columns:
            raise KeyError(f"trace has no column {column!r}; it has {list(self.columns)}")
        index = self.columns.index(column)
        return np.array([row[index] for row in self._rows], dtype=float)

    def __iter__(self) -> Iterator[dict[str, float]]:
        for row in self._rows:
            yield dict(zip(self.columns, row, strict=True))

    def to_array(self) -> np.ndarray:
        """All rows, shape ``(len(self), len(self.columns))``, float64."""
        return np.array(self._rows, dtype=float).reshape(len(self._rows), len(self.columns))

    @classmethod
    def from_array(cls, columns: Sequence[str], values: np.ndarray) -> Self:
        """Inverse of :meth:`to_array`."""
        trace = cls(columns)
        rows = np.asarray(values, dtype=float).reshape(-1, len(columns))
        trace._rows = [tuple(float(v) for v in row) for row in rows]
        return trace

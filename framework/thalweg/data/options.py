"""The options of the section ``[data]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thalweg.errors import InputError
from thalweg.plugins import Option


@dataclass(frozen=True)
class ColumnOption(Option):
    """An option that is a string or a column number."""

    def check(self, value: Any, owner: str) -> Any:
        """``value`` if it is a string or an integer."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise InputError(
            f"option '{self.name}' of {owner} must be a string or a column number, not {value!r}"
        )


@dataclass(frozen=True)
class ColumnsOption(Option):
    """An option that is a list of column numbers or names."""

    def check(self, value: Any, owner: str) -> Any:
        """``value`` if it is a list of strings and integers, each once."""
        if value is None:
            return None
        fits = isinstance(value, list | tuple) and all(
            isinstance(entry, int | str) and not isinstance(entry, bool) for entry in value
        )
        if not fits or not value or len(set(value)) < len(value):
            raise InputError(
                f"option '{self.name}' of {owner} must be a list of different column numbers "
                f"or names, not {value!r}"
            )
        return list(value)


#: Options that every data set has, whatever it comes from.
COMMON: tuple[Option, ...] = (
    Option("path", str, None, "file, or folder of pictures, to read; instead of name"),
    Option("name", str, None, "named data set, openml:NAME included; instead of path"),
    ColumnOption("labels", str, None, "file of labels, or column or key of the data file"),
    Option("labels_key", str, None, "array of the labels file, if that holds several"),
    Option("rows", int, None, "number of rows to use, by default all", minimum=1),
    Option("sample", bool, False, "choose the rows at random instead of taking the first"),
    Option("seed", int, 0, "seed of the choice of rows, and of generated data", minimum=0),
    ColumnsOption("columns", list, None, "columns to use, by number from 0 or by name in a csv"),
    Option(
        "scale",
        str,
        "none",
        "unit: divide by the largest value possible (255 for 8-bit pixels); standard: give each "
        "column mean 0 and variance 1",
        choices=("none", "unit", "standard"),
    ),
    Option("components", int, None, "principal components to keep, after scaling; all", minimum=1),
    Option("dtype", str, "float64", "type of the numbers", choices=("float64", "float32")),
)

KEY = Option("key", str, None, "array to read, if the file holds several")
DELIMITER = Option("delimiter", str, None, "delimiter of a text table, found by itself if not set")
HEADER = Option("header", bool, None, "whether a text table begins with a header; found by itself")
GREY = Option("grey", bool, False, "read colored pictures as grey")
DISTINCT = Option("distinct", bool, False, "of a single picture, keep each color once")

#: Options that only some file formats have.
BY_FORMAT: tuple[Option, ...] = (KEY, DELIMITER, HEADER, GREY, DISTINCT)

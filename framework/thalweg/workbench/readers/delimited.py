"""Text tables: csv, tsv and the like, with or without a header, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data.labels import EXACT
from thalweg.data.scaling import ROUNDED, largest_value
from thalweg.errors import InputError, suggestion
from thalweg.workbench.memory import available_memory, require_memory
from thalweg.workbench.readers.source import PACKED, Source, refused

#: Delimiters that are tried, the likeliest first; blanks only if nothing else fits.
_DELIMITERS = (",", ";", "\t", "|")

#: Lines from which delimiter and header are detected.
_SAMPLE = 20


def read_delimited(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of a text table.

    The delimiter is the one that splits the first lines into the same number of
    fields, most of them.  The first line is a header if it holds a string where
    the next line has a number.  Lines that are blank or begin with ``#`` are
    skipped, but within quotes.  ``labels`` may name a column, or give its number from 0 (negative
    numbers count from the last); that column is then no part of the data.
    """
    lines = _lines(path)
    delimiter = options.get("delimiter") or _sniff(lines)
    lines = list(_kept(lines, delimiter))
    fields = _split(lines[:_SAMPLE], delimiter)
    header = options.get("header")
    if header is None:
        header = _has_header(fields)
    names = [name.strip() for name in fields[0]] if header else []
    body = lines[1:] if header else lines
    if not body:
        raise InputError(f"'{path}' is empty: it has a header but no rows")
    width = len(_split(body[:1], delimiter)[0])

    at = labels_column(options, names, width, path)
    chosen = options.get("columns")
    if chosen is None:
        columns = [c for c in range(width) if c != at]
    else:
        columns = [column_number(c, names, width, path) for c in chosen]
    if not columns:
        raise InputError(f"'{path}' has no columns besides the labels")

    labels = None if at is None else _texts(body, delimiter, at, width, path)
    if len(columns) == 1 and chosen is None and labels is None and _is_text(fields[-1][0]):
        # A file of one column of text is a list of labels.
        array = _texts(body, delimiter, columns[0], width, path)
        return replace(Source.of(array, f"'{path}'"), columns_chosen=True)
    array = _numbers(body, delimiter, columns, names, width, path)
    return replace(
        Source.of(array, f"'{path}'", labels),
        columns_chosen=True,
        notes=(f"the first line of '{path.name}' was read as a header",) if header else (),
    )


def _lines(path: Path) -> list[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    with (
        refused(PACKED, f"'{path}' is damaged or truncated"),
        opener(path, "rt", encoding="utf-8-sig", newline="") as stream,
    ):
        # Unpacked and split into fields, text takes many times its size.
        largest = int(min(available_memory() / 8, 2**62))
        try:
            text = stream.read(largest)
            longer = bool(stream.read(1))
        except UnicodeDecodeError as error:
            raise InputError(f"'{path}' is not text in UTF-8: {error.reason}") from error
        if longer:
            require_memory(8.0 * largest + 1, f"'{path}'", "save it as .npy")
    # With their ends, which a quoted field may hold.
    lines = text.splitlines(True)
    if not any(map(_counts, lines)):
        raise InputError(f"'{path}' is empty")
    return lines


def _counts(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _kept(lines: Sequence[str], delimiter: str) -> Iterator[str]:
    """The lines, without those outside of quotes that are blank or begin with ``#``."""
    if delimiter == " " or not any('"' in line for line in lines):
        yield from filter(_counts, lines)
        return
    row: list[str] = []  # whose last field is not closed yet

    def taken() -> Iterator[str]:
        for line in lines:
            if row or _counts(line):
                row.append(line)
                yield line

    for _ in _reader(taken(), delimiter):
        yield from row
        row.clear()


def _reader(lines: Iterable[str], delimiter: str, strict: bool = False) -> Iterator[list[str]]:
    # A field of more than 128 kB, an open quote, a carriage return.
    with refused(csv.Error, "the text table cannot be split into fields"):
        yield from csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _split(lines: Sequence[str], delimiter: str, strict: bool = False) -> list[list[str]]:
    if delimiter == " ":
        return [line.split() for line in lines]
    return list(_reader(lines, delimiter, strict))


def _sniff(lines: Sequence[str]) -> str:
    best, most = "", 1
    for delimiter in (*_DELIMITERS, " "):
        sample = list(islice(_kept(lines, delimiter), _SAMPLE))
        widths = {len(row) for row in _split(sample, delimiter)}
        if len(widths) == 1 and max(widths) > most:
            best, most = delimiter, max(widths)
    if best:
        return best
    # Lines of different length: the delimiter that is there at all, to report the line.
    first = next(filter(_counts, lines))
    return next((d for d in _DELIMITERS if d in first), ",")


def _is_text(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return bool(field.strip())
    return False


def _has_header(fields: list[list[str]]) -> bool:
    if len(fields) < 2:
        return False
    first, second = fields[0], fields[1]
    return any(_is_text(a) and not _is_text(b) for a, b in zip(first, second, strict=False))


def column_number(wanted: Any, names: Sequence[str], width: int, path: Path) -> int:
    """Number of the column that is wanted by name, or by number; refused if there is none."""
    if isinstance(wanted, str):
        if wanted not in names:
            hint = suggestion(wanted, names) if names else "; it has no header"
            raise InputError(f"'{path}' has no column '{wanted}'{hint}")
        return list(names).index(wanted)
    if not isinstance(wanted, int) or isinstance(wanted, bool) or not -width <= wanted < width:
        raise InputError(f"'{path}' has no column {wanted!r}: its columns are 0 to {width - 1}")
    return wanted % width


def labels_column(
    options: Mapping[str, Any], names: Sequence[str], width: int, path: Path
) -> int | None:
    """Number of the column that the option ``labels`` means, or None if it means a file."""
    wanted = options.get("labels")
    if isinstance(wanted, int) or wanted in names:
        return column_number(wanted, names, width, path)
    if wanted is not None and not (Path(options.get("folder", ".")) / wanted).exists():
        # Said here, since the column that was meant would be refused for its strings.
        hint = suggestion(wanted, names) if names else ""
        raise InputError(f"labels = '{wanted}' is neither a file nor a column of '{path}'{hint}")
    return None


def _numbers(
    body: list[str],
    delimiter: str,
    columns: list[int],
    names: Sequence[str],
    width: int,
    path: Path,
) -> np.ndarray:
    failure: Exception | None = None
    rounded, array = False, np.empty((0, 0))
    separator = None if delimiter == " " else delimiter
    try:
        array = np.loadtxt(
            body, delimiter=separator, usecols=columns, ndmin=2, comments=None, quotechar='"'
        )
        rounded = not largest_value(array) < EXACT
    except (ValueError, IndexError) as error:
        failure = error
    # loadtxt with usecols does not mind longer lines, nor a quote that is never closed; we do.
    odd = len(array) < len(body) or any(line.count(delimiter) != width - 1 for line in body)
    if failure or rounded or (separator and odd):
        for where, fields in _rows(body, delimiter, width, path):
            for column in columns:
                name, field = _column(column, names), fields[column].strip()
                if failure and not field:
                    raise InputError(f"{where} has nothing in {name}") from failure
                if failure and _is_text(field):
                    raise InputError(
                        f"{where} has the string {fields[column]!r} in {name}, where a number "
                        f"should be; make that column the labels, or choose others by 'columns'"
                    ) from failure
                whole = rounded and field.lstrip("+-").isdigit()
                if whole and Decimal(field) != Decimal(repr(float(field))):
                    raise InputError(f"{where} has {field} in {name}, {ROUNDED}")
    if failure:
        raise InputError(f"'{path}' cannot be read as a table of numbers: {failure}") from failure
    return array


def _column(number: int, names: Sequence[str]) -> str:
    return f"column {number}" + (f" ('{names[number]}')" if names else "")


def _rows(
    body: list[str], delimiter: str, width: int, path: Path
) -> Iterator[tuple[str, list[str]]]:
    """Name of each row for messages, and its fields, of which there must be ``width``."""
    for row, fields in enumerate(_split(body, delimiter, strict=True)):
        where = f"row {row} of '{path}' (rows counted from 0, without the header)"
        if len(fields) != width:
            raise InputError(f"{where} has {len(fields)} fields, the first has {width}")
        yield where, fields


def _texts(body: list[str], delimiter: str, column: int, width: int, path: Path) -> np.ndarray:
    return np.array([fields[column].strip() for _, fields in _rows(body, delimiter, width, path)])

"""Text tables: csv, tsv and the like, with or without a header, plain or gzipped."""

import csv
import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data.entries import EXACT, ROUNDED, largest_value
from thalweg.errors import InputError
from thalweg.workbench.memory import available_memory, require_memory
from thalweg.workbench.readers.source import PACKED, Source, column_numbers, labels_column, refused

#: Delimiters that are tried, the likeliest first; blanks only if nothing else fits.
_DELIMITERS = (",", ";", "\t", "|")

#: Between numbers: a control character that none has.
_SEPARATOR = "\x1f"

#: Lines from which delimiter and header are detected.
_SAMPLE = 20


def read_delimited(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of a text table.

    The delimiter is the one that splits the first lines into the same number of fields, most of
    them.  The first line is a header if it holds a string where the next line has a number, numbers
    the columns from 0, as pandas writes, or has many numbers in equal steps where the next line has
    not, such as wavelengths.  Lines that are blank or begin with ``#`` are skipped, but within
    quotes.  ``labels`` may name a column, or give its number from 0 (negative numbers count from
    the last); that column is then no part of the data.  ``is_text``: a table of one column holds
    labels, whose text counts.
    """
    every, what = _lines(path), f"'{path}'"
    delimiter = options.get("delimiter") or _detected_delimiter(every)
    if delimiter == " " and options.get("is_text") and any(map(_is_text, every[0].split())):
        delimiter = ","  # names may have several words
    lines = list(_counted(every, delimiter))
    fields = list(_fields(lines[:_SAMPLE], delimiter))
    header, first = options.get("header"), [name.strip() for name in fields[0]]
    if header is None and (header := len(fields) > 1):
        pairs = zip(*fields[:2], strict=False)
        header = any(_is_text(name) and not _is_text(below) for name, below in pairs)
        numbers = [name for name in first if name and not _is_text(name)]
        # 0 and 1 alone may be data.
        header |= len(numbers) > 2 and numbers == [str(n) for n in range(len(numbers))]
        header |= _has_equal_steps(fields[0]) > _has_equal_steps(fields[1])
        header |= options.get("labels") in first
    names = first if header else []
    rest = iter(lines)
    if header:
        next(_fields(rest, delimiter))  # a quoted name may hold ends of lines
    if not (body := list(rest)):
        raise InputError(f"{what} is empty: it has a header but no rows")
    width = len(fields[1 if header else 0])
    if header and len(names) != width:
        raise InputError(
            f"the header of {what} has {len(names)} names, its first row {width} fields; name each "
            "column, or set header = false and take the line out"
        )
    table = _Table(body, delimiter, names, width, path)

    at = labels_column(options, names, width, path)
    columns = [column for column in range(width) if column != at]
    if (chosen := options.get("columns")) is not None:
        columns = column_numbers(chosen, names, width, what)
    if not columns:
        raise InputError(f"{what} has no columns besides the labels")
    labels = None if at is None else table.strings(at)
    # A file of one column of text is a list of labels.
    listed = len(columns) == 1 and chosen is None and labels is None
    listed = listed and (options.get("is_text", False) or _is_text(fields[-1][0]))
    array = table.strings(columns[0]) if listed else table.numbers(columns)
    notes = [f"the first line of '{path.name}' was read as a header"] if header else []
    if at is not None and (Path(options.get("folder", ".")) / str(options["labels"])).is_file():
        notes.append(f"labels = '{options['labels']}' is the column of '{path.name}', not the file")
    comments, others = (sum(line[0] == "#" for line in some) for some in (every, lines))
    if comments > others:
        notes.append(f"lines of '{path.name}' that begin with # were left out: {comments - others}")
    return replace(Source.of(array, what, labels), columns_chosen=True, notes=tuple(notes))


def _has_equal_steps(row: Sequence[str]) -> bool:
    steps = np.diff([float(field) for field in row if field.strip() and not _is_text(field)])
    return len(steps) > 6 and bool(steps[0] > 0) and np.allclose(steps, steps[0], 1e-6, 0.0)


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


def _counted(lines: Sequence[str], delimiter: str) -> Iterator[str]:
    """The lines, without those outside of quotes that are blank or begin with ``#``."""
    row: list[str] = []  # whose last field is not closed yet

    def taken() -> Iterator[str]:
        for line in lines:
            if row or _counts(line):
                row.append(line)
                yield line

    if delimiter == " " or not any('"' in line for line in lines):
        yield from filter(_counts, lines)
        return
    for _ in _fields(taken(), delimiter):
        yield from row
        row.clear()


def _fields(lines: Iterable[str], delimiter: str, strict: bool = False) -> Iterator[list[str]]:
    if delimiter == " ":
        yield from (line.split() for line in lines)
        return
    # A field of more than 128 kB, an open quote, a carriage return.
    with refused(csv.Error, "the text table cannot be split into fields"):
        yield from csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _detected_delimiter(lines: Sequence[str]) -> str:
    best, most = "", 1
    for delimiter in (*_DELIMITERS, " "):
        first = islice(_counted(lines, delimiter), _SAMPLE)
        widths = {len(row) for row in _fields(first, delimiter)}
        if len(widths) == 1 and max(widths) > most:
            best, most = delimiter, max(widths)
    if best:
        return best
    # Lines of different length: the delimiter that is there at all, to report the line.
    line = next(filter(_counts, lines))
    return next((delimiter for delimiter in _DELIMITERS if delimiter in line), ",")


def _is_text(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return bool(field.strip())
    return False


@dataclass(frozen=True)
class _Table:
    """The lines of a text table below its header, each of ``width`` fields."""

    lines: list[str]
    delimiter: str
    names: list[str]
    width: int
    path: Path

    def rows(self) -> Iterator[tuple[str, list[str]]]:
        """Name of each row for messages, and its fields; refused where their number is another."""
        for row, fields in enumerate(_fields(self.lines, self.delimiter, strict=True)):
            where = f"row {row} of '{self.path}' (rows counted from 0, without the header)"
            if len(fields) != self.width:
                raise InputError(f"{where} has {len(fields)} fields, the first has {self.width}")
            yield where, fields

    def strings(self, column: int) -> np.ndarray:
        return np.array([fields[column].strip() for _, fields in self.rows()])

    def numbers(self, columns: list[int]) -> np.ndarray:
        # NumPy and the csv module see quotes in other places, and NumPy leaves out empty lines.
        mark, lines, chosen, others = self.delimiter, self.lines, columns, self.width - 1
        if mark == " " or any('"' in line or line.count(mark) != others for line in lines):
            rows = ([fields[column] for column in columns] for _, fields in self.rows())
            mark, lines = _SEPARATOR, [_SEPARATOR.join(row) for row in rows]
            chosen = list(range(len(columns)))
        failure, array = None, np.empty((0, 0))
        try:
            array = np.loadtxt(lines, delimiter=mark, ndmin=2, usecols=chosen, comments=None)
            if len(array) != len(lines):
                raise ValueError("a field is empty, or has several lines")
        except (ValueError, IndexError) as error:
            failure = error
        rounded = not largest_value(array) < EXACT
        if failure or rounded:
            # The first field that is no number, or that float64 rounds.
            for where, fields in self.rows():
                for column in columns:
                    name = f"column {column}" + (f" ('{self.names[column]}')" if self.names else "")
                    field = fields[column].strip()
                    if failure and not field:
                        raise InputError(f"{where} has nothing in {name}") from failure
                    if failure and _is_text(field):
                        raise InputError(
                            f"{where} has the string {field!r} in {name}, not a number; make that "
                            "column the labels, or choose others by 'columns'"
                        ) from failure
                    whole = rounded and field.lstrip("+-").isdigit()
                    if whole and Decimal(field) != Decimal(repr(float(field))):
                        raise InputError(f"{where} has {field} in {name}, {ROUNDED}")
        if failure:
            raise InputError(f"'{self.path}' is not a table of numbers: {failure}") from failure
        return array

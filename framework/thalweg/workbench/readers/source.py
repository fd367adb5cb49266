"""The source of a data set: the result of a reader, and how its rows go to the ranks.

Readers are serial and independent of ranks: they run on rank 0 and return a
:class:`Source`.  Where the format allows it, the source says how any rank can
read some rows by itself; otherwise it holds the whole array.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from thalweg.errors import InputError, suggestion
from thalweg.parallel import MPI, Layout, on_root, raise_on_all_ranks

#: Errors that damaged or truncated files of gzip raise.
PACKED = (gzip.BadGzipFile, EOFError, zlib.error, OSError)

#: Rows to read: all from the first to the last, or these.
Rows = slice | np.ndarray

#: Reads rows on any rank, shape ``(len, *row_shape)``, in the file's own type; it travels between
#: ranks, so it holds no open file.
RowReader = Callable[[Rows], np.ndarray]


@dataclass(frozen=True)
class FileRows:
    """Rows that lie uncompressed in a file, one after the other, perhaps each after its length."""

    path: Path
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    fortran: bool = False

    def __call__(self, rows: Rows) -> np.ndarray:
        """Copy those rows out of a memory map: nothing else of the file is read."""
        mapped = np.memmap(
            self.path, self.dtype, "r", self.offset, self.shape, "F" if self.fortran else "C"
        )
        read = np.array(mapped[rows], order="C")
        if read.dtype.names is None:
            return read
        if (read["length"] != read["row"].shape[1]).any():
            raise InputError(f"'{self.path}' has rows of different length, or is damaged")
        return np.ascontiguousarray(read["row"])


@dataclass(frozen=True)
class Source:
    """Rows that a reader found.

    Attributes
    ----------
    rows, row_shape, dtype
        Number of rows, shape of one row as the file has it, type of its numbers.
    reader
        Reads rows on any rank, or None.
    whole
        All rows, or at least the first ones that were asked for, shape ``(n, *row_shape)``, on
        rank 0 alone, if there is no reader.
    labels
        Label of each row, numbers or strings, on rank 0 alone; or None.
    columns_chosen
        Whether the reader has already applied the option ``columns``.
    notes
        Sentences for the user.
    """

    rows: int
    row_shape: tuple[int, ...]
    dtype: np.dtype
    reader: RowReader | None = None
    whole: np.ndarray | None = None
    labels: np.ndarray | None = None
    columns_chosen: bool = False
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """Numbers in a row."""
        return int(np.prod(self.row_shape, dtype=np.int64))

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """Shape of a row that is a picture."""
        return self.row_shape if len(self.row_shape) > 1 else None

    @classmethod
    def of(
        cls, array: np.ndarray, what: str, labels: np.ndarray | None = None, rows: int | None = None
    ) -> Self:
        """Source of an array that rank 0 has in memory, or of its first rows out of ``rows``.

        Strings can only be labels.
        """
        array = np.asarray(array)
        check_array(array.dtype, array.shape, what)
        rows = array.shape[0] if rows is None else rows
        return cls(rows, array.shape[1:] or (1,), array.dtype, whole=array, labels=labels)


@contextmanager
def refused(errors: type[Exception] | tuple[type[Exception], ...], sentence: str) -> Iterator[None]:
    """Turn errors that a damaged file raises in the block into one that begins with a sentence."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        raise InputError(f"{sentence}: {error}") from error


def check_array(dtype: np.dtype, shape: tuple[int, ...], what: str) -> None:
    """Refuse what cannot be data: no rows, no columns, or neither real numbers nor strings."""
    if dtype.kind not in "buifUS":
        kinds = {"O": "Python objects", "c": "complex numbers"}
        values = kinds.get(dtype.kind, f"values of type {dtype}")
        raise InputError(f"{what} holds {values}, not real numbers")
    if len(shape) == 0:
        raise InputError(f"{what} holds a single number, not rows of data")
    if 0 in shape:
        raise InputError(f"{what} is empty: its shape is {' x '.join(map(str, shape))}")


def column_number(name: Any, names: Sequence[str], width: int, what: str) -> int:
    """Number of the column that is wanted by name, or by number; refused if there is none."""
    if isinstance(name, str):
        if name not in names:
            hint = suggestion(name, names) if names else "; it has no header"
            raise InputError(f"{what} has no column '{name}'{hint}")
        if list(names).count(name) > 1:
            raise InputError(f"{what} has several columns named '{name}'; give its number")
        return list(names).index(name)
    if not isinstance(name, int) or isinstance(name, bool) or not -width <= name < width:
        raise InputError(f"{what} has no column {name!r}: its columns are 0 to {width - 1}")
    return name % width


def column_numbers(
    columns: Sequence[Any], names: Sequence[str], width: int, what: str
) -> list[int]:
    """Numbers of columns given by name or number; refused if one is given twice."""
    numbers = [column_number(column, names, width, what) for column in columns]
    if len(set(numbers)) < len(numbers):
        raise InputError(f"columns = {[*columns]!r} has a column of {what} twice")
    return numbers


def labels_column(
    options: Mapping[str, Any], names: Sequence[str], width: int, path: Path
) -> int | None:
    """Number of the column that the option ``labels`` means, or None if it means a file."""
    labels = options.get("labels")
    if isinstance(labels, int) or labels in names:
        at = column_number(labels, names, width, f"'{path}'")
        if at in column_numbers(options.get("columns") or (), names, width, f"'{path}'"):
            raise InputError(f"columns has that of the labels of '{path}' too; leave it out")
        return at
    if labels is not None and not (Path(options.get("folder", ".")) / labels).exists():
        # Said here, since the column that was meant would be refused for its strings.
        hint = suggestion(labels, names) if names else ""
        raise InputError(f"labels = '{labels}' is neither a file nor a column of '{path}'{hint}")
    return None


def open_source(comm: MPI.Comm, read: Callable[[], Source]) -> tuple[Source, Source | None]:
    """A reader's source: its description on every rank, itself on rank 0.  Collective."""
    full: list[Source] = []

    def described() -> Source:
        full.append(read())
        return replace(full[0], whole=None, labels=None)  # small enough to send

    return on_root(comm, described), full[0] if full else None


def local_rows(
    source: Source, full: Source | None, layout: Layout, chosen: np.ndarray | None
) -> np.ndarray:
    """This rank's rows, shape ``(local_rows, source.columns)``.  Collective.

    ``chosen`` are the ascending row numbers that make up the layout's rows; None for the first.
    """
    if source.reader is None:
        whole = None
        if full is not None:
            assert full.whole is not None
            selection: Rows = slice(layout.rows) if chosen is None else chosen
            whole = full.whole.reshape(-1, source.columns)[selection]
        return layout.scatter_from_root(whole, (source.columns,), source.dtype.newbyteorder("="))
    block = np.empty((0, source.columns), dtype=source.dtype)
    with raise_on_all_ranks(layout.comm):
        if layout.local_rows:
            mine = slice(layout.start, layout.stop)
            with refused((OSError, ValueError), "the data cannot be read"):
                read = source.reader(mine if chosen is None else chosen[mine])
            block = read.reshape(layout.local_rows, source.columns)
    return block

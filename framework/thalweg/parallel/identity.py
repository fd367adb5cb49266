"""What tells one problem from another: texts and digests of nested arguments, on any ranks."""

import dataclasses
import functools
import inspect
import zlib
from collections.abc import Mapping
from enum import Enum
from hashlib import sha256
from pathlib import PurePath
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse
from mpi4py import MPI

from thalweg.parallel.layout import Layout
from thalweg.parallel.reductions import sum_over_ranks

#: Length of lists of numbers that stand for themselves.
SHORT = 20

#: How texts of arrays begin.
DATA = "data "


class Identified:
    """Something that an identity sees into."""

    def identity(self) -> Any:
        """What tells this from others, nested, at any number of ranks: class and attributes."""
        return {"class": type(self).__qualname__, **vars(self)}


def sketch(layout: Layout, rows: np.ndarray) -> str:
    """Text of computed rows, whose last bits may depend on the number of ranks.  Collective.

    It has random sums over the rows of each column, to six digits.
    """
    weighted = layout.with_columns(1).random_normal(1) * rows
    sums = np.array([weighted.sum(axis=0), (rows.astype(float) ** 2).sum(axis=0)])
    sums, squares = np.asarray(sum_over_ranks(layout.comm, sums))
    sizes = np.sqrt(np.maximum(squares, 1e-300))
    digits = [f"{size:.5e} {part:.5f}" for size, part in zip(sizes, sums / sizes, strict=True)]
    return DATA + sha256(f"{layout.rows} {digits}".encode()).hexdigest()[:16]


def identity_texts(comm: MPI.Comm, content: Any) -> tuple[dict[str, Any], list[str]]:
    """What tells ``content`` from other content, by dotted paths.  Collective.

    Numbers and strings stand for themselves, arrays by a digest of all ranks' rows, or of the array
    where all ranks have the same, which begins with :data:`DATA`; functions by names and the
    variables that they use.  Also gives paths and types of what cannot be digested.
    """
    mine = _Content()
    mine.add("", content)
    heads = {}
    for path, array in mine.arrays.items():
        checksum = comm.size > 1 and zlib.crc32(np.ravel(array).view(np.uint8).data)
        heads[path] = (array.dtype.str, array.shape[1:], len(array), checksum)
    layouts = [layout.counts().tolist() for layout in mine.layouts if layout.comm.size > 1]
    every = comm.allgather((mine.texts, heads, layouts, mine.unseen))
    texts: dict[str, Any] = {}
    for path in sorted({path for part in every for path in part[0]}):
        values = [part[0].get(path) for part in every]
        texts[path] = values[0] if all(v == values[0] for v in values) else str(values)
    paths = sorted({path for part in every for path in part[1]})
    parts = {path: [part[1].get(path, ("", (), 0, 0)) for part in every] for path in paths}
    counts = {path: [part[2] for part in of_ranks] for path, of_ranks in parts.items()}
    # Rows may be alike on all ranks by chance, as labels are that repeat.
    rows = [sizes for part in every for sizes in part[2]]
    rows += [counts[path] for path in paths if any(part != parts[path][0] for part in parts[path])]
    for path, sizes in counts.items():
        layout = Layout(MPI.COMM_SELF, sizes[0])
        if sizes in rows:
            layout = Layout(comm, sum(sizes), local_rows=sizes[comm.rank])
        texts[path] = DATA + layout.digest(mine.arrays.get(path, np.empty(0)))
    return comm.bcast((texts, sorted({path for part in every for path in part[3]})))


class _Content:
    """Parts of nested content, by their dotted paths."""

    def __init__(self) -> None:
        self.texts: dict[str, Any] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.layouts: list[Layout] = []
        self.unseen: list[str] = []
        self._inside: list[int] = []

    def add(self, path: str, value: Any) -> None:
        if id(value) not in self._inside:  # else a function that refers to itself
            self._inside.append(id(value))
            self._add(path, value)
            self._inside.pop()

    def _add(self, path: str, value: Any) -> None:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Identified):
            # Of rows that it tells by a sketch.
            self.layouts += [own for own in vars(value).values() if isinstance(own, Layout)]
            self.add(path, value.identity())
        elif isinstance(value, Mapping):
            for key in sorted(value, key=str):
                self.add(f"{path}.{key}".lstrip("."), value[key])
        elif isinstance(value, complex | bytes | PurePath | range | slice | Enum):
            self.texts[path] = str(value)
        elif value is None or isinstance(value, bool | int | float | str):
            self.texts[path] = value if value == value else "nan"
        elif isinstance(value, type | ModuleType):
            self.texts[path] = value.__name__
        elif isinstance(value, Layout):
            self.texts[path] = f"{value.rows}x{value.columns}"
            self.layouts.append(value)
        elif scipy.sparse.issparse(value):
            rows = scipy.sparse.csr_matrix(value)
            self.add(path, (rows.data, rows.indices, np.diff(rows.indptr), rows.shape[1]))
        elif isinstance(value, list | tuple | set | frozenset):
            entries = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            if all(isinstance(entry, int | float) for entry in entries):
                # Larger integers would be rounded.
                long = any(isinstance(entry, int) and abs(entry) > 2**53 for entry in entries)
                if long or len(entries) <= SHORT:
                    self.texts[path] = list(entries)
                else:
                    self.arrays[path] = np.array(entries, dtype=float)
            else:
                self.add(path, {str(number): entry for number, entry in enumerate(entries)})
        elif dataclasses.is_dataclass(value):
            self.texts[path] = type(value).__qualname__
            names = [field.name for field in dataclasses.fields(value) if field.init]
            self.add(path, {name: getattr(value, name) for name in names})
        elif hasattr(value, "__array__") and not np.asarray(value).dtype.hasobject:
            array = np.asarray(value)
            if array.ndim == 0:
                self.add(path, array[()])
            else:
                self.arrays[path] = array
        elif callable(value):
            self._add_function(path, inspect.unwrap(getattr(value, "py_func", value)))
        elif not isinstance(value, MPI.Comm):
            self._miss(path, value)

    def _add_function(self, path: str, function: Any) -> None:
        if isinstance(function, functools.partial):
            self.add(path, (function.func, function.args, function.keywords))
        elif inspect.ismethod(function):
            self.add(path, (function.__func__, function.__self__))
        elif inspect.isfunction(function):
            self.texts[path] = function.__qualname__
            used = inspect.getclosurevars(function)
            named = used.globals.items()
            data = {n: v for n, v in named if isinstance(v, int | float) or hasattr(v, "dtype")}
            self.add(path, {**data, **used.nonlocals, "defaults": function.__defaults__})
        elif hasattr(function, "__name__"):
            self.texts[path] = function.__name__
        else:
            self._miss(path, function)

    def _miss(self, path: str, value: Any) -> None:
        self.texts[path] = type(value).__qualname__
        if getattr(value, "__dict__", True):  # else nothing tells it from others of its type
            self.unseen.append(f"{path} ({type(value).__qualname__})")

"""Content of checkpoints: JSON that refers to files of numbers, nothing pickled.

Arrays of rows, which the annotations of a state declare, are stored as whole arrays, into which
each rank writes its own; hence a run may continue on another number of ranks.
"""

import re
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import CheckpointError, ThalwegError, suggestion
from thalweg.files import regular_file
from thalweg.interfaces import Objective, OwnRows, Rows
from thalweg.parallel import MPI, Layout, raise_on_all_ranks
from thalweg.result import Status

#: Valid names of arrays and files in a checkpoint: none leaves the folder.
ENTRY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")

#: Relative difference of an array between ranks that the arithmetic of other processors may cause.
SAME = 1e-6


# -- fields of a state ---------------------------------------------------------------------------


def saved_fields(part: Any) -> dict[str, tuple[Any, Any]]:
    """Values and annotations of the fields of a dataclass that are saved, by name."""
    hints = _hints(type(part))
    names = [item.name for item in fields(part) if not item.metadata.get("transient")]
    return {name: (getattr(part, name), hints[name]) for name in names}


def _hints(kind: type) -> dict[str, Any]:
    """Annotations of the fields of a dataclass, by name."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{error}, which an annotation of {kind.__name__} has: import it where the class is, "
            "not for type checkers alone"
        ) from error


def restored(state: Any, saved: Mapping[str, Any]) -> Any:
    """A state with saved fields in place of those that ``init`` made, which must be the same.

    What is no dataclass, such as a preconditioner's mapping, is replaced whole.
    """
    if not is_dataclass(state):
        return saved
    own = saved_fields(state)
    for name in [name for name in saved if name not in own]:
        hint = suggestion(name, own)
        raise CheckpointError(f"the checkpoint has a field '{name}' that the state lacks{hint}")
    for name in [name for name in own if name not in saved]:
        raise CheckpointError(f"the checkpoint lacks the field '{name}' of the solver's state")
    built = {name: _built(saved[name], hint, value) for name, (value, hint) in own.items()}
    return replace(typing.cast(Any, state), **built)


def _built(value: Any, hint: Any, own: Any = None) -> Any:
    """A decoded value, with dataclasses of the type of ``own``, or that the annotation names."""
    if isinstance(value, Fields):
        if is_dataclass(own):
            return restored(own, value)
        kind: Any
        (kind,) = filter(is_dataclass, _choices(hint))
        hints = _hints(kind)
        return kind(**{name: _built(entry, hints[name]) for name, entry in value.items()})
    if isinstance(value, list | tuple):
        return type(value)(_built(v, _inside(hint, i)) for i, v in enumerate(value))
    if isinstance(value, dict):
        return {name: _built(entry, _inside(hint)) for name, entry in value.items()}
    return value


class Fields(dict[str, Any]):
    """Fields of a dataclass in a checkpoint, by name."""


def _choices(hint: Any) -> tuple[Any, ...]:
    """What an annotation allows: the parts of a union, else itself."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def _inside(hint: Any, place: int = -1) -> Any:
    """Annotation of an entry of a container: ``Rows`` of ``tuple[Rows, ...]``."""
    inner = next((args for kind in _choices(hint) if (args := typing.get_args(kind))), (Any,))
    return inner[place] if place < len(inner) and Ellipsis not in inner else inner[0]


def _has_mark(hint: Any, kind: Any) -> bool:
    """Whether an annotation is a kind of rows, or an optional one."""
    (mark,) = kind.__metadata__
    return any(mark in getattr(choice, "__metadata__", ()) for choice in _choices(hint))


@contextmanager
def refusing_malformed() -> Iterator[None]:
    """Turn the errors of content that is not what a run saves into ``CheckpointError``."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ThalwegError):
            raise
        raise CheckpointError(f"the checkpoint lacks what this run saves: {error!r}") from error


# -- storage -------------------------------------------------------------------------------------


class ContentWriter:
    """Turns nested content into JSON, and its arrays into files: :attr:`arrays` into one of all."""

    def __init__(self, objective: Objective, folder: Path) -> None:
        self.comm, self.layout, self.folder = objective.comm, objective.layout, folder
        self.arrays: dict[str, np.ndarray] = {}
        self._alike: dict[str, np.ndarray] = {}
        self.rows: dict[str, tuple[np.ndarray, list[Any]]] = {}
        self._names: set[str] = set()

    def encode(self, value: Any, path: str, hint: Any = Any) -> Any:
        """JSON for ``value``, which stands at the dotted ``path``.

        ``hint`` is its annotation, which says whether arrays in it are of rows.  What cannot be
        saved is a ``TypeError``.
        """
        if value is None or type(value) in (bool, int, float, str):
            self._alike[path] = np.array(value if type(value) is float else repr(value))
            return value
        if isinstance(value, np.generic):  # whose arithmetic is not that of Python's numbers
            return {"scalar": self._encode_array(np.asarray(value), path, Any)["array"]}
        if isinstance(value, Status):
            return {"status": value.name}
        if type(value) in (np.ndarray, np.memmap):  # of others an array has not all
            return self._encode_array(value, path, hint)
        inner = f"{path}." if path else ""
        if is_dataclass(value):
            own = saved_fields(value).items()
            return {"fields": {k: self.encode(v, f"{inner}{k}", h) for k, (v, h) in own}}
        if type(value) in (list, tuple):
            numbered = enumerate(value)
            entries = [self.encode(v, f"{inner}{i}", _inside(hint, i)) for i, v in numbered]
            return {type(value).__name__: entries}
        if type(value) is dict:
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"state field '{path}' has the key {key!r}, not a string")
            named = value.items()
            return {"dict": {k: self.encode(v, f"{inner}{k}", _inside(hint)) for k, v in named}}
        raise TypeError(
            f"state field '{path}' is a {type(value).__name__}; a state holds arrays, numbers, "
            "strings, and lists, tuples, dicts or dataclasses of these"
        )

    def _encode_array(self, array: np.ndarray, path: str, hint: Any) -> Any:
        if array.dtype.hasobject:
            raise TypeError(f"state field '{path}' is an array of objects; it cannot be saved")
        name, own = self._unused_name(path), _has_mark(hint, OwnRows)
        rows = own or _has_mark(hint, Rows)
        if rows and not array.ndim:
            raise TypeError(f"state field '{path}' is annotated as rows, and is a number")
        if not own and (self.layout.replicated or not rows):
            self._alike[name] = array
        if not rows:
            self.arrays[name] = array
            return {"array": name}
        stored: list[Any] = [f"{name}.npy"]
        self.rows[name] = array, stored
        return {"own rows" if own else "rows": stored}

    def write_rows(self) -> None:
        """Write the arrays of rows, and complete what was encoded of them.  Collective.

        A ``TypeError`` where rows have another type or width on another rank.
        """
        for name, (array, stored) in self.rows.items():
            replicated = name in self._alike
            kinds = [(array.dtype, array.shape)]
            kinds = kinds if replicated else self.comm.allgather(kinds[0])
            some = [(kind, shape[1:]) for kind, shape in kinds if shape[0]]
            if len(set(some)) > 1:
                raise TypeError(
                    f"state field '{name}' has rows of another type or width on another rank: "
                    + ", ".join(f"{kind} {shape}" for kind, shape in kinds)
                )
            if some and not len(array):  # which may not know what others have
                array = np.empty((0, *some[0][1]), some[0][0])
            counts = [shape[0] for _, shape in kinds]
            ranks = MPI.COMM_SELF if replicated else self.comm
            layout = Layout(ranks, sum(counts), local_rows=len(array))
            stored += [counts, layout.digest(array)]
            layout.write(self.folder / stored[0], array, self.comm)

    def refuse_differing(self) -> None:
        """Refuse what should be the same on all ranks, and is not.  Collective.

        Only those of rank 0 are saved.  Rows may differ, but no rank may be without them.
        """
        if self.comm.size == 1:
            return
        heads = {
            name: (array.shape, array.dtype.str, sha256(array.tobytes()).digest())
            for name, array in self._alike.items()
        }
        every, names = zip(*self.comm.allgather((heads, {*heads, *self.rows})), strict=True)
        for name in sorted(set.union(*names) - set.intersection(*names)):
            raise TypeError(f"state field '{name}' is of another kind on some ranks")
        for name, head in every[0].items():
            if all(other.get(name) == head for other in every):
                continue
            array = self._alike.get(name, np.empty(0))
            first = self.comm.bcast(array)
            near = first.shape == array.shape and first.dtype.kind == array.dtype.kind == "f"
            if near:
                largest = np.abs(first).max(initial=0.0)
                near = np.allclose(first, array, SAME, SAME * largest, equal_nan=True)
            if not all(self.comm.allgather(bool(near))):
                raise TypeError(
                    f"state field '{name}' differs between ranks: annotate an array as Rows (this "
                    "rank's rows of the variable) or OwnRows, and agree on a number"
                )

    def _unused_name(self, path: str) -> str:
        """A name for an array or file that no other has, whatever keys the content has."""
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", path).strip(".-")[:80] or "entry"
        name, number = stem, 1
        while name in self._names:
            number += 1
            name = f"{stem}-{number}"
        self._names.add(name)
        return name


@dataclass
class ContentReader:
    """Inverse of :class:`ContentWriter`, for the ranks of now."""

    objective: Objective
    folder: Path
    arrays: Mapping[str, np.ndarray]

    def decode(self, node: Any) -> Any:
        """The value that JSON stands for, or a ``CheckpointError``.  Collective."""
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "status":
            return Status[content]
        if kind in ("array", "scalar"):
            return self.arrays[content][()] if kind == "scalar" else self.arrays[content]
        if kind == "list":
            return [self.decode(entry) for entry in content]
        if kind == "tuple":
            return tuple(self.decode(entry) for entry in content)
        if kind in ("dict", "fields"):
            decoded = {key: self.decode(entry) for key, entry in content.items()}
            return decoded if kind == "dict" else Fields(decoded)
        if kind not in ("rows", "own rows"):
            raise ValueError(f"nothing is known of {kind!r}")
        file, counts, digest = content
        whole, layout, comm = self._mapped(file, counts), self.objective.layout, self.objective.comm
        if kind == "rows" and layout.replicated:
            layout = Layout(MPI.COMM_SELF, len(whole))
        elif kind == "own rows" or len(whole) != layout.rows:
            same = len(counts) == comm.size
            layout = Layout(comm, len(whole), local_rows=counts[comm.rank] if same else None)
        rows = np.array(layout.local(whole))
        actual = layout.digest(rows)
        with raise_on_all_ranks(comm):
            if actual != digest:
                raise self._damaged(f"{file} does not match its digest")
        return rows

    def _damaged(self, how: str) -> CheckpointError:
        return CheckpointError(f"the checkpoint in '{self.folder}' is damaged: {how}")

    def _mapped(self, file: str, counts: list[int]) -> np.ndarray:
        if not ENTRY_NAME.fullmatch(file) or not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError(f"{file!r} is no name of a file, or its rows are not counts")
        path, rows = self.folder / file, sum(counts)
        with raise_on_all_ranks(self.objective.comm):
            try:
                array = np.lib.format.open_memmap(regular_file(path), mode="r")
                if array.shape[:1] != (rows,) or path.stat().st_size > array.offset + array.nbytes:
                    raise ValueError(f"it has the shape {array.shape} instead of {rows} rows")
                return array
            except Exception as error:  # NumPy parses a header as Python, which fails in many ways
                raise self._damaged(f"{file}: {error}") from error

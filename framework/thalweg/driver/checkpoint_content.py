"""Content of checkpoints: JSON that refers to files of numbers, nothing pickled.

Vectors are stored as whole arrays, into which each rank writes its rows; hence a
run may continue on another number of ranks.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import CheckpointError, ThalwegError, suggestion
from thalweg.interfaces import Objective, SolverState
from thalweg.parallel import MPI, Layout, Vector, raise_on_all_ranks
from thalweg.parallel.row_files import write_rows
from thalweg.result import Status

#: Valid names of arrays and files in a checkpoint: none leaves the folder.
ENTRY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")


# -- fields of a state ---------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnRows:
    """An array of this rank's rows."""

    rows: np.ndarray


def state_fields(state: SolverState) -> dict[str, Any]:
    """The fields of a state that are saved, by name."""
    found = {}
    for item in fields(state):
        if not item.metadata.get("transient"):
            value = getattr(state, item.name)
            found[item.name] = OwnRows(value) if item.metadata.get("distributed") else value
    return found


def restore_state(state: SolverState, saved: Mapping[str, Any]) -> None:
    """Put saved fields in place of those that ``init`` made.

    Raises
    ------
    CheckpointError
        The solver's state has other fields than the one saved.
    """
    own = state_fields(state)
    for name in [name for name in saved if name not in own]:
        hint = suggestion(name, own)
        raise CheckpointError(
            f"the checkpoint has a field '{name}' that the solver's state lacks{hint}"
        )
    for name in [name for name in own if name not in saved]:
        raise CheckpointError(f"the checkpoint lacks the field '{name}' of the solver's state")
    for name, value in saved.items():
        setattr(state, name, value)


@contextmanager
def refusing_malformed() -> Iterator[None]:
    """Turn the errors of content that is not what a run saves into ``CheckpointError``."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ThalwegError):
            raise
        raise CheckpointError(
            f"the checkpoint does not hold what this run saves: {error!r}"
        ) from error


# -- storage -------------------------------------------------------------------------------------


class ContentWriter:
    """Turns nested content into JSON, and its vectors into files.

    Attributes
    ----------
    arrays
        Arrays by name, for one file of all.
    """

    def __init__(self, comm: MPI.Comm, folder: Path) -> None:
        self.comm, self.folder = comm, folder
        self.arrays: dict[str, np.ndarray] = {}
        self._names: set[str] = set()

    def encode(self, value: Any, path: str) -> Any:
        """JSON for ``value``, which stands at the dotted ``path``.  Collective.

        Raises
        ------
        TypeError
            A value, or a key of a dict, that cannot be saved.
        StorageError
            A file cannot be written.
        """
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Status):
            return {"status": value.name}
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise TypeError(f"state field '{path}' is an array of objects; it cannot be saved")
            name = self._unused_name(path)
            self.arrays[name] = value
            return {"array": name}
        if isinstance(value, Vector):
            return self._encode_vec(value, path)
        if isinstance(value, OwnRows):
            counts = self.comm.allgather(len(value.rows))
            layout = Layout(self.comm, sum(counts), local_rows=len(value.rows))
            file = self._unused_name(path) + ".npy"
            write_rows(self.comm, self.folder / file, layout, value.rows)
            return {"own rows": [file, counts]}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self.encode(v, f"{path}.{i}") for i, v in enumerate(value)]}
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"state field '{path}' has the key {key!r}, not a string")
            inner = f"{path}." if path else ""
            return {"dict": {k: self.encode(v, f"{inner}{k}") for k, v in value.items()}}
        raise TypeError(
            f"state field '{path}' is a {type(value).__name__}; a state holds vectors, arrays, "
            "numbers, strings, and lists, tuples or dicts of these"
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

    def _encode_vec(self, vec: Vector, path: str) -> Any:
        layout = vec.layout
        file = self._unused_name(path) + ".npy"
        write_rows(self.comm, self.folder / file, layout, vec.rows)
        rows = layout.counts().tolist()
        return {"vec": file, "replicated": self._is_replicated(layout.comm), "rows": rows}

    def _is_replicated(self, comm: MPI.Comm) -> bool | None:
        """Whether each rank has a vector of its own; None where that is unknown."""
        if self.comm.size > 1:
            return comm.size == 1
        if MPI.Comm.Compare(self.comm, MPI.COMM_SELF) == MPI.IDENT:
            return None
        return bool(MPI.Comm.Compare(self.comm, comm) != MPI.IDENT)


@dataclass
class ContentReader:
    """Inverse of :class:`ContentWriter`, for the ranks of now."""

    objective: Objective
    folder: Path
    arrays: Mapping[str, np.ndarray]
    files: Container[str]

    def decode(self, node: Any) -> Any:
        """The value that JSON stands for.  Collective.

        Raises
        ------
        CheckpointError
            The content is damaged.
        """
        if not isinstance(node, dict):
            return node
        ((kind, content), *_) = node.items()
        if kind == "status":
            return Status[content]
        if kind == "array":
            return self.arrays[content]
        if kind == "list":
            return [self.decode(entry) for entry in content]
        if kind == "tuple":
            return tuple(self.decode(entry) for entry in content)
        if kind == "dict":
            return {key: self.decode(entry) for key, entry in content.items()}
        if kind == "own rows":
            file, counts = content
            comm = self.objective.comm
            same = len(counts) == comm.size
            layout = Layout(comm, sum(counts), local_rows=counts[comm.rank] if same else None)
            return np.array(layout.local(self._mapped(file, counts)))
        return self._decode_vec(**node)

    def _decode_vec(self, vec: str, replicated: bool | None, rows: list[int]) -> Vector:
        own, whole = self.objective.layout, self._mapped(vec, rows)
        n_rows, columns = whole.shape
        comm = own.comm if replicated is None else self.objective.comm
        if replicated:
            layout = Layout(MPI.COMM_SELF, n_rows, columns)
        elif len(rows) == comm.size:
            layout = Layout(comm, n_rows, columns, rows[comm.rank])
        elif n_rows == own.rows and own.comm.size == comm.size:
            layout = own.with_columns(columns)
        else:
            layout = Layout(comm, n_rows, columns)
        return layout.vec_from(layout.local(whole))

    def _mapped(self, file: str, counts: list[int]) -> np.ndarray:
        if file not in self.files or not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError(f"no digest covers {file!r}, or its rows are not counts")
        path, rows = self.folder / file, sum(counts)
        with raise_on_all_ranks(self.objective.comm):
            try:
                # Nothing empty can be mapped.
                mode: Any = "r" if rows else None
                array = np.asarray(np.load(path, mmap_mode=mode, allow_pickle=False))
                if array.shape[:1] != (rows,):
                    raise ValueError(f"it has the shape {array.shape} instead of {rows} rows")
                return array
            except (OSError, ValueError, EOFError) as error:
                raise CheckpointError(
                    f"the checkpoint in '{self.folder}' is damaged: {file}: {error}"
                ) from error

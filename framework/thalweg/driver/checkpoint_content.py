"""How nested content is stored: JSON that refers to files of numbers, nothing pickled.

Vectors are stored as whole arrays, into which each rank writes its rows; hence a
run may go on with another number of ranks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import CheckpointError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout, PETSc, on_root, raise_on_all_ranks
from thalweg.result import Status


class ContentWriter:
    """Turns nested content into JSON, and its vectors into files.

    Arrays are collected in ``arrays``, for a file of all.
    """

    def __init__(self, comm: MPI.Comm, folder: Path, arrays: dict[str, np.ndarray]) -> None:
        self.comm, self.folder, self.arrays = comm, folder, arrays

    def encode(self, value: Any, name: str) -> Any:
        """What JSON is to hold for ``value``, of the given dotted name.  Collective."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Status):
            return {"status": value.name}
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise TypeError(f"state field '{name}' is an array of objects; it cannot be saved")
            self.arrays[name] = value
            return {"array": name}
        if isinstance(value, PETSc.Vec):
            return self._encode_vec(value, name)
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self.encode(v, f"{name}.{i}") for i, v in enumerate(value)]}
        if isinstance(value, Mapping):
            return {"dict": {str(k): self.encode(v, f"{name}.{k}") for k, v in value.items()}}
        raise TypeError(
            f"state field '{name}' is a {type(value).__name__}; a state holds vectors, arrays, "
            "numbers, texts, and lists, tuples or dicts of these"
        )

    def _encode_vec(self, vec: PETSc.Vec, name: str) -> Any:
        columns = vec.getBlockSize()
        rows = vec.getSize() // columns
        replicated = vec.getComm().size == 1 and self.comm.size > 1
        file = name.strip(".").replace("/", "_") + ".npy"
        path = self.folder / file
        if not replicated or self.comm.rank == 0:
            first, last = (0, vec.getSize()) if replicated else vec.getOwnershipRange()
        else:
            first = last = 0

        def create() -> int:
            with open(path, "wb") as stream:
                np.lib.format.write_array_header_1_0(
                    stream,
                    {"descr": "<f8", "fortran_order": False, "shape": (rows, columns)},
                )
                offset = stream.tell()
                stream.truncate(offset + 8 * rows * columns)
                return offset

        offset = on_root(self.comm, create)
        if last > first:
            with open(path, "r+b") as stream:
                stream.seek(offset + 8 * first)
                stream.write(np.ascontiguousarray(vec.getArray(readonly=True), "<f8").data)
                stream.flush()
                os.fsync(stream.fileno())
        self.comm.Barrier()
        return {"vec": file, "replicated": replicated}


class ContentReader:
    """Inverse of :class:`ContentWriter`, for the ranks of now."""

    def __init__(
        self, objective: Objective, folder: Path | None, arrays: dict[str, np.ndarray]
    ) -> None:
        assert folder is not None
        self.objective, self.folder, self.arrays = objective, folder, arrays

    def decode(self, node: Any) -> Any:
        """The value that JSON stands for.  Collective."""
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
        return self._decode_vec(content)

    def _decode_vec(self, file: str) -> PETSc.Vec:
        own = self.objective.layout
        path = self.folder / file
        with raise_on_all_ranks(self.objective.comm):
            try:
                whole = np.load(path, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError):
                whole = self._load(path)
        rows, columns = whole.shape
        same = rows == own.rows
        layout = own.with_columns(columns) if same else Layout(own.comm, rows, columns)
        return layout.vec_from(layout.local(whole))

    def _load(self, path: Path) -> np.ndarray:
        """An array that cannot be mapped: an empty one, or a damaged file."""
        try:
            array: np.ndarray = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise CheckpointError(f"the checkpoint in {self.folder} is damaged: {error}") from error
        return array

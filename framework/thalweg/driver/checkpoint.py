"""Checkpoints: any solver's state on disk, whole or not at all.

A checkpoint folder holds numbered versions and a file ``latest`` that names the
good one.  A version is written under another name and renamed when complete,
so that a run that dies while writing loses nothing.  Vectors are stored as
whole arrays, into which each rank writes its rows; hence a run may go on with
another number of ranks.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import CheckpointError, suggestion
from thalweg.interfaces import Objective, SolverState
from thalweg.parallel import MPI, Layout, PETSc, agreed, on_root
from thalweg.result import Status

FORMAT = 1


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints go, how often, and whose they are.

    Attributes
    ----------
    folder
        Folder of the checkpoints, made when the first is written.
    interval
        Seconds between two of them, besides the one written on a signal.
    identity
        What must agree for a run to go on from a checkpoint, as flat
        ``{"section.option": value}``.
    """

    folder: Path
    interval: float = 60.0
    identity: Mapping[str, Any] | None = None

    def latest(self) -> Path | None:
        """The newest complete version, or None.  Not collective."""
        try:
            name = (self.folder / "latest").read_text().strip()
        except OSError:
            return None
        version = self.folder / name
        return version if name and (version / "checkpoint.json").exists() else None

    def write(self, comm: MPI.Comm, number: int, content: Mapping[str, Any]) -> None:
        """Save nested ``content`` (see :class:`SolverState` for what it may hold).  Collective."""
        version = self.folder / f"{number:09d}"
        aside = self.folder / f"{number:09d}.partial"

        def clear() -> None:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)

        on_root(comm, clear)
        arrays: dict[str, Any] = {}  # of arrays, by name
        tree = _Writer(comm, aside, arrays).encode(dict(content), "")

        def finish() -> None:
            if arrays:
                with open(aside / "arrays.npz", "wb") as stream:
                    np.savez(stream, **arrays)
            head = {
                "format": FORMAT,
                "ranks": comm.size,
                "identity": dict(self.identity or {}),
                "tree": tree,
            }
            (aside / "checkpoint.json").write_text(json.dumps(head))
            _flush(aside)
            shutil.rmtree(version, ignore_errors=True)
            aside.rename(version)
            pointer = self.folder / "latest.partial"
            pointer.write_text(version.name)
            pointer.replace(self.folder / "latest")
            for other in self.folder.iterdir():
                if other.is_dir() and other != version:
                    shutil.rmtree(other, ignore_errors=True)

        on_root(comm, finish)

    def read(self, objective: Objective) -> dict[str, Any] | None:
        """Content of the newest checkpoint, or None where there is none.  Collective.

        Raises
        ------
        CheckpointError
            It is damaged, of another format, or belongs to another problem.
        """
        comm = objective.comm
        head, arrays, version = on_root(comm, self._read_head)
        if head is None:
            return None
        return dict(_Reader(objective, version, arrays).decode(head["tree"]))

    def _read_head(self) -> tuple[dict[str, Any] | None, dict[str, np.ndarray], Path | None]:
        version = self.latest()
        if version is None:
            return None, {}, None
        try:
            head = json.loads((version / "checkpoint.json").read_text())
            stored = head["format"]
            arrays: dict[str, Any] = {}  # of arrays, by name
            if (version / "arrays.npz").exists():
                # Opened here, since NumPy leaves a damaged archive open.
                with (
                    open(version / "arrays.npz", "rb") as stream,
                    np.load(stream, allow_pickle=False) as archive,
                ):
                    arrays = {key: archive[key] for key in archive.files}
        except Exception as error:  # whatever a damaged file makes the readers raise
            raise CheckpointError(f"the checkpoint in {version} is damaged: {error}") from error
        if stored != FORMAT:
            raise CheckpointError(
                f"the checkpoint in {version} has format {stored}; this version reads {FORMAT}"
            )
        self._compare(head["identity"], version)
        return head, arrays, version

    def _compare(self, theirs: Mapping[str, Any], version: Path) -> None:
        ours = json.loads(json.dumps(dict(self.identity or {})))
        for key in sorted({*theirs, *ours}):
            if theirs.get(key) != ours.get(key):
                raise CheckpointError(
                    f"the checkpoint in {version} belongs to another run: "
                    f"{key} was {theirs.get(key)!r} and is now {ours.get(key)!r}"
                )


def state_fields(state: SolverState) -> dict[str, Any]:
    """The fields of a state that are saved, by name."""
    return {
        item.name: getattr(state, item.name)
        for item in fields(state)
        if not item.metadata.get("transient")
    }


def restore_state(state: SolverState, saved: Mapping[str, Any]) -> None:
    """Put saved fields in place of those that ``init`` made.

    Raises
    ------
    CheckpointError
        The solver's state has other fields than the one saved.
    """
    own = state_fields(state)
    for name in saved:
        if name not in own:
            raise CheckpointError(
                f"the checkpoint has a field '{name}' that the solver's state lacks"
                f"{suggestion(name, own)}"
            )
    keep = {id(vec) for vec in vecs_in(dict(saved))}
    for vec in vecs_in(own):
        if id(vec) not in keep:
            vec.destroy()
    for name, value in saved.items():
        setattr(state, name, value)


def vecs_in(value: Any) -> list[PETSc.Vec]:
    """Every vector in nested lists, tuples and dicts, each once."""
    found: dict[int, PETSc.Vec] = {}

    def walk(item: Any) -> None:
        if isinstance(item, PETSc.Vec):
            found[id(item)] = item
        elif isinstance(item, Mapping):
            for entry in item.values():
                walk(entry)
        elif isinstance(item, list | tuple):
            for entry in item:
                walk(entry)

    walk(value)
    return list(found.values())


class _Writer:
    """Turns nested content into JSON, and its numbers into files."""

    def __init__(self, comm: MPI.Comm, folder: Path, arrays: dict[str, np.ndarray]) -> None:
        self.comm, self.folder, self.arrays = comm, folder, arrays

    def encode(self, value: Any, name: str) -> Any:
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


class _Reader:
    """Inverse of :class:`_Writer`, for the ranks of now."""

    def __init__(
        self, objective: Objective, folder: Path | None, arrays: dict[str, np.ndarray]
    ) -> None:
        assert folder is not None
        self.objective, self.folder, self.arrays = objective, folder, arrays

    def decode(self, node: Any) -> Any:
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
        with agreed(self.objective.comm):
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


def _flush(folder: Path) -> None:
    for file in folder.iterdir():
        with open(file, "rb") as stream:
            os.fsync(stream.fileno())

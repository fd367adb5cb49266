"""Checkpoints: any solver's state on disk, whole or not at all.

A checkpoint folder holds numbered versions and a file ``latest`` that names the
good one.  A version is written under another name and renamed when complete, and
older ones go only after ``latest`` names it and is on the disk itself, so that a run
or a machine that dies at any moment loses nothing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver.checkpoint_content import ContentReader, ContentWriter
from thalweg.errors import CheckpointError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, on_root

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

    def _unused(self, number: int) -> Path:
        """Folder for a version: a number that is written again takes nobody's place."""
        version = self.folder / f"{number:09d}"
        again = 0
        while version.exists():
            again += 1
            version = self.folder / f"{number:09d}-{again}"
        return version

    def write(self, comm: MPI.Comm, number: int, content: Mapping[str, Any]) -> None:
        """Save nested ``content`` (see :class:`SolverState` for what it may hold).  Collective."""
        version = on_root(comm, lambda: self._unused(number))
        aside = version.with_name(f"{version.name}.partial")

        def clear() -> None:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)

        on_root(comm, clear)
        arrays: dict[str, Any] = {}
        tree = ContentWriter(comm, aside, arrays).encode(dict(content), "")

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
            for file in aside.iterdir():
                _flush(file)
            _flush(aside)
            aside.rename(version)
            _flush(self.folder)  # the version's name, before a file refers to it
            pointer = self.folder / "latest.partial"
            pointer.write_text(version.name)
            _flush(pointer)
            pointer.replace(self.folder / "latest")
            _flush(self.folder)
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
        return dict(ContentReader(objective, version, arrays).decode(head["tree"]))

    def _read_head(self) -> tuple[dict[str, Any] | None, dict[str, np.ndarray], Path | None]:
        version = self.latest()
        if version is None:
            return None, {}, None
        try:
            head = json.loads((version / "checkpoint.json").read_text())
            stored = head["format"]
            arrays: dict[str, Any] = {}
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


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some network file systems cannot flush a folder
            raise
    finally:
        os.close(descriptor)

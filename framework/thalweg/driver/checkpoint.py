"""Checkpoints: any solver's state on disk, whole or not at all.

A checkpoint folder holds numbered versions and a file ``latest`` that names the good
one.  A version is written under another name and renamed when complete.  The version
before stays, so that a run, a machine or a disk that dies at any moment loses
nothing.  Only folders with the name and the manifest of a version are ever removed.
"""

import hashlib
import io
import json
import logging
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver.checkpoint_content import (
    ContentReader,
    ContentWriter,
    refusing_malformed,
    restored,
)
from thalweg.driver.progress import Progress
from thalweg.errors import CheckpointError, RankError, StorageError
from thalweg.files import atomic_write_text, flush, regular_file, storing
from thalweg.interfaces import Objective, Solver, SolverState
from thalweg.parallel import on_root, phase, raise_on_all_ranks, values_of_all_ranks
from thalweg.parallel.identity import DATA
from thalweg.result import Trace

#: Number of what a version holds, another where an older program would read it wrongly.
FORMAT = 6

#: Name of a version's folder, and of one that is being written.
VERSION = re.compile(r"\d{9}(-\d+)?")
PARTIAL = re.compile(r"\d{9}(-\d+)?\.partial")

#: The manifest of a version, its first file and its last.
MANIFEST = "checkpoint.json"

#: The arrays of a version that are the same on all ranks.
ARRAYS = "arrays.npz"

#: Relative change of the value at a restored point that other ranks or machines may cause.
RESTORED_ERROR = 1e-5


@dataclass(frozen=True)
class Checkpoints:
    """Folder, interval and identity of a run's checkpoints.

    Attributes
    ----------
    folder
        Folder of the checkpoints, made when the first is written.  It may hold other
        things, which are left alone.
    interval
        Seconds between two of them, besides the one written on a signal.
    identity
        Values that must agree for a run to continue from a checkpoint, as flat
        ``{"section.option": value}``.
    """

    folder: Path
    interval: float = 60.0
    identity: Mapping[str, Any] | None = None

    # -- writing ---------------------------------------------------------------------------

    def write(self, objective: Objective, number: int, content: Mapping[str, Any]) -> None:
        """Save nested ``content`` (see :class:`SolverState` for what it may hold).  Collective.

        Raises
        ------
        StorageError
            On all ranks, where one cannot write, for instance since the disk is full.
            The versions from before are as they were.
        TypeError
            On all ranks, where the content cannot be saved; nothing of it stays.
        """
        comm = objective.comm
        version = on_root(comm, lambda: self._new_version(number))
        partial = version.with_name(f"{version.name}.partial")
        try:
            writer = ContentWriter(objective, partial)
            with raise_on_all_ranks(comm):
                tree = writer.encode(dict(content), "")
            writer.refuse_differing()
            writer.write_rows()
            digest = on_root(comm, lambda: _write_arrays(partial, writer.arrays))
            head = {"ranks": comm.size, "tree": tree, "arrays": digest}
            on_root(comm, lambda: self._publish(partial, version, head))
        except (StorageError, TypeError, RankError):
            on_root(comm, lambda: _remove(partial))  # what it takes is wanted elsewhere
            raise

    def _new_version(self, number: int) -> Path:
        """Folder for a version: a number that is written again gets a suffix."""
        name, again = f"{number:09d}", 0
        with storing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for left in self.folder.iterdir():
                if PARTIAL.fullmatch(left.name) and _is_ours(left):
                    _remove(left)
            while (self.folder / name).exists() or (self.folder / f"{name}.partial").exists():
                again += 1
                name = f"{number:09d}-{again}"
            version, partial = self.folder / name, self.folder / f"{name}.partial"
            partial.mkdir()
            try:
                (partial / MANIFEST).write_text(json.dumps({"format": FORMAT}), encoding="utf-8")
            except OSError:
                _remove(partial)
                raise
        return version

    def _publish(self, partial: Path, version: Path, content: Mapping[str, Any]) -> None:
        head = {"format": FORMAT, "identity": dict(self.identity or {}), **content}
        head["digest"] = _digest_of(head)
        with storing(partial):
            atomic_write_text(partial / MANIFEST, json.dumps(head))
            for file in (*partial.iterdir(), partial):
                flush(file)
        before = self.latest_name()
        with storing(self.folder):
            partial.rename(version)
            flush(self.folder)  # the version's name, before a file refers to it
            atomic_write_text(self.folder / "latest", version.name + "\n")
        for other in self._versions():
            if other.name not in (version.name, before) and _is_ours(other):
                _remove(other)

    # -- reading ---------------------------------------------------------------------------

    def latest_name(self) -> str | None:
        """Content of the file ``latest``, None where there is none.  Not collective."""
        path = self.folder / "latest"
        try:
            return regular_file(path).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"the file '{path}' is damaged: {error}") from error

    def latest(self) -> Path | None:
        """The newest version, or None.  Not collective.

        Without the file ``latest``, which a run that dies at its first checkpoint does not
        come to write, that is the one of the highest number.

        Raises
        ------
        CheckpointError
            ``latest`` names no version, or one that is not there.
        """
        name = self.latest_name()
        if name is None:
            versions = [version for version in self._versions() if _is_ours(version)]
            return versions[-1] if versions else None
        version = self.folder / name
        if not VERSION.fullmatch(name):
            damaged, name = f"'{self.folder / 'latest'}' is damaged: it names {name!r}", ""
        elif version.is_symlink() or not (version / MANIFEST).is_file():
            damaged = f"the checkpoint in '{version}' is damaged: it has no {MANIFEST}"
        else:
            return version
        raise CheckpointError(f"{damaged}{self._advice(name)}")

    def _versions(self) -> list[Path]:
        """Folders with a version's name, the oldest first."""
        if not self.folder.is_dir():
            return []
        versions = [path for path in self.folder.iterdir() if VERSION.fullmatch(path.name)]
        return sorted(versions, key=lambda path: [int(part) for part in path.name.split("-")])

    def _advice(self, damaged: str) -> str:
        """Advice on continuing from an older version, where there is one."""
        older = [v.name for v in self._versions() if v.name != damaged and _is_ours(v)]
        if not older:
            return "; there is no older one, so remove the folder to start from the beginning"
        return (
            f"; to continue from the older checkpoint {older[-1]}, write {older[-1]} into the file "
            f"'{self.folder / 'latest'}'"
        )

    def read(self, objective: Objective) -> dict[str, Any] | None:
        """Content of the newest checkpoint, or None where there is none.  Collective.

        Raises
        ------
        CheckpointError
            It is damaged, of another format, or belongs to another problem.
        """
        comm = objective.comm
        version, head = on_root(comm, self._read_manifest)
        if version is None:
            return None
        try:
            arrays = on_root(comm, lambda: _read_arrays(version, head["arrays"]))
            return dict(ContentReader(objective, version, arrays).decode(head["tree"]))
        except CheckpointError as error:
            advice = on_root(comm, lambda: self._advice(version.name))
            raise CheckpointError(f"{error}{advice}") from error

    def _read_manifest(self) -> tuple[Path | None, dict[str, Any]]:
        version = self.latest()
        if version is None:
            return None, {}
        damaged = f"the checkpoint in '{version}' is damaged: {MANIFEST}"
        try:
            head = json.loads(regular_file(version / MANIFEST).read_text(encoding="utf-8"))
            stored = head["format"]
            if stored == FORMAT:
                intact = head.pop("digest") == _digest_of(head)
                dict(head["identity"])
        except OSError as error:
            raise CheckpointError(f"{damaged} cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            advice = self._advice(version.name)
            raise CheckpointError(f"{damaged} is not what was written{advice}") from error
        if stored != FORMAT:
            raise CheckpointError(
                f"the checkpoint in '{version}' has format {stored}; this version reads {FORMAT}"
            )
        if not intact:
            advice = self._advice(version.name)
            raise CheckpointError(f"{damaged} does not match its digest{advice}")
        self._compare(head["identity"], version)
        return version, head

    def _compare(self, theirs: Mapping[str, Any], version: Path) -> None:
        ours = json.loads(json.dumps(dict(self.identity or {})))
        pairs = {key: (theirs.get(key), ours.get(key)) for key in sorted({*theirs, *ours})}
        others = [key for key, (before, now) in pairs.items() if before != now]
        data = [key for key in others if all(str(text).startswith(DATA) for text in pairs[key])]
        for key in (*data, *others):  # data first, from which other values may follow
            raise CheckpointError(
                f"the checkpoint in '{version}' belongs to another run"
                f"{', whose data differ' if data else ''}: "
                f"{key} was {pairs[key][0]!r} and is now {pairs[key][1]!r}"
            )


def _is_ours(folder: Path) -> bool:
    """Whether a folder holds the manifest of a version, complete or begun."""
    try:
        head = json.loads(regular_file(folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return not folder.is_symlink() and isinstance(head, dict) and "format" in head


def _remove(folder: Path) -> None:
    """Remove a version, its manifest last: what is left of it can still be recognized."""
    with suppress(OSError):
        for file in folder.iterdir():
            if file.name != MANIFEST:
                file.unlink()
        shutil.rmtree(folder)


def _digest_of(head: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()


def _write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write the arrays that are the same on all ranks; returns a digest of the file."""
    buffer = io.BytesIO()  # an archive on a disk that is full cannot be closed
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    with storing(folder / ARRAYS):
        (folder / ARRAYS).write_bytes(buffer.getbuffer())
    return hashlib.sha256(buffer.getbuffer()).hexdigest()


def _read_arrays(folder: Path, digest: str) -> dict[str, np.ndarray]:
    damaged = f"the checkpoint in '{folder}' is damaged: {ARRAYS}"
    try:
        content = regular_file(folder / ARRAYS).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{damaged} cannot be read ({error.strerror or error})") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise CheckpointError(f"{damaged} does not match its digest")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return dict(archive)


@dataclass
class SavedRun:
    """A run as its checkpoints hold it: without any where ``checkpoints`` is None.

    Counters and the seconds of each phase are restored in place, the trace is another once it is;
    ``failures`` say why checkpoints could not be written.
    """

    objective: Objective
    solver: Solver[Any]
    checkpoints: Checkpoints | None
    at: Progress
    seconds: dict[str, float]
    trace: Trace
    failures: list[str] = field(default_factory=list)
    last: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.preconditioner = inner = self.solver.preconditioner
        named = {"solver": self.solver, "preconditioner": inner}
        self.parts = {r: None if p is None else type(p).__qualname__ for r, p in named.items()}

    @property
    def is_due(self) -> bool:
        """Whether the time for the next checkpoint has come."""
        to = self.checkpoints
        return to is not None and time.perf_counter() - self.last >= to.interval

    @refusing_malformed()
    def read(self) -> dict[str, Any] | None:
        """The newest checkpoint from which this run can go on, None where there is none."""
        content = None if self.checkpoints is None else self.checkpoints.read(self.objective)
        before = (content or {}).get("parts", {})
        for part, name in self.parts.items():
            # Fields of another solver's state may have the same names.
            if before.get(part, name) != name:
                raise CheckpointError(
                    f"the checkpoint belongs to another run: its {part} was {before[part]} and is "
                    f"now {name}"
                )
        return content

    def restore(self, state: SolverState, content: dict[str, Any]) -> SolverState:
        """Restore all of a run, and return its state.  Collective.

        A ``CheckpointError`` where the objective has another value at its point.
        """
        with refusing_malformed():
            state = restored(state, content["state"])
            self.objective.restore(restored(self.objective.state(), content["objective"]))
            if self.preconditioner is not None:
                own = self.preconditioner.state()
                self.preconditioner.restore(restored(own, content["preconditioner"]))
            kinds = {name: type(value) for name, value in vars(self.at).items()}
            numbers = {key: kinds[key](value) for key, value in content["progress"].items()}
            vars(self.at).update(vars(Progress(**numbers)))
            self.trace = Trace.from_array(self.trace.columns, content["trace"])
            self.seconds.update({key: float(content["seconds"][key]) for key in self.seconds})
            list(map(float, (state.value, *self.at.values)))
            if state.x.shape != self.objective.layout.shape:
                raise ValueError(f"an iterate of shape {state.x.shape}")
        self._refuse_other_value(state)
        return state

    def _refuse_other_value(self, state: SolverState) -> None:
        """Refuse a state whose value is another now: an identity may not see all of the data."""
        if not self.solver.decreases or self.solver.stochastic:
            return  # whose values may be those of a part of the problem
        known, value = state.value, float(self.objective.value(state.x))
        largest = max(abs(known), abs(value))
        terms = max(largest, abs(self.trace["objective"][0]))  # which may have canceled
        allowed = RESTORED_ERROR * largest + 10.0 * float(self.objective.value_error(terms))
        if not values_of_all_ranks(self.objective.comm, abs(value - known) <= allowed)[0]:
            raise CheckpointError(
                f"the checkpoint belongs to another run: the objective at its point was {known!r} "
                f"and is now {value!r}; the data, or the code, are others"
            )

    @phase("checkpoint")
    def write(self, state: SolverState, elapsed: float) -> bool:
        """Write a checkpoint, if there are any; False if none was written.  Collective.

        A disk that is full ends no run: what was written stays, and at the next interval there
        may be room again.
        """
        if self.checkpoints is None:
            return False
        began, failures = time.perf_counter(), len(self.failures)

        def of_root() -> dict[str, Any]:  # times are each rank's own
            at = vars(replace(self.at, elapsed=elapsed))
            return {"progress": at, "seconds": dict(self.seconds), "trace": self.trace.to_array()}

        content = {
            "parts": self.parts,
            "state": state,
            "objective": self.objective.state(),
            "preconditioner": self.preconditioner.state() if self.preconditioner else {},
            **on_root(self.objective.comm, of_root),
        }
        try:
            self.checkpoints.write(self.objective, self.at.iteration, content)
        except StorageError as error:
            self.failures.append(f"at iteration {self.at.iteration}: {error}")
            if self.objective.comm.rank == 0:
                text = "the run continues without a checkpoint %s"
                logging.getLogger("thalweg").warning(text, self.failures[-1])
        self.last = time.perf_counter()
        self.seconds["checkpoint"] += self.last - began
        return len(self.failures) == failures

    def notes(self) -> list[str]:
        """Sentences on checkpoints that could not be written."""
        notes = [f"no checkpoint could be written {text}" for text in self.failures[:1]]
        if len(self.failures) > 1:
            notes.append(f"nor {len(self.failures) - 1} times later, last {self.failures[-1]}")
        return notes

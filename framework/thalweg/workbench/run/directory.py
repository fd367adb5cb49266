"""The run directory: what a run leaves, each file whole or not there."""

import csv
import io
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from thalweg.errors import CheckpointError, InputError, StorageError
from thalweg.files import FolderLock, atomic_write_text, flush, storing, temporary_name
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Layout, on_root
from thalweg.plugins import ObjectiveSpec, PreconditionerSpec, SolverSpec, Spec, citation, plugins
from thalweg.result import Result
from thalweg.workbench.config import Configuration, Method, Section, read_configuration
from thalweg.workbench.doctor import versions
from thalweg.workbench.readers.array_files import map_npy
from thalweg.workbench.strict_json import as_json

#: Files of a run or a comparison.  A folder that has one of the first four is another run's; the
#: others might be the user's, and would be overwritten.
MARKS = (
    "config.toml", "result.json", "comparison.json", "checkpoint", "solution.npy", "trace.csv",
    "rows.npy", "comparison.md", "convergence.png", "embedding.png", "embedding.html",
    "animation.gif", "measures.csv", "stages", "views",
)  # fmt: skip

#: What a run writes once it has begun.
WRITTEN = {*MARKS, "checkpoint/latest"} - {"config.toml", "checkpoint"}


class RunDirectory:
    """A folder for one run's files, which need not be there yet.

    It holds ``config.toml``, ``result.json``, ``trace.csv``, ``solution.npy``, ``checkpoint/`` and
    pictures.  Where it is ``resumable``, messages may propose to continue the run.  Methods are
    called on rank 0 alone, but one.
    """

    def __init__(self, path: Path | str, *, resumable: bool = True) -> None:
        if not str(path) or "\0" in str(path):
            raise InputError(f"the name of the output folder must not be empty, as {str(path)!r}")
        self.path = Path(path)
        self.checkpoint = self.path / "checkpoint"
        self.resumable = resumable
        self.lock = FolderLock(self.path)
        self._parts: list[Self] = []
        self._claimed = self._made = False
        self._before: str | None = None  # config.toml of the run that is resumed

    def __str__(self) -> str:
        return repr(str(self.path))  # a line break in a name is none in a message

    def part(self, name: str) -> Self:
        """Folder of the next method that a comparison runs, claimed with this one."""
        self._parts.append(type(self)(self.path / name, resumable=False))
        return self._parts[-1]

    def refuse_other_run(self, resume: bool = False) -> None:
        """Raise if the folder cannot take a new run, or what is left of one to be resumed."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise InputError(f"the output folder {self} is a file")
            marks = [mark for mark in MARKS if os.path.lexists(self.path / mark)]
        except OSError as error:  # a name that is too long, a folder that may not be searched
            raise InputError(f"the folder {self} cannot be used: {error.strerror}") from error
        if not marks:
            return
        if marks[0] not in MARKS[:4]:
            raise InputError(
                f"the output folder {self} has a file {marks[0]} already, which would be "
                f"overwritten; choose another folder"
            )
        advice = ", or give --resume to continue it" if self.resumable else ""
        if resume:
            advice = ", since without its config.toml it cannot be resumed"
        raise InputError(
            f"the output folder {self} holds another run ({marks[0]}); choose another{advice}"
        )

    def claim(self, configuration: Configuration, resume: bool) -> None:
        """Make the folder this run's until it is closed, and write its configuration there."""
        self._check(configuration, resume)
        file = self.path / "config.toml"
        try:
            self._made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock.acquire()
            self._check(configuration, resume)  # what another run has left until then
            self._before = file.read_text(encoding="utf-8") if file.exists() else None
            self._claimed = True
            self.write_text("config.toml", configuration.to_toml())
            for part, method in zip(self._parts, configuration.methods, strict=True):
                part.claim(configuration.with_method(method), False)
        except OSError as error:
            raise InputError(f"cannot write into the folder {self}: {error.strerror}") from error

    def _check(self, configuration: Configuration, resume: bool) -> None:
        if resume and (self.path / "config.toml").exists():
            self._compare(configuration)
        else:
            for part in self._parts:
                part.refuse_other_run(resume)
            self.refuse_other_run(resume)

    def close(self) -> None:
        """Let others write into the folder."""
        for part in self._parts:
            part.close()
        self.lock.release()

    def give_up(self) -> None:
        """Leave the folder as it was before :meth:`claim`, unless it holds what the run wrote.

        A run that did not begin must not prevent the next.
        """
        for part in self._parts:
            part.give_up()
        with suppress(OSError, StorageError):  # a full disk, of which the run's error tells
            if self._before is not None:
                self.write_text("config.toml", self._before)
            elif self._claimed and not any((self.path / name).exists() for name in WRITTEN):
                (self.path / "config.toml").unlink(missing_ok=True)
                if self.checkpoint.is_dir():
                    self.checkpoint.rmdir()
        self.close()
        with suppress(OSError):  # which it is where the folder is not empty
            if self._made:
                self.path.rmdir()

    def _compare(self, configuration: Configuration) -> None:
        try:
            theirs = read_configuration(self.path / "config.toml").identity()
        except (InputError, tomllib.TOMLDecodeError) as error:
            raise CheckpointError(f"the run in {self} cannot be resumed: {error}") from error
        ours = configuration.identity()
        # Names first: another solver differs in its options too.
        for key in sorted({*theirs, *ours}, key=lambda key: (not key.endswith(".name"), key)):
            if theirs.get(key) != ours.get(key):
                raise CheckpointError(
                    f"the folder {self} holds another run: {key} was "
                    f"{theirs.get(key)!r} and is now {ours.get(key)!r}"
                )

    def write_result(self, comm: MPI.Comm, result: Result, facts: Mapping[str, Any]) -> None:
        """Write ``result.json``, ``trace.csv`` and the whole of ``solution.npy``.  Collective."""
        if result.solution is not None and result.solution_layout is not None:
            save_rows(comm, self.path / "solution.npy", result.solution_layout, result.solution)

        def write_trace() -> None:
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(result.trace.columns)
            for row in result.trace:
                short = ((v.is_integer() and abs(v) < 2**53, v) for v in row.values())
                writer.writerow([str(int(v)) if whole else repr(v) for whole, v in short])
            self.write_text("trace.csv", text.getvalue())

        on_root(comm, write_trace)
        self.write_summary(comm, result, facts)

    def write_summary(self, comm: MPI.Comm, result: Result, facts: Mapping[str, Any]) -> None:
        """Write ``result.json`` alone.  Collective; raises as :meth:`write_result`."""
        content = {**summary(result), **facts}
        on_root(comm, lambda: self.write_text("result.json", as_json(content) + "\n"))

    def write_text(self, name: str, text: str) -> None:
        """Write a file, whole or not at all."""
        atomic_write_text(self.path / name, text)


def summary(result: Result) -> dict[str, Any]:
    """Content of ``result.json`` for a result."""
    names = (
        "message", "objective", "wanted_objective", "stages_left", "iterations", "evaluations",
        "seconds", "metrics", "notes",
    )  # fmt: skip
    facts = {name: getattr(result, name) for name in names}
    return {"status": result.status.name.lower(), **facts, "versions": versions()}


def cite(folder: Path | str) -> str:
    """References, in BibTeX, of the methods of a run or a comparison.  Called on one rank."""
    path = Path(folder) / "config.toml"
    if "\0" in str(folder) or not path.is_file():
        raise InputError(f"'{folder}' holds no run: it has no config.toml")
    configuration = read_configuration(path)
    used: list[tuple[type[Spec], Section | None]] = [(ObjectiveSpec, configuration.objective)]
    parts: list[Configuration | Method] = [configuration, *configuration.methods]
    for part in parts:
        used += [(PreconditionerSpec, part.preconditioner), (SolverSpec, part.solver)]
    return citation([plugins().find(kind, one["name"])[0] for kind, one in used if one is not None])


def save_rows(comm: MPI.Comm, path: Path, layout: Layout, block: np.ndarray) -> None:
    """Write an npy file of all rows, which appears whole or not at all.  Collective on ``comm``."""
    temporary = on_root(comm, lambda: temporary_name(path))
    try:
        layout.write(temporary, block, comm)

        def rename() -> None:
            with storing(path):
                flush(temporary)
                os.replace(temporary, path)
                flush(path.parent)

        on_root(comm, rename)
    finally:
        if comm.rank == 0:
            with suppress(OSError):
                temporary.unlink()


# -- maps beside the solution: results of a homotopy's stages, views of a result -----------------


class StageResults:
    """What a schedule calls where a stage has ended: writes its result."""

    def __init__(self, objective: Any, values: tuple[float, ...], folder: Path) -> None:
        self.objective, self.folder = objective, folder
        self.files = [f"stages/{n:02d}.npy" for n in range(len(values) - 1)] + ["solution.npy"]
        names = [*map(objective.stage_name, values)]
        before = ((name, names[:n].count(name)) for n, name in enumerate(names))
        self.every = [f"{name} ({n + 1})" if n else name for name, n in before]

    def names(self) -> dict[str, str]:
        """Names of the stages that ended by their files, for ``result.json``."""
        late = {"solution.npy"}  # written at the end
        every = zip(self.files, self.every, strict=True)
        return {file: name for file, name in every if file in late or (self.folder / file).exists()}

    def __call__(self, stage: float, x: Array) -> None:
        """Write the result of a stage.  Collective."""
        _save_map(self.objective, self.folder / self.files[int(stage)], self.objective.solution(x))


def save_views(objective: Objective, x: Array, folder: Path) -> dict[str, str]:
    """Write the views of a result; their names by their files, as of stages.  Collective."""
    views = objective.views(x)
    names = {f"views/{number:02d}.npy": name for number, name in enumerate(views)}
    for file, name in names.items():
        _save_map(objective, folder / file, views[name])
    return names


def _save_map(objective: Objective, path: Path, rows: np.ndarray) -> None:
    on_root(objective.comm, lambda: path.parent.mkdir(exist_ok=True))
    save_rows(objective.comm, path, objective.solution_layout, rows)


def saved_maps(folder: Path, names: Any, rows: int) -> dict[str, np.ndarray]:
    """Maps of so many points as a run has written them, by the names in its ``result.json``."""
    there = {name: folder / file for file, name in (names or {}).items()}
    maps = {name: np.array(map_npy(path)) for name, path in there.items() if path.exists()}
    return {name: places for name, places in maps.items() if len(places) == rows}

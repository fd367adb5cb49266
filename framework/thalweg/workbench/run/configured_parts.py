"""From a configuration to objects: data, objective, solver, starting point."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data import Dataset
from thalweg.driver.assembly import build_method, checked_rows
from thalweg.errors import InputError, PluginError
from thalweg.interfaces import Objective, Solver
from thalweg.parallel import MPI, Array, limit_threads, on_root
from thalweg.parallel.watchdog import watchdog
from thalweg.plugins import ObjectiveSpec, plugins
from thalweg.workbench.config import Configuration, read_configuration
from thalweg.workbench.memory import require_vectors
from thalweg.workbench.readers import load_data
from thalweg.workbench.readers.numpy_files import map_npy
from thalweg.workbench.run.directory import RunDirectory


@contextmanager
def opened(
    config: Path | str | Mapping[str, Any],
    out: Path | str | None,
    changes: Sequence[str],
    comm: MPI.Comm,
    *,
    several: bool,
    resume: bool = False,
) -> Iterator[tuple[Configuration, RunDirectory | None, dict[str, Any]]]:
    """Open a run, or a comparison of several methods.  Collective.

    The configuration, the directory of the results, if any, and the facts that these state.  In
    the end the directory is closed, and given up where the run fails.
    """
    configuration: Configuration = on_root(comm, lambda: read_configuration(config, changes))
    settings = configuration.run
    with watchdog(settings["watchdog"]), command_line_options(settings["petsc"]):
        if several and not configuration.methods:
            raise InputError("a comparison needs [[method]] tables")
        if configuration.methods and not several:
            raise InputError("[[method]] tables are for 'thalweg compare'; a run has one [solver]")
        folder = out if out is not None else configuration.output["dir"]
        directory = None if folder is None else RunDirectory(folder, resumable=not several)
        refuse_different_plugins(comm)
        if directory is not None and not resume:
            on_root(comm, directory.refuse_other_run)
        try:
            yield configuration, directory, {"ranks": comm.size, "threads": limit_threads(comm)}
        except Exception:
            if directory is not None and comm.rank == 0:
                directory.give_up()
            raise
        finally:
            if directory is not None:
                directory.close()


def build_objective(
    configuration: Configuration, comm: MPI.Comm
) -> tuple[Dataset | None, Objective]:
    """Load the data and build the objective.  Collective."""
    spec, _ = plugins().find(ObjectiveSpec, configuration.objective["name"])
    dataset = None if configuration.data is None else load_data(configuration.data, comm)
    options = {k: v for k, v in configuration.objective.items() if k != "name"}
    objective: Objective = spec.build(dataset, comm, options=options)
    require_vectors(objective.layout)
    return dataset, objective


def built_method(configuration: Configuration, objective: Objective) -> Solver[Any]:
    """The solver of a configuration with its preconditioner; nothing is set up yet."""
    return build_method(objective, configuration.solver, configuration.preconditioner)


def refuse_different_plugins(comm: MPI.Comm) -> None:
    """Raise on all ranks if they do not see the same plugins.  Collective."""
    seen = comm.allgather(plugins().signature())
    for rank, other in enumerate(seen):
        if other != seen[0]:
            raise PluginError(
                f"rank {rank} has other plugins than rank 0: {other or 'none'} "
                f"against {seen[0] or 'none'}"
            )


def digests(dataset: Dataset | None) -> dict[str, str]:
    """Digests that identify the data of a run.  Collective."""
    return {"data": "", "labels": ""} if dataset is None else dataset.digests


def given_start(configuration: Configuration, objective: Objective) -> Array | None:
    """This rank's rows of the point in ``run.start``, None without one.  Collective."""
    if configuration.run["start"] is None:
        return None
    layout = objective.layout
    path = Path(configuration.run["start"])

    def read() -> np.ndarray:
        try:
            whole = map_npy(path)
        except OSError as error:
            raise InputError(
                f"cannot read the starting point '{path}': {error.strerror or error}"
            ) from error
        return checked_rows(whole, (layout.rows, layout.columns), f"the point '{path}'")

    return np.array(layout.local(on_root(objective.comm, read)))


@contextmanager
def command_line_options(text: str | None) -> Iterator[None]:
    """Set options given as on PETSc's command line, ``"-name value -flag"``, for a block.

    Options of the process's own command line take precedence.
    """
    values: dict[str, str] = {}
    name = None
    try:
        words = shlex.split(text or "")
    except ValueError as error:
        raise InputError(f"PETSc options {text!r} cannot be read: {error}") from error
    for word in words:
        if re.match(r"-[A-Za-z]", word):
            name = word[1:]
            values[name] = ""
        elif name is None or values[name]:
            raise InputError(f"PETSc options {text!r}: '{word}' follows no option's name")
        else:
            values[name] = word
    if not values:
        yield
        return
    from thalweg.parallel import temporary_options

    with temporary_options("", values):
        yield

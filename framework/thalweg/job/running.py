"""One configured run, from data to run directory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.config import Configuration, read_configuration
from thalweg.data import Dataset
from thalweg.driver import Checkpoints, HomotopySchedule, Iterate, drive
from thalweg.interfaces import Homotopy, Objective, Solver
from thalweg.job.building import (
    build_method,
    build_objective,
    data_digest,
    refuse_different_plugins,
)
from thalweg.job.directory import RunDirectory
from thalweg.job.pictures import draw_run
from thalweg.job.starting import given_start_digest, starting_point
from thalweg.parallel import MPI, freeing, limit_threads, on_root
from thalweg.plugins import MetricSpec, plugins
from thalweg.report import CORE_METRICS
from thalweg.result import Result, Status

#: Frames of an animation are thinned out so that no more than this many are kept.
MOST_FRAMES = 150


def run(
    config: Path | str | Mapping[str, Any],
    out: Path | str | None = None,
    *,
    changes: Sequence[str] = (),
    resume: bool = False,
    quiet: bool = True,
    comm: MPI.Comm | None = None,
) -> Result:
    """Do what a configuration asks for.  Collective on ``comm``.

    Parameters
    ----------
    config
        TOML file, or its content as a mapping.
    out
        Folder of the results; by default the configuration's ``output.dir``, and
        where that is missing too nothing is written.
    changes
        ``"section.option=value"`` each.
    resume
        Go on from the newest checkpoint in the folder, if there is one.
    quiet
        Show no progress bar.
    comm
        The ranks that work together; by default ``MPI.COMM_WORLD``.

    Raises
    ------
    InputError
        Something in the configuration or the data cannot be used.
    NumericalError
        The objective is not finite at the starting point.
    """
    comm = MPI.COMM_WORLD if comm is None else comm
    began = time.perf_counter()
    configuration: Configuration = on_root(comm, lambda: read_configuration(config, changes))
    folder = out if out is not None else configuration.output["dir"]
    directory = None if folder is None else RunDirectory(folder)
    refuse_different_plugins(comm)
    if directory is not None and not resume:
        on_root(comm, lambda: directory.refuse_other_run())
    threads = limit_threads(comm)
    dataset, objective = build_objective(configuration, comm)
    with freeing(comm, objective.destroy):
        solver = build_method(configuration, objective)
        if directory is not None:
            on_root(comm, lambda: directory.claim(configuration, resume))
        loading = time.perf_counter() - began
        result = run_method(
            configuration, dataset, objective, solver, directory, resume=resume, quiet=quiet
        )
    seconds = {"load": loading, **result.seconds, "total": result.seconds["total"] + loading}
    result = replace(result, seconds=seconds)
    if directory is not None:
        facts = {"ranks": comm.size, "threads": threads}
        on_root(comm, lambda: finish_directory(directory, configuration, dataset, result, facts))
    return result


def run_method(
    configuration: Configuration,
    dataset: Dataset | None,
    objective: Objective,
    solver: Solver[Any],
    directory: RunDirectory | None,
    *,
    resume: bool = False,
    quiet: bool = True,
) -> Result:
    """Run one solver on a built objective; measures the result.  Collective."""
    comm = objective.comm
    checkpoints = None
    if directory is not None:
        identity = {
            **configuration.identity(),
            "data": data_digest(dataset),
            "objective": objective.fingerprint(),
            "start": given_start_digest(configuration, comm),
        }
        interval = configuration.run["checkpoint"]
        checkpoints = Checkpoints(directory.checkpoint, interval, identity)
    frames = _Frames(objective) if configuration.output["animation"] else None
    result = drive(
        objective,
        solver,
        starting_point(configuration, objective),
        stop=configuration.stopping(),
        callbacks=() if frames is None else (frames,),
        homotopy=_schedule(configuration, objective),
        checkpoints=checkpoints,
        resume=resume,
        progress=not quiet,
    )
    if frames is not None and directory is not None:
        on_root(comm, lambda: frames.draw(directory, dataset))
    return replace(
        result,
        metrics={**result.metrics, **_measure(result, dataset, comm)},
        notes=() if dataset is None else tuple(dataset.notes),
    )


def finish_directory(
    directory: RunDirectory,
    configuration: Configuration,
    dataset: Dataset | None,
    result: Result,
    facts: Mapping[str, Any],
) -> None:
    """Write a result and its pictures.  Called on rank 0 alone.

    A run that a signal stopped is given no time for pictures.
    """
    if result.status is not Status.INTERRUPTED and configuration.output["pictures"]:
        draw_run(directory.path, configuration, dataset, result)
    directory.write_result(result, facts)


def _schedule(configuration: Configuration, objective: Objective) -> HomotopySchedule | None:
    if not isinstance(objective, Homotopy):
        return configuration.schedule(1.0)
    if configuration.homotopy is None:
        return HomotopySchedule.proposed_by(objective)
    return configuration.schedule(objective.homotopy)


def _measure(result: Result, dataset: Dataset | None, comm: MPI.Comm) -> dict[str, Any]:
    found: dict[str, Any] = {}
    solution = result.solution
    if solution is None or result.status is Status.INTERRUPTED:
        return found
    if dataset is not None and len(solution) == dataset.layout.rows:
        solution = dataset.layout.local(solution)
    for spec in (*CORE_METRICS, *plugins().specs(MetricSpec)):
        found.update(spec.resolve()(solution, dataset, comm))
    return found


class _Frames:
    """Callback that keeps iterates for an animation, every k-th, with k growing as needed."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.frames: list[np.ndarray] = []
        self.captions: list[str] = []
        self.every = 1

    def __call__(self, iterate: Iterate) -> bool:
        if iterate.iteration % self.every == 0:
            self.frames.append(self.objective.layout.gather(iterate.state.x))
            self.captions.append(f"evaluation {iterate.evaluations}: {iterate.objective:.6g}")
            if len(self.frames) > MOST_FRAMES:
                self.frames, self.captions = self.frames[::2], self.captions[::2]
                self.every *= 2
        return False

    def draw(self, directory: RunDirectory, dataset: Dataset | None) -> None:
        from thalweg.report import draw_animation

        labels = None if dataset is None else dataset.labels
        if labels is not None and len(labels) != len(self.frames[0]):
            labels = None
        draw_animation(directory.path / "animation.gif", self.frames, labels, self.captions)

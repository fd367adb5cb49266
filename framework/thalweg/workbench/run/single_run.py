"""One configured run, from data to run directory."""

import faulthandler
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data import Dataset
from thalweg.driver.assembly import assembled, build_method, checked_rows, objective_identity
from thalweg.driver.evaluations import read_only
from thalweg.driver.progress import Callback
from thalweg.errors import InputError, PluginError, StorageError, reason
from thalweg.interfaces import Homotopy, Objective
from thalweg.parallel import MPI, Array, Layout, collective_call, limit_threads, on_root, phase
from thalweg.parallel.failures import abort_on_error
from thalweg.parallel.threads import restored_thread_limits
from thalweg.parallel.traffic import phases, profile
from thalweg.plugins import MetricSpec, ObjectiveSpec, plugins
from thalweg.result import Result, Status
from thalweg.workbench.config import Configuration, read_configuration
from thalweg.workbench.memory import require_vectors
from thalweg.workbench.readers import load_data
from thalweg.workbench.readers.array_files import map_npy
from thalweg.workbench.run.directory import RunDirectory, StageResults, save_rows, save_views
from thalweg.workbench.run.pictures import Frames, draw_run
from thalweg.workbench.strict_json import as_json


@collective_call(lambda *_, comm=None, **__: comm or MPI.COMM_WORLD)
@restored_thread_limits()
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
        Continue from the newest checkpoint in the folder, if there is one.
    quiet
        Show no progress.
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
    if resume and out is None:
        raise InputError("there is nothing to resume: give the folder of the run (--out)")
    opening = opened_run(config, out, changes, comm, several=False, resume=resume)
    with opening as (configuration, directory, facts):
        started = phases()
        with phase("load"):
            dataset, objective = build_objective(configuration, comm)
        with abort_on_error(comm):
            job = Job(configuration, dataset, objective, directory, facts)
            if directory is not None:
                on_root(comm, lambda: directory.claim(configuration, resume))
            loading = time.perf_counter() - began
            result = job.minimized(resume=resume, quiet=quiet)
        seconds = {"load": loading, **result.seconds, "total": result.seconds["total"] + loading}
        result = replace(result, seconds=seconds)
        facts["profile"] = profile(comm, started)
        if directory is not None:
            facts["digests"] = digests(dataset)
            if job.stages is not None:
                facts["stages"] = job.stages.names()
            try:
                if result.status is not Status.INTERRUPTED:
                    facts["views"] = save_views(objective, result.x, directory.path)
                directory.write_result(comm, result, facts)
            except StorageError as error:
                if not result.saved:
                    raise
                advice = "a checkpoint holds the final state: free space there, and resume the run"
                raise StorageError(f"{error}; {advice}") from error
        return job.completed(result)


@dataclass
class Job:
    """A method of a configuration on a built objective, and the folder of its results, if any.

    ``facts`` are what ``result.json`` states beside the result.  Nothing is set up yet.
    """

    configuration: Configuration
    dataset: Dataset | None
    objective: Objective
    directory: RunDirectory | None
    facts: Mapping[str, Any]

    def __post_init__(self) -> None:
        configuration = self.configuration
        parts = (configuration.solver, configuration.preconditioner)
        self.solver = build_method(self.objective, *parts)
        animated = self.directory is not None and configuration.output["animation"]
        self.frames = Frames(self.objective) if animated else None
        self.schedule = configuration.schedule(getattr(self.objective, "homotopy_parameter", 1.0))
        self.stages = None
        keeps = configuration.keeps_stages and isinstance(self.objective, Homotopy)
        if keeps and self.schedule is not None and self.directory is not None:
            self.stages = StageResults(self.objective, self.schedule.values, self.directory.path)
            self.schedule = replace(self.schedule, ended=self.stages)

    def minimized(self, *, resume: bool = False, quiet: bool = True) -> Result:
        """Run the solver.  Collective."""
        configuration, dataset, objective = self.configuration, self.dataset, self.objective
        folder = identity = None
        if self.directory is not None:
            folder = self.directory.checkpoint
            identity = {
                # Bits of scaled data depend on the number of ranks; their digest is that before.
                **({} if dataset is not None and dataset.digest else objective_identity(objective)),
                **configuration.identity(),
                **digests(dataset),
            }
        run = assembled(
            objective,
            self.solver,
            given_start(configuration, objective),
            configuration.run["seed"],
            homotopy=self.schedule,
            folder=folder,
            interval=configuration.run["checkpoint"],
            identity=identity,
        )
        callbacks: list[Callback] = [lambda _: expect_life(configuration.run["watchdog"])]
        callbacks += [] if self.frames is None else [self.frames]
        rules = configuration.stopping()
        result = run(stop=rules, callbacks=callbacks, resume=resume, progress=not quiet)
        unused = unused_petsc_options(configuration.run["petsc"], objective.comm)
        of_data = () if dataset is None else dataset.notes
        return replace(result, notes=(*of_data, *result.notes, *unused))

    @phase("complete")
    def completed(self, result: Result) -> Result:
        """Measure and draw a result, which is written already.  Collective; rank 0 draws.

        What fails becomes a note.  A run that a signal stopped is given no time for this.
        """
        if result.status is Status.INTERRUPTED:
            return result
        comm, directory, dataset = self.objective.comm, self.directory, self.dataset
        result = _measured(result, dataset, self.objective)
        if directory is None:
            return result
        directory.write_summary(comm, result, self.facts)
        if dataset is not None and dataset.chosen is not None:
            rows = np.flatnonzero(dataset.chosen)
            save_rows(comm, directory.path / "rows.npy", Layout(MPI.COMM_SELF, len(rows)), rows)
        pictures, frames, labels = self.configuration.output["pictures"], self.frames, None
        if (pictures or frames) and dataset is not None and dataset.labels is not None:
            labels = dataset.layout.gather_on_root(dataset.labels)

        def draw(_: MPI.Comm) -> None:
            if pictures and comm.rank == 0:
                draw_run(directory.path, self.configuration, dataset, labels)
            if frames is not None and comm.rank == 0:
                frames.draw(directory, labels)

        if failure := attempted(comm, draw, "the pictures"):
            result = replace(result, notes=(*result.notes, failure))
            directory.write_summary(comm, result, self.facts)
        return result


def _measured(result: Result, dataset: Dataset | None, objective: Objective) -> Result:
    """The result with the metrics of plugins, and notes on those that failed."""
    solution, layout, comm = result.solution, result.solution_layout, objective.comm
    if solution is None or layout is None:
        return result
    # A replicated solution with a row for each of the data is distributed as they are.
    if dataset is not None and layout.replicated and len(solution) == dataset.layout.rows:
        solution = dataset.layout.local(solution)
    metrics, notes = dict(result.metrics), list(result.notes)

    def measure(own: MPI.Comm) -> None:
        shared = dataset
        if dataset is not None:
            rows = dataset.layout.with_columns(dataset.layout.columns)
            rows.comm = own
            shared = replace(dataset, layout=rows)
        also = {"objective": objective} if spec.objective else {}
        measures.update(spec.resolve()(read_only(solution), shared, own, **also))
        as_json(measures)  # raises what result.json cannot hold

    for spec in plugins().specs(MetricSpec):
        if dataset is None and spec.data == "required":
            continue
        measures: dict[str, Any] = {}
        if failure := attempted(comm, measure, spec.origin):
            notes.append(failure)
            continue
        for name in sorted(measures.keys() & metrics):
            notes.append(f"{spec.origin} measures '{name}' too, which is left out")
        metrics = measures | metrics
    return replace(result, metrics=metrics, notes=tuple(notes))


@contextmanager
def opened_run(
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
    with watched(settings["watchdog"]), command_line_options(settings["petsc"]):
        if several and not configuration.methods:
            raise InputError("a comparison needs [[method]] tables")
        if configuration.methods and not several:
            raise InputError("[[method]] tables are for 'thalweg compare'; a run has one [solver]")
        folder = out if out is not None else configuration.output["dir"]
        directory = None if folder is None else RunDirectory(folder, resumable=not several)
        first, *others = (one or "none" for one in comm.allgather(plugins().signature()))
        for rank, other in enumerate(others, 1):
            if other != first:
                raise PluginError(
                    f"rank {rank} has other plugins than rank 0: {other} against {first}"
                )
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


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """A block in which :func:`expect_life` holds from its beginning on."""
    expect_life(seconds)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def expect_life(seconds: float) -> None:
    """End this rank, and by it the job, unless this is called again within so many seconds.

    The stacks of its threads go to stderr, and the process ends with code 1, upon which the
    launcher ends the others, before or after they tell where they stand; also where a library
    keeps Python's lock.  0 switches it off.
    """
    if seconds > 0:
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or 2)


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
    if not (values := _petsc_options(text)):
        yield
        return
    from thalweg.parallel import temporary_options

    with temporary_options("", values):
        yield


def unused_petsc_options(text: str | None, comm: MPI.Comm) -> list[str]:
    """A note on those that no rank used so far, if there are such.  Collective."""
    if not (values := _petsc_options(text)):
        return []
    from thalweg.parallel import unused_options

    names = set.intersection(*map(set, comm.allgather(unused_options(values))))
    listed = ", ".join(f"-{name}" for name in values if name in names)
    return [f"options of run.petsc that nothing used: {listed}"] if names else []


def _petsc_options(text: str | None) -> dict[str, str]:
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
    return values


def attempted(comm: MPI.Comm, action: Callable[[MPI.Comm], object], name: str) -> str:
    """Run code of others; how it failed, the same sentence on all ranks, else "".  Collective.

    It is given a duplicate of ``comm``, since messages of a rank that fails may stay there.  Where
    the others wait for that rank the job ends, as in :func:`abort_on_error`.
    """
    own, text = comm.Dup(), ""
    try:
        with abort_on_error(comm):
            action(own)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"{name} failed: {reason(error)}"
    text = comm.bcast(text, root=0)
    if not text:
        own.Free()
    return text

"""Several methods on one objective from one starting point."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from thalweg.errors import NumericalError
from thalweg.interfaces import Homotopy, Objective, Preconditioner
from thalweg.parallel import MPI, Array, abort_on_error, collective_call, on_root
from thalweg.parallel.threads import restored_thread_limits
from thalweg.result import Result, Status
from thalweg.workbench.report import comparison_rows, draw_convergence, format_table, search_seconds
from thalweg.workbench.run.directory import MARKS, RunDirectory, summary
from thalweg.workbench.run.single_run import Job, attempted, build_objective, digests, opened_run
from thalweg.workbench.strict_json import as_json


@collective_call(lambda *_, comm=None, **__: comm or MPI.COMM_WORLD)
@restored_thread_limits()
def compare(
    config: Path | str | Mapping[str, Any],
    out: Path | str | None = None,
    *,
    changes: Sequence[str] = (),
    quiet: bool = True,
    comm: MPI.Comm | None = None,
) -> dict[str, Result]:
    """Run every ``[[method]]`` of a configuration on the same objective.  Collective.

    The folder gets a run directory for each method, ``comparison.json``,
    ``comparison.md`` and ``convergence.png``.  Gives the result of each by its label.
    """
    comm = MPI.COMM_WORLD if comm is None else comm
    with opened_run(config, out, changes, comm, several=True) as (configuration, directory, facts):
        dataset, objective = build_objective(configuration, comm)
        facts["digests"] = digests(dataset)
        results: dict[str, Result] = {}

        def minimized(label: str, job: Job, _: MPI.Comm) -> None:
            results[label] = result = job.minimized(quiet=quiet)
            if job.directory is not None:
                job.directory.write_result(comm, result, facts)

        folders = method_folders([method.label for method in configuration.methods])
        with abort_on_error(comm):
            jobs = {}
            for method in configuration.methods:
                # All folders before any method runs: a refusal must not cost a result.
                part = None if directory is None else directory.part(folders[method.label])
                own = configuration.with_method(method)
                jobs[method.label] = Job(own, dataset, objective, part, facts)
            if directory is not None:
                on_root(comm, lambda: directory.claim(configuration, False))
            failures: list[str] = []
            for label, job in _on_equal_terms(jobs, objective, configuration.run["seed"]):
                if failure := attempted(comm, partial(minimized, label, job), f"method '{label}'"):
                    failures.append(failure)
                elif results[label].status is Status.INTERRUPTED:
                    break
        if not results:
            raise NumericalError("; ".join(failures))

        def write() -> None:
            if directory is not None:
                _write_comparison(directory, results, folders, facts | {"failures": failures})

        # Metrics and pictures that fail must not cost the results of any method; a comparison that
        # a signal stopped is given no time for them.
        on_root(comm, write)
        if any(result.status is Status.INTERRUPTED for result in results.values()):
            return results
        results = {label: jobs[label].completed(result) for label, result in results.items()}
        on_root(comm, write)
        if directory is not None and configuration.output["pictures"]:
            traces = {label: result.trace for label, result in results.items()}
            file, title = directory.path / "convergence.png", configuration.objective["name"]
            draw = partial(draw_convergence, file, traces, title)
            if failure := attempted(comm, lambda _: comm.rank == 0 and draw(), "the pictures"):
                failures.append(failure)
        label, last = list(results.items())[-1]
        results[label] = replace(last, notes=(*last.notes, *failures))
        return results


def _on_equal_terms(
    jobs: Mapping[str, Job], objective: Objective, seed: int
) -> Iterator[tuple[str, Job]]:
    """One method after the other, with what it is compared by."""
    # Kernels are compiled at their first use: the first method must not pay for all.
    x = objective.initial_point(seed)
    objective.value(x)
    gradient = objective.value_and_gradient(x)[1]
    parts = [job.solver.preconditioner for job in jobs.values()]
    for part in {type(part): part for part in parts}.values():
        if part is not None:  # one that fails does so in its method again
            attempted(objective.comm, partial(_warm, part, objective, x, gradient), "")
    own: Any = getattr(objective, "homotopy_parameter", None)
    state = objective.state()
    for label, job in jobs.items():
        if isinstance(objective, Homotopy):
            objective.homotopy_parameter = own
        objective.restore(state)
        yield label, job


def _warm(part: Preconditioner, objective: Objective, x: Array, rows: Array, _: MPI.Comm) -> None:
    part.setup(objective, x)
    part.update(x)
    part.apply(rows)
    part.close()


#: Facts on a result that the table of a comparison leaves to that of the run.
OF_RUN = ("message", "seconds", "notes", "versions")


def _write_comparison(
    directory: RunDirectory,
    results: Mapping[str, Result],
    folders: Mapping[str, str],
    facts: Mapping[str, Any],
) -> None:
    methods = [
        {
            "method": label,
            "folder": folders[label],
            **{key: value for key, value in summary(result).items() if key not in OF_RUN},
            "seconds": result.seconds["total"],
            "search_seconds": search_seconds(result),
        }
        for label, result in results.items()
    ]
    table = format_table(comparison_rows(results), markdown=True)
    directory.write_text("comparison.md", "\n\n".join([table, *facts["failures"]]) + "\n")
    content = {"methods": methods, "compared": list(next(iter(results.values())).compared), **facts}
    directory.write_text("comparison.json", as_json(content) + "\n")


#: Longest name of a folder; file systems take 255 bytes.
LONGEST = 100


def method_folders(labels: Sequence[str]) -> dict[str, str]:
    """A folder name for each label, all different, also where capitals do not count.

    Characters outside ASCII and signs become hyphens; a number tells labels apart that
    then are the same.
    """
    folders: dict[str, str] = {}
    taken = set(MARKS)
    for label in labels:
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", label)[:LONGEST].strip("-.") or "method"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        folders[label] = name
    return folders

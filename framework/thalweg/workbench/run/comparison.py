"""Several methods on one objective from one starting point."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from thalweg.files import atomic_write_text
from thalweg.interfaces import Homotopy, Objective
from thalweg.parallel import MPI, collective_call, on_root
from thalweg.parallel.failures import abort_on_error, attempted
from thalweg.parallel.threads import restored_thread_limits
from thalweg.result import Result, Status
from thalweg.workbench.config import Configuration
from thalweg.workbench.report import (
    comparison_rows,
    draw_convergence,
    format_table,
    search_seconds,
)
from thalweg.workbench.run.configured_parts import build_objective, built_method, digests, opened
from thalweg.workbench.run.directory import MARKS, RunDirectory, summary
from thalweg.workbench.run.pictures import draw_compared
from thalweg.workbench.run.single_run import completed, frames_for, run_method


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
    ``comparison.md`` and ``convergence.png``; where the objective names two metrics by which
    methods are compared, also ``comparison.png``.

    Returns
    -------
    dict
        Result of each method, by its label.

    Raises
    ------
    InputError
        Something in the configuration or the data cannot be used.
    """
    comm = MPI.COMM_WORLD if comm is None else comm
    with opened(config, out, changes, comm, several=True) as (configuration, directory, facts):
        dataset, objective = build_objective(configuration, comm)
        facts = {**facts, "digests": digests(dataset)}
        results: dict[str, Result] = {}
        folders = method_folders([method.label for method in configuration.methods])
        runs: dict[str, tuple[Any, ...]] = {}
        with abort_on_error(comm):
            solvers = {
                method.label: built_method(configuration.with_method(method), objective)
                for method in configuration.methods
            }
            parts = {}
            if directory is not None:
                # All folders before any method runs: a refusal must not cost a result.
                parts = {label: directory.part(name) for label, name in folders.items()}
                on_root(comm, lambda: directory.claim(configuration, False))
            _warm_up(objective, configuration.run["seed"])
            own = objective.homotopy_parameter if isinstance(objective, Homotopy) else None
            for method in configuration.methods:
                one = configuration.with_method(method)
                sub = parts.get(method.label)
                if own is not None:
                    assert isinstance(objective, Homotopy)
                    objective.homotopy_parameter = own
                frames = frames_for(one, objective, sub)
                result = run_method(
                    one, dataset, objective, solvers[method.label], sub, frames, quiet=quiet
                )
                results[method.label] = result
                if sub is not None:
                    sub.write_result(comm, result, facts)
                runs[method.label] = (sub, one, dataset, result, frames, facts)
                if result.status is Status.INTERRUPTED:
                    break

        def write() -> None:
            if directory is not None:
                _write_comparison(directory, results, folders, facts)

        # Metrics and pictures that fail must not cost the results of any method; a comparison that
        # a signal stopped is given no time for them.
        on_root(comm, write)
        if any(result.status is Status.INTERRUPTED for result in results.values()):
            return results
        results = {label: completed(comm, *runs[label]) for label in results}
        on_root(comm, write)
        if directory is not None and configuration.output["pictures"]:
            _draw(comm, directory, configuration, results)
        return results


#: Facts on a result that the table of a comparison leaves to that of the run.
OF_RUN = ("message", "seconds", "notes", "versions")


def _warm_up(objective: Objective, seed: int) -> None:
    # Kernels are compiled at their first use: the first method must not pay for all.
    x = objective.initial_point(seed)
    objective.value(x)
    objective.value_and_gradient(x)


def _write_comparison(
    directory: RunDirectory,
    results: Mapping[str, Result],
    folders: Mapping[str, str],
    facts: Mapping[str, Any],
) -> None:
    rows = comparison_rows(results)
    compared = next(iter(results.values())).compared
    methods = [
        {
            "method": label,
            "folder": folders[label],
            **{key: value for key, value in summary(result).items() if key not in OF_RUN},
            "seconds": result.seconds["total"],
            "search_seconds": float(search_seconds(result)),
        }
        for label, result in results.items()
    ]
    atomic_write_text(directory.path / "comparison.md", format_table(rows, markdown=True) + "\n")
    content = {"methods": methods, "compared": list(compared), **facts}
    directory.write_json("comparison.json", content)


def _draw(
    comm: MPI.Comm,
    directory: RunDirectory,
    configuration: Configuration,
    results: dict[str, Result],
) -> None:
    """Draw the convergence of all; what fails becomes a note of the last.  Collective."""

    def draw() -> None:
        traces = {label: result.trace for label, result in results.items()}
        path = directory.path / "convergence.png"
        draw_convergence(path, traces, title=configuration.objective["name"])
        draw_compared(directory.path)

    failure = attempted(comm, lambda _: draw() if comm.rank == 0 else None, "the pictures")
    if failure:
        last = list(results)[-1]
        results[last] = replace(results[last], notes=(*results[last].notes, failure))


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

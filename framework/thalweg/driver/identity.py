"""Identity of a checkpoint: what a resumed run has in common with the one that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.driver.homotopy import HomotopySchedule
from thalweg.interfaces import Objective, Preconditioner, Solver
from thalweg.parallel import Array
from thalweg.parallel.identity import identity_texts
from thalweg.plugins import ObjectiveSpec, PreconditionerSpec, Provider, SolverSpec, plugins


def identity_of(
    objective: Objective,
    solver: Solver[Any],
    homotopy: HomotopySchedule | None,
    start: Mapping[str, Any],
) -> dict[str, Any]:
    """Identity of a run, as flat ``{"part.option": value}``; ``start`` from :func:`start_of`.

    Collective.  Stopping rules are left out: a run may continue with a larger budget.
    """
    return {
        **objective_identity(objective),
        **plugin_versions(objective, solver),
        **identity_texts(objective.comm, {"solver": solver, "homotopy": homotopy})[0],
        **start,
    }


def objective_identity(objective: Objective) -> dict[str, Any]:
    """Identity of a problem and its data.  Collective; what cannot be digested is noted."""
    content = {"objective": {"layout": objective.layout, **objective.identity()}}
    texts, unseen = identity_texts(objective.comm, content)
    if unseen:
        objective.note(
            "a checkpoint of another problem is not recognized as such where it differs in "
            f"{', '.join(unseen)} alone, which cannot be digested; override identity() of the "
            "objective, or give it arrays"
        )
    return {**texts, "objective": type(objective).__qualname__}


def plugin_versions(objective: Objective, solver: Solver[Any]) -> dict[str, str]:
    """Distribution and version that each part comes from, empty for what is no plugin's.

    Their arithmetic may differ from that of another version.
    """
    by_package: dict[str, Provider] = {}
    for kind in (ObjectiveSpec, PreconditionerSpec, SolverSpec):
        for spec in plugins().specs(kind):
            by_package[spec.load.partition(":")[0].partition(".")[0]] = plugins().provider(spec)
    parts = {"objective": objective, "solver": solver, "preconditioner": preconditioner_of(solver)}
    found = {}
    for role, part in parts.items():
        provider = by_package.get(type(part).__module__.partition(".")[0])
        name = "" if provider is None else f"{provider.distribution} {provider.version}"
        found[f"{role} distribution"] = name
    return found


def start_of(objective: Objective, x: Array, given: bool, seed: int) -> dict[str, Any]:
    """Identity of the starting point ``x``, the same on any number of ranks.

    A point that the objective made is identified by its seed: its last bits may depend on the
    number of ranks.  Collective.
    """
    if not given:
        return {"seed": seed}
    return {"start": objective.layout.digest(x)}


def preconditioner_of(solver: Solver[Any]) -> Preconditioner | None:
    """The preconditioner inside a solver, None if it takes or has none."""
    return solver.preconditioner if solver.preconditioned else None


def name_of(part: object) -> str | None:
    """Name of a solver or a preconditioner in a checkpoint."""
    return None if part is None else type(part).__qualname__

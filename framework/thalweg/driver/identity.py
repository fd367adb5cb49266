"""Identity of a checkpoint: what a resumed run has in common with the one that wrote it."""

from typing import Any

from thalweg.interfaces import Objective, Solver
from thalweg.parallel.identity import identity_texts
from thalweg.plugins import ObjectiveSpec, PreconditionerSpec, Provider, SolverSpec, plugins


def objective_identity(objective: Objective, **parts: Any) -> dict[str, Any]:
    """Identity of a problem, its data and method, as flat ``{"part.option": value}``.  Collective.

    Stopping rules are left out: a run may continue with a larger budget.  What cannot be digested
    is noted.
    """
    content = {"objective": {"layout": objective.layout, **objective.identity()}, **parts}
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
    parts = {"objective": objective, "solver": solver, "preconditioner": solver.preconditioner}
    versions = {}
    for role, part in parts.items():
        provider = by_package.get(type(part).__module__.partition(".")[0])
        name = "" if provider is None else f"{provider.distribution} {provider.version}"
        versions[f"{role} distribution"] = name
    return versions

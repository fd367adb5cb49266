"""Identity of a checkpoint: what a resumed run has in common with the one that wrote it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from thalweg.driver.homotopy import HomotopySchedule
from thalweg.interfaces import Objective, Preconditioner, Solver
from thalweg.parallel import PETSc
from thalweg.plugins import ObjectiveSpec, PreconditionerSpec, Provider, SolverSpec, plugins


def identity_of(
    objective: Objective,
    solver: Solver[Any],
    homotopy: HomotopySchedule | None,
    start: Mapping[str, Any],
) -> dict[str, Any]:
    """Identity of a run, as flat ``{"part.option": value}``.  Collective.

    Stopping rules are left out: a run may continue with a larger budget.

    Parameters
    ----------
    start
        Identity of the starting point, as of :func:`start_of`.
    """
    return {
        "objective": objective.fingerprint(),
        **plugin_versions(objective, solver),
        **_described("solver", solver),
        **_described("preconditioner", preconditioner_of(solver)),
        "homotopy": None if homotopy is None else _plain(homotopy),
        **start,
    }


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


def start_of(objective: Objective, x: PETSc.Vec, given: bool, seed: int) -> dict[str, Any]:
    """Identity of the starting point ``x``, the same on any number of ranks.

    A point that the objective made is identified by its seed: its last bits may depend on the
    number of ranks.  Collective.
    """
    if not given:
        return {"seed": seed}
    return {"x0": objective.layout.digest(objective.layout.reading(x))}


def digest_of(array: np.ndarray) -> str:
    """Sixteen hexadecimal digits that tell one array from another."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def preconditioner_of(solver: Solver[Any]) -> Preconditioner | None:
    """The preconditioner inside a solver, None if it takes or has none."""
    return solver.preconditioner if solver.preconditioned else None


def name_of(part: object) -> str | None:
    """Name of a solver or a preconditioner in a checkpoint."""
    return None if part is None else type(part).__qualname__


def _described(role: str, part: object) -> dict[str, Any]:
    """Type of a part, and its options where it is a dataclass."""
    options = {f"{role}.{key}": value for key, value in _options(part).items()}
    return {role: name_of(part), **options}


def _options(part: object) -> dict[str, Any]:
    if not dataclasses.is_dataclass(part):
        return {}
    names = [field.name for field in dataclasses.fields(part) if field.init]
    return {name: _plain(getattr(part, name)) for name in names if name != "preconditioner"}


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; of what is no option of a simple kind, the type."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if dataclasses.is_dataclass(value):
        return {"type": name_of(value), **_options(value)}
    return name_of(value)

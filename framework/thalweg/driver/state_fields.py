"""The fields of a solver's state: which are saved, and how saved ones are put back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from thalweg.errors import CheckpointError, suggestion
from thalweg.interfaces import SolverState
from thalweg.parallel import PETSc


def state_fields(state: SolverState) -> dict[str, Any]:
    """The fields of a state that are saved, by name."""
    return {
        item.name: getattr(state, item.name)
        for item in fields(state)
        if not item.metadata.get("transient")
    }


def restore_state(state: SolverState, saved: Mapping[str, Any]) -> None:
    """Put saved fields in place of those that ``init`` made.

    Raises
    ------
    CheckpointError
        The solver's state has other fields than the one saved.
    """
    own = state_fields(state)
    for name in saved:
        if name not in own:
            raise CheckpointError(
                f"the checkpoint has a field '{name}' that the solver's state lacks"
                f"{suggestion(name, own)}"
            )
    missing = [name for name in own if name not in saved]
    if missing:
        raise CheckpointError(
            f"the checkpoint lacks the field '{missing[0]}' of the solver's state"
        )
    keep = {id(vec) for vec in vecs_in(dict(saved))}
    for vec in vecs_in(own):
        if id(vec) not in keep:
            vec.destroy()
    for name, value in saved.items():
        setattr(state, name, value)


def vecs_in(value: Any) -> list[PETSc.Vec]:
    """Every vector in nested lists, tuples and dicts, each once."""
    found: dict[int, PETSc.Vec] = {}

    def walk(item: Any) -> None:
        if isinstance(item, PETSc.Vec):
            found[id(item)] = item
        elif isinstance(item, Mapping):
            for entry in item.values():
                walk(entry)
        elif isinstance(item, list | tuple):
            for entry in item:
                walk(entry)

    walk(value)
    return list(found.values())

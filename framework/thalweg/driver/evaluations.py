"""Evaluations that are compared between ranks, and reported to the watchdog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from thalweg.interfaces import Objective
from thalweg.parallel import PETSc, beat, phase, same_on_all_ranks


@contextmanager
def checked_evaluations(objective: Objective) -> Iterator[None]:
    """While the block runs, compare what the objective gives over the ranks.

    A value that is not the same on all ranks, and in a replicated variable a gradient whose
    norm is not, would send the ranks different ways, and leave them waiting for each other.

    Raises
    ------
    NumericalError
        On all ranks, by an evaluation whose value differs between ranks.
    """
    value, value_and_gradient = objective.value, objective.value_and_gradient
    replicated = objective.layout.replicated

    def checked_value(x: PETSc.Vec) -> float:
        with phase("evaluate"):
            found = value(x)
        beat()
        return same_on_all_ranks(objective.comm, [found], "the objective's value")[0]

    def checked_value_and_gradient(x: PETSc.Vec, gradient: PETSc.Vec) -> float:
        with phase("evaluate"):
            found = [value_and_gradient(x, gradient)]
        beat()
        if replicated and objective.comm.size > 1:
            found.append(gradient.norm())
        what = "the objective's value, or the norm of its gradient,"
        return same_on_all_ranks(objective.comm, found, what)[0]

    with (
        _replaced(objective, "value", checked_value),
        _replaced(objective, "value_and_gradient", checked_value_and_gradient),
    ):
        yield


@contextmanager
def _replaced(objective: Any, name: str, function: Callable[..., float]) -> Iterator[None]:
    outer = vars(objective).get(name)
    setattr(objective, name, function)
    try:
        yield
    finally:
        if outer is None:
            delattr(objective, name)
        else:
            setattr(objective, name, outer)

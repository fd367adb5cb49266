"""Evaluations that are compared between ranks, checked, and reported to the watchdog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from thalweg.errors import NumericalError
from thalweg.interfaces import Objective, Preconditioner, RowObjective
from thalweg.parallel import Vector, phase
from thalweg.parallel.reductions import same_on_all_ranks
from thalweg.parallel.watchdog import beat

#: A NaN of its own, which output that a function is to overwrite holds before the call.
UNWRITTEN = np.uint64(0x7FF8_1DEA_0000_0001)

#: Products that an objective may offer.
PRODUCTS = ("hessian_product", "gauss_newton_product")


@contextmanager
def checked_evaluations(
    objective: Objective, preconditioner: Preconditioner | None = None
) -> Iterator[None]:
    """While the block runs, compare what the objective gives over the ranks.

    A value that is not the same on all ranks, and in a replicated variable a gradient whose
    norm is not, would send the ranks different ways, and leave them waiting for each other.
    A replicated variable is evaluated where rank 0 has it: steps have other last bits on other
    processors.
    Gradients, products and the preconditioner's solutions must be written whole.

    Raises
    ------
    NumericalError
        On all ranks, by an evaluation whose value differs between ranks; on a rank where an entry
        of a gradient, a product or a solution is left as it was.
    """
    method = "value_and_gradient"
    name = f"rows_{method}" if isinstance(objective, RowObjective) else method
    value_and_gradient = _overwriting(objective, objective, method, name)
    what = "the objective's value"
    several = objective.layout.replicated and objective.comm.size > 1

    def agree_on(x: Vector) -> None:
        first = np.array(x.rows)
        objective.comm.Bcast(first)
        if x.rows.flags.writeable and not np.array_equal(first, x.rows, equal_nan=True):
            x.rows[...] = first

    def compared(function: Callable[..., float], what: str) -> Callable[..., float]:
        def call(x: Vector, *gradient: Vector) -> float:
            if several:
                agree_on(x)
            with phase("evaluate"):
                found = [function(x, *gradient)]
            beat()
            if gradient and several:
                found.append(gradient[0].norm())
            return same_on_all_ranks(objective.comm, found, what)[0]

        return call

    with ExitStack() as stack:
        stack.enter_context(_replaced(objective, "value", compared(objective.value, what)))
        checked = compared(value_and_gradient, f"{what}, or the norm of its gradient,")
        stack.enter_context(_replaced(objective, method, checked))
        outputs = [(objective, product) for product in PRODUCTS if hasattr(objective, product)]
        for owner, output in (*outputs, (preconditioner, "apply")):
            if owner is not None:
                checked = _overwriting(objective, owner, output, output)
                stack.enter_context(_replaced(owner, output, checked))
        yield


def _overwriting(objective: Objective, owner: Any, method: str, name: str) -> Callable[..., Any]:
    """A method that is to overwrite its last argument, and fails where it does not."""
    function, layout = getattr(owner, method), objective.layout

    def checked(*vecs: Vector) -> Any:
        with layout.writing(vecs[-1]) as rows:
            rows[...] = UNWRITTEN.view(float)
        answer = function(*vecs)
        rows = layout.reading(vecs[-1])
        with np.errstate(invalid="ignore"):
            suspect = np.isnan(rows.sum())
        if suspect and (rows.view(np.uint64) == UNWRITTEN).any():
            what = "gradient" if owner is objective and method not in PRODUCTS else "result"
            raise NumericalError(
                f"{type(owner).__name__}.{name} does not overwrite all entries of the {what} that "
                "it is given, as by `gradient[...] = ...`"
            )
        return answer

    return checked


@contextmanager
def _replaced(objective: Any, name: str, function: Callable[..., float]) -> Iterator[None]:
    outer = vars(objective).get(name)
    object.__setattr__(objective, name, function)  # it may be a frozen dataclass
    try:
        yield
    finally:
        if outer is None:
            object.__delattr__(objective, name)
        else:
            object.__setattr__(objective, name, outer)

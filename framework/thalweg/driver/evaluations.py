"""Evaluations that are compared between ranks, and checked."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import Array, Layout, phase
from thalweg.parallel.reductions import same_on_all_ranks

#: Methods whose answers are arrays like the variable, where there are such.
PRODUCTS = ("hessian_product", "gauss_newton_product", "hessian_diagonal")


@dataclass
class Evaluations:
    """What was seen of a run's evaluations.

    Attributes
    ----------
    count
        How many there were of the value.
    unbounded_at, lost_at
        Count at the last value that was minus infinity, and not finite; 0 if none was.
    """

    count: int = 0
    unbounded_at: int = 0
    lost_at: int = 0

    def is_late(self, at: int) -> bool:
        """Whether that is in the second half of the run: a wild first step is none of its end."""
        return 2 * at > self.count


@contextmanager
def checked_evaluations(
    objective: Objective, preconditioner: Preconditioner | None = None
) -> Iterator[Evaluations]:
    """While the block runs, compare what the objective gives over the ranks.

    A value that is not the same on all ranks, and in a replicated variable a gradient whose norm is
    not, would send the ranks different ways, and leave them waiting for each other: all raise a
    ``NumericalError``.  What is no number, or no array of this rank's rows, is a ``TypeError``.  A
    replicated variable is evaluated where rank 0 has it: steps have other last bits on other
    processors.  What is given cannot be written into, and what is returned is copied: a state holds
    both, and the objective may have more names for its array.
    """
    layout, kind = objective.layout, type(objective).__name__
    value, value_and_gradient = objective.value, objective.value_and_gradient
    if type(objective).value is Objective.value:
        value = lambda x: value_and_gradient(x)[0]  # noqa: E731
    several = layout.replicated and objective.comm.size > 1
    evaluations = Evaluations()

    def agreed(numbers: list[float], what: str) -> float:
        number = same_on_all_ranks(objective.comm, numbers, what)[0]
        evaluations.count += 1
        if not math.isfinite(number):
            evaluations.lost_at = evaluations.count
        if number == -math.inf:
            evaluations.unbounded_at = evaluations.count
        return number

    def prepare(x: Array) -> None:
        if several:
            first = np.array(x)
            objective.comm.Bcast(first)
            if x.flags.writeable and not np.array_equal(first, x, equal_nan=True):
                x[...] = first
        x.flags.writeable = False

    def checked_value(x: Array) -> float:
        prepare(x)
        with phase("evaluate"):
            number = _number(value(x), f"{kind}.value")
        return agreed([number], "the objective's value")

    def checked_value_and_gradient(x: Array) -> tuple[float, Array]:
        prepare(x)
        name = f"{kind}.value_and_gradient"
        with phase("evaluate"):
            answer = value_and_gradient(x)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(
                f"{name} must return the objective's value and its gradient, not {_said(answer)}"
            )
        number = _number(answer[0], name)
        gradient = _rows(answer[1], layout, f"{name}: the gradient")
        gradient.flags.writeable = False
        numbers = [number, layout.norm(gradient)] if several else [number]
        return agreed(numbers, "the objective's value, or the norm of its gradient,"), gradient

    with ExitStack() as stack:
        stack.enter_context(_replaced(objective, "value", checked_value))
        stack.enter_context(_replaced(objective, "value_and_gradient", checked_value_and_gradient))
        products = [(objective, name) for name in PRODUCTS if hasattr(objective, name)]
        for owner, name in (*products, (preconditioner, "apply")):
            if owner is not None:
                stack.enter_context(_replaced(owner, name, _checked_rows(owner, name, layout)))
        yield evaluations


def _checked_rows(owner: Any, name: str, layout: Layout) -> Callable[..., Array]:
    function, said = getattr(owner, name), f"{type(owner).__name__}.{name}: the answer"
    if isinstance(function, partial) and function.func is _checked_answer:
        function = function.args[0]  # of a run around this one, maybe on another layout
    return partial(_checked_answer, function, layout, said)


def _checked_answer(
    function: Callable[..., Any], layout: Layout, said: str, *arrays: Array
) -> Array:
    return _rows(function(*map(read_only, arrays)), layout, said)


def _rows(answer: Any, layout: Layout, said: str) -> Array:
    rows = np.asarray(answer) if hasattr(answer, "__array__") else np.empty(0, dtype=object)
    if np.ma.is_masked(answer):
        raise TypeError(f"{said} has masked entries; fill them in")
    if rows.shape != layout.shape or rows.dtype.kind not in "fiu":
        raise TypeError(
            f"{said} must be an array of shape {layout.shape}, the rows of this rank, not "
            f"{_said(answer)}"
        )
    return np.array(rows, dtype=float, order="C")


def read_only(array: Array) -> Array:
    """A view that cannot be written into."""
    view = array.view()
    view.flags.writeable = False
    return view


def _number(value: Any, said: str) -> float:
    refused = value is None or isinstance(value, bool | np.bool_ | str | tuple)
    if refused or np.iscomplexobj(value):  # float() would drop the imaginary part
        raise TypeError(f"{said} must return the objective's value, a number, not {_said(value)}")
    return float(value)


def _said(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"one of shape {answer.shape} and type {answer.dtype}"
    return (
        repr(answer) if answer is None or isinstance(answer, str) else f"a {type(answer).__name__}"
    )


@contextmanager
def _replaced(objective: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    outer = vars(objective).get(name)
    object.__setattr__(objective, name, function)  # it may be a frozen dataclass
    try:
        yield
    finally:
        if outer is None:
            object.__delattr__(objective, name)
        else:
            object.__setattr__(objective, name, outer)

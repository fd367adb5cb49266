"""The objective: what is minimized."""

from __future__ import annotations

import inspect
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from thalweg.engines.laplacian import AttractiveLaplacian
from thalweg.parallel import MPI, Identified, Layout, Vector

_LOG = logging.getLogger("thalweg")

#: Rounding units of a value that :meth:`Objective.value_error` takes it to be wrong by.
ROUNDING_UNITS = 8


class HasNotes:
    """Something that records what it decided, for ``result.notes`` and ``result.json``."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences given to :meth:`note`, in that order, each once."""
        return tuple(self.__dict__.get("_notes", ()))

    def note(self, sentence: str) -> None:
        """Add a sentence to :attr:`notes`, unless it is one of them.

        All ranks must add the same.
        """
        # Not set by a constructor, which subclasses need not call and dataclasses replace.
        notes = self.__dict__.setdefault("_notes", [])
        if sentence not in notes:
            notes.append(sentence)


class Objective(HasNotes, Identified, ABC):
    """A function of a distributed variable, with its gradient.

    The variable is a ``Vector`` laid out by :attr:`layout`: distributed by
    rows, or, on ``COMM_SELF``, replicated.  A value must be the same number on
    every rank of :attr:`comm`; all methods but the properties are collective.

    An objective offers more by also inheriting the capabilities in
    :mod:`thalweg.interfaces.homotopy`.  Authors who would rather see NumPy
    arrays than vectors inherit :class:`RowObjective`.

    Parameters
    ----------
    comm
        The ranks that work together; kept as :attr:`comm`.
    layout
        Shape and distribution of the variable; kept as :attr:`layout`.
    """

    #: Name of the solver that is taken where the user names none, the same as in the spec.
    default_solver: ClassVar[str] = "lbfgs"

    #: Positional and named arguments of the constructor.
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    #: Names of the metrics by which methods are compared beside the value: columns of the table
    #: of a comparison, which draws the second against the first.
    compared_metrics: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Record the arguments, by which a checkpoint is told from that of other data."""
        objective = super().__new__(cls)
        objective._arguments = args, kwargs
        return objective

    def __init__(self, comm: MPI.Comm, layout: Layout) -> None:
        self.comm = comm
        self.layout = layout

    @property
    def default_preconditioner(self) -> str:
        """Name of the preconditioner that is taken where the user names none.

        By default ``"spectral"`` with an attractive Laplacian, else ``"identity"``; the
        same as in the spec.
        """
        return "spectral" if isinstance(self, AttractiveLaplacian) else "identity"

    @property
    def default_stop(self) -> Mapping[str, Any]:
        """Stopping rules that hold where the user gives none of their names.

        For instance ``{"decrease": 5e-3}``; the same as in the spec.  By default none.
        """
        return {}

    @property
    def terms(self) -> float:
        """Terms, of a few nanoseconds each, that an evaluation sums on a rank; the same on all.

        Where they are few, a run has one thread (``parallel.threads.threads_for``).  By
        default infinite: it has all.
        """
        return math.inf

    @abstractmethod
    def initial_point(self, seed: int) -> Vector:
        """A new vector to start from; the same for a seed at any number of ranks."""

    @abstractmethod
    def value(self, x: Vector) -> float:
        """Objective at ``x``."""

    @abstractmethod
    def value_and_gradient(self, x: Vector, gradient: Vector) -> float:
        """Objective at ``x``; its gradient overwrites ``gradient``."""

    def length_scale(self, x: Vector) -> float | None:
        """Typical length of the variable, for step caps; None where it has no meaning."""
        return None

    def metrics(self, x: Vector) -> Mapping[str, Any]:
        """Measures of a final iterate, for ``result.json``; by default none."""
        return {}

    def value_error(self, value: float) -> float:
        """Estimate of the absolute error of a value that the objective returned.  Not collective.

        Line searches and stopping rules take smaller differences of values for noise.
        By default a few rounding units; an objective that approximates says more.  It
        must be the same on all ranks.

        Parameters
        ----------
        value
            What :meth:`value` or :meth:`value_and_gradient` returned.
        """
        return ROUNDING_UNITS * float(np.finfo(float).eps) * abs(value)

    def solution(self, x: Vector) -> np.ndarray:
        """This rank's rows of the answer that the user asked for; by default of ``x`` itself.

        Returns
        -------
        ndarray, shape (n_local, k)
            Rows as :attr:`solution_layout` distributes them; where that is replicated,
            the same array on all ranks, with any number of rows.
        """
        return np.array(self.layout.reading(x))

    @property
    def solution_layout(self) -> Layout:
        """Distribution of the rows of :meth:`solution`; by default that of the variable."""
        return self.layout

    def note(self, sentence: str) -> None:
        """Add a sentence to the notes of every run of this objective, and log it on rank 0.

        All ranks must add the same.
        """
        if sentence not in self.notes and self.comm.rank == 0:
            _LOG.warning(sentence)
        super().note(sentence)

    def identity(self) -> dict[str, Any]:
        """What tells this problem from others of its class; by default the constructor's arguments.

        Nested arrays, data sets, numbers, strings, functions, dataclasses, ``Identified``.  A
        checkpoint holds digests, and is refused where they differ.  May be collective.
        """
        args, kwargs = self._arguments
        bound = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
        bound.apply_defaults()
        return dict(list(bound.arguments.items())[1:])


class RowObjective(Objective):
    """An objective written with NumPy: it sees this rank's rows, without a copy.

    Subclasses define :meth:`rows_value_and_gradient`, and :meth:`rows_value`
    where a value alone is cheaper.  Both are called on all ranks together and
    must return the *global* value (see :func:`thalweg.parallel.sum_over_ranks`).
    """

    @abstractmethod
    def rows_value_and_gradient(self, rows: np.ndarray, gradient: np.ndarray) -> float:
        """Objective; its gradient with respect to ``rows`` overwrites ``gradient``.

        Parameters
        ----------
        rows
            Read-only view, shape ``(local_rows, columns)``, float64.
        gradient
            Writable view of the same shape.
        """

    def rows_value(self, rows: np.ndarray) -> float:
        """Objective at the point whose local rows are ``rows``."""
        return self.rows_value_and_gradient(rows, np.empty_like(rows))

    def initial_point(self, seed: int) -> Vector:
        """Standard normal numbers, the same at any number of ranks."""
        return self.layout.vec_from(self.layout.random_normal(seed))

    def value(self, x: Vector) -> float:
        """Objective at ``x``."""
        return self._number(self.rows_value(self.layout.reading(x)), "rows_value")

    def value_and_gradient(self, x: Vector, gradient: Vector) -> float:
        """Objective at ``x``; its gradient overwrites ``gradient``."""
        with self.layout.writing(gradient) as block:
            found = self.rows_value_and_gradient(self.layout.reading(x), block)
        return self._number(found, "rows_value_and_gradient")

    def _number(self, value: Any, method: str) -> float:
        if value is None or isinstance(value, bool | np.bool_ | str):
            kind = f"{type(self).__name__}.{method}"
            raise TypeError(f"{kind} must return the objective's value, a number, not {value!r}")
        return float(value)

"""The objective: what is minimized."""

import inspect
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from thalweg.engines.laplacian import AttractiveLaplacian
from thalweg.parallel import MPI, Array, Identified, Layout

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

    The variable is an array of this rank's rows, ``x`` of shape ``layout.shape``: distributed by
    rows, or, with a :attr:`layout` on ``COMM_SELF``, replicated.  A value must be the same number
    on every rank of :attr:`comm`: sums over rows come from :meth:`Layout.dot
    <thalweg.parallel.Layout.dot>` or :func:`thalweg.parallel.sum_over_ranks`.  What is given is
    not to be written into; what is returned is a new array.  All methods but the properties are
    collective.

    An objective offers more by also inheriting capabilities, such as
    :class:`thalweg.engines.hessian.HessianProduct`.

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
    #: of a comparison.
    compared_metrics: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Record the arguments, by which a checkpoint is told from that of other data."""
        objective = super().__new__(cls)
        object.__setattr__(objective, "_arguments", (args, kwargs))  # also of a frozen dataclass
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
    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """Objective at ``x``, and this rank's rows of its gradient there."""

    def value(self, x: Array) -> float:
        """Objective at ``x``; by default by :meth:`value_and_gradient`."""
        return self.value_and_gradient(x)[0]

    def initial_point(self, seed: int) -> Array:
        """Where to start: the same for a seed at any number of ranks.

        By default standard normal numbers.
        """
        return self.layout.random_normal(seed)

    def length_scale(self, x: Array) -> float | None:
        """Typical length of the variable, for step caps; None where it has no meaning."""
        return None

    def state(self) -> Any:
        """What stages of a homotopy have changed, as a preconditioner's; by default nothing."""
        return {}

    def restore(self, state: Any) -> None:
        """Take back what :meth:`state` gave.  Collective."""

    def metrics(self, x: Array) -> Mapping[str, Any]:
        """Measures of a final iterate, for ``result.json``; by default none."""
        return {}

    def row_measures(self, solution: np.ndarray, dataset: Any) -> Mapping[str, np.ndarray]:
        """Measures of each of this rank's rows of a solution, by what they say; by default none.

        ``dataset`` is what the objective was made of.  Collective.
        """
        return {}

    def views(self, x: Array) -> Mapping[str, np.ndarray]:
        """Maps of this rank's rows, each by the name of a column of labels in a solution."""
        return {}

    def value_error(self, value: float) -> float:
        """Estimate of the absolute error of a value that the objective returned.  Not collective.

        Line searches and stopping rules take smaller differences of values for noise.  By default a
        few rounding units; an objective that approximates says more.  The same on all ranks.

        Parameters
        ----------
        value
            What :meth:`value` or :meth:`value_and_gradient` returned.
        """
        return ROUNDING_UNITS * float(np.finfo(float).eps) * abs(value)

    def solution(self, x: Array) -> np.ndarray:
        """This rank's rows of the answer that the user asked for; by default of ``x`` itself.

        Returns
        -------
        ndarray, shape (n_local, k)
            Rows as :attr:`solution_layout` distributes them; where that is replicated,
            the same array on all ranks, with any number of rows.
        """
        return np.array(x)

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

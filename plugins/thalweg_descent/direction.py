"""Interface of search directions.

A direction is an immutable rule; what it remembers of earlier steps is a value that lies in the
solver's state, so that it is checkpointed with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from thalweg.parallel import MPI, Array, Layout

#: Memory of a direction between steps, a frozen dataclass.
M = TypeVar("M")


@dataclass(frozen=True)
class Metric:
    """B of ``B p = -g``."""

    layout: Layout  # of the variable
    apply: Callable[[Array], Array]  # the inverse of B times an array
    is_identity: bool  # which knows nothing of the problem's scale
    #: Whether B is the same at all iterates (``Preconditioner.constant``), so that its
    #: inverse times a difference of gradients is a difference of what is known.
    constant: bool = False


@dataclass(frozen=True)
class Move:
    """An accepted step, with both of its ends; ``comm`` are the ranks that decide alike."""

    step: float
    slope: float
    new_slope: float
    first_try: bool
    x: Array
    gradient: Array
    old_x: Array
    old_gradient: Array
    comm: MPI.Comm


class Direction(ABC, Generic[M]):
    """Chooses where to go from the gradient and from what it remembers."""

    @abstractmethod
    def start(self) -> M:
        """Memory before the first step."""

    @abstractmethod
    def is_reset(self, memory: M) -> bool:
        """Whether nothing is remembered that turns the direction away from ``-B^-1 g``."""

    @abstractmethod
    def reset(self, memory: M) -> M:
        """Memory that returns to ``-B^-1 g``."""

    @abstractmethod
    def compute(self, memory: M, metric: Metric, gradient: Array) -> tuple[Array, M]:
        """The direction, and the memory with what it cost to find.  Collective."""

    @abstractmethod
    def first_step(self, memory: M, metric: Metric, slope: float) -> float | None:
        """Step to try first, or None where nothing tells the scale.

        ``slope`` is the derivative along the direction.
        """

    @abstractmethod
    def update(self, memory: M, metric: Metric, move: Move) -> M:
        """The memory after an accepted step.  Collective."""

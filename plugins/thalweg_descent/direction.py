"""Interface of search directions.

A direction is an immutable rule; what it remembers of earlier steps lives in
the solver's state, as a dict of vectors, arrays and numbers, so that it is
checkpointed with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from thalweg.parallel import MPI, Vector

#: Memory of a direction between steps.
Memory = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    """B of ``B p = -g``.

    Attributes
    ----------
    apply
        ``apply(residual, direction)`` overwrites ``direction`` with the inverse
        of B times ``residual``.
    is_identity
        Whether B is the identity, which knows nothing of the problem's scale.
    constant
        Whether B is the same at all iterates (``Preconditioner.constant``), so that its
        inverse times a difference of gradients is a difference of what is known.
    """

    apply: Callable[[Vector, Vector], object]
    is_identity: bool
    constant: bool = False


@dataclass
class Move:
    """An accepted step, with the vectors at both of its ends.

    ``old_x`` and ``old_gradient`` are space that a direction may overwrite; ``comm`` are the ranks
    that decide alike.
    """

    step: float
    slope: float
    new_slope: float
    first_try: bool
    x: Vector
    gradient: Vector
    old_x: Vector
    old_gradient: Vector
    comm: MPI.Comm


class Direction(ABC):
    """Chooses where to go from the gradient and from what it remembers."""

    @abstractmethod
    def start(self, x: Vector) -> Memory:
        """Memory before the first step; ``x`` serves as a template.  Collective."""

    @abstractmethod
    def is_reset(self, memory: Memory) -> bool:
        """Whether nothing is remembered that turns the direction away from ``-B^-1 g``."""

    @abstractmethod
    def reset(self, memory: Memory) -> None:
        """Return to ``-B^-1 g``, keeping the vectors for later use."""

    @abstractmethod
    def compute(self, memory: Memory, metric: Metric, gradient: Vector, direction: Vector) -> None:
        """Overwrite ``direction``.  Collective."""

    @abstractmethod
    def first_step(self, memory: Memory, metric: Metric, slope: float) -> float | None:
        """Step to try first, or None where nothing tells the scale.

        ``slope`` is the derivative along the direction.
        """

    @abstractmethod
    def update(self, memory: Memory, metric: Metric, move: Move) -> None:
        """Update the memory by an accepted step.  Collective."""

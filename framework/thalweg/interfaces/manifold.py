"""Manifolds: sets on which a variable must stay, with their tangent spaces and retractions.

The terms are those of Absil, Mahony and Sepulchre, "Optimization Algorithms on Matrix
Manifolds" (2008).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from thalweg.capability import Capability
from thalweg.parallel import Array, Layout


class Manifold(ABC):
    """A smooth subset of the space of the variable.

    Points and tangent vectors are arrays of the variable's layout.  All methods are
    collective.

    Attributes
    ----------
    layout : Layout
        The variable's.
    """

    layout: Layout

    @abstractmethod
    def project(self, x: Array, direction: Array) -> Array:
        """Orthogonal projection of ``direction`` on the tangent space at ``x``.

        Of a gradient it makes the Riemannian gradient for the metric of the surrounding
        space.
        """

    @abstractmethod
    def retract(self, x: Array, direction: Array, step: float) -> Array:
        """A point ``R_x(step * direction)`` of the manifold.

        ``R_x(0) = x``, and the derivative at 0 along a tangent vector is that vector (Absil
        et al., definition 4.1.1).  ``direction`` is tangent at ``x``.
        """

    def inner(self, x: Array, first: Array, second: Array) -> float:
        """Inner product of two tangent vectors at ``x``; by default that of the space around."""
        return self.layout.dot(first, second)

    @abstractmethod
    def distance(self, x: Array) -> float:
        """Distance of ``x`` from the manifold, 0 on it; for checks."""


class ManifoldVariable(Capability):
    """The variable stays on a manifold; the gradient is that of the surrounding space."""

    phrase = "variable on a manifold"

    @property
    @abstractmethod
    def manifold(self) -> Manifold:
        """The manifold."""


class FreeVariable(Capability):
    """What every objective has that is no :class:`ManifoldVariable`."""

    phrase = "variable that is on no manifold"

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return not issubclass(other, ManifoldVariable)

"""What an objective may offer: a homotopy parameter, a variable on a manifold.

The terms of manifolds are those of Absil, Mahony and Sepulchre, "Optimization Algorithms on Matrix
Manifolds" (2008).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from thalweg.capability import Capability
from thalweg.parallel import Array, Layout


class Homotopy(Capability):
    """A scalar parameter that leads from an easy problem to the wanted one."""

    phrase = "homotopy parameter"

    #: Name of the parameter as users write it, for instance ``"lambda"``.
    homotopy_name: str = "lambda"

    @property
    @abstractmethod
    def homotopy_parameter(self) -> float:
        """Present value of the parameter."""

    @homotopy_parameter.setter
    @abstractmethod
    def homotopy_parameter(self, value: float) -> None: ...

    def default_homotopy(self) -> Sequence[float]:
        """Values that a run passes through when the user asks for none; by default none."""
        return ()

    def check_homotopy(self, value: float) -> None:
        """Raise InputError if the parameter cannot have this value; by default any will do."""

    def value_at(self, parameter: float, value: float) -> float:
        """The value with another parameter, where the last evaluation returned ``value``.

        By default, and after another evaluation, NaN.  Traces show by it how the objective falls.
        """
        return math.nan

    def stage_name(self, parameter: float) -> str:
        """What a result with this value of the parameter is called where several are shown."""
        return f"{self.homotopy_name} = {parameter:.4g}"

    #: Maximum number of iterations of these stages but the last; None for the driver's own rule.
    default_stage_iterations: int | None = None

    def escape_stationary_point(self, x: Array) -> Array:
        """``x``, or a point beside it where no solver gets away from it at any parameter.

        The driver calls this at the beginning of each stage but the first.  Collective; it must
        be deterministic.  What it changes in the objective is its :meth:`Objective.state`.
        """
        return x


class Manifold(ABC):
    """A smooth subset of the space of the variable.

    Points and tangent vectors are arrays of the variable's layout.  All methods are collective.

    Attributes
    ----------
    layout : Layout
        The variable's.
    """

    layout: Layout

    @abstractmethod
    def project(self, x: Array, direction: Array) -> Array:
        """Orthogonal projection of ``direction`` on the tangent space at ``x``.

        Of a gradient it makes the Riemannian gradient for the metric of the surrounding space.
        """

    @abstractmethod
    def retract(self, x: Array, direction: Array, step: float) -> Array:
        """A point ``R_x(step * direction)`` of the manifold.

        ``R_x(0) = x``, and the derivative at 0 along a tangent vector is that vector (Absil
        et al., definition 4.1.1).  ``direction`` is tangent at ``x``.
        """

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

"""A parameter that leads from an easy problem to the wanted one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

from thalweg.capability import Capability
from thalweg.parallel import Array


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
        """The value with another parameter, where the last evaluation was; by default unknown.

        The trace of a homotopy shows by it how the wanted objective falls in all stages.

        Parameters
        ----------
        value
            Of an iterate.  Where the last evaluation, of the value alone or with the gradient,
            returned another one, the answer is NaN.
        """
        return math.nan

    #: Maximum number of iterations of these stages but the last; None for the driver's own rule.
    default_stage_iterations: int | None = None

    def escape_stationary_point(self, x: Array) -> Array:
        """``x``, or a point beside it where no solver gets away from it at any parameter.

        The driver calls this at the beginning of each stage but the first.  Collective; it must
        be deterministic.
        """
        return x

"""The preconditioner: B in ``B p = -g``, a matrix that stands for the Hessian."""

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from thalweg.capability import Capability
from thalweg.interfaces.objective import HasNotes, Objective
from thalweg.parallel import Array, Identified
from thalweg.plugins import check_declared


class Preconditioner(HasNotes, Identified, ABC):
    """A positive definite matrix that stands for the Hessian, and can be solved with.

    It composes with every descent solver: as the metric of gradient descent, in
    preconditioned nonlinear CG, as H0 of L-BFGS, inside TAO.  The constructor
    takes options only; all methods are collective.
    """

    #: Capabilities that the objective must have.
    requires: ClassVar[tuple[type[Capability], ...]] = ()

    #: Whether :meth:`apply` is one linear map from set-up on, up to the residual of its solves, so
    #: that solvers may keep what it returned and combine it.
    constant: bool = False

    #: Whether B is the identity, which solvers may leave out.
    is_identity: ClassVar[bool] = False

    #: Whether loose solves do, since the solver corrects them; the driver says so before set-up.
    loose: bool = False

    def __post_init__(self) -> None:
        """Hold the options to their bounds, also of a preconditioner made in Python."""
        check_declared(self)

    def identity(self) -> dict[str, Any]:
        """What tells it from another: its class, and what its constructor was given."""
        names = inspect.signature(type(self)).parameters
        options = {name: getattr(self, name, self) for name in names}
        has_all = all(option is not self for option in options.values())
        return {"class": type(self).__qualname__, **(options if has_all else vars(self))}

    @abstractmethod
    def setup(self, objective: Objective, x: Array) -> None:
        """Factor, or prepare, what is constant.

        The driver calls it once, before any other method and before the solver's
        ``init``.  ``x`` is the starting point of the run, also when a run is resumed.
        """

    def update(self, x: Array) -> None:
        """Adapt to a new iterate, where the matrix changes with it."""

    @abstractmethod
    def apply(self, residual: Array) -> Array:
        """The solution p of ``B p = residual``, which stays as it is."""

    def state(self) -> Any:
        """Memory that a resumed run needs beyond :meth:`setup` and :meth:`update`.

        A mapping with values like the fields of a solver's state, or a frozen dataclass, whose
        annotations say which arrays are of rows.
        """
        return {}

    def restore(self, state: Any) -> None:
        """Take back what :meth:`state` gave."""

    def close(self) -> None:
        """Free what PETSc holds.  Collective.

        The driver calls it at the end of a run; another run starts with :meth:`setup`.
        """

"""Capabilities of objectives beyond value and gradient, and the check that requirements are met.

Each capability is a small abstract class.  Preconditioners and solvers name
those they need in ``requires``; the match is checked before any work is done.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from thalweg.errors import CapabilityError, with_article
from thalweg.parallel import PETSc

if TYPE_CHECKING:
    from thalweg.parallel import Relocation
    from thalweg.parallel.pairs.secants import SecantSet


class Capability(ABC):
    """Base of all capabilities; ``phrase`` completes "this objective has no ..."."""

    phrase: str

    @classmethod
    def described(cls) -> str:
        """:attr:`phrase` with its article."""
        return with_article(cls.phrase)


class HessianProduct(Capability):
    """Products with the Hessian, which is never formed."""

    phrase = "Hessian product"

    @abstractmethod
    def hessian_product(self, x: PETSc.Vec, direction: PETSc.Vec, product: PETSc.Vec) -> None:
        """Overwrite ``product`` with ``H(x) direction``."""


class GaussNewtonProduct(Capability):
    """Products with a positive semidefinite Gauss-Newton matrix."""

    phrase = "Gauss-Newton product"

    @abstractmethod
    def gauss_newton_product(self, x: PETSc.Vec, direction: PETSc.Vec, product: PETSc.Vec) -> None:
        """Overwrite ``product`` with ``G(x) direction``."""


class HessianDiagonal(Capability):
    """The diagonal of the Hessian."""

    phrase = "Hessian diagonal"

    @abstractmethod
    def hessian_diagonal(self, x: PETSc.Vec, diagonal: PETSc.Vec) -> None:
        """Overwrite ``diagonal`` with the diagonal of the Hessian, entries of either sign."""


class AttractiveLaplacian(Capability):
    """An attractive term whose Hessian is ``scale * L``, L the Laplacian of a graph.

    Vladymyrov and Carreira-Perpinan's partial Hessian 4 L+: block diagonal over
    the columns of the variable, positive semidefinite.
    """

    phrase = "attractive Laplacian"

    #: Whether the weights change with x; if not, one factorization serves all iterates.
    attraction_changes: bool = False

    #: Factor of the Laplacian in the Hessian.
    attraction_scale: float = 4.0

    @abstractmethod
    def attractive_weights(self, x: PETSc.Vec) -> scipy.sparse.csr_matrix | np.ndarray:
        """This rank's rows of the symmetric weights, shape ``(local_rows, rows)``.

        Non-negative with zero diagonal; a CSR matrix, or a dense array.
        """

    def placed_weights(
        self, x: PETSc.Vec
    ) -> tuple[scipy.sparse.csr_matrix | np.ndarray, Relocation | None]:
        """The weights where the objective holds them, and how its rows come there.

        For what works with them on large graphs: rows that attract each other lie on one rank.
        By default :meth:`attractive_weights`, and None: they lie as the variable does.
        """
        return self.attractive_weights(x), None


class RepulsiveBlocks(Capability):
    """The positive part of the repulsive Hessian that is block diagonal over columns.

    For SD-: ``8 lambda L^xx_(i.,i.)`` with positive weights only.
    """

    phrase = "block-diagonal repulsive Hessian"

    @abstractmethod
    def repulsive_product(self, x: PETSc.Vec, direction: PETSc.Vec, product: PETSc.Vec) -> None:
        """Overwrite ``product`` with the block-diagonal part times ``direction``."""


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

    def escape_stationary_point(self, x: PETSc.Vec) -> None:
        """Move ``x`` from where no solver gets away whatever the parameter is.  Collective.

        The driver calls this at the beginning of each stage but the first.  It must be
        deterministic.  By default nothing is moved.
        """


class Alternation(Capability):
    """Other unknowns, held fixed while x is improved, then updated in closed form.

    KDAC: the embedding U and the degrees D.  A solver keeps them in its state, so that a
    checkpoint holds them: vectors, of which each rank has its rows and which the solver
    destroys when it replaces them, or arrays that are equal on all ranks.
    """

    phrase = "block of unknowns with a closed form"

    @abstractmethod
    def initial_blocks(self, x: PETSc.Vec) -> dict[str, Any]:
        """The other unknowns to start from.  Collective."""

    @abstractmethod
    def updated_blocks(
        self, x: PETSc.Vec, blocks: Mapping[str, Any]
    ) -> tuple[dict[str, Any], float]:
        """Their optimum at ``x``, and how much they changed: 0 not at all, 1 altogether."""

    @abstractmethod
    def use_blocks(self, blocks: Mapping[str, Any]) -> None:
        """Hold these fixed: values and derivatives are for them from now on."""


class SecantConstraints(Capability):
    """Bounds on how much a linear map may change the length of any secant of a set.

    The variable is the map Psi, replicated, with at least as many rows as the
    largest rank allowed; rows that are zero do not count.

    Attributes
    ----------
    cuts
        Pairs of points, global numbers, shape ``(m, 2)``, that a solver works on from the
        start, some from each rank; None: none.
    last_cuts
        This rank's cuts at the end of the last run of a solver by cutting planes.
    """

    phrase = "secant set"
    cuts: np.ndarray | None = None
    last_cuts: np.ndarray | None = None

    @property
    @abstractmethod
    def points(self) -> np.ndarray:
        """This rank's points, shape ``(n_local, dimension)``."""

    @property
    @abstractmethod
    def secants(self) -> SecantSet:
        """The oracle that finds the secants whose length changes most."""

    @property
    @abstractmethod
    def wanted_delta(self) -> float | None:
        """Largest relative change of a squared length that is allowed; None to minimize it."""

    @property
    @abstractmethod
    def wanted_rank(self) -> int | None:
        """Rank of Psi; None to minimize it."""


def missing_capabilities(
    objective: object, requires: Iterable[type[Capability]]
) -> list[type[Capability]]:
    """Those of ``requires`` that the objective does not have."""
    return [needed for needed in requires if not isinstance(objective, needed)]


def require(
    objective: object, requires: Iterable[type[Capability]], what: str, fitting: Iterable[str] = ()
) -> None:
    """Refuse, in one sentence, an objective that lacks a capability.

    Parameters
    ----------
    what
        Who asks, for instance ``"preconditioner 'spectral'"``.
    fitting
        Names of what would fit this objective instead.

    Raises
    ------
    CapabilityError
    """
    missing = missing_capabilities(objective, requires)
    if not missing:
        return
    needs = " and ".join(needed.described() for needed in missing)
    label = getattr(objective, "label", None)
    owner = type(objective).__name__ if label is None else f"objective '{label}'"
    text = f"{what} needs {needs}, which {owner} does not offer"
    names = sorted(fitting)
    if names:
        text += "; these would fit: " + ", ".join(names)
    raise CapabilityError(text)

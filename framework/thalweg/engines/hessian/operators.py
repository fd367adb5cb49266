"""Matrices that are never formed: PETSc's shell matrices, made of a product alone.

They serve wherever PETSc or SLEPc takes a matrix: in KSP, TAO and eigenvalue solvers.
"""

from __future__ import annotations

import atexit
import copy
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from thalweg.parallel import Layout, PETSc, Vector, vector_on
from thalweg.parallel.petsc import sizes

#: ``product(direction, result)`` overwrites ``result``; it must leave ``direction`` alone.
Product = Callable[[Vector, Vector], None]


class _HasHessianProduct(Protocol):
    layout: Layout

    def hessian_product(self, x: Vector, direction: Vector, product: Vector) -> None: ...


class _ShellContext:
    """Methods that PETSc calls for a Python matrix, which holds its context."""

    def __init__(
        self, layout: Layout, product: Product, diagonal: Callable[[Vector], None] | None
    ) -> None:
        self.layout, self.product = layout, product
        self.multiple = 0.0
        if diagonal is not None:  # PETSc asks whoever has this method
            self.diagonal = diagonal
            self.getDiagonal = self._give_diagonal

    def mult(self, matrix: PETSc.Mat, given: Vector, to_fill: Vector) -> None:
        """The matrix times a vector."""
        with (
            vector_on(self.layout, given) as direction,
            vector_on(self.layout, to_fill, write=True) as result,
        ):
            self.product(direction, result)
            if self.multiple:
                result.axpy(self.multiple, direction)

    def shift(self, matrix: PETSc.Mat, amount: float) -> None:
        """Add a multiple of the identity, as Newton methods do where they meet no descent."""
        self.multiple += amount

    # The operators here are symmetric.
    multTranspose = mult
    multHermitian = mult

    def _give_diagonal(self, matrix: PETSc.Mat, to_fill: Vector) -> None:
        with vector_on(self.layout, to_fill, write=True) as result:
            self.diagonal(result)
            result.rows += self.multiple

    def destroy(self, matrix: PETSc.Mat) -> None:
        """Let go of what the functions refer to."""
        _borrowed.pop(self).incRef()
        self.__dict__.clear()


#: The matrix of each context that PETSc has not destroyed.  PETSc does not count these references.
_borrowed: weakref.WeakKeyDictionary[_ShellContext, PETSc.Mat] = weakref.WeakKeyDictionary()


@atexit.register
def _keep_matrices() -> None:
    """Let PETSc keep the matrices that are left.

    It would destroy them after the interpreter has ended, and call their contexts.
    """
    for matrix in _borrowed.values():
        matrix.incRef()  # gone with the dictionary
        matrix.incRef()


def matrix_free(
    layout: Layout, product: Product, diagonal: Callable[[Vector], None] | None = None
) -> PETSc.Mat:
    """Shell matrix of a symmetric linear map.  Collective; the caller destroys it.

    Parameters
    ----------
    layout
        Layout of the vectors that the map takes and gives.
    product
        Called as ``product(direction, result)`` on all ranks of the layout's communicator
        together; overwrites ``result``.
    diagonal
        Called as ``diagonal(result)`` when PETSc asks for the diagonal, if given.

    Returns
    -------
    PETSc.Mat
        Square, of type ``python``, with ``layout.rows * layout.columns`` rows.

    Notes
    -----
    PETSc counts references: call ``destroy`` on all ranks, at the same place, rather than
    leave it to the garbage collector, whose order differs from rank to rank.  What is left
    when the interpreter ends stays as it is.  An error
    raised in ``product`` passes through PETSc as ``PETSc.Error`` with the original as its
    cause where PETSc keeps it.
    """
    size = sizes(layout)
    context = _ShellContext(layout, product, diagonal)
    matrix = PETSc.Mat().createPython((size, size), context, comm=layout.comm)
    _borrowed[context] = copy.copy(matrix)
    matrix.decRef()
    matrix.setBlockSize(max(1, layout.columns))
    matrix.setUp()
    matrix.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    matrix.setOption(PETSc.Mat.Option.SYMMETRY_ETERNAL, True)
    return matrix


def remove_shift(matrix: PETSc.Mat) -> None:
    """Take off what PETSc added to the diagonal of a :func:`matrix_free` matrix.  Collective."""
    matrix.getPythonContext().multiple = 0.0
    matrix.assemble()


def hessian_operator(objective: _HasHessianProduct, x: Vector) -> PETSc.Mat:
    """Hessian of an objective at ``x`` as a shell matrix.  Collective; the caller destroys it.

    Parameters
    ----------
    objective
        With the capability :class:`~thalweg.engines.hessian.HessianProduct`; if it also has
        :class:`~thalweg.engines.hessian.HessianDiagonal`, the matrix knows its diagonal.
    x
        The matrix refers to this vector: when it changes, so does the matrix.
    """

    def product(direction: Vector, result: Vector) -> None:
        objective.hessian_product(x, direction, result)

    give: Any = getattr(objective, "hessian_diagonal", None)
    diagonal = None if give is None else lambda result: give(x, result)
    return matrix_free(objective.layout, product, diagonal)

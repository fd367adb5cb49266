"""Matrices that are never formed: PETSc's shell matrices, made of a product alone.

They serve wherever PETSc or SLEPc takes a matrix: in KSP, TAO and eigenvalue solvers.
"""

import atexit
import copy
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from thalweg.parallel import Array, Layout, PETSc, array_of, fill_vec
from thalweg.parallel.petsc import sizes

#: The map, as a function of this rank's rows.
Product = Callable[[Array], Array]


class _ShellContext:
    """Methods that PETSc calls for a Python matrix, which holds its context."""

    def __init__(
        self, layout: Layout, product: Product, diagonal: Callable[[], Array] | None
    ) -> None:
        self.layout, self.product = layout, product
        self.multiple = 0.0
        if diagonal is not None:  # PETSc asks whoever has this method
            self.getDiagonal = lambda _, to_fill: fill_vec(to_fill, diagonal() + self.multiple)

    def mult(self, matrix: PETSc.Mat, given: PETSc.Vec, to_fill: PETSc.Vec) -> None:
        """The matrix times a vector."""
        direction = array_of(self.layout, given)
        result = self.product(direction)
        if self.multiple:
            result = self.layout.combine(result, (self.multiple,), (direction,))
        fill_vec(to_fill, result)

    def shift(self, matrix: PETSc.Mat, amount: float) -> None:
        """Add a multiple of the identity, as Newton methods do where they meet no descent."""
        self.multiple += amount

    # The operators here are symmetric.
    multTranspose = multHermitian = mult

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
    layout: Layout, product: Product, diagonal: Callable[[], Array] | None = None
) -> PETSc.Mat:
    """Shell matrix of a symmetric linear map.  Collective; the caller destroys it.

    Parameters
    ----------
    layout
        Layout of the arrays that the map takes and gives.
    product
        Called as ``product(direction)`` on all ranks of the layout's communicator together;
        returns a new array.
    diagonal
        Called when PETSc asks for the diagonal, if given.

    Returns
    -------
    PETSc.Mat
        Square, of type ``python``, with ``layout.rows * layout.columns`` rows.

    Notes
    -----
    PETSc counts references: call ``destroy`` on all ranks, at the same place, rather than leave it
    to the garbage collector, whose order differs from rank to rank.  What is left when the
    interpreter ends stays as it is.  An error raised in ``product`` passes through PETSc as
    ``PETSc.Error`` with the original as its cause where PETSc keeps it.
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


def hessian_operator(objective: Any, x: Array) -> PETSc.Mat:
    """Hessian of an objective at ``x`` as a shell matrix.  Collective; the caller destroys it.

    Parameters
    ----------
    objective
        With the capability :class:`~thalweg.engines.hessian.HessianProduct`; if it also has
        :class:`~thalweg.engines.hessian.HessianDiagonal`, the matrix knows its diagonal.
    x
        The matrix refers to this array: when it changes, so does the matrix.
    """
    give = getattr(objective, "hessian_diagonal", None)
    diagonal = None if give is None else partial(give, x)
    return matrix_free(objective.layout, partial(objective.hessian_product, x), diagonal)

"""Any JAX function of a tree of arrays as an objective, data rows over the ranks.

Gradients are JAX's reverse mode, Hessian products forward over reverse.  JAX is
an optional extra; nothing else in this package imports it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.data.dataset import Dataset
from thalweg.errors import InputError
from thalweg.interfaces import HessianProduct, Objective
from thalweg.parallel import MPI, Layout, PETSc, sum_large, sum_over_ranks
from thalweg.plugins import Help


def import_jax() -> Any:
    """The module ``jax``, with 64-bit numbers switched on.

    Raises
    ------
    InputError
        JAX is not installed.
    """
    try:
        jax = importlib.import_module("jax")
    except ImportError as error:
        raise InputError(
            "objective 'jax' needs JAX; install thalweg with the extra 'jax'"
        ) from error
    jax.config.update("jax_enable_x64", True)
    return jax


class JaxObjective(Objective, HessianProduct):
    """A scalar JAX function of a pytree; the variable is all its leaves in one vector.

    Parameters
    ----------
    comm
        The ranks that share the data rows.
    function
        ``function(parameters)``, or with data ``function(parameters, rows)``: the
        *mean* over the rows given, as a scalar.
    parameters
        Tree of arrays to start from; also gives the shapes.
    rows
        This rank's data rows, or None for a function without data.

    Raises
    ------
    InputError
        JAX is not installed, the tree is empty, or the function's value is no scalar.
    """

    default_solver: ClassVar[str] = "saddle-free"

    def __init__(
        self,
        comm: MPI.Comm,
        function: Callable[..., Any],
        parameters: Any,
        rows: np.ndarray | None = None,
    ) -> None:
        jax = import_jax()
        from jax.flatten_util import ravel_pytree

        as_double = jax.tree_util.tree_map(lambda leaf: np.asarray(leaf, dtype=float), parameters)
        flat, unravel = ravel_pytree(as_double)
        if flat.size == 0:
            raise InputError("the parameters of the JAX function hold no numbers")
        super().__init__(comm, Layout(MPI.COMM_SELF, int(flat.size)))
        self._start = np.asarray(flat)
        self._unravel = unravel
        self._rows = rows
        total = float(sum_over_ranks(comm, float(len(rows)))) if rows is not None else 1.0
        #: Share of this rank's mean in the mean over all rows.
        self._share = len(rows) / total if rows is not None and total else 1.0
        self._shared = rows is not None
        given = () if rows is None else (rows,)

        def scalar(point: Any, *data: Any) -> Any:
            return function(unravel(point), *data)

        if rows is None or len(rows):
            shape = jax.eval_shape(scalar, flat, *given).shape
            if shape != ():
                raise InputError(
                    f"the JAX function must return a scalar, but its value has shape {shape}"
                )
        self._value = jax.jit(scalar)
        self._both = jax.jit(jax.value_and_grad(scalar))

        def product(point: Any, along: Any, *data: Any) -> Any:
            return jax.jvp(lambda p: jax.grad(scalar)(p, *data), (point,), (along,))[1]

        self._product = jax.jit(product)
        self._given = given

    def initial_point(self, seed: int) -> PETSc.Vec:
        """The parameters that the objective was built with, whatever the seed."""
        return self.layout.vec_from(self._start)

    def parameters(self, x: PETSc.Vec) -> Any:
        """``x`` as the tree that the function takes."""
        return self._unravel(np.array(self.layout.reading(x)[:, 0]))

    def value(self, x: PETSc.Vec) -> float:
        """The function's value, averaged over all ranks' rows."""
        local = float(self._value(self._point(x), *self._given)) if self._working else 0.0
        return self._sum(local)

    def value_and_gradient(self, x: PETSc.Vec, gradient: PETSc.Vec) -> float:
        """Value and reverse-mode gradient."""
        local, slope = 0.0, np.zeros(self.layout.rows)
        if self._working:
            value, jax_slope = self._both(self._point(x), *self._given)
            local, slope = float(value), np.array(jax_slope)
        self._finish(slope, gradient)
        return self._sum(local)

    def hessian_product(self, x: PETSc.Vec, direction: PETSc.Vec, product: PETSc.Vec) -> None:
        """Forward mode over reverse mode."""
        result = np.zeros(self.layout.rows)
        if self._working:
            along = self._point(direction)
            result = np.array(self._product(self._point(x), along, *self._given))
        self._finish(result, product)

    @property
    def _working(self) -> bool:
        return not self._shared or self._share > 0

    def _point(self, x: PETSc.Vec) -> np.ndarray:
        return np.array(self.layout.reading(x)[:, 0])

    def _sum(self, local: float) -> float:
        if not self._shared:
            return local
        return float(sum_over_ranks(self.comm, self._share * local))

    def _finish(self, array: np.ndarray, out: PETSc.Vec) -> None:
        if self._shared:
            array *= self._share
            sum_large(self.comm, array)
        with self.layout.writing(out) as target:
            target[:, 0] = array


def build_jax(
    dataset: Dataset | None,
    comm: MPI.Comm,
    *,
    function: Annotated[
        str, Help("'module:name' of a function that returns (function, parameters)")
    ] = "",
) -> JaxObjective:
    """Objective ``jax``.

    Parameters
    ----------
    dataset
        Not used; None.
    function
        ``"module:name"`` of a function without arguments that returns
        ``(function, parameters)``, or ``(function, parameters, rows)`` with all data
        rows, which are then shared out over the ranks. The module is looked for in
        the working directory too.

    Raises
    ------
    InputError
        No such function, or one that returns something else.
    """
    module_name, colon, name = function.partition(":")
    if not (module_name and colon and name):
        raise InputError(
            f"option 'function' of objective 'jax' must be 'module:name', not {function!r}"
        )
    import_jax()
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        maker = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot load the JAX function '{function}': {error}") from error
    made = maker()
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise InputError(
            f"'{function}' must return (function, parameters) or (function, parameters, rows)"
        )
    rows = None
    if len(made) == 3:
        whole = np.asarray(made[2], dtype=float)
        rows = Layout(comm, len(whole)).local(whole)
    return JaxObjective(comm, made[0], made[1], rows)

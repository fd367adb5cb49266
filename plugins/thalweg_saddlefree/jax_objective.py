"""Any JAX function of a tree of arrays as an objective, data rows over the ranks.

Gradients are JAX's reverse mode, Hessian products forward over reverse.  JAX is
an optional extra; nothing else in this package imports it.  Double precision is
switched on only inside the calls made here, never for the whole process.
"""

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np

from thalweg.data import Dataset
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Layout, sum_large, sum_over_ranks
from thalweg.plugins import Help
from thalweg_saddlefree.minibatches import Minibatches, RowSet

#: Gradient equivalents, times six, of what is computed (a forward pass costs two).
COSTS = {"value": 2, "gradient": 6, "hessian": 12, "gauss-newton": 8, "sample": 4}
COSTS |= {"gauss-newton forms": 6, "hessian forms": 18}  # of two directions


def import_jax() -> Any:
    """The module ``jax``, an optional extra."""
    try:
        return importlib.import_module("jax")
    except ImportError as error:
        raise InputError("this needs JAX; install thalweg with the extra 'jax'") from error


class JaxObjective(Objective, HessianProduct, Minibatches):
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
        This rank's data rows: an array or a tree of arrays, whose first axes are the
        rows; None for a function without data.
    precision
        ``"double"``, or ``"single"`` for all that JAX computes.
    held_out
        This rank's rows that are not trained on, or None.

    Raises
    ------
    InputError
        JAX is not installed, the tree is empty or complex, there are no rows, or no scalar value.

    Notes
    -----
    JAX compiles anew for each shape.  Batches are therefore padded to a few sizes, and their means
    taken over rows one by one (``jax.vmap``): there, and on ranks, what is no mean is refused.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        function: Callable[..., Any],
        parameters: Any,
        rows: Any = None,
        *,
        precision: str = "double",
        held_out: Any = None,
    ) -> None:
        self._jax = jax = import_jax()
        if precision not in ("double", "single"):
            raise InputError(f"precision must be 'double' or 'single', not {precision!r}")
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if precision == "double" else np.float32)
        with self.precisely():
            leaves, self._tree = jax.tree_util.tree_flatten(parameters)
            if any(np.iscomplexobj(leaf) for leaf in leaves):
                raise InputError("the parameters of the JAX function must be real")
            leaves = [np.asarray(leaf, dtype=self.dtype) for leaf in leaves]
            self._order = self._leaf_order(parameters)
            self._shapes = [leaves[k].shape for k in self._order]
            sizes = [leaves[k].size for k in self._order]
            if sum(sizes) == 0:
                raise InputError("the parameters of the JAX function hold no numbers")
            super().__init__(comm, Layout(MPI.COMM_SELF, sum(sizes)))
            self._cuts = np.cumsum([0, *sizes])
            self._start = np.concatenate([leaves[k].ravel() for k in self._order])
            self._take_rows(rows, held_out)
            self._function = function
            self._compile()
            if rows is None or self.data_layout.local_rows:
                data = () if rows is None else (self.data,)
                if (shape := jax.eval_shape(self._scalar, self._start, *data).shape) != ():
                    raise InputError(f"the JAX function must return a scalar, not shape {shape}")
        self.use_rows(None)

    def _leaf_order(self, parameters: Any) -> Sequence[int]:
        """Leaves in the order of the variables; here that of the tree."""
        return range(len(self._jax.tree_util.tree_leaves(parameters)))

    def _take_rows(self, rows: Any, held_out: Any) -> None:
        def typed(leaf: Any) -> np.ndarray:
            array, is_lost = np.asarray(leaf), np.False_
            if array.dtype.kind == "f":
                wide = array
                with np.errstate(over="ignore"):
                    array = wide.astype(self.dtype)
                is_lost = np.isinf(array) & np.isfinite(wide)
            elif array.dtype.kind in "iu" and self.dtype == np.float32:
                is_lost = array.astype(self._jax.dtypes.canonicalize_dtype(array.dtype)) != array
            if is_lost.any():
                raise InputError("the rows have numbers that single precision does not hold")
            return array

        convert = self._jax.tree_util.tree_map
        self.data: Any = None if rows is None else convert(typed, rows)
        self._held_out: Any = None if held_out is None else convert(typed, held_out)
        counts = {leaf.shape[:1] for leaf in self._jax.tree_util.tree_leaves(self.data)}
        if len(counts) > 1:
            raise InputError(f"the rows of the JAX function's arrays differ: {sorted(counts)}")
        self.data_layout = Layout(self.comm, 1)  # for a function without data
        if rows is not None:
            count = sum(max(counts, default=()))
            total = int(sum_over_ranks(self.comm, float(count)))
            if not total:
                raise InputError("the JAX function's arrays have no rows")
            self.data_layout = Layout(self.comm, total, 1, count)
        self.operations_per_gradient = COSTS["gradient"] * self.data_layout.rows

    def precisely(self) -> Any:
        """The precision of this objective, for the calls inside."""
        if self.dtype != np.float64:
            return contextlib.nullcontext()
        if hasattr(self._jax, "enable_x64"):  # from JAX 0.8 on
            return self._jax.enable_x64(True)
        return importlib.import_module("jax.experimental").enable_x64()

    def unravel(self, flat: Any) -> Any:
        """The tree that a vector of the variables stands for."""
        leaves: list[Any] = [None] * len(self._order)
        for place, leaf in enumerate(self._order):
            part = flat[self._cuts[place] : self._cuts[place + 1]]
            leaves[leaf] = part.reshape(self._shapes[place])
        return self._jax.tree_util.tree_unflatten(self._tree, leaves)

    def ravel(self, tree: Any) -> Any:
        """Inverse of :meth:`unravel`, by JAX."""
        leaves, jnp = self._jax.tree_util.tree_leaves(tree), self._jax.numpy
        return jnp.concatenate([jnp.ravel(leaves[k]).astype(self.dtype) for k in self._order])

    def _scalar(self, flat: Any, *rows: Any) -> Any:
        return self._function(self.unravel(flat), *rows)

    def _weighted(self, flat: Any, rows: Any, weights: Any) -> Any:
        """Sum over rows of their own values times weights, which are 0 for padding."""
        jax = self._jax
        alone = jax.tree_util.tree_map(lambda leaf: leaf[:, None], rows)
        return (jax.vmap(lambda row: self._scalar(flat, row))(alone) * weights).sum()

    def _compile(self) -> None:
        jax = self._jax

        def compiled(scalar: Callable[..., Any]) -> dict[str, Any]:
            def product(point: Any, along: Any, *data: Any) -> Any:
                return jax.jvp(lambda p: jax.grad(scalar)(p, *data), (point,), (along,))[1]

            return {
                "value": jax.jit(scalar),
                "gradient": jax.jit(jax.value_and_grad(scalar)),
                "hessian": jax.jit(product),
            }

        self._plain, self.batched = compiled(self._scalar), compiled(self._weighted)
        self._held_out_mean = self._plain["value"]

    # -- rows in use -----------------------------------------------------------------------

    def use_rows(self, values: RowSet | None, curvature: RowSet | None = None) -> None:
        if (values is not None or self.comm.size > 1) and not self._is_mean:
            raise InputError("on ranks or in batches, a JAX function must be a mean over rows")
        super().use_rows(values, curvature)
        self._value_rows = values
        self._curvature_rows = values if curvature is None else curvature

    @functools.cached_property
    def _is_mean(self) -> bool:
        """Whether values and slopes at the start are the means of those of single rows."""
        every = RowSet(np.arange(self.data_layout.local_rows), self.data_layout.rows)
        whole, mean = (np.append(*self._slopes(rows, self._start)) for rows in (None, every))
        return not np.linalg.norm(whole - mean) > 1e-3 * np.linalg.norm(whole)

    def _call(self, kind: str, rows: RowSet | None, *point: np.ndarray) -> Any:
        """Result of one of the compiled functions for this rank's rows; None without rows."""
        total = self.data_layout.rows if rows is None else rows.total
        self.operations += COSTS[kind] * total
        local = self.data_layout.local_rows if rows is None else len(rows.local)
        if self.data is not None and not local:
            return None
        functions, share = self._plain, 1.0
        data: tuple[Any, ...] = () if self.data is None else (self.data,)
        if self.data is not None and rows is not None:
            chosen = padded(rows.local)
            weights = np.zeros(len(chosen), dtype=self.dtype)
            weights[:local] = 1.0 / total
            taken = self._jax.tree_util.tree_map(lambda leaf: leaf[chosen], self.data)
            functions, data = self.batched, (taken, weights)
        elif self.data is not None:
            share = local / total  # the mean over this rank's rows counts by their share of all
        with self.precisely():
            result = functions[kind](*point, *data)
        return self._jax.tree_util.tree_map(lambda leaf: share * np.asarray(leaf, float), result)

    # -- the objective ---------------------------------------------------------------------

    def initial_point(self, seed: int) -> Array:
        """The parameters that the objective was built with, whatever the seed."""
        return self._start[:, None].astype(float)

    def parameters(self, x: Array) -> Any:
        """``x`` as the tree that the function takes."""
        return self.unravel(self._point(x))

    def value(self, x: Array) -> float:
        result = self._call("value", self._value_rows, self._point(x))
        return self._sum(0.0 if result is None else float(result))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """Value and reverse-mode gradient."""
        return self._slopes(self._value_rows, self._point(x))

    def _slopes(self, rows: RowSet | None, point: np.ndarray) -> tuple[float, Array]:
        result = self._call("gradient", rows, point)
        value, slope = (0.0, None) if result is None else result
        return self._sum(float(value)), self._total(slope)

    def hessian_product(self, x: Array, direction: Array) -> Array:
        """Forward mode over reverse mode."""
        rows = self._curvature_rows
        return self._total(self._call("hessian", rows, self._point(x), self._point(direction)))

    def held_out_value(self, x: Array) -> float:
        if self._held_out is None:
            return float("nan")
        count = len(self._jax.tree_util.tree_leaves(self._held_out)[0])
        local = 0.0
        if count:
            with self.precisely():
                local = count * float(self._held_out_mean(self._point(x), self._held_out))
        total = float(sum_over_ranks(self.comm, float(count)))
        return float(sum_over_ranks(self.comm, local)) / total if total else float("nan")

    def value_error(self, value: float) -> float:
        """A few rounding units of the precision."""
        return 8 * float(np.finfo(self.dtype).eps) * abs(value)

    def _point(self, x: Array) -> np.ndarray:
        return x[:, 0].astype(self.dtype, copy=False)

    def _sum(self, local: float) -> float:
        return local if self.data is None else float(sum_over_ranks(self.comm, local))

    def _total(self, local: np.ndarray | None) -> Array:
        """Sum over the ranks of this rank's part, None where it has no rows."""
        total = np.zeros(self.layout.rows) if local is None else np.array(local, dtype=float)
        if self.data is not None:
            sum_large(self.comm, total)
        return total[:, None]


def padded(rows: np.ndarray) -> np.ndarray:
    """Rows repeated up to one of a few lengths: four between two powers of 2."""
    step = max(8, 1 << max(0, len(rows).bit_length() - 3))
    return np.resize(rows, -(-len(rows) // step) * step) if len(rows) else rows


def build_jax(
    dataset: Dataset | None,
    comm: MPI.Comm,
    *,
    function: Annotated[
        str, Help("'module:name' of a function that returns (function, parameters[, rows])")
    ] = "",
    precision: Annotated[
        Literal["double", "single"], Help("precision of what JAX computes")
    ] = "double",
) -> JaxObjective:
    """Objective ``jax``.

    The function that ``function`` names takes no arguments and returns ``(function, parameters)``,
    or ``(function, parameters, rows)`` with all data rows, which are then shared out over the
    ranks.  Its module is looked for in the working directory too.
    """
    module_name, colon, name = function.partition(":")
    if not (module_name and colon and name):
        raise InputError(f"the option 'function' must be 'module:name', not {function!r}")
    jax = import_jax()
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        maker = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot load the JAX function '{function}': {error}") from error
    made = maker()
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise InputError(f"'{function}' must return (function, parameters[, rows])")
    rows = None
    if len(made) == 3:
        counts = {np.shape(leaf)[:1] for leaf in jax.tree_util.tree_leaves(made[2])}
        if len(counts) != 1 or () in counts:
            raise InputError(f"the rows that '{function}' returns must be arrays of one length")
        layout = Layout(comm, *counts.pop())
        rows = jax.tree_util.tree_map(lambda leaf: layout.local(np.asarray(leaf)), made[2])
    return JaxObjective(comm, made[0], made[1], rows, precision=precision)

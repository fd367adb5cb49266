"""Networks written in JAX: Gauss-Newton products, and a Kronecker metric, by a layer protocol.

A model is a function ``model(parameters, inputs, tap)``.  It passes each layer's inputs
and pre-activations to ``tap(name, inputs, outputs)`` and goes on with what that returns;
:func:`dense` and :func:`convolution` do so.  ``parameters[name]`` holds the layer's
``"kernel"``, and its ``"bias"`` if it has one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct
from thalweg.errors import InputError
from thalweg.parallel import MPI, Array, sum_over_ranks
from thalweg.plugins import Option
from thalweg_saddlefree.capabilities import (
    CurvatureForms,
    Forms,
    LayerBlock,
    LayeredCurvature,
    LayerSample,
)
from thalweg_saddlefree.jax_objective import COSTS, JaxObjective, import_jax, padded
from thalweg_saddlefree.minibatches import RowSet, random_signs

#: Losses by name: half the squared error, and cross-entropies of logistic and softmax outputs.
LOSSES = ("squared", "logistic", "softmax")


def dense(tap: Callable[..., Any], name: str, parameters: Any, inputs: Any) -> Any:
    """Pre-activations of a fully connected layer; kernel of shape ``(inputs, outputs)``."""
    layer = parameters[name]
    outputs = inputs @ layer["kernel"]
    return tap(name, inputs, outputs + layer["bias"] if "bias" in layer else outputs)


def convolution(
    tap: Callable[..., Any],
    name: str,
    parameters: Any,
    inputs: Any,
    strides: tuple[int, int] = (1, 1),
    padding: str = "SAME",
) -> Any:
    """Pre-activations of a convolution of images ``(rows, height, width, channels)``.

    The kernel has the shape ``(height, width, channels, outputs)``.
    """
    jax, layer = import_jax(), parameters[name]
    height, width, channels, outputs = layer["kernel"].shape
    patches = jax.lax.conv_general_dilated_patches(
        inputs, (height, width), strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    # JAX orders a patch by channels first; the kernel has them last.
    patches = patches.reshape(*patches.shape[:3], channels, height * width)
    patches = patches.swapaxes(3, 4).reshape(*patches.shape[:3], -1)
    out = patches @ layer["kernel"].reshape(-1, outputs)
    return tap(name, patches, out + layer["bias"] if "bias" in layer else out)


class JaxNetwork(JaxObjective, GaussNewtonProduct, CurvatureForms, LayeredCurvature):
    """Mean loss of a JAX model over data rows, plus ``l2 / 2`` times the squared kernels.

    Parameters
    ----------
    comm
        The ranks that share the data rows.
    model
        ``model(parameters, inputs, tap) -> outputs``, shape ``(rows, k)``, or for sequences
        ``(rows, positions, k)``; see above. No row may depend on another.
    parameters
        ``{layer: {"kernel": ..., "bias": ...}}``, to start from.
    rows
        This rank's ``(inputs, targets)``, targets of the shape of the outputs; one-hot with
        ``"softmax"``. The loss of a row is the mean over its positions.
    loss
        ``"squared"``, ``"logistic"`` or ``"softmax"``.
    l2
        Weight decay, which gradients and curvature contain.
    precision, held_out
        As for :class:`JaxObjective`; single precision by default.

    Raises
    ------
    InputError
        An unknown loss, or parameters that no layer of the model taps.
    """

    default_solver: ClassVar[str] = "saddle-free-subspace"
    default_preconditioner = "kronecker"
    _is_mean = True

    def __init__(
        self,
        comm: MPI.Comm,
        model: Callable[..., Any],
        parameters: Any,
        rows: tuple[Any, Any],
        loss: str,
        *,
        l2: float = 0.0,
        precision: str = "single",
        held_out: tuple[Any, Any] | None = None,
    ) -> None:
        if loss not in LOSSES:
            raise InputError(f"loss must be one of {', '.join(LOSSES)}, not {loss!r}")
        l2 = Option("l2", float, 0.0, "decay of the weights", minimum=0).check(l2, "JaxNetwork")
        self._model, self._loss, self.l2 = model, loss, float(l2)

        def mean_loss(tree: Any, data: tuple[Any, Any]) -> Any:
            return self._losses(self._outputs(tree, data[0]), data[1]).mean()

        def function(tree: Any, data: tuple[Any, Any]) -> Any:
            return mean_loss(tree, data) + self.decay(tree)

        super().__init__(comm, function, parameters, rows, precision=precision, held_out=held_out)
        self._find_layers(parameters)
        # Decay is no part of it: in single precision a large one would hide the loss.
        self._held_out_mean = self._jax.jit(lambda x, rows: mean_loss(self.unravel(x), rows))
        self.batched["gauss-newton"] = self._jax.jit(self._gauss_newton)
        self.batched["gauss-newton forms"] = self._jax.jit(self._gauss_newton_forms)
        self.batched["hessian forms"] = self._jax.jit(self._hessian_forms)
        self.sampled = self._jax.jit(self._sample)

    def _leaf_order(self, parameters: Any) -> Sequence[int]:
        """Each layer's kernel, then its bias, which is the last row of its matrix."""
        paths, _ = self._jax.tree_util.tree_flatten_with_path(parameters)
        keys = [tuple(getattr(key, "key", key) for key in path) for path, _ in paths]
        return sorted(range(len(keys)), key=lambda k: (keys[k][:-1], keys[k][-1] == "bias"))

    def _find_layers(self, parameters: Any) -> None:
        self.layer_names = sorted(parameters)
        start, blocks = 0, []
        for name in self.layer_names:
            kernel, bias = parameters[name]["kernel"], "bias" in parameters[name]
            outputs = np.shape(kernel)[-1]
            blocks.append(LayerBlock(start, np.size(kernel) // outputs + int(bias), outputs, bias))
            start = blocks[-1].stop
        self.layers = tuple(blocks)
        if start != self.layout.rows:
            raise InputError(
                "the parameters of a JaxNetwork must be {layer: {'kernel': ..., 'bias': ...}}; "
                f"{self.layout.rows - start} numbers are something else"
            )
        taps: list[tuple[str, Any]] = []

        def tap(name: str, inputs: Any, z: Any) -> Any:
            taps.append((name, z))
            return z

        # One row will do: the shapes of its outputs are those of any number.
        row = self._jax.tree_util.tree_map(
            lambda a: np.zeros((1, *a.shape[1:]), a.dtype), self.data[0]
        )
        with self.precisely():
            answer = self._jax.eval_shape(lambda: self._model(self.unravel(self._start), row, tap))
        odd = Counter(self.layer_names)
        odd.subtract(name for name, _ in taps)
        for name, excess in sorted(odd.items()):
            if excess:
                raise InputError(
                    f"layer '{name}' has parameters but no tap in the model, the reverse, or "
                    "several; call tap(name, inputs, outputs) once for each layer"
                )
        if answer.shape[1:] != np.shape(self.data[1])[1:]:
            raise InputError(
                f"targets of shape {np.shape(self.data[1])[1:]} a row do not fit the model's "
                f"outputs of shape {answer.shape[1:]}; classes are one-hot"
            )
        self._tapped = {name: z.shape[1:] for name, z in taps}
        self.predictions = int(np.prod(answer.shape[1:-1]))

    def _outputs(self, tree: Any, inputs: Any) -> Any:
        return self._model(tree, inputs, lambda name, inputs, z: z)

    def _weighted(self, flat: Any, rows: Any, weights: Any) -> Any:
        tree = self.unravel(flat)
        losses = self._losses(self._outputs(tree, rows[0]), rows[1])
        return losses @ weights + weights.sum() * self.decay(tree)

    def decay(self, tree: Any) -> Any:
        """``l2 / 2`` times the squared kernels of a tree of parameters."""
        return 0.5 * self.l2 * sum((layer["kernel"] ** 2).sum() for layer in tree.values())

    # -- losses, row by row ----------------------------------------------------------------

    def _losses(self, outputs: Any, targets: Any) -> Any:
        """Of each row, the mean over its positions."""
        jnp, nn = self._jax.numpy, self._jax.nn
        if self._loss == "squared":
            losses = 0.5 * ((outputs - targets) ** 2).sum(axis=-1)
        elif self._loss == "logistic":
            losses = (jnp.logaddexp(0.0, outputs) - targets * outputs).sum(axis=-1)
        else:
            losses = nn.logsumexp(outputs, axis=-1) - (targets * outputs).sum(axis=-1)
        return losses.reshape(len(losses), -1).mean(axis=1)

    def _root(self, outputs: Any, signs: Any) -> Any:
        """Vectors whose covariance is the Hessian of a position's loss by its outputs."""
        jnp, nn = self._jax.numpy, self._jax.nn
        if self._loss == "squared":
            return signs
        if self._loss == "logistic":
            chance = nn.sigmoid(outputs)
            return jnp.sqrt(chance * (1 - chance)) * signs
        chance = nn.softmax(outputs)
        scaled = jnp.sqrt(chance) * signs
        return scaled - chance * scaled.sum(axis=-1, keepdims=True)

    # -- curvature -------------------------------------------------------------------------

    def gauss_newton_product(self, x: Array, direction: Array) -> Array:
        """``(J' (loss's Hessian) J + l2) direction``: one forward mode, one reverse mode."""
        rows = self._rows_of_curvature()
        return self._total(self._call("gauss-newton", rows, self._point(x), self._point(direction)))

    def _gauss_newton(self, flat: Any, along: Any, rows: Any, weights: Any) -> Any:
        def outputs(point: Any) -> Any:
            return self._outputs(self.unravel(point), rows[0])

        # Every loss is convex in the outputs.
        slopes = self._jax.grad(lambda z: self._losses(z, rows[1]) @ weights)
        z, moved = self._jax.jvp(outputs, (flat,), (along,))
        image = self._jax.jvp(slopes, (z,), (moved,))[1]
        decay = self._jax.grad(lambda point: self.decay(self.unravel(point)))(along)
        return self._jax.vjp(outputs, flat)[1](image)[0] + weights.sum() * decay

    def curvature_forms(self, x: Array, directions: Sequence[Array], hessian: bool) -> Forms:
        """Inner products in both matrices, by forward modes alone."""
        along = np.column_stack([self._point(direction) for direction in directions])

        def total(kind: str) -> np.ndarray:
            local = self._call(f"{kind} forms", self._rows_of_curvature(), self._point(x), along)
            local = np.zeros((len(directions), len(directions))) if local is None else local
            return np.asarray(sum_over_ranks(self.comm, local))

        return Forms(total("gauss-newton"), total("hessian") if hessian else None)

    def _gauss_newton_forms(self, flat: Any, along: Any, rows: Any, weights: Any) -> Any:
        def outputs(c: Any) -> Any:
            return self._outputs(self.unravel(flat + along @ c), rows[0])

        zero = self._jax.numpy.zeros(along.shape[1], self.dtype)
        z, moved = outputs(zero), self._jax.jacfwd(outputs)(zero)

        def linearized(c: Any) -> Any:
            decay = weights.sum() * self.decay(self.unravel(along @ c))
            return self._losses(z + moved @ c, rows[1]) @ weights + decay

        return self._jax.hessian(linearized)(zero)

    def _hessian_forms(self, flat: Any, along: Any, rows: Any, weights: Any) -> Any:
        zero, jacobian = self._jax.numpy.zeros(along.shape[1], self.dtype), self._jax.jacfwd
        return jacobian(jacobian(lambda c: self._weighted(flat + along @ c, rows, weights)))(zero)

    def _rows_of_curvature(self) -> RowSet:
        layout = self.data_layout
        return self._curvature_rows or RowSet(np.arange(layout.local_rows), layout.rows)

    @property
    def curvature_row_count(self) -> int:
        return self._rows_of_curvature().total

    def layer_samples(self, x: Array, draw: int) -> Iterator[LayerSample]:
        """Tapped inputs, and random signs pulled back from the outputs."""
        rows = self._rows_of_curvature()
        self.operations += COSTS["sample"] * rows.total
        count = len(rows.local)
        if not count:
            return
        chosen = padded(rows.local)
        inputs = self._jax.tree_util.tree_map(lambda leaf: leaf[chosen], self.data[0])
        shape = np.shape(self.data[1])[1:]
        signs = random_signs(self.data_layout.start + chosen, int(np.prod(shape)), draw, self.dtype)
        # The loss of a row is the mean over its positions.
        signs = signs.reshape(-1, *shape) / np.sqrt(np.prod(shape[:-1]), dtype=self.dtype)
        with self.precisely():
            seen, slopes = self.sampled(self._point(x), inputs, signs)
        for layer, name in enumerate(self.layer_names):
            parts = (np.asarray(part[name])[:count] for part in (seen, slopes))
            yield LayerSample(layer, *(part.reshape(count, -1, part.shape[-1]) for part in parts))

    def _sample(self, flat: Any, inputs: Any, signs: Any) -> Any:
        """Inputs of the layers, and derivatives of ``root' outputs`` by the pre-activations."""
        jax = self._jax
        tree, count = self.unravel(flat), len(signs)

        def outputs(shifts: Any) -> Any:
            seen: dict[str, Any] = {}

            def tap(name: str, a: Any, z: Any) -> Any:
                seen[name] = a
                return z + shifts[name]

            return self._model(tree, inputs, tap), seen

        zeros = {
            name: jax.numpy.zeros((count, *shape), dtype=self.dtype)
            for name, shape in self._tapped.items()
        }
        z, pull, seen = jax.vjp(outputs, zeros, has_aux=True)
        return seen, pull(self._root(z, signs))[0]

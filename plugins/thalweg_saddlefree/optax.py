"""Saddle-free steps as an optimizer in the style of optax: one line of a JAX script changes.

>>> optimizer = optax.adam(1e-3)                                                # doctest: +SKIP
>>> optimizer = thalweg_saddlefree.optax.saddle_free(model, (x, y), "softmax")  # doctest: +SKIP

The loop around it stays: ``init(params)``, and ``update(grads, state, params)`` with the
gradients of whatever batch the script has drawn.  The curvature is that of batches which
the optimizer draws from the data it was given.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI, Array, any_over_ranks
from thalweg.plugins import Option
from thalweg_saddlefree.jax_network import JaxNetwork
from thalweg_saddlefree.jax_objective import import_jax
from thalweg_saddlefree.kronecker.preconditioner import KroneckerPreconditioner
from thalweg_saddlefree.minibatches import BatchSchedule
from thalweg_saddlefree.subspace.solver import SubspaceSaddleFree, SubspaceState


class OptaxState(NamedTuple):
    """State of the optimizer: a pytree of arrays and numbers."""

    steps: int  # steps taken
    last: np.ndarray  # the last step, as one vector
    damping: float  # for the next step
    settled: bool  # whether a prediction has failed so far
    metric: dict[str, Any]  # memory of the Kronecker metric


def saddle_free(
    model: Callable[..., Any],
    rows: tuple[Any, Any],
    loss: str,
    *,
    batch: int = 1000,
    l2: float = 0.0,
    metric: KroneckerPreconditioner | None = None,
    comm: MPI.Comm = MPI.COMM_SELF,
    precision: str = "single",
    **options: Any,
) -> Any:
    """An ``optax.GradientTransformation`` that steps by :class:`SubspaceSaddleFree`.

    Parameters
    ----------
    model
        ``model(parameters, inputs, tap) -> outputs``; see
        :mod:`thalweg_saddlefree.jax_network`.
    rows
        This rank's ``(inputs, targets)``, from which the curvature batches are drawn.
    loss
        ``"squared"``, ``"logistic"`` or ``"softmax"``: the loss whose gradients are given.
    batch
        Rows of a curvature batch.
    l2
        Weight decay: its gradient is added to those given, its curvature to that of the loss.
    metric
        By default ``KroneckerPreconditioner()``.
    comm
        The ranks that share the rows. On several, gradients must be the same on all.
    precision
        ``"single"`` or ``"double"``.
    **options
        Options of :class:`SubspaceSaddleFree`.

    Raises
    ------
    InputError
        optax is not installed; ``batch`` is no number of rows, or ``l2`` negative; ``params`` are
        not given to ``update``, gradients of other shapes are, or it is traced.

    Notes
    -----
    Of gradients that are not finite the updates are NaN, as those of other optimizers, and the
    state stays what it was. ``update`` computes with NumPy and cannot be traced: call it outside
    ``jax.jit``. The gradients may be jitted as before. Apart from that it is pure: a state is never
    changed, keeps one structure, and may be copied, stored or taken up again.
    """
    try:
        import optax
    except ImportError as error:
        raise InputError("this optimizer needs optax; install the extra 'jax'") from error
    Option("batch", int, 1000, "rows", minimum=1).check(batch, "saddle_free")
    Option("l2", float, 0.0, "decay of the weights", minimum=0).check(l2, "saddle_free")
    preconditioner = metric or KroneckerPreconditioner()
    solver = SubspaceSaddleFree(preconditioner=preconditioner, curvature_share=1.0, **options)

    def network(params: Any) -> JaxNetwork:
        return JaxNetwork(comm, model, params, rows, loss, l2=l2, precision=precision)

    steps = _Steps(network, preconditioner, solver, batch, import_jax())
    return optax.GradientTransformationExtraArgs(steps.init, steps.update)


@dataclass
class _Steps:
    """The transformation: its networks are compiled once for parameters of given shapes."""

    network: Callable[[Any], JaxNetwork]
    preconditioner: KroneckerPreconditioner
    solver: SubspaceSaddleFree
    batch: int
    jax: Any
    compiled: dict[Any, JaxNetwork] = field(default_factory=dict)

    def _prepared(self, params: Any) -> tuple[JaxNetwork, Array]:
        """The network of parameters of these shapes, and the point."""
        key = self._form(params)
        if key not in self.compiled:
            self.compiled[key] = self.network(params)
        network = self.compiled[key]
        x = network.ravel(params)[:, None]
        self.preconditioner.setup(network, x)
        return network, x

    def _form(self, tree: Any) -> tuple[Any, ...]:
        """Structure of a tree and shapes of its leaves."""
        leaves, structure = self.jax.tree_util.tree_flatten(tree)
        return (structure, *(np.shape(leaf) for leaf in leaves))

    def _numbers(self, tree: Any) -> Any:
        """The tree with arrays of NumPy; scripts may keep a state as arrays of JAX."""
        try:
            return self.jax.tree_util.tree_map(
                lambda leaf: np.asarray(leaf) if np.ndim(leaf) else np.asarray(leaf).item(), tree
            )
        except self.jax.errors.TracerArrayConversionError as error:
            raise InputError("saddle_free computes with NumPy: call it outside jax.jit") from error

    def init(self, params: Any) -> OptaxState:
        """State before the first step."""
        last = np.zeros(self._prepared(self._numbers(params))[0].layout.rows)
        metric = dict(self.preconditioner.state())
        return OptaxState(0, last, self.solver.damping, False, metric)

    def update(
        self, grads: Any, state: OptaxState, params: Any = None, **_: Any
    ) -> tuple[Any, OptaxState]:
        """The step for a gradient, and the state after it."""
        if params is None:
            raise InputError("give the parameters too: update(grads, state, params)")
        trees = self.jax.tree_util
        grads, state, params = self._numbers((grads, state, params))
        if self._form(grads) != self._form(params):
            raise InputError("gradients must have the structure and the shapes of the parameters")
        network, x = self._prepared(params)
        self.preconditioner.restore(state.metric)
        with network.precisely():
            decay = self.jax.grad(network.decay)(params)
        gradient = network.ravel(grads) + network.ravel(decay)
        if any_over_ranks(network.comm, not np.isfinite(gradient).all()):
            return trees.tree_map(lambda part: np.full_like(part, np.nan), params), state
        schedule = BatchSchedule(network.data_layout.rows, self.batch, seed=self.solver.seed)
        epoch, number = divmod(state.steps, schedule.batches)
        inner = SubspaceState(
            objective=network, x=x, value=float("nan"), gradient=gradient[:, None],
            last=np.array(state.last, dtype=float)[:, None], damping=state.damping,
            settled=state.settled, counter=state.steps, epoch=epoch, batch=number,
        )  # fmt: skip
        moved = self.solver.move(inner.with_rows(schedule))
        step = moved.last[:, 0]
        updates = trees.tree_map(
            lambda part, like: np.asarray(part, dtype=np.asarray(like).dtype),
            network.unravel(step),
            params,
        )
        metric = dict(self.preconditioner.state())
        return updates, OptaxState(state.steps + 1, step, moved.damping, moved.settled, metric)

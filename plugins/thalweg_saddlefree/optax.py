"""Saddle-free steps as an optimizer in the style of optax: one line of a JAX script changes.

>>> optimizer = optax.adam(1e-3)                                                # doctest: +SKIP
>>> optimizer = thalweg_saddlefree.optax.saddle_free(model, (x, y), "softmax")  # doctest: +SKIP

The loop around it stays: ``init(params)``, and ``update(grads, state, params)`` with the
gradients of whatever batch the script has drawn, inside ``jax.jit`` or not.  The step is that of
:class:`SubspaceSaddleFree` with ``KroneckerPreconditioner``, as a function that JAX traces.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI, agreed, any_over_ranks, sum_large
from thalweg.plugins import Option
from thalweg_saddlefree.capabilities import Forms
from thalweg_saddlefree.jax_network import JaxNetwork
from thalweg_saddlefree.jax_objective import import_jax
from thalweg_saddlefree.kronecker import KroneckerPreconditioner, LayerFactors, Moments
from thalweg_saddlefree.subspace.model import SubspaceModel
from thalweg_saddlefree.subspace.solver import FIRST_STEPS, LEAST_DAMPING, LONG, SubspaceSaddleFree


class OptaxState(NamedTuple):
    """State of the optimizer: a pytree of arrays of fixed shapes and types."""

    steps: Any  # steps taken, int32
    last: Any  # the last step, as one vector
    damping: Any  # for the next step
    settled: Any  # whether a prediction has failed so far
    inverted: Any  # step of the last inversion of the factors, int32
    used_damping: Any  # their damping then
    factors: tuple[LayerFactors, ...]  # of each layer, as full matrices


def saddle_free(
    model: Callable[..., Any],
    rows: tuple[Any, Any],
    loss: str,
    *,
    batch: int = 1000,
    l2: float = 0.0,
    metric: KroneckerPreconditioner | None = None,
    comm: MPI.Comm = MPI.COMM_SELF,
    **options: Any,
) -> Any:
    """An ``optax.GradientTransformation`` that steps as :class:`SubspaceSaddleFree` does.

    Parameters
    ----------
    model
        ``model(parameters, inputs, tap) -> outputs``; see :mod:`thalweg_saddlefree.jax_network`.
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
    **options
        Options of :class:`SubspaceSaddleFree`.

    Raises
    ------
    InputError
        optax is not installed; ``batch`` is no number of rows, or ``l2`` negative; a rank has no
        rows; ``params`` are not given to ``update``, or gradients of other shapes are.

    Notes
    -----
    ``update`` is pure, and may be traced: by ``jax.jit``, ``jax.lax.scan`` and, on one rank,
    ``jax.vmap``. An old state gives the old step, bit for bit in the same program. The precision is
    that of the parameters, double with ``jax_enable_x64``. Of gradients that are not finite the
    updates are NaN, as those of other optimizers, and the state stays what it was.
    """
    try:
        import optax
    except ImportError as error:
        raise InputError("this optimizer needs optax; install the extra 'jax'") from error
    Option("batch", int, 1000, "rows", minimum=1).check(batch, "saddle_free")
    Option("l2", float, 0.0, "decay of the weights", minimum=0).check(l2, "saddle_free")
    metric, jax, made = metric or KroneckerPreconditioner(), import_jax(), {}
    solver = SubspaceSaddleFree(preconditioner=metric, **options)

    def form(tree: Any) -> tuple[Any, ...]:
        leaves, structure = jax.tree_util.tree_flatten(tree)
        return (structure, *(np.shape(leaf) for leaf in leaves))

    def step(params: Any) -> _Step:
        """The step for parameters of these shapes and this type, which is compiled once."""
        leaves = jax.tree_util.tree_leaves(params)
        double = all(jax.numpy.result_type(leaf) == np.float64 for leaf in leaves)
        key = (double, form(params))
        if key not in made:
            start = jax.tree_util.tree_map(lambda leaf: np.zeros(np.shape(leaf)), params)
            precision = "double" if double else "single"
            network = JaxNetwork(comm, model, start, rows, loss, l2=l2, precision=precision)
            made[key] = _Step(network, solver, batch)
        return made[key]

    def init(params: Any) -> OptaxState:
        return step(params).start()

    def update(grads: Any, state: OptaxState, params: Any = None, **_: Any) -> Any:
        if params is None:
            raise InputError("give the parameters too: update(grads, state, params)")
        if form(grads) != form(params):
            raise InputError("gradients must have the structure and the shapes of the parameters")
        taken = step(params)
        return taken.compiled(grads, state, params, taken.rows)

    return optax.GradientTransformationExtraArgs(init, update)


class _Step:
    """The step on one network; its methods are traced."""

    def __init__(self, network: JaxNetwork, solver: SubspaceSaddleFree, batch: int) -> None:
        self.jax, self.network, self.solver = import_jax(), network, solver
        self.metric: Any = solver.preconditioner
        layout = network.data_layout
        if any_over_ranks(network.comm, not layout.local_rows):
            raise InputError("every rank needs rows of data; take fewer ranks")
        self.compiled = self.jax.jit(self._next)
        # Where this is traced, the rows are no part of the trace.
        with self.jax.ensure_compile_time_eval():
            self.rows = self.jax.tree_util.tree_map(self.jax.numpy.asarray, network.data)
        size = min(layout.local_rows, max(1, round(batch * layout.local_rows / layout.rows)))
        #: Bounds of parts of the rows, of each of which a batch has a row.
        self.edges = np.arange(size + 1) * layout.local_rows // size
        self.weight = 1.0 / sum(network.comm.allgather(size))
        self.batches = max(1, round(layout.rows / batch))

    def start(self) -> OptaxState:
        """State before the first step."""
        jnp, dtype = self.jax.numpy, self.network.dtype
        count, zero = jnp.zeros((), jnp.int32), jnp.zeros((), dtype)
        factors = self.jax.tree_util.tree_map(
            jnp.asarray, tuple(LayerFactors.zero(block, dtype) for block in self.network.layers)
        )
        last, damping = jnp.zeros(self.network.layout.rows, dtype), zero + self.solver.damping
        return OptaxState(count, last, damping, jnp.zeros((), bool), count, zero, factors)

    def _next(self, grads: Any, old: OptaxState, params: Any, rows: Any) -> tuple[Any, OptaxState]:
        """Updates for a gradient, and the state after them.  Collective."""
        jax, jnp, network = self.jax, self.jax.numpy, self.network
        with jax.default_matmul_precision("highest"):
            x, gradient = network.ravel(params), network.ravel(grads)
            gradient += jax.grad(lambda point: network.decay(network.unravel(point)))(x)
            batch = self._drawn(old.steps, rows)
            state = self._with_metric(old, x, batch)
            directions = self._directions(state, x, gradient, batch)
            model = self._model(x, gradient, directions, batch)
            damping = jnp.maximum(state.damping, LEAST_DAMPING * model.curvature)
            minimizer = model.step(damping)
            # On different processors ranks may find different bits.
            step, change, damping = self._over_ranks(
                agreed, (directions @ minimizer.coefficients, minimizer.change, damping)
            )
            state = state._replace(steps=old.steps + 1, last=step, damping=damping)
            state = jax.lax.cond(
                ~old.settled | (state.steps % self.solver.check_every == 0),
                lambda: self._measured(state, x, change, batch),
                lambda: state,
            )
        state = state._replace(settled=state.settled | (state.steps >= FIRST_STEPS))
        fine = jnp.isfinite(step).all()  # or else the state stays
        updates = network.unravel(jnp.where(fine, state.last, jnp.nan))
        return (
            jax.tree_util.tree_map(lambda part, like: part.astype(like.dtype), updates, params),
            jax.tree_util.tree_map(lambda a, b: jnp.where(fine, a, b).astype(b.dtype), state, old),
        )

    def _over_ranks(self, function: Callable[..., Any], tree: Any) -> Any:
        """What a collective function makes of each array of a tree; on one rank the tree."""
        comm, lax = self.network.comm, self.jax.lax
        if comm.size == 1:
            return tree
        leaves, form = self.jax.tree_util.tree_flatten(tree)
        # As words, since JAX rounds doubles for callbacks where they are not its global type.
        words = [lax.bitcast_convert_type(leaf, np.uint32) for leaf in leaves]

        def together(words: list[Any]) -> list[np.ndarray]:
            made = []
            for leaf, word in zip(leaves, words, strict=True):
                mine = np.array(word).reshape(-1).view(leaf.dtype).reshape(leaf.shape)
                whole = np.array(function(comm, mine), leaf.dtype)
                made.append(whole.reshape(-1).view(np.uint32).reshape(word.shape))
            return made

        callback = importlib.import_module("jax.experimental").io_callback
        shapes = self.jax.eval_shape(lambda: words)
        pairs = zip(callback(together, shapes, words, ordered=True), leaves, strict=True)
        wholes = [lax.bitcast_convert_type(word, leaf.dtype) for word, leaf in pairs]
        return self.jax.tree_util.tree_unflatten(form, wholes)

    def _key(self, seed: int, number: Any) -> Any:
        """Key of this rank's random numbers."""
        random = self.jax.random
        return random.fold_in(random.fold_in(random.PRNGKey(seed), self.network.comm.rank), number)

    def _drawn(self, steps: Any, rows: Any) -> tuple[Any, Any]:
        """A batch of curvature, one row of each part after a random rotation, and its weights."""
        random, edges = self.jax.random, self.edges
        key, turn = random.split(self._key(self.solver.seed, 2 * steps))
        places = random.randint(key, edges[1:].shape, edges[:-1], edges[1:])
        places = (places + random.randint(turn, (), 0, edges[-1])) % edges[-1]
        weights = self.jax.numpy.full(places.shape, self.weight, self.network.dtype)
        return self.jax.tree_util.tree_map(lambda leaf: leaf[places], rows), weights

    def _with_metric(self, state: OptaxState, x: Any, batch: Any) -> OptaxState:
        """The state with averages moved to the batch's, and inverted when it is time."""
        jnp, number, metric = self.jax.numpy, state.steps + 1, self.metric
        means = self._over_ranks(sum_large, self._means(state.steps, x, *batch))
        keep = jnp.minimum(1 - 1 / number, metric.decay).astype(x.dtype)
        pairs = zip(state.factors, means, strict=True)
        averages = tuple(old.averaged(Moments(*mean), keep) for old, mean in pairs)
        return self.jax.lax.cond(
            metric.due(number, state.inverted, state.damping, state.used_damping, jnp),
            lambda: state._replace(
                inverted=number,
                used_damping=state.damping,
                factors=tuple(self._inverted(each, state.damping) for each in averages),
            ),
            lambda: state._replace(factors=averages),
        )

    def _means(self, steps: Any, x: Any, rows: Any, weights: Any) -> list[tuple[Any, Any]]:
        """This rank's parts of the means that the Kronecker factors average, by layer."""
        jnp, network, shape = self.jax.numpy, self.network, rows[1].shape
        key = self._key(self.metric.seed, 2 * steps + 1)
        signs = self.jax.random.rademacher(key, shape, network.dtype)
        # The loss of a row is the mean over its positions.
        seen, slopes = network.sampled(x, rows[0], signs / float(np.sqrt(np.prod(shape[1:-1]))))
        means = []
        for name, block in zip(network.layer_names, network.layers, strict=True):
            a, g = (part[name].reshape(-1, part[name].shape[-1]) for part in (seen, slopes))
            if block.bias:
                a = jnp.concatenate([a, jnp.ones_like(a[:, :1])], axis=1)
            places = len(g) / len(weights)
            means.append((self.weight * (a.T @ a), self.weight / places * (g.T @ g)))
        return means

    def _inverted(self, factors: LayerFactors, damping: Any) -> LayerFactors:
        """The factors with their inverses at a damping, which rounding may raise."""
        jnp = self.jax.numpy

        def inverse(matrix: Any, shift: Any) -> Any:
            least = 8 * jnp.finfo(matrix.dtype).eps * jnp.trace(matrix)
            one = jnp.eye(len(matrix), dtype=matrix.dtype)
            lower = jnp.linalg.cholesky(matrix + jnp.maximum(shift, least).astype(one.dtype) * one)
            return self.jax.scipy.linalg.cho_solve((lower, True), one)

        left, right = factors.shifts(damping, jnp)
        return factors._replace(
            left=inverse(factors.inputs, left), right=inverse(factors.derivatives, right)
        )

    def _solved(self, state: OptaxState, gradient: Any) -> Any:
        """The metric's inverse times a vector."""
        parts = []
        for block, factors in zip(self.network.layers, state.factors, strict=True):
            part = gradient[block.start : block.stop].reshape(block.inputs, block.outputs)
            parts.append((factors.left @ part @ factors.right).ravel())
        return self.jax.numpy.concatenate(parts)

    def _directions(self, state: OptaxState, x: Any, gradient: Any, batch: Any) -> Any:
        """Columns: preconditioned gradient or its layers, the last step, and Lanczos vectors."""
        jnp, solver = self.jax.numpy, self.solver
        along = -self._solved(state, gradient)
        directions = [along]
        if solver.layerwise:
            starts = np.array([layer.start for layer in self.network.layers])
            of = np.searchsorted(starts, np.arange(len(x)), side="right") - 1
            directions = [jnp.where(of == layer, along, 0) for layer in range(len(starts))]
        directions.append(state.last)
        for _ in range(solver.lanczos):
            product = self.network.batched[solver.curvature](x, along, *batch)
            vector = self._solved(state, self._over_ranks(sum_large, product))
            length = jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(x.dtype).tiny)
            along = vector * (jnp.linalg.norm(along) / length)
            directions.append(along)
        return jnp.column_stack(directions)

    def _model(self, x: Any, gradient: Any, directions: Any, batch: Any) -> SubspaceModel:
        """The quadratic model over the directions."""
        kinds = ("gauss-newton", self.solver.curvature)
        forms = {k: self.network.batched[f"{k} forms"](x, directions, *batch) for k in kinds}
        forms = self._over_ranks(sum_large, forms)
        known = Forms(forms["gauss-newton"], forms.get("hessian"))
        slopes, gram = directions.T @ gradient, directions.T @ directions
        return SubspaceModel(slopes, gram, known, self.jax.numpy)

    def _measured(self, state: OptaxState, x: Any, predicted: Any, batch: Any) -> OptaxState:
        """The state after its step was compared with its prediction, and perhaps taken back."""
        jnp, value = self.jax.numpy, self.network.batched["value"]
        change = value(x + state.last, *batch) - value(x, *batch)
        change = self._over_ranks(sum_large, change)
        ratio = jnp.where(predicted < 0, change / predicted, -jnp.inf)
        waits = (state.steps - 1) % self.batches >= LONG
        damping, settled = self.solver.adapted(state.damping, state.settled, ratio, waits, jnp)
        accepted = change < -predicted  # or it is worse by more than it was to be better
        return state._replace(
            last=jnp.where(accepted, state.last, 0),
            damping=jnp.where(accepted, damping, 4 * damping).astype(x.dtype),
            settled=settled,
        )

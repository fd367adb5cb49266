"""The training error of a network as an objective: data rows on the ranks, weights replicated."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from thalweg.data import Dataset
from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import Objective
from thalweg.parallel import (
    MPI,
    Array,
    Layout,
    any_over_ranks,
    exact_sum,
    max_over_ranks,
    raise_on_all_ranks,
    refuse_differing,
    sketch,
    sum_large,
    sum_over_ranks,
)
from thalweg.plugins import Help
from thalweg_saddlefree.capabilities import (
    CurvatureForms,
    Forms,
    GradientSquares,
    LayerBlock,
    LayeredCurvature,
    LayerSample,
)
from thalweg_saddlefree.minibatches import BatchSchedule, Minibatches, RowSet, random_signs
from thalweg_saddlefree.networks.functions import ACTIVATIONS
from thalweg_saddlefree.networks.network import (
    INITIALIZATIONS,
    Linearized,
    Network,
    starting_weights,
)

_NONLINEAR = tuple(name for name in ACTIVATIONS if name != "linear")


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Layers of a network, its first weights, and how it is trained."""

    layers: Annotated[Sequence[int] | None, Help("sizes of all layers", minimum=1)] = None
    activation: Annotated[str, Help("activation of the hidden layers", choices=_NONLINEAR)] = "tanh"
    output: Annotated[
        str, Help("activation of the output with the squared loss", choices=("linear", *_NONLINEAR))
    ] = "linear"
    l2: Annotated[
        float, Help("weight decay: half of it times the squared weights is added", minimum=0.0)
    ] = 0.0
    initialization: Annotated[
        str, Help("scheme of the starting weights", choices=tuple(INITIALIZATIONS))
    ] = "glorot"
    scale: Annotated[float, Help("factor of the starting weights", above=0.0)] = 1.0
    precision: Annotated[
        str, Help("precision of the matrix products", choices=("double", "single"))
    ] = "double"
    held_out: Annotated[
        float, Help("share of rows held out, evaluated after each epoch", minimum=0, below=1)
    ] = 0.0

    @classmethod
    def agreed(cls, comm: MPI.Comm, options: Mapping[str, Any]) -> Self:
        """The options, checked, and refused where ranks have others.  Collective."""
        with raise_on_all_ranks(comm):
            chosen = cls(**options)
        refuse_differing(comm, "the options of the network", chosen)
        return chosen


#: Rows that pass through the network together.
CHUNK = 1024


class NetworkObjective(
    Objective,
    HessianProduct,
    GaussNewtonProduct,
    Minibatches,
    GradientSquares,
    CurvatureForms,
    LayeredCurvature,
):
    """Mean loss over all data rows plus ``l2 / 2`` times the squared weights (not biases).

    Parameters
    ----------
    comm
        The ranks that share the data rows.
    rows
        Distribution of the data rows over them.
    network
        Layers and loss.
    inputs, targets
        This rank's rows, shapes ``(local_rows, sizes[0])`` and ``(local_rows, sizes[-1])``.
    l2, initialization, scale, precision
        As the options of :class:`~thalweg_saddlefree.networks.objective.NetworkOptions`.
    held_out
        This rank's inputs and targets of rows that are not trained on, or None.

    Attributes
    ----------
    operations : int
        Operations of matrix products so far.

    Raises
    ------
    InputError
        Data that are not finite, or are not on the ranks of ``comm``.
    """

    default_solver: ClassVar[str] = "saddle-free-subspace"
    default_preconditioner = "kronecker"

    #: Bytes that a rank may use to keep activations between a gradient and the curvature
    #: products at one point; what does not fit is computed again in every product.
    memory = 2e9

    def __init__(
        self,
        comm: MPI.Comm,
        rows: Layout,
        network: Network,
        inputs: np.ndarray,
        targets: np.ndarray,
        *,
        l2: float = 0.0,
        initialization: str = "glorot",
        scale: float = 1.0,
        precision: str = "double",
        held_out: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        super().__init__(comm, Layout(MPI.COMM_SELF, network.parameters))
        if rows.rows == 0:
            raise InputError("a network needs at least one row of data; the data set is empty")
        if MPI.Comm.Compare(rows.comm, comm) not in (MPI.IDENT, MPI.CONGRUENT):
            raise InputError(
                f"the rows lie on {rows.comm.size} of the {comm.size} ranks of the network; make "
                "their data set on all of them, as Dataset.from_array(X, comm=comm)"
            )
        self.rows = self.data_layout = rows
        self.network = network
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if precision == "double" else np.float32)
        self.inputs, self.targets = self._typed(inputs, targets)
        self._held_out = self._typed(*held_out) if held_out is not None else None
        arrays = (self.inputs, self.targets, *(self._held_out or ()))
        if any_over_ranks(comm, not all(bool(np.isfinite(a).all()) for a in arrays)):
            raise InputError("the data hold NaN or infinite values; remove or replace those rows")
        self.l2 = float(l2)
        self.initialization = initialization
        self.scale = float(scale)
        self.operations_per_gradient = network.flops("gradient") * rows.rows
        self.layers = tuple(
            LayerBlock(network.offsets[k], network.sizes[k] + 1, network.sizes[k + 1], bias=True)
            for k in range(network.depth)
        )
        self.use_rows(None)

    @classmethod
    def of_data(
        cls,
        comm: MPI.Comm,
        dataset: Dataset,
        targets: np.ndarray,
        network: Network,
        options: NetworkOptions,
    ) -> "NetworkObjective":
        """The training error over a data set's rows, of which a share is held out.  Collective.

        Which rows are held out does not depend on the ranks.  A note tells of tiny or huge data.
        """
        rows, inputs, rest = dataset.layout, dataset.values, None
        share = options.held_out  # of which a row at least is held out, and one is not
        count = min(max(round(share * rows.rows), share > 0.0), max(rows.rows - 1, 0))
        if count:
            order = BatchSchedule(rows.rows, 1).positions(0, np.arange(rows.start, rows.stop))
            trained, same = order >= count, targets is inputs
            others = inputs[~trained]
            rest = others, others if same else targets[~trained]
            inputs = inputs[trained]
            targets = inputs if same else targets[trained]
            rows = Layout(rows.comm, rows.rows - count, rows.columns, int(trained.sum()))
        objective = cls(
            comm, rows, network, inputs, targets, l2=options.l2, scale=options.scale,
            initialization=options.initialization, precision=options.precision, held_out=rest,
        )  # fmt: skip
        largest = max_over_ranks(comm, float(np.abs(dataset.values).max(initial=0.0)))
        if largest and not 1e-3 <= largest <= 1e4:
            objective.note(
                f"the data reach to {largest:.1g}: curvatures of weights and biases differ by its "
                "square, and a run may end by a small decrease far from a minimum; scale the data"
            )
        return objective

    def _typed(self, inputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = np.ascontiguousarray(inputs, dtype=self.dtype)
        same = targets is inputs
        return first, first if same else np.ascontiguousarray(targets, dtype=self.dtype)

    # -- rows in use -----------------------------------------------------------------------

    @property
    def curvature_row_count(self) -> int:
        return self._curvature_rows.total

    def use_rows(self, values: RowSet | None, curvature: RowSet | None = None) -> None:
        super().use_rows(values, curvature)
        everything = RowSet(np.arange(self.rows.local_rows), self.rows.rows)
        self._value_rows = everything if values is None else values
        self._curvature_rows = self._value_rows if curvature is None else curvature
        self._chosen_rows = values is not None
        self._batch = self._chosen(values)
        first = self._value_rows.local[: len(self._curvature_rows.local)]
        #: Whether curvature products can use the forward pass of the gradient.
        self._shared = np.array_equal(first, self._curvature_rows.local)
        own = self._batch if self._shared else self._chosen(curvature)
        count = len(self._curvature_rows.local)
        self._curvature_batch = (own[0][:count], own[1][:count])
        self._linearized: list[Linearized] | None = None
        self._linearized_at: np.ndarray | None = None

    def _chosen(self, rows: RowSet | None) -> tuple[np.ndarray, np.ndarray]:
        if rows is None:
            return self.inputs, self.targets
        inputs = self.inputs[rows.local]
        return inputs, inputs if self.targets is self.inputs else self.targets[rows.local]

    def held_out_value(self, x: Array) -> float:
        """Mean loss over the rows held out, without weight decay; NaN if there are none."""
        if self._held_out is None:
            return float("nan")
        flat = self._flat(x)
        local = [self.network.loss_of(flat, *chunk) for chunk in _chunks(*self._held_out)]
        count = float(sum_over_ranks(self.comm, float(len(self._held_out[0]))))
        return float(sum_over_ranks(self.comm, exact_sum(local))) / (count or float("nan"))

    # -- value and gradient ----------------------------------------------------------------

    def initial_point(self, seed: int) -> Array:
        return starting_weights(self.network, self.initialization, seed, self.scale)[:, None]

    def value(self, x: Array) -> float:
        flat = self._flat(x)
        totals = [self.network.loss_of(flat, *chunk) for chunk in _chunks(*self._batch)]
        self._count("value", self._value_rows.total)
        return self._mean(exact_sum(totals), self._value_rows.total) + self._decay(x)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        flat = self._flat(x)
        sums = np.zeros(self.network.parameters, dtype=self.dtype)
        totals = []
        count = len(self._curvature_rows.local)
        # Only a solver that chooses rows is known to ask for curvature at the same point.
        keep = self._chosen_rows and self._shared and self._fits(count)
        linearized: list[Linearized] = []
        for rows, targets in _chunks(*self._batch):
            total, point = self.network.linearize(flat, rows, targets)
            self.network.add_gradient(point, sums)
            totals.append(total)
            if keep and count > 0:
                linearized.append(self.network.leading(point, count))
                count -= len(rows)
        self._count("gradient", self._value_rows.total)
        if keep:
            self._linearized, self._linearized_at = linearized, flat.copy()
        value = self._mean(exact_sum(totals), self._value_rows.total) + self._decay(x)
        return value, self._with_decay(sums, self._value_rows.total, x)

    # -- curvature -------------------------------------------------------------------------

    def hessian_product(self, x: Array, direction: Array) -> Array:
        """Exact Hessian over the curvature rows, by the R-operator."""
        return self._product("hessian", x, direction)

    def gauss_newton_product(self, x: Array, direction: Array) -> Array:
        """Gauss-Newton matrix over the curvature rows, by the R-operator."""
        return self._product("gauss-newton", x, direction)

    def _product(self, kind: str, x: Array, direction: Array) -> Array:
        flat, along = self._flat(x), self._flat(direction)
        sums = np.zeros(self.network.parameters, dtype=self.dtype)
        for point in self._points(flat):
            self.network.add_product(flat, point, along, sums, kind == "hessian")
        self._count(kind, self.curvature_row_count)
        return self._with_decay(sums, self.curvature_row_count, direction)

    def curvature_forms(self, x: Array, directions: Sequence[Array], hessian: bool) -> Forms:
        """Inner products in both matrices, from the forward half of each product."""
        flat = self._flat(x)
        along = [self._flat(direction) for direction in directions]
        forms = np.zeros((2, len(along), len(along)))
        for point in self._points(flat):
            forms += self.network.curvature_forms(flat, point, along, hessian)
        kind = "hessian form" if hessian else "gauss-newton form"
        self._count(kind, len(along) * self.curvature_row_count)
        forms = np.asarray(sum_over_ranks(self.comm, forms)) / self.curvature_row_count
        if self.l2:
            for layer in range(self.network.depth):
                weights = np.stack([self.network.weights(v, layer).ravel() for v in along])
                forms += self.l2 * (weights @ weights.T)
        return Forms(forms[0], forms[1] if hessian else None)

    def layer_samples(self, x: Array, draw: int) -> Iterator[LayerSample]:
        """Activations, and back-propagated random signs that stand for sampled targets."""
        flat = self._flat(x)
        rows = self.rows.start + self._curvature_rows.local
        outputs, first = self.network.sizes[-1], 0
        for point in self._points(flat):
            last = first + len(point.output)
            signs = random_signs(rows[first:last], outputs, draw, self.dtype)
            first = last
            for layer, delta in self.network.fisher_deltas(flat, point, signs):
                yield LayerSample(layer, point.activations[layer][:, None], delta[:, None])
        self._count("sample", self.curvature_row_count)

    def gradient_squares(self, x: Array) -> Array:
        sums = np.zeros(self.network.parameters, dtype=self.dtype)
        for point in self._points(self._flat(x)):
            self.network.add_gradient(point, sums, squared=True)
        return self._averaged(sums, self.curvature_row_count)

    # -- what is reported ------------------------------------------------------------------

    def metrics(self, x: Array) -> Mapping[str, Any]:
        """Squared error per case, and the part of rows classified rightly for one-hot targets."""
        flat = self._flat(x)
        squares, hits = [], 0
        for rows, targets in _chunks(self.inputs, self.targets):
            output = self.network.answer(flat, rows)
            squares.append(float(((output - targets) ** 2).sum(dtype=np.float64)))
            hits += int((output.argmax(axis=1) == targets.argmax(axis=1)).sum())
        measures = {"squared_error_per_case": self._mean(exact_sum(squares), self.rows.rows)}
        soft = not bool(((self.targets == 0) | (self.targets == 1)).all())
        if self.targets is not self.inputs and not any_over_ranks(self.comm, soft):
            measures["training_accuracy"] = self._mean(hits, self.rows.rows)
        return measures

    def value_error(self, value: float) -> float:
        """A few rounding units of the precision of the matrix products."""
        return 8 * float(np.finfo(self.dtype).eps) * abs(value)

    def identity(self) -> dict[str, Any]:
        """The arguments; rows may have been scaled, to bits that depend on the number of ranks."""
        rows = {"inputs": self.inputs, "targets": self.targets}
        sketches = {name: sketch(self.rows, block) for name, block in rows.items()}
        return {**super().identity(), **sketches, "held_out": None}

    def _flat(self, x: Array) -> np.ndarray:
        return x[:, 0].astype(self.dtype, copy=False)

    def _count(self, kind: str, rows: int) -> None:
        self.operations += self.network.flops(kind) * rows

    def _mean(self, local: float, rows: int) -> float:
        return float(sum_over_ranks(self.comm, float(local))) / rows

    def _decay(self, x: Array) -> float:
        if not self.l2:
            return 0.0
        layers = (self.network.weights(x[:, 0], k) for k in range(self.network.depth))
        return 0.5 * self.l2 * exact_sum([np.square(weights).sum() for weights in layers])

    def _averaged(self, sums: np.ndarray, rows: int) -> Array:
        """Mean over so many rows of all ranks; the sum over the ranks overwrites ``sums``."""
        sum_large(self.comm, sums)
        return sums[:, None].astype(float) / rows

    def _with_decay(self, sums: np.ndarray, rows: int, decaying: Array) -> Array:
        """The mean, and the decay's part: ``l2 * decaying``."""
        mean = self._averaged(sums, rows)
        for layer in range(self.network.depth) if self.l2 else ():
            weights = self.network.weights(mean[:, 0], layer)
            weights += self.l2 * self.network.weights(decaying[:, 0], layer)
        return mean

    def _fits(self, rows: int) -> bool:
        """Whether the activations and deltas of so many rows may be kept."""
        units = sum(self.network.sizes) + sum(self.network.sizes[1:])
        return rows * units * self.dtype.itemsize <= self.memory

    def _points(self, flat: np.ndarray) -> Iterator[Linearized]:
        """Linearized chunks of the curvature rows, kept while x stays the same."""
        chunks = _chunks(*self._curvature_batch)
        points = (self.network.linearize(flat, *chunk)[1] for chunk in chunks)
        known = self._linearized_at is not None and np.array_equal(self._linearized_at, flat)
        if self._linearized is None or not known:
            # A gradient without its products of activations and deltas.
            cost = self.network.flops("gradient") - self.network.flops("value")
            self.operations += cost * self.curvature_row_count
            if not self._fits(len(self._curvature_batch[0])):
                yield from points
                return
            self._linearized = list(points)
            self._linearized_at = flat.copy()  # callers may change theirs in place
        yield from self._linearized


def _chunks(inputs: np.ndarray, targets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(inputs), CHUNK):
        yield inputs[start : start + CHUNK], targets[start : start + CHUNK]

"""The training error of a network as an objective: data rows on the ranks, weights replicated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import GaussNewtonProduct, HessianProduct, Objective
from thalweg.parallel import (
    MPI,
    Layout,
    PETSc,
    any_over_ranks,
    exact_sum,
    sum_large,
    sum_over_ranks,
)
from thalweg_saddlefree.batches import CurvatureBatches, drawn_rows
from thalweg_saddlefree.gradient_squares import GradientSquares
from thalweg_saddlefree.networks.initialisation import INITIALISATIONS
from thalweg_saddlefree.networks.network import Linearised, Network

#: Rows that pass through the network together.
CHUNK = 1024


class NetworkObjective(
    Objective, HessianProduct, GaussNewtonProduct, CurvatureBatches, GradientSquares
):
    """Mean loss over all data rows plus ``l2 / 2`` times the squared weights (not biases).

    Parameters
    ----------
    comm
        The ranks that share the data rows.
    rows
        How the data rows lie on them.
    network
        Layers and loss.
    inputs, targets
        This rank's rows, shapes ``(local_rows, sizes[0])`` and ``(local_rows, sizes[-1])``.
    l2
        Weight decay.
    initialisation, scale
        Name of the scheme of :meth:`initial_point`, and its factor.
    precision
        ``"double"``, or ``"single"`` for matrix products in float32: nearly
        twice as fast, values good to six digits.
    memory
        Bytes a rank may keep activations in between curvature products at one point;
        what does not fit is computed again in every product.

    Attributes
    ----------
    work : float
        Matrix-product operations so far, in units of one full gradient.

    Raises
    ------
    InputError
        Data that are not finite.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        rows: Layout,
        network: Network,
        inputs: np.ndarray,
        targets: np.ndarray,
        *,
        l2: float = 0.0,
        initialisation: str = "glorot",
        scale: float = 1.0,
        precision: str = "double",
        memory: float = 2e9,
    ) -> None:
        super().__init__(comm, Layout(MPI.COMM_SELF, network.parameters))
        if rows.rows == 0:
            raise InputError("a network needs at least one row of data; the data set is empty")
        self.rows = rows
        self.network = network
        self.dtype = np.dtype(np.float64 if precision == "double" else np.float32)
        self.inputs = np.ascontiguousarray(inputs, dtype=self.dtype)
        same = targets is inputs
        self.targets = self.inputs if same else np.ascontiguousarray(targets, dtype=self.dtype)
        finite = bool(np.isfinite(self.inputs).all() and np.isfinite(self.targets).all())
        if any_over_ranks(comm, not finite):
            raise InputError("the data hold NaN or infinite values; remove or replace those rows")
        self.l2 = float(l2)
        self.initialisation = initialisation
        self.scale = float(scale)
        self.memory = float(memory)
        self.work = 0.0
        self._batch_rows = rows.rows
        self._batch = (self.inputs, self.targets)
        self._linearised: list[Linearised] | None = None
        self._linearised_at: np.ndarray | None = None

    # -- value and gradient ----------------------------------------------------------------

    def initial_point(self, seed: int) -> PETSc.Vec:
        """Weights of the chosen scheme."""
        start = INITIALISATIONS[self.initialisation](self.network, seed, self.scale)
        return self.layout.vec_from(start)

    def value(self, x: PETSc.Vec) -> float:
        """Mean loss plus weight decay."""
        flat = self._flat(x)
        total = exact_sum(
            [
                self.network.loss_of(flat, rows, targets)
                for rows, targets in _chunks(self.inputs, self.targets)
            ]
        )
        self._count("value", self.rows.rows)
        return self._mean(total) + self._decay(x)

    def value_and_gradient(self, x: PETSc.Vec, gradient: PETSc.Vec) -> float:
        """Mean loss plus weight decay, and their gradient."""
        flat = self._flat(x)
        sums = np.zeros(self.network.parameters, dtype=self.dtype)
        totals = []
        for rows, targets in _chunks(self.inputs, self.targets):
            total, point = self.network.linearise(flat, rows, targets)
            self.network.add_gradient(point, sums)
            totals.append(total)
        self._count("gradient", self.rows.rows)
        self._finish(x, sums, self.rows.rows, x, gradient)
        return self._mean(exact_sum(totals)) + self._decay(x)

    # -- curvature -------------------------------------------------------------------------

    def draw_curvature_rows(self, seed: int, counter: int, rows: int | None) -> None:
        """Let curvature products see a sample of the data rows."""
        self._linearised = self._linearised_at = None
        if rows is None or rows >= self.rows.rows:
            self._batch_rows, self._batch = self.rows.rows, (self.inputs, self.targets)
            return
        mine = drawn_rows(self.rows, seed, counter, rows)
        inputs = self.inputs[mine]
        targets = inputs if self.targets is self.inputs else self.targets[mine]
        self._batch_rows, self._batch = rows, (inputs, targets)

    def hessian_product(self, x: PETSc.Vec, direction: PETSc.Vec, product: PETSc.Vec) -> None:
        """Exact Hessian over the curvature rows, by the R-operator."""
        flat, along = self._flat(x), self._flat(direction)
        sums = np.zeros(self.network.parameters, dtype=self.dtype)
        for point in self._points(x, flat):
            self.network.add_hessian_product(flat, point, along, sums)
        self._count("hessian", self._batch_rows)
        self._finish(x, sums, self._batch_rows, direction, product)

    def gauss_newton_product(self, x: PETSc.Vec, direction: PETSc.Vec, product: PETSc.Vec) -> None:
        """Gauss-Newton matrix over the curvature rows, by the R-operator."""
        flat, along = self._flat(x), self._flat(direction)
        sums = np.zeros(self.network.parameters, dtype=self.dtype)
        for point in self._points(x, flat):
            self.network.add_gauss_newton_product(flat, point, along, sums)
        self._count("gauss-newton", self._batch_rows)
        self._finish(x, sums, self._batch_rows, direction, product)

    def gradient_squares(self, x: PETSc.Vec, squares: PETSc.Vec) -> None:
        """Mean over the curvature rows of the squared derivatives of their losses."""
        flat = self._flat(x)
        sums = np.zeros(self.network.parameters, dtype=self.dtype)
        for point in self._points(x, flat):
            self.network.add_gradient_squares(point, sums)
        sum_large(self.comm, sums)
        with self.layout.writing(squares) as target:
            target[:, 0] = sums
            target /= self._batch_rows

    # -- what is reported ------------------------------------------------------------------

    def metrics(self, x: PETSc.Vec) -> Mapping[str, Any]:
        """Squared error per case, and the part of rows classified rightly for one-hot targets."""
        flat = self._flat(x)
        squares, hits = [], 0
        for rows, targets in _chunks(self.inputs, self.targets):
            output = self.network.answer(flat, rows)
            squares.append(float(((output - targets) ** 2).sum(dtype=np.float64)))
            hits += int((output.argmax(axis=1) == targets.argmax(axis=1)).sum())
        found = {"squared_error_per_case": self._mean(exact_sum(squares))}
        if self.targets is not self.inputs and self._one_hot():
            found["training_accuracy"] = self._mean(hits)
        return found

    def fingerprint(self) -> str:
        """Layers, activations, loss, rows and weight decay."""
        sizes = "-".join(map(str, self.network.sizes))
        kinds = "-".join(type(activation).__name__ for activation in self.network.activations)
        loss = type(self.network.loss).__name__
        return f"network/{sizes}/{kinds}/{loss}/{self.rows.rows}/{self.l2!r}/{self.dtype}"

    # -- parts -----------------------------------------------------------------------------

    def _flat(self, x: PETSc.Vec) -> np.ndarray:
        return np.asarray(self.layout.reading(x)[:, 0], dtype=self.dtype)

    def _count(self, kind: str, rows: int) -> None:
        whole = self.network.flops("gradient") * self.rows.rows
        self.work += self.network.flops(kind) * rows / whole

    def _mean(self, local: float) -> float:
        return float(sum_over_ranks(self.comm, float(local))) / self.rows.rows

    def _one_hot(self) -> bool:
        local = not bool(((self.targets == 0) | (self.targets == 1)).all())
        return not any_over_ranks(self.comm, local)

    def _decay(self, x: PETSc.Vec) -> float:
        if not self.l2:
            return 0.0
        flat = self.layout.reading(x)[:, 0]
        squares = [
            np.square(self.network.weights(flat, k)).sum() for k in range(self.network.depth)
        ]
        return 0.5 * self.l2 * exact_sum(squares)

    def _finish(
        self, x: PETSc.Vec, sums: np.ndarray, rows: int, decaying: PETSc.Vec, out: PETSc.Vec
    ) -> None:
        """Sum over ranks, divide by the rows, add the decay's part: ``l2 * decaying``."""
        sum_large(self.comm, sums)
        with self.layout.writing(out) as target:
            target[:, 0] = sums
            target /= rows
            if self.l2:
                flat = self.layout.reading(decaying)[:, 0]
                for layer in range(self.network.depth):
                    weights = self.network.weights(target[:, 0], layer)
                    weights += self.l2 * self.network.weights(flat, layer)

    def _points(self, x: PETSc.Vec, flat: np.ndarray) -> Iterator[Linearised]:
        """Linearised chunks of the curvature rows, kept while x stays the same."""
        rows, targets = self._batch
        units = sum(self.network.sizes) + sum(self.network.sizes[1:])
        if len(rows) * units * self.dtype.itemsize > self.memory:
            for part, wanted in _chunks(rows, targets):
                yield self.network.linearise(flat, part, wanted)[1]
            self._count_linearising(rows=self._batch_rows)
            return
        if self._linearised_at is None or not np.array_equal(self._linearised_at, flat):
            self._linearised = [
                self.network.linearise(flat, part, wanted)[1]
                for part, wanted in _chunks(rows, targets)
            ]
            self._linearised_at = np.array(flat)
            self._count_linearising(rows=self._batch_rows)
        assert self._linearised is not None
        yield from self._linearised

    def _count_linearising(self, rows: int) -> None:
        # A gradient without its products of activations and deltas.
        cost = self.network.flops("gradient") - self.network.flops("value")
        self.work += cost * rows / (self.network.flops("gradient") * self.rows.rows)


def _chunks(inputs: np.ndarray, targets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(inputs), CHUNK):
        yield inputs[start : start + CHUNK], targets[start : start + CHUNK]

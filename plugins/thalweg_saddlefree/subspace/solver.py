"""Solver ``saddle-free-subspace``: |H| in the span of a few directions, on batches of data rows.

Each step builds the quadratic model over the preconditioned gradient, the last step and a few
Lanczos vectors in the preconditioner's metric, from exact products on a part of the batch, and
minimizes it with absolute eigenvalues (Dauphin et al., 2014) and Levenberg-Marquardt damping.
Batches grow as the noise of their gradients asks; MATHEMATICS.md explains both.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.interfaces import Objective, Preconditioner, Rows, Solver, require
from thalweg.parallel import Array, agreed
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_saddlefree.capabilities import (
    AdaptiveDamping,
    CurvatureForms,
    Forms,
    LayeredCurvature,
    use_all_rows,
)
from thalweg_saddlefree.curvature import Slices
from thalweg_saddlefree.curvature.operator import curvature_product
from thalweg_saddlefree.minibatches import (
    STOCHASTIC_COLUMNS,
    BatchSchedule,
    Minibatches,
    StochasticState,
)
from thalweg_saddlefree.subspace.model import SubspaceModel

#: Bounds of predictions of the first batches, an eighth of all unless the user says; by hand.
LEAST_BATCH, BATCH = 100, 1000

#: Predictions that curvature is computed from, at least; chosen by hand.
CURVATURE_PREDICTIONS = 250

#: A step after which the next batch's slope along it rises by more than so many times the
#: decrease that its own batch promised is taken back; chosen by hand.
RISE = 2.0

#: So is one after which the next batch's value is higher by more than so many times the usual
#: one: where units are saturated, slopes tell nothing, and no damping leads out of there; by hand.
BLOWUP = 1.0

#: Dampings tried before a step that raises the objective is given up; chosen by hand.
TRIALS = 8

#: Steps on batches in which the damping may fall at every step; chosen by hand.
FIRST_STEPS = 10

#: Batches of an epoch after which the damping does not fall until the epoch ends; chosen by hand.
LONG = 20

#: Part of the promised decrease that all rows see where a batch has the best size; chosen by hand.
KEPT = 1 / 3

#: Factor of the damping per step while predictions hold; chosen by hand.
DAMPING_DECAY = 0.93

#: Least damping in units of the curvature along the directions.
LEAST_DAMPING = 1e-8


@dataclass(frozen=True, kw_only=True)
class SubspaceState(StochasticState):
    """State of the solver ``saddle-free-subspace``."""

    last: Rows  # the last step
    counter: int = 0  # steps taken
    damping: float  # for the next step
    products: float = 0.0  # curvature products, and halves of products for forms, so far
    lowest_curvature: float = float("nan")  # least curvature of the Hessian in the last subspace
    negative_steps: int = 0  # steps so far whose subspace held negative curvature
    batch_rows: int = 0  # rows of the last batch
    ratio: float = float("nan")  # actual over predicted decrease when it was last measured
    #: Whether a prediction has failed so far, or the first steps on batches are over.
    settled: bool = False
    #: Slope of the next batch along the last step from which on the step is taken back.
    bound: float = float("inf")
    highest: float = float("inf")  # value of the next batch from which on the step is taken back
    size: float = 0.0  # rows of a batch in the present epoch
    #: Whether the last epochs kept less than ``KEPT`` of what their steps promised.
    noisy: bool = False
    #: Sums of the predicted decreases of this epoch's steps and of the last one's.
    predicted: float = 0.0
    earlier: float = 0.0

    def evaluated_here(self) -> "SubspaceState":
        """The state with value and gradient at its iterate, over the rows in use.  Collective."""
        value, gradient = self.objective.value_and_gradient(self.x)
        return self.at(self.x, value, gradient, evaluations=self.evaluations + 1)

    def taken_back(self) -> "SubspaceState":
        """The state before the last step, since the next batch shows that it went far too far."""
        state = replace(
            self,
            x=self.x - self.last,
            last=np.zeros_like(self.x),
            bound=float("inf"),
            highest=float("inf"),
            damping=4.0 * self.damping,
            predicted=0.0,  # what was lost is not the batches' noise
            earlier=0.0,
        )
        return state.evaluated_here()


@dataclass(frozen=True, kw_only=True)
class SubspaceSaddleFree(Solver[SubspaceState]):
    """Solver ``saddle-free-subspace``.

    Parameters
    ----------
    preconditioner
        The metric: ``kronecker`` for networks; None is the identity.

    Other parameters are described where they are declared. The damping of the objective's
    own weight decay is part of its curvature and need not be given.
    """

    preconditioner: Preconditioner | None = None
    curvature: Annotated[
        Literal["hessian", "gauss-newton"],
        Help("matrix of the quadratic model; Gauss-Newton is cheaper and has no negative part"),
    ] = "hessian"
    batch: Annotated[
        int | None,
        Help("rows of a step at first; by default an eighth, at most 1000 predictions", minimum=1),
    ] = None
    growth: Annotated[
        float, Help("largest factor of the batch from one epoch to the next; 1 keeps it", minimum=1)
    ] = 4.0
    largest_batch: Annotated[
        int | None, Help("upper bound of the batch; None: all rows", unit="rows", minimum=1)
    ] = 10 * BATCH
    curvature_share: Annotated[
        float,
        Help("share of a batch that curvature sees; 250 predictions at least", above=0, maximum=1),
    ] = 0.25
    lanczos: Annotated[
        int,
        Help("Lanczos vectors in the subspace, a product and a solve each", minimum=0, maximum=5),
    ] = 0
    layerwise: Annotated[
        bool, Help("step along each layer's part of the preconditioned gradient by itself")
    ] = False
    damping: Annotated[
        float, Help("initial Levenberg-Marquardt damping", unit="curvature", above=0)
    ] = 3.0
    least_damping: Annotated[
        float, Help("least damping; 0.01 fits rows less closely that are trained on", minimum=0)
    ] = 0.0
    check_every: Annotated[
        int, Help("steps between comparisons of actual and predicted decrease", minimum=1)
    ] = 5
    seed: Annotated[int, Help("seed of the batches", minimum=0)] = 0

    preconditioned: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    trace_columns: ClassVar[tuple[str, ...]] = (
        *STOCHASTIC_COLUMNS, "batch_rows", "products", "damping", "ratio", "lowest_curvature",
        "negative_steps",
    )  # fmt: skip

    def init(self, objective: Objective, x: Array) -> SubspaceState:
        kind = HessianProduct if self.curvature == "hessian" else GaussNewtonProduct
        require(objective, (kind,), f"curvature = '{self.curvature}'")
        if self.layerwise:
            require(objective, (LayeredCurvature,), "layerwise = true")
        size, done = 0, getattr(objective, "operations", 0)
        if isinstance(objective, Minibatches):
            rows = objective.data_layout.rows
            few, many = (-(-bound // objective.predictions) for bound in (LEAST_BATCH, BATCH))
            size = self.batch or max(few, min(many, rows // 8))
            size = min(rows, size, self.largest_batch or rows)
        state = SubspaceState(
            objective=objective, x=x, value=float("nan"), last=np.zeros_like(x),
            damping=self.damping, size=size,
        )  # fmt: skip
        state = self._evaluated(state)
        return replace(state, operations=getattr(objective, "operations", 0) - done)

    def step(self, state: SubspaceState) -> SubspaceState:
        """Model the batch at the iterate, move, and evaluate the next batch."""
        objective = state.objective
        if state.rows_differ:
            # The forward pass that products share is made again too.
            state = replace(self._evaluated(state), evaluations=state.evaluations)
        done = getattr(objective, "operations", 0)
        assert state.gradient is not None
        slope = objective.layout.dot(state.gradient, state.last)
        fits = agreed(objective.comm, slope <= state.bound and state.value <= state.highest)
        if not state.whole and not fits:
            state = state.taken_back()
        if not state.is_finite:
            return replace(state, outcome=Status.DIVERGED)
        if state.gradient_norm == 0.0:
            return replace(state, outcome=Status.SMALL_GRADIENT)
        if state.whole:
            moved = self._descended(state)
        elif not state.settled or (state.counter + 1) % self.check_every == 0:
            moved = self._measured(state)
        else:
            moved, _ = self._moved(state)
        counter = state.counter + 1
        # On its own batch a prediction holds however small the damping is.
        settled = moved.settled or (not state.whole and counter >= FIRST_STEPS)
        moved = replace(moved, counter=counter, settled=settled)
        if not moved.outcome.running:
            return moved
        following = moved.after_batch(self._schedule(moved), moved.value)
        if following.epoch > moved.epoch and not moved.whole:
            following = self._enlarged(following, moved.epoch_value)
        following = self._evaluated(following)
        done = getattr(objective, "operations", 0) - done
        return replace(following, operations=following.operations + done)

    def whole_value(self, state: SubspaceState) -> float:
        """The objective over all rows, which stay in use."""
        use_all_rows(state.objective)
        return state.objective.value(state.x)

    def close(self, state: SubspaceState) -> None:
        use_all_rows(state.objective)

    def _schedule(self, state: SubspaceState) -> BatchSchedule:
        if not isinstance(state.objective, Minibatches):
            return BatchSchedule(1, 1)
        return BatchSchedule(state.objective.data_layout.rows, round(state.size), self.seed)

    def _enlarged(self, state: SubspaceState, former: float) -> SubspaceState:
        """Choose the batch of the next epoch, so that the decrease per row is greatest.

        The mean values of two epochs, both over all rows, show the share of what steps promised on
        their batches that was kept; MATHEMATICS.md derives the rest.
        """
        promised = 0.5 * (state.predicted + state.earlier)
        share = (former - state.epoch_value) / promised if promised > 0 else float("nan")
        size = state.size
        if math.isfinite(share):
            factor = 2.0 * (1.0 - share) / (1.0 + share) if share > -1.0 else self.growth
            size *= min(self.growth, max(1.0, factor))
            size = min(size, self.largest_batch or size)
        return replace(state, size=size, noisy=share < KEPT, earlier=state.predicted, predicted=0.0)

    def _evaluated(self, state: SubspaceState) -> SubspaceState:
        """Value and gradient over the batch that comes next."""
        schedule = self._schedule(state)
        if isinstance(state.objective, Minibatches):
            least = CURVATURE_PREDICTIONS / state.objective.predictions
            share = min(1.0, max(self.curvature_share, least / state.size))
            state = state.with_rows(schedule, share)
            first, last = schedule.bounds(state.batch)
            state = replace(state, batch_rows=last - first)
        return replace(state, whole=schedule.batches == 1).evaluated_here()

    def _directions(self, state: SubspaceState) -> list[Array]:
        """Preconditioned gradient or its layers, last step if there is one, and Lanczos vectors."""
        assert state.gradient is not None
        norm, metric = state.objective.layout.norm, self.preconditioner
        if isinstance(metric, AdaptiveDamping):
            metric.damp(state.damping)
        if metric is not None:
            metric.update(state.x)
        along = -(state.gradient if metric is None else metric.apply(state.gradient))
        directions = [along]
        if self.layerwise and isinstance(state.objective, LayeredCurvature):
            directions = _parts_by_layer(state.objective, along)
        directions += [state.last] if norm(state.last) > 0 else []
        for _ in range(self.lanczos):
            vector = self._product(state, along)
            if metric is not None:
                vector = metric.apply(vector)
            if (length := norm(vector)) > 0:
                vector = vector * (norm(along) / length)
            directions.append(vector)
            along = vector
        return directions

    def _product(self, state: SubspaceState, direction: Array) -> Array:
        return curvature_product(state.objective, state.x, direction, self.curvature == "hessian")

    def _model(self, state: SubspaceState, directions: list[Array]) -> SubspaceModel:
        assert state.gradient is not None
        slices = Slices.of(state.objective)
        pieces = [slices.view(array) for array in (state.gradient, *directions)]
        inner = slices.total(np.array([[float(a @ b) for b in pieces] for a in pieces]))
        return SubspaceModel(inner[0, 1:], inner[1:, 1:], self._forms(state, directions))

    def _forms(self, state: SubspaceState, directions: list[Array]) -> Forms:
        objective, hessian = state.objective, self.curvature == "hessian"
        if isinstance(objective, CurvatureForms):
            return objective.curvature_forms(state.x, directions, hessian)
        slices = Slices.of(objective)
        pieces = [slices.view(direction) for direction in directions]
        images = [slices.view(self._product(state, direction)) for direction in directions]
        forms = slices.total(np.array([[float(a @ b) for b in pieces] for a in images]))
        forms = 0.5 * (forms + forms.T)
        return Forms(None, forms) if hessian else Forms(forms, None)

    def _moved(self, state: SubspaceState) -> tuple[SubspaceState, float]:
        """The state after the model's step, and the change that the model predicts."""
        layout, directions = state.objective.layout, self._directions(state)
        model = self._model(state, directions)
        # Forms take half of a product each.
        cost = 0.5 if isinstance(state.objective, CurvatureForms) else 1.0
        # A smaller one changes no step, and would take long to rise again.
        damping = max(state.damping, LEAST_DAMPING * float(model.curvature))
        minimizer = agreed(state.objective.comm, model.step(damping))
        change = float(minimizer.change)
        step = layout.combine(np.zeros_like(state.x), minimizer.coefficients, directions)
        # A batch may be worse than the last one by chance, but hardly than those of an epoch.
        usual = np.fmax(abs(state.value), abs(state.epoch_value))
        moved = replace(
            state, x=state.x + step, last=step,
            products=state.products + self.lanczos + cost * len(directions), damping=damping,
            bound=-RISE * float(model.slopes @ minimizer.coefficients),
            highest=state.value + BLOWUP * float(usual),
            predicted=state.predicted - change, lowest_curvature=minimizer.lowest,
            negative_steps=state.negative_steps + int(minimizer.lowest < 0),
            step_length=layout.norm(step),
        )  # fmt: skip
        return moved, change

    def _descended(self, state: SubspaceState) -> SubspaceState:
        """All rows are in use: raise the damping until the step lowers the objective.

        Each step is compared then, and the damping follows as much faster.
        """
        x, last, negative = state.x, state.last, state.negative_steps
        for trial in range(TRIALS):
            state, change = self._compared(state)
            if change <= 0:
                return state
            damping = state.damping * 4.0 ** (trial + 1)  # it may be too small by any factor
            state = replace(state, x=x, last=last, negative_steps=negative, damping=damping)
        return replace(state, outcome=Status.PRECISION_LIMIT)

    def _measured(self, state: SubspaceState) -> SubspaceState:
        """Take a step and compare it with its prediction on its own batch."""
        moved, change = self._compared(state)
        if change < moved.predicted - state.predicted:
            return moved
        # Worse by more than it was to be better.
        return replace(moved, x=state.x, last=np.zeros_like(state.x), damping=4.0 * moved.damping)

    def _compared(self, state: SubspaceState) -> tuple[SubspaceState, float]:
        """The state after a step, its damping adapted, and the change of the objective."""
        moved, predicted = self._moved(state)
        change = moved.objective.value(moved.x) - moved.value
        moved = replace(moved, evaluations=moved.evaluations + 1)
        ratio = change / predicted if predicted < 0 else -math.inf
        # In a long epoch it waits for what the epoch will show of noise.
        waits = not moved.whole and (moved.batch >= LONG or moved.noisy)
        damping, settled = self.adapted(moved.damping, moved.settled, ratio, waits)
        moved = replace(moved, ratio=ratio, settled=bool(settled), damping=float(damping))
        return moved, change

    def adapted(
        self, damping: Any, settled: Any, ratio: Any, waits: Any, xp: Any = np
    ) -> tuple[Any, Any]:
        """Levenberg-Marquardt rule (Martens and Grosse 2015, section 6.5), also in ``jax.numpy``.

        The damping after a ratio, which falls unless it ``waits``, and whether a prediction has
        failed so far.
        """
        failed = ~(xp.asarray(ratio) >= 0.75) & ~xp.asarray(settled)
        settled = failed | settled
        # It fell fast, and only this step shows how far.
        damping = xp.where(failed, 4.0 * damping, damping)
        # The first damping is a guess that may be far too large. Where a step gains more than
        # the damped model promised, the damping and not the curvature limited it.
        slow, fast = (DAMPING_DECAY ** (n * self.check_every) for n in (1, 2))
        factor = xp.where(~settled | (ratio > 1.0), fast, slow)
        falls, rises = (ratio > 0.75) & ~xp.asarray(waits), ~xp.asarray(ratio >= 0.25)
        damping = xp.where(falls, damping * factor, xp.where(rises, damping / factor, damping))
        return xp.maximum(damping, self.least_damping), settled


def _parts_by_layer(objective: LayeredCurvature, whole: Array) -> list[Array]:
    """A direction's parts in each layer that sum to it, but for those of zeros."""
    parts = [np.zeros_like(whole) for _ in objective.layers]
    for part, layer in zip(parts, objective.layers, strict=True):
        part[layer.start : layer.stop] = whole[layer.start : layer.stop]
    return [part for part in parts if part.any()]

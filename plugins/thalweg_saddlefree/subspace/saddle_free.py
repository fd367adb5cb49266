"""Solver ``saddle-free-subspace``: |H| in the span of a few directions, on batches of data rows.

Each step builds the quadratic model over the preconditioned gradient, the last step
and a few Lanczos vectors of the curvature in the preconditioner's metric, from exact
products on a part of the batch, and minimizes it with absolute eigenvalues
(Dauphin et al., 2014) and Levenberg-Marquardt damping.  Batches grow as the noise of
their gradients asks.  With the Kronecker metric and the Gauss-Newton matrix over the
first two directions, this is K-FAC with its automatic step length and momentum (Martens
and Grosse, 2015, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import TRANSIENT, Objective, Preconditioner, Solver
from thalweg.parallel import Vector, agreed
from thalweg.plugins import Help, check_declared
from thalweg.result import Status
from thalweg_saddlefree.capabilities import AdaptiveDamping, CurvatureForms, Forms
from thalweg_saddlefree.curvature import Slices
from thalweg_saddlefree.minibatches import (
    STOCHASTIC_COLUMNS,
    BatchSchedule,
    Minibatches,
    StochasticState,
)
from thalweg_saddlefree.subspace.model import SubspaceModel

#: Rows of the first batches where the user sets none: an eighth of all, within these bounds.
LEAST_BATCH, BATCH = 100, 1000

#: Rows that curvature is computed from, at least.
CURVATURE_ROWS = 250

#: A step after which the next batch's slope along it rises by more than so many times the
#: decrease that its own batch promised is taken back.
RISE = 2.0

#: So is one after which the next batch's value is higher by more than so many times the usual
#: one: where units are saturated, slopes tell nothing, and no damping leads out of there.
BLOWUP = 1.0

#: Dampings tried before a step that raises the objective is given up.
TRIALS = 8

#: Steps on batches in which the damping may fall at every step.
FIRST_STEPS = 10

#: Batches of an epoch after which the damping does not fall until the epoch ends.
LONG = 20

#: Part of the promised decrease that all rows see where a batch has the best size.
KEPT = 1 / 3

#: Least damping in units of the curvature along the directions.
LEAST_DAMPING = 1e-8


@dataclass(kw_only=True)
class SubspaceState(StochasticState):
    """State of :class:`SubspaceSaddleFree`.

    Attributes
    ----------
    last
        The last step.
    counter
        Steps taken.
    damping
        For the next step.
    products
        Curvature products, and halves of products for forms, so far.
    lowest
        Least curvature of the Hessian in the last subspace.
    negative
        Steps so far whose subspace held negative curvature.
    rows
        Rows of the last batch.
    ratio
        Actual over predicted decrease when it was last measured.
    settled
        Whether a prediction has failed so far, or the first steps on batches are over.
    bound
        Slope of the next batch along the last step from which on the step is taken back.
    highest
        Value of the next batch from which on the step is taken back.
    size
        Rows of a batch in the present epoch.
    noisy
        Whether the last epochs kept less than :data:`KEPT` of what their steps promised.
    predicted, earlier
        Sums of the predicted decreases of this epoch's steps and of the last one's.
    in_use
        Epoch and batch whose rows the objective uses.
    """

    last: Vector
    counter: int = 0
    damping: float
    products: float = 0.0
    lowest: float = float("nan")
    negative: int = 0
    rows: int = 0
    ratio: float = float("nan")
    settled: bool = False
    bound: float = float("inf")
    highest: float = float("inf")
    size: float = 0.0
    noisy: bool = False
    predicted: float = 0.0
    earlier: float = 0.0
    in_use: tuple[int, int] = field(default=(-1, -1), metadata=TRANSIENT)


@dataclass(frozen=True, kw_only=True)
class SubspaceSaddleFree(Solver[SubspaceState]):
    """Solver ``saddle-free-subspace``.

    Parameters
    ----------
    preconditioner
        The metric: ``kronecker`` for networks; None is the identity.

    Other parameters are described where they are declared. The damping of the objective's
    own weight decay is part of its curvature and need not be given.

    Raises
    ------
    InputError
        Options out of range; the objective is not finite at the start.
    """

    preconditioner: Preconditioner | None = None
    curvature: Annotated[
        Literal["hessian", "gauss-newton"],
        Help("matrix of the quadratic model; Gauss-Newton is cheaper and has no negative part"),
    ] = "hessian"
    batch: Annotated[
        int | None,
        Help(
            "data rows of a step in the first epoch; by default an eighth, at most 1000",
            unit="rows",
            minimum=1,
        ),
    ] = None
    growth: Annotated[
        float, Help("largest factor of the batch from one epoch to the next; 1 keeps it", minimum=1)
    ] = 4.0
    largest_batch: Annotated[
        int | None, Help("upper bound of the batch; None: all rows", unit="rows", minimum=1)
    ] = 10 * BATCH
    curvature_share: Annotated[
        float,
        Help(
            "share of the batch that curvature is computed from, 250 rows at least",
            above=0,
            maximum=1,
        ),
    ] = 0.25
    lanczos: Annotated[
        int,
        Help("Lanczos vectors in the subspace, a product and a solve each", minimum=0, maximum=5),
    ] = 0
    damping: Annotated[
        float, Help("initial Levenberg-Marquardt damping", unit="curvature", above=0)
    ] = 3.0
    damping_decay: Annotated[
        float, Help("factor of the damping per step while predictions hold", above=0, below=1)
    ] = 0.93
    check_every: Annotated[
        int, Help("steps between comparisons of actual and predicted decrease", minimum=1)
    ] = 5
    seed: Annotated[int, Help("seed of the batches", minimum=0)] = 0

    preconditioned: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    trace_columns: ClassVar[tuple[str, ...]] = (
        *STOCHASTIC_COLUMNS,
        "batch_rows",
        "products",
        "damping",
        "ratio",
        "lowest_curvature",
        "negative_steps",
    )

    def __post_init__(self) -> None:
        check_declared(self)

    # -- the interface ---------------------------------------------------------------------

    def init(self, objective: Objective, x: Vector) -> SubspaceState:
        """One evaluation over the first batch."""
        if not isinstance(objective, HessianProduct | GaussNewtonProduct):
            raise InputError(
                f"{type(objective).__name__} has neither Hessian nor Gauss-Newton products"
            )
        if not self._kind(objective):
            raise InputError(
                f"{type(objective).__name__} has no {self.curvature} product; choose the other "
                "curvature"
            )
        state = SubspaceState(
            objective=objective,
            x=x,
            value=float("nan"),
            gradient=x.duplicate(),
            last=objective.layout.create_vec(),
            damping=self.damping,
        )
        if isinstance(objective, Minibatches):
            rows = objective.data_layout.rows
            size = self.batch or max(LEAST_BATCH, min(BATCH, rows // 8))
            state.size = min(rows, size, self.largest_batch or rows)
        done = operations_of(objective)
        self._evaluate(state)
        state.operations = operations_of(objective) - done
        if not (math.isfinite(state.value) and math.isfinite(state.gradient_norm)):
            raise InputError(
                f"the objective or its gradient is not finite at the starting point "
                f"({state.value}); start from another point or scale the data"
            )
        return state

    def step(self, state: SubspaceState) -> SubspaceState:
        """Model the batch at the iterate, move, and evaluate the next batch."""
        assert state.gradient is not None
        done = operations_of(state.objective)
        if state.in_use != (state.epoch, state.batch):
            # A resumed run: the rows, and the forward pass that products share, are those
            # of the start.
            self._evaluate(state)
            state.evaluations -= 1
            done = operations_of(state.objective)
        fits = state.gradient.dot(state.last) <= state.bound and state.value <= state.highest
        fits = agreed(state.objective.comm, fits)
        if not state.whole and not fits:
            self._take_back(state)
        if not (math.isfinite(state.value) and math.isfinite(state.gradient_norm)):
            state.outcome = Status.DIVERGED
        elif state.gradient_norm == 0.0:
            state.outcome = Status.SMALL_GRADIENT
        if not state.outcome.running:
            return state
        schedule = self._schedule(state)
        self.move(state)
        if state.outcome.running:
            epoch, former = state.epoch, state.epoch_value
            state.count_batch(schedule, state.value)
            if state.epoch > epoch and not state.whole:
                self._enlarge(state, former)
            self._evaluate(state)
            state.operations += operations_of(state.objective) - done
        return state

    def move(self, state: SubspaceState) -> None:
        """Move ``x`` by one step for the gradient in ``state``, with the rows now in use.

        Collective.  ``last`` is then the step.
        """
        measured = not state.settled or (state.counter + 1) % self.check_every == 0
        if state.whole:
            self._descend(state)
        elif measured:
            self._measure(state)
        else:
            self._take(state)
        state.counter += 1
        # On its own batch a prediction holds however small the damping is.
        state.settled |= not state.whole and state.counter >= FIRST_STEPS

    def trace_row(self, state: SubspaceState) -> Mapping[str, float]:
        """The last step."""
        return state.trace_row() | {
            "batch_rows": state.rows,
            "products": state.products,
            "damping": state.damping,
            "ratio": state.ratio,
            "lowest_curvature": state.lowest,
            "negative_steps": state.negative,
        }

    def whole_value(self, state: SubspaceState) -> float:
        """The objective over all rows, which stay in use."""
        if isinstance(state.objective, Minibatches):
            state.objective.use_rows(None)
        return state.objective.value(state.x)

    # -- parts -----------------------------------------------------------------------------

    def _kind(self, objective: Objective) -> bool:
        kind = HessianProduct if self.curvature == "hessian" else GaussNewtonProduct
        return isinstance(objective, kind)

    def _schedule(self, state: SubspaceState) -> BatchSchedule:
        if not isinstance(state.objective, Minibatches):
            return BatchSchedule(1, 1)
        return BatchSchedule(state.objective.data_layout.rows, round(state.size), self.seed)

    def _enlarge(self, state: SubspaceState, former: float) -> None:
        """Choose the batch of the next epoch, so that the decrease per row is greatest.

        Let a step promise the decrease S + N on its batch, S by what all rows have in common
        and N, which falls as the inverse of the batch, by its noise. On all rows it then
        gains S - N, and (S - N) per row of a batch is greatest where N = S / 2.  The mean
        values of two epochs, both over all rows, show S - N.
        """
        promised = 0.5 * (state.predicted + state.earlier)
        state.earlier, state.predicted = state.predicted, 0.0
        kept = (former - state.epoch_value) / promised if promised > 0 else float("nan")
        state.noisy = kept < KEPT
        if math.isfinite(kept):
            factor = 2.0 * (1.0 - kept) / (1.0 + kept) if kept > -1.0 else self.growth
            state.size *= min(self.growth, max(1.0, factor))
            state.size = min(state.size, self.largest_batch or state.size)

    def _take_back(self, state: SubspaceState) -> None:
        """Undo the last step, since the next batch shows that it went far too far."""
        state.x.axpy(-1.0, state.last)
        state.last.set(0.0)
        state.bound = state.highest = float("inf")
        state.damping *= 4.0
        state.predicted = state.earlier = 0.0  # what was lost is not the batches' noise
        self._evaluate_here(state)

    def _evaluate(self, state: SubspaceState) -> None:
        """Value and gradient over the batch that comes next."""
        self._use_rows(state)
        self._evaluate_here(state)

    @staticmethod
    def _evaluate_here(state: SubspaceState) -> None:
        assert state.gradient is not None
        state.value = state.objective.value_and_gradient(state.x, state.gradient)
        state.gradient_norm = state.gradient.norm()
        state.evaluations += 1

    def _use_rows(self, state: SubspaceState) -> None:
        if isinstance(state.objective, Minibatches) and state.in_use != (state.epoch, state.batch):
            share = min(1.0, max(self.curvature_share, CURVATURE_ROWS / state.size))
            rows, part = state.rows_of(self._schedule(state), share)
            state.objective.use_rows(rows, part)
            state.rows = rows.total
        state.in_use = (state.epoch, state.batch)
        state.whole = self._schedule(state).batches == 1

    def _directions(self, state: SubspaceState) -> list[Vector]:
        """Preconditioned gradient, last step if there is one, and Lanczos vectors."""
        assert state.gradient is not None
        first = state.gradient.duplicate()
        metric = self.preconditioner
        if isinstance(metric, AdaptiveDamping):
            metric.damp(state.damping)
        if metric is None:
            state.gradient.copy(first)
        else:
            metric.update(state.x)
            metric.apply(state.gradient, first)
        first.scale(-1.0)
        directions = [first, state.last] if state.last.norm() > 0 else [first]
        along = first
        for _ in range(self.lanczos):
            image, vector = first.duplicate(), first.duplicate()
            self._product(state, along, image)
            if metric is None:
                image.copy(vector)
            else:
                metric.apply(image, vector)
            norm = vector.norm()
            if norm > 0:
                vector.scale(along.norm() / norm)
            directions.append(vector)
            along = vector
        return directions

    def _product(self, state: SubspaceState, vector: Vector, image: Vector) -> None:
        objective = state.objective
        if self.curvature == "hessian":
            assert isinstance(objective, HessianProduct)
            objective.hessian_product(state.x, vector, image)
        else:
            assert isinstance(objective, GaussNewtonProduct)
            objective.gauss_newton_product(state.x, vector, image)
        state.products += 1

    def _model(self, state: SubspaceState, directions: list[Vector]) -> SubspaceModel:
        assert state.gradient is not None
        slices = Slices.of(state.objective)
        pieces = [slices.view(vec) for vec in (state.gradient, *directions)]
        inner = np.array([[float(a @ b) for b in pieces] for a in pieces])
        inner = slices.total(inner)
        return SubspaceModel(inner[0, 1:], inner[1:, 1:], self._forms(state, directions))

    def _forms(self, state: SubspaceState, directions: list[Vector]) -> Forms:
        objective, hessian = state.objective, self.curvature == "hessian"
        if isinstance(objective, CurvatureForms):
            state.products += 0.5 * len(directions)
            return objective.curvature_forms(state.x, directions, hessian)
        slices = Slices.of(objective)
        image = state.x.duplicate()
        forms = np.empty((len(directions), len(directions)))
        for row, vector in zip(forms, directions, strict=True):
            self._product(state, vector, image)
            row[:] = [float(slices.view(image) @ slices.view(v)) for v in directions]
        forms = slices.total(forms)
        forms = 0.5 * (forms + forms.T)
        return Forms(None, forms) if hessian else Forms(forms, None)

    def _take(self, state: SubspaceState) -> float:
        """Take the model's step; the change that it predicts."""
        directions = self._directions(state)
        step = state.x.duplicate()
        model = self._model(state, directions)
        # A smaller one changes no step, and would take long to rise again.
        state.damping = max(state.damping, LEAST_DAMPING * model.curvature)
        found = agreed(state.objective.comm, model.step(state.damping))
        step.set(0.0)
        step.maxpy(found.coefficients, directions)
        state.x.axpy(1.0, step)
        state.last, step = step, state.last
        state.bound = -RISE * float(model.slopes @ found.coefficients)
        # A batch may be worse than the last one by chance, but hardly than those of an epoch.
        usual = np.fmax(abs(state.value), abs(state.epoch_value))
        state.highest = state.value + BLOWUP * float(usual)
        state.predicted -= found.change
        state.lowest = found.lowest
        state.negative += int(found.lowest < 0)
        state.step_length = state.last.norm()
        return found.change

    def _descend(self, state: SubspaceState) -> None:
        """All rows are in use: raise the damping until the step lowers the objective.

        Each step is compared then, and the damping follows as much faster.
        """
        before, last, negative = state.x.copy(), state.last.copy(), state.negative
        for trial in range(TRIALS):
            if self._compared(state) <= 0:
                return
            before.copy(state.x)
            last.copy(state.last)
            state.negative = negative
            state.damping *= 4.0 ** (trial + 1)  # it may be too small by any factor
        state.outcome = Status.PRECISION_LIMIT

    def _measure(self, state: SubspaceState) -> None:
        """Take a step and compare it with its prediction on its own batch."""
        if not math.isfinite(state.value):  # a caller knows the gradient alone
            state.value = state.objective.value(state.x)
        before, promised = state.x.copy(), state.predicted
        change = self._compared(state)
        if not change < state.predicted - promised:  # worse by more than it was to be better
            before.copy(state.x)
            state.last.set(0.0)
            state.damping *= 4.0

    def _compared(self, state: SubspaceState) -> float:
        """Take a step, let the damping follow, and return the change of the objective."""
        predicted = self._take(state)
        change = state.objective.value(state.x) - state.value
        state.evaluations += 1
        self._adapt(state, change, predicted)
        return change

    def _adapt(self, state: SubspaceState, change: float, predicted: float) -> None:
        """Levenberg-Marquardt rule (Martens and Grosse 2015, section 6.5)."""
        state.ratio = change / predicted if predicted < 0 else float("-inf")
        if not state.settled and not state.ratio >= 0.75:
            state.settled = True
            state.damping *= 4.0  # it fell fast, and only this step shows how far
        # The first damping is a guess that may be far too large. Where a step gains more than
        # the damped model promised, the damping and not the curvature limited it.
        fast = not state.settled or state.ratio > 1.0
        factor = self.damping_decay ** ((2 if fast else 1) * self.check_every)
        if state.ratio > 0.75:
            # In a long epoch it waits for what the epoch will show of noise.
            if state.whole or (state.batch < LONG and not state.noisy):
                state.damping *= factor
        elif not state.ratio >= 0.25:
            state.damping /= factor


def operations_of(objective: Objective) -> int:
    """Work that an objective has counted."""
    return objective.operations if isinstance(objective, Minibatches) else 0

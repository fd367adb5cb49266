"""Limited-memory BFGS with any preconditioner as H0."""

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import numpy as np

from thalweg.interfaces import Rows
from thalweg.parallel import Array, agreed
from thalweg.plugins import Help
from thalweg_descent.descent import Descent, Direction, Metric, Move

#: Factor of a step that still falls at its end, as long as there are no pairs; chosen by hand.
GROWTH = 4.0


@dataclass(frozen=True)
class Pairs:
    """What is known of the curvature."""

    #: The pairs ``s = x - x_old`` and ``y = g - g_old``, the oldest first.
    steps: tuple[Rows, ...] = ()
    changes: tuple[Rows, ...] = ()
    #: ``s_i . y_j`` for j no older than i, which is all that both loops need.
    products: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    gamma: float = 1.0  # factor of B^-1 in H0
    next_step: float | None = None  # first trial while there are no pairs, if known
    #: With a constant B: B^-1 times the gradient at the iterate, and times the changes.
    solved_gradient: Rows | None = None
    solved_changes: tuple[Rows, ...] = ()


@dataclass(frozen=True)
class LimitedMemory(Direction[Pairs]):
    """Two-loop recursion (Nocedal and Wright, algorithm 7.4).

    The inner products between stored pairs are kept, so that each loop over the
    pairs is one block of inner products and one block of updates: two global
    reductions per direction instead of two per pair.
    """

    memory: int = 10  # number of pairs
    #: ``"secant"``: H0 = gamma B^-1 with ``gamma = s.y / y.B^-1 y``; ``"none"``: gamma = 1.  With
    #: a preconditioner that changes, the secant costs a second application of it per iteration;
    #: with a constant one none, since the inverse of B times each y is kept.
    scaling: str = "secant"

    def start(self) -> Pairs:
        """No pairs."""
        return Pairs()

    def is_reset(self, memory: Pairs) -> bool:
        """Whether there are no pairs."""
        return not memory.steps

    def reset(self, memory: Pairs) -> Pairs:
        """Drop all pairs."""
        return Pairs(next_step=memory.next_step)

    def compute(self, memory: Pairs, metric: Metric, gradient: Array) -> tuple[Array, Pairs]:
        """``p = -H g``."""
        layout, steps, products = metric.layout, memory.steps, memory.products
        if metric.constant and memory.solved_gradient is None:
            memory = replace(memory, solved_gradient=metric.apply(gradient))
        solved = memory.solved_gradient
        if not steps:
            return -(metric.apply(gradient) if solved is None else solved), memory
        curvatures = np.diag(products)
        # First loop: alpha_i = (s_i.g - sum over newer j of alpha_j s_i.y_j) / s_i.y_i.
        alpha = np.array(layout.dots(gradient, steps))
        for i in reversed(range(len(steps))):
            alpha[i] = (alpha[i] - products[i, i + 1 :] @ alpha[i + 1 :]) / curvatures[i]
        if solved is None:
            rest = metric.apply(layout.combine(gradient, -alpha, memory.changes))
        else:
            rest = layout.combine(solved, -alpha, memory.solved_changes)
        rest = memory.gamma * rest
        # Second loop: the pair i gives alpha_i - beta_i, beta_i from the older ones.
        beta = layout.dots(rest, memory.changes)
        weights = np.zeros(len(steps))
        for i in range(len(steps)):
            weights[i] = alpha[i] - (beta[i] + products[:i, i] @ weights[:i]) / curvatures[i]
        return -layout.combine(rest, weights, steps), memory

    def first_step(self, memory: Pairs, metric: Metric, slope: float) -> float | None:
        """1, once pairs or the preconditioner know the scale.

        Near a saddle no step shows curvature, so that there are no pairs: then
        the step grows as in steepest descent, but faster.
        """
        if not self.is_reset(memory):
            return 1.0
        step = memory.next_step
        return step if step is not None or metric.is_identity else 1.0

    def update(self, memory: Pairs, metric: Metric, move: Move) -> Pairs:
        """Store the pair ``s = x - x_old``, ``y = g - g_old``, if it shows curvature."""
        start, end = move.start, move.end
        falling = move.first_try and end.slope < 0
        layout, old = metric.layout, memory.solved_gradient
        solved = None if old is None else metric.apply(end.gradient)
        next_step = end.step * GROWTH if falling else end.step
        memory = replace(memory, next_step=next_step, solved_gradient=solved)
        s, y = end.x - start.x, end.gradient - start.gradient
        solved_y = None if old is None or solved is None else solved - old
        sy, ss, yy = agreed(move.comm, (layout.dot(s, y), layout.dot(s, s), layout.dot(y, y)))
        if not (sy > 1e-10 * math.sqrt(ss * yy) and math.isfinite(sy + ss + yy)):
            return memory
        memory = self._stored(memory, metric, s, y, solved_y)
        if self.scaling == "secant":
            norm = yy
            if not metric.is_identity:
                norm = layout.dot(metric.apply(y) if solved_y is None else solved_y, y)
            if norm > 0.0:
                memory = replace(memory, gamma=sy / norm)
        return memory

    def _stored(
        self, memory: Pairs, metric: Metric, s: Array, y: Array, solved_y: Array | None
    ) -> Pairs:
        """The memory with a pair, and with B^-1 y if that is known, in place of the oldest."""
        steps = (*memory.steps, s)[-self.memory :]
        older, count = len(steps) - 1, len(steps)
        products = np.zeros((count, count))
        products[:-1, :-1] = memory.products[-older:, -older:] if older else 0.0
        products[:, -1] = metric.layout.dots(y, steps)
        solved = memory.solved_changes
        if solved_y is not None:
            solved = (*solved, solved_y)[-self.memory :]
        changes = (*memory.changes, y)[-self.memory :]
        memory = replace(memory, steps=steps, changes=changes, products=products)
        return replace(memory, solved_changes=solved)


@dataclass(frozen=True, kw_only=True)
class LBFGS(Descent):
    """Limited-memory BFGS; the preconditioner is its H0.

    The defaults were found on nonlinear embeddings: there, scaled by the last pair,
    a first trial of 1 is nearly always accepted, and a backtracking search gets lower
    than a Wolfe search.  A step that shows too little curvature gives no pair.  The step cap
    keeps early steps from blowing up a small map.
    """

    corrects_preconditioner: ClassVar[bool] = True

    step_cap: float | None = 1.0
    memory: Annotated[int, Help("number of curvature pairs", minimum=1)] = 10
    scaling: Annotated[
        Literal["secant", "none"], Help("factor of H0: by the last curvature pair, or none")
    ] = "secant"

    def direction(self) -> LimitedMemory:
        """Quasi-Newton directions."""
        return LimitedMemory(self.memory, self.scaling)

"""Limited-memory BFGS with any preconditioner as H0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from thalweg.parallel import Vector, agreed
from thalweg.plugins import Help
from thalweg_descent.descent import Descent
from thalweg_descent.direction import Direction, Memory, Metric, Move

#: Factor of a step that still falls at its end, as long as there are no pairs.
GROWTH = 4.0


@dataclass(frozen=True)
class LimitedMemory(Direction):
    """Two-loop recursion (Nocedal and Wright, algorithm 7.4).

    The inner products between stored pairs are kept, so that each loop over the
    pairs is one block of inner products and one block of updates: two global
    reductions per direction instead of two per pair.

    Attributes
    ----------
    memory
        Number of pairs.
    scaling
        ``"secant"``: H0 = gamma B^-1 with ``gamma = s.y / y.B^-1 y``; ``"none"``:
        gamma = 1.  With a preconditioner that changes, the secant costs a second
        application of it per iteration; with a constant one none, since the inverse of B
        times each y is kept.
    damping
        ``"powell"``: a change of gradient that shows too little curvature is
        bent towards the model's (Nocedal and Wright, procedure 18.2); ``"skip"``:
        its pair is left out.
    """

    memory: int = 10
    scaling: str = "secant"
    damping: str = "skip"

    def start(self, x: Vector) -> Memory:
        """No pairs."""
        return {
            "steps": [],
            "changes": [],
            "products": np.zeros((0, 0)),
            "gamma": 1.0,
            "next_step": None,
            # With a constant B: B^-1 times the gradient at the iterate, and times the changes.
            "preconditioned_gradient": [],
            "preconditioned_changes": [],
        }

    def is_reset(self, memory: Memory) -> bool:
        """Whether there are no pairs."""
        return not memory["steps"]

    def reset(self, memory: Memory) -> None:
        """Drop all pairs."""
        memory.update(
            steps=[], changes=[], preconditioned_gradient=[], preconditioned_changes=[], gamma=1.0
        )
        memory.update(products=np.zeros((0, 0)))

    def compute(self, memory: Memory, metric: Metric, gradient: Vector, direction: Vector) -> None:
        """``p = -H g``."""
        steps, changes, products = memory["steps"], memory["changes"], memory["products"]
        if not steps:
            self._preconditioned(memory, metric, gradient).copy(direction)
            direction.scale(-1.0)
            return
        curvatures = np.diag(products)
        # First loop: alpha_i = (s_i.g - sum over newer j of alpha_j s_i.y_j) / s_i.y_i.
        alpha = inner_products(gradient, steps)
        for i in reversed(range(len(steps))):
            alpha[i] = (alpha[i] - products[i, i + 1 :] @ alpha[i + 1 :]) / curvatures[i]
        if metric.constant:
            self._preconditioned(memory, metric, gradient).copy(direction)
            direction.maxpy(-alpha, memory["preconditioned_changes"])
        else:
            rest = gradient.duplicate()
            gradient.copy(rest)
            rest.maxpy(-alpha, changes)
            metric.apply(rest, direction)
        direction.scale(memory["gamma"])
        # Second loop: the pair i gives alpha_i - beta_i, beta_i from the older ones.
        beta = inner_products(direction, changes)
        weights = np.zeros(len(steps))
        for i in range(len(steps)):
            weights[i] = alpha[i] - (beta[i] + products[:i, i] @ weights[:i]) / curvatures[i]
        direction.maxpy(weights, steps)
        direction.scale(-1.0)

    def first_step(self, memory: Memory, metric: Metric, slope: float) -> float | None:
        """1, once pairs or the preconditioner know the scale.

        Near a saddle no step shows curvature, so that there are no pairs: then
        the step grows as in steepest descent, but faster.
        """
        if not self.is_reset(memory):
            return 1.0
        step: float | None = memory["next_step"]
        return step if step is not None or metric.is_identity else 1.0

    def update(self, memory: Memory, metric: Metric, move: Move) -> None:
        """Store the pair ``s = x - x_old``, ``y = g - g_old``, if it shows curvature."""
        falling = move.first_try and move.new_slope < 0
        memory["next_step"] = move.step * GROWTH if falling else move.step
        # The model's own curvature along the step is known without applying it:
        # B_k s = -step g_old, and s.B_k s = -step^2 p.g_old.
        modeled = -(move.step**2) * move.slope
        s = move.old_x
        s.aypx(-1.0, move.x)
        measured = move.step * (move.new_slope - move.slope)
        share = 1.0
        if self.damping == "powell" and measured < 0.2 * modeled:
            share = 0.8 * modeled / (modeled - measured)
        preconditioned = self._preconditioned_change(memory, metric, move, share)
        y = move.old_gradient
        # y = share (g - g_old) + (1 - share) (-step g_old)
        y.scale(-(share + (1.0 - share) * move.step))
        y.axpy(share, move.gradient)
        sy, ss, yy = agreed(move.comm, (s.dot(y), s.dot(s), y.dot(y)))
        if sy > 1e-10 * math.sqrt(ss * yy) and math.isfinite(sy + ss + yy):
            self._store(memory, s, y, preconditioned)
            if self.scaling == "secant":
                norm = yy if metric.is_identity else self._metric_norm(metric, y, preconditioned)
                memory["gamma"] = sy / norm if norm > 0.0 else memory["gamma"]

    @staticmethod
    def _preconditioned(memory: Memory, metric: Metric, gradient: Vector) -> Vector:
        """B^-1 times the gradient at the iterate; kept until the next step."""
        if not memory["preconditioned_gradient"]:
            memory["preconditioned_gradient"] = [gradient.duplicate()]
            metric.apply(gradient, memory["preconditioned_gradient"][0])
        return memory["preconditioned_gradient"][0]

    def _preconditioned_change(
        self, memory: Memory, metric: Metric, move: Move, share: float
    ) -> Vector | None:
        """B^-1 y for the y of the step, if B is constant; keeps B^-1 times the new gradient."""
        if not memory["preconditioned_gradient"]:
            return None
        old = memory["preconditioned_gradient"].pop()
        if not metric.constant:
            return None
        new = self._preconditioned(memory, metric, move.gradient)
        old.scale(-(share + (1.0 - share) * move.step))
        old.axpy(share, new)
        return old

    @staticmethod
    def _metric_norm(metric: Metric, y: Vector, preconditioned: Vector | None) -> float:
        if preconditioned is not None:
            return float(preconditioned.dot(y))
        z = y.duplicate()
        metric.apply(y, z)
        norm = float(z.dot(y))
        return norm

    def _store(
        self, memory: Memory, s: Vector, y: Vector, preconditioned: Vector | None = None
    ) -> None:
        steps, changes = list(memory["steps"]), list(memory["changes"])
        products = np.array(memory["products"])
        if len(steps) == self.memory:
            own_s, own_y = steps.pop(0), changes.pop(0)
            products = products[1:, 1:]
        else:
            own_s, own_y = s.duplicate(), y.duplicate()
        s.copy(own_s)
        y.copy(own_y)
        if preconditioned is not None:
            images = list(memory["preconditioned_changes"])
            own_image = images.pop(0) if len(images) == self.memory else preconditioned.duplicate()
            preconditioned.copy(own_image)
            memory["preconditioned_changes"] = [*images, own_image]
        steps.append(own_s)
        changes.append(own_y)
        count = len(steps)
        grown = np.zeros((count, count))
        grown[:-1, :-1] = products
        # Both loops need s_i.y_j only for j no older than i.
        grown[:, -1] = inner_products(own_y, steps)
        memory.update(steps=steps, changes=changes, products=grown)


def inner_products(vec: Vector, others: Sequence[Vector]) -> np.ndarray:
    """``[vec . other for other in others]``, float64.  Collective."""
    return np.array(vec.layout.dots(vec.rows, [other.rows for other in others]), dtype=float)


@dataclass(frozen=True, kw_only=True)
class LBFGS(Descent):
    """Limited-memory BFGS; the preconditioner is its H0.

    The defaults were found on nonlinear embeddings: there, scaled by the last pair,
    a first trial of 1 is nearly always accepted, a backtracking search gets lower
    than a Wolfe search, and skipping pairs without curvature lower than damping
    them.  The step cap keeps early steps from blowing up a small map.
    """

    step_cap: float | None = 1.0
    memory: Annotated[int, Help("number of curvature pairs", minimum=1)] = 10
    scaling: Annotated[
        Literal["secant", "none"], Help("factor of H0: by the last curvature pair, or none")
    ] = "secant"
    damping: Annotated[
        Literal["skip", "powell"], Help("what to do with a step that shows too little curvature")
    ] = "skip"

    def direction(self) -> LimitedMemory:
        """Quasi-Newton directions."""
        return LimitedMemory(self.memory, self.scaling, self.damping)

"""Preconditioned nonlinear conjugate gradients: rules for beta, directions, and the solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from thalweg.parallel import Vector
from thalweg.plugins import Help
from thalweg_descent.descent import Descent
from thalweg_descent.direction import Direction, Memory, Metric, Move

#: Rules for beta, by name.
BETA_RULES = ("polak-ribiere+", "hager-zhang", "fletcher-reeves", "dai-yuan")


@dataclass(frozen=True)
class Conjugate(Direction):
    """``p = -z + beta p_old`` with ``z = B^-1 g``.

    With ``y = g - g_old``:

    - polak-ribiere+: ``max(0, z.y / z_old.g_old)``
    - hager-zhang: ``(z.y - 2 (y.B^-1 y) (p.g) / (p.y)) / (p.y)``, bounded below
      (Hager and Zhang 2005, eqs. 1.3 and 1.6, in the metric of B)
    - fletcher-reeves: ``z.g / z_old.g_old``
    - dai-yuan: ``z.g / p.y``

    Attributes
    ----------
    beta
        The rule.
    restart
        Steps between restarts along ``-z``; None for as many as there are unknowns.
    """

    beta: str = "polak-ribiere+"
    restart: int | None = None

    def start(self, x: Vector) -> Memory:
        """No direction yet."""
        return {
            "since": 0,
            "direction": x.duplicate(),
            "z": x.duplicate(),
            "change": x.duplicate(),
            "old_zg": math.nan,
            "zg": math.nan,
            "step": None,
            "slope": math.nan,
        }

    def is_reset(self, memory: Memory) -> bool:
        """Whether the next direction is ``-z``."""
        return int(memory["since"]) == 0

    def reset(self, memory: Memory) -> None:
        """Make the next direction ``-z``; the step length stays a good guess."""
        memory["since"] = 0

    def compute(self, memory: Memory, metric: Metric, gradient: Vector, direction: Vector) -> None:
        """``p = -z + beta p_old``."""
        # ``direction`` is scratch for z until beta is known: hager-zhang needs the old z.
        z, old, last = direction, memory["z"], memory["direction"]
        metric.apply(gradient, z)
        zg = z.dot(gradient)
        limit = self.restart or gradient.getSize()
        if memory["since"] >= limit:
            memory["since"] = 0
        beta = self._beta(memory, gradient, z, zg) if memory["since"] else 0.0
        z.copy(old)
        memory["zg"] = zg
        direction.scale(-1.0)
        if beta != 0.0:
            direction.axpy(beta, last)
        direction.copy(last)

    def _beta(self, memory: Memory, gradient: Vector, z: Vector, zg: float) -> float:
        y, last, old = memory["change"], memory["direction"], memory["z"]
        if self.beta == "fletcher-reeves":
            return _ratio(zg, memory["old_zg"])
        if self.beta == "polak-ribiere+":
            return max(0.0, _ratio(z.dot(y), memory["old_zg"]))
        py = last.dot(y)
        if self.beta == "dai-yuan":
            return max(0.0, _ratio(zg, py))
        if not py > 0:
            return 0.0
        zy, old_zy = z.dot(y), old.dot(y)
        beta = _ratio(zy - 2.0 * (zy - old_zy) * _ratio(last.dot(gradient), py), py)
        # Bounded below as in eq. (1.6), the gradient measured by the inverse of B.
        length, slope = last.norm(), math.sqrt(max(memory["old_zg"], 0.0))
        bound = -1.0 / (length * min(0.01, slope)) if length * slope > 0 else 0.0
        return max(beta, bound)

    def first_step(self, memory: Memory, metric: Metric, slope: float) -> float | None:
        """The step that promises the same decrease as the last (Nocedal and Wright, 3.5)."""
        if memory["step"] is None:
            return None if metric.is_identity else 1.0
        step: float = memory["step"] * max(0.1, min(10.0, _ratio(memory["slope"], slope)))
        return step

    def update(self, memory: Memory, metric: Metric, move: Move) -> None:
        """Keep the change of the gradient."""
        move.old_gradient.aypx(-1.0, move.gradient)
        move.old_gradient.copy(memory["change"])
        memory["old_zg"] = memory["zg"]
        # Where the line would have been lowest, by its slopes at both ends.
        fall = move.slope - move.new_slope
        longer = move.slope / fall if fall < 0 else 4.0
        memory["step"] = move.step * max(0.25, min(4.0, longer))
        memory["slope"] = move.slope
        memory["since"] += 1


def _ratio(numerator: float, denominator: float) -> float:
    if denominator == 0 or not math.isfinite(numerator / denominator):
        return 0.0
    return numerator / denominator


@dataclass(frozen=True, kw_only=True)
class NonlinearCG(Descent):
    """Nonlinear conjugate gradients with a strong Wolfe search."""

    line_search: str = "strong-wolfe"
    curvature: float = 0.1
    beta: Annotated[str, Help("rule that makes directions conjugate", choices=BETA_RULES)] = (
        "polak-ribiere+"
    )
    restart: Annotated[
        int | None,
        Help("steps between restarts along -B^-1 g; the number of unknowns by default", minimum=1),
    ] = None

    def direction(self) -> Conjugate:
        """Conjugate directions."""
        return Conjugate(self.beta, self.restart)

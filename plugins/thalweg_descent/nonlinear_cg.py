"""Preconditioned nonlinear conjugate gradients: rules for beta, directions, and the solver."""

import math
from dataclasses import dataclass, replace
from typing import Annotated

from thalweg.interfaces import Rows
from thalweg.parallel import Array
from thalweg.plugins import Help
from thalweg_descent.descent import Descent, Direction, Metric, Move

#: Rules for beta, by name.
BETA_RULES = ("polak-ribiere+", "hager-zhang", "fletcher-reeves", "dai-yuan")


@dataclass(frozen=True)
class LastDirection:
    """What a conjugate direction is made of."""

    since: int = 0  # steps since the last along ``-z``
    #: The direction taken last, the z that it was made of, and ``z.g``.
    direction: Rows | None = None
    z: Rows | None = None
    zg: float = math.nan
    #: ``y = g - g_old`` of the step taken last, and ``z_old.g_old``.
    change: Rows | None = None
    old_zg: float = math.nan
    #: Where the line would have been lowest, and the derivative at its beginning.
    step: float | None = None
    slope: float = math.nan


@dataclass(frozen=True)
class Conjugate(Direction[LastDirection]):
    """``p = -z + beta p_old`` with ``z = B^-1 g``.

    With ``y = g - g_old``:

    - polak-ribiere+: ``max(0, z.y / z_old.g_old)``
    - hager-zhang: ``(z.y - 2 (y.B^-1 y) (p.g) / (p.y)) / (p.y)``, bounded below
      (Hager and Zhang 2005, eqs. 1.3 and 1.6, in the metric of B)
    - fletcher-reeves: ``z.g / z_old.g_old``
    - dai-yuan: ``z.g / p.y``
    """

    beta: str = "polak-ribiere+"  # the rule
    #: Steps between restarts along ``-z``; None for as many as there are unknowns.
    restart: int | None = None

    def start(self) -> LastDirection:
        """No direction yet."""
        return LastDirection()

    def is_reset(self, memory: LastDirection) -> bool:
        """Whether the next direction is ``-z``."""
        return memory.since == 0

    def reset(self, memory: LastDirection) -> LastDirection:
        """Make the next direction ``-z``; the step length stays a good guess."""
        return replace(memory, since=0)

    def compute(
        self, memory: LastDirection, metric: Metric, gradient: Array
    ) -> tuple[Array, LastDirection]:
        """``p = -z + beta p_old``."""
        layout = metric.layout
        z = metric.apply(gradient)
        zg = layout.dot(z, gradient)
        since = memory.since if memory.since < (self.restart or layout.size) else 0
        beta = self._beta(memory, metric, gradient, z, zg) if since else 0.0
        direction = -z
        if beta != 0.0:
            assert memory.direction is not None
            direction = layout.combine(direction, (beta,), (memory.direction,))
        return direction, replace(memory, since=since, direction=direction, z=z, zg=zg)

    def _beta(
        self, memory: LastDirection, metric: Metric, gradient: Array, z: Array, zg: float
    ) -> float:
        dot, y, last, old = metric.layout.dot, memory.change, memory.direction, memory.z
        assert y is not None
        assert last is not None
        assert old is not None
        if self.beta == "fletcher-reeves":
            return _ratio(zg, memory.old_zg)
        if self.beta == "polak-ribiere+":
            return max(0.0, _ratio(dot(z, y), memory.old_zg))
        py = dot(last, y)
        if self.beta == "dai-yuan":
            return max(0.0, _ratio(zg, py))
        if not py > 0:
            return 0.0
        zy, old_zy = dot(z, y), dot(old, y)
        beta = _ratio(zy - 2.0 * (zy - old_zy) * _ratio(dot(last, gradient), py), py)
        # Bounded below as in eq. (1.6), the gradient measured by the inverse of B.
        length, slope = metric.layout.norm(last), math.sqrt(max(memory.old_zg, 0.0))
        return max(beta, -1.0 / (length * min(0.01, slope)) if length * slope > 0 else 0.0)

    def first_step(self, memory: LastDirection, metric: Metric, slope: float) -> float | None:
        """The step that promises the same decrease as the last (Nocedal and Wright, 3.5)."""
        if memory.step is None:
            return None if metric.is_identity else 1.0
        return memory.step * max(0.1, min(10.0, _ratio(memory.slope, slope)))

    def update(self, memory: LastDirection, metric: Metric, move: Move) -> LastDirection:
        """Keep the change of the gradient."""
        # Where the line would have been lowest, by its slopes at both ends.
        start, end = move.start, move.end
        fall = start.slope - end.slope
        longer = start.slope / fall if fall < 0 else 4.0
        step, change = end.step * max(0.25, min(4.0, longer)), end.gradient - start.gradient
        memory = replace(memory, since=memory.since + 1, old_zg=memory.zg, change=change)
        return replace(memory, step=step, slope=start.slope)


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
        int | None, Help("steps between restarts along -B^-1 g; as many as unknowns", minimum=1)
    ] = None

    def direction(self) -> Conjugate:
        """Conjugate directions."""
        return Conjugate(self.beta, self.restart)

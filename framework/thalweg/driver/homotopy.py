"""Following a homotopy parameter from an easy problem to the wanted one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from thalweg.driver.stopping import Stop
from thalweg.errors import InputError
from thalweg.interfaces import Homotopy

#: Share of each budget of a run that the stages before the last may use, so that any budget
#: ends at the problem that is wanted.
EARLY_STAGES = 0.8


@dataclass(frozen=True)
class HomotopySchedule:
    """Values of the parameter, each minimized from the last one's result.

    Early exaggeration by a factor a is the same thing with lambda = 1/a first.

    Attributes
    ----------
    values
        One for each stage; the last is the wanted problem.
    stage
        Rules that end a stage and begin the next; by default a relative decrease of a
        single iteration below 1e-6, since no more than a start for the next stage is
        wanted.  The last stage ends by the rules of the run, whose limits hold over
        all stages; it begins at the latest when four fifths of one are used.
    """

    values: tuple[float, ...]
    stage: Stop = field(default_factory=lambda: Stop(iterations=10_000, decrease=1e-6, window=1))

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) for value in self.values):
            raise InputError(f"homotopy needs at least one finite value, not {list(self.values)}")

    @classmethod
    def proposed_by(cls, objective: Homotopy) -> HomotopySchedule | None:
        """The stages that an objective proposes, None if it proposes none."""
        values = tuple(objective.default_homotopy())
        if not values:
            return None
        iterations = objective.default_stage_iterations
        if iterations is None:
            return cls(values)
        return cls(values, Stop(iterations=iterations, decrease=1e-6, window=1))

    @classmethod
    def logarithmic(
        cls, first: float, last: float, stages: int, stage: Stop | None = None
    ) -> HomotopySchedule:
        """``stages`` values spaced evenly in the logarithm from ``first`` to ``last``."""
        if first <= 0 or last <= 0 or stages < 1:
            raise InputError("homotopy needs positive ends and at least one stage")
        ratio = math.log(last / first)
        early = [first * math.exp(ratio * k / (stages - 1)) for k in range(stages - 1)]
        return cls((*early, last), *(() if stage is None else (stage,)))

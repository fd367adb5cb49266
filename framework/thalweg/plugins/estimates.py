"""What a run will take: the terms in which plugins predict it, before any data are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Problem:
    """A configured run on so many ranks, known by its shapes alone.

    Attributes
    ----------
    rows, columns
        Of the data; 0 where there are none.
    ranks
        Number of ranks.
    objective, solver, preconditioner
        Their sections of the configuration, with every option.
    iterations
        That the run may take.
    """

    rows: int
    columns: int
    ranks: int
    objective: Mapping[str, Any] = field(default_factory=dict)
    solver: Mapping[str, Any] = field(default_factory=dict)
    preconditioner: Mapping[str, Any] = field(default_factory=dict)
    iterations: int = 100

    @property
    def local(self) -> float:
        """Rows of the rank that has most."""
        return float(-(-self.rows // self.ranks))

    @property
    def others(self) -> float:
        """Share of evenly distributed rows that lie on other ranks."""
        return 1.0 - 1.0 / self.ranks


@dataclass(frozen=True)
class PhaseEstimate:
    """What a phase of a run takes on the rank that has most to do.

    Attributes
    ----------
    name
        Of the phase.
    kept
        Bytes that stay in memory until the run's end.
    passing
        Bytes more while the phase lasts.
    sent, messages
        Bytes and messages that the rank sends, in all.
    operations
        Arithmetic operations, in all.
    advice
        What to change where the phase does not fit.
    """

    name: str
    kept: float = 0.0
    passing: float = 0.0
    sent: float = 0.0
    messages: float = 0.0
    operations: float = 0.0
    advice: str = "use more ranks or fewer rows"

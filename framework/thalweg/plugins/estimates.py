"""Estimates of what a run will take, which plugins make from the shapes of its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Bytes of a process that has imported its modules; estimates add their compiled kernels.
PROCESS_BYTES = 172e6


@dataclass(frozen=True)
class Problem:
    """A configured run on a number of ranks, known by its shapes alone.

    Attributes
    ----------
    rows, columns
        Shape of the data; 0 without data.
    ranks
        Number of ranks.
    objective, solver, preconditioner
        Sections of the configuration, with every option.
    iterations
        Largest number of iterations of the run.
    """

    rows: int
    columns: int
    ranks: int
    objective: Mapping[str, Any] = field(default_factory=dict)
    solver: Mapping[str, Any] = field(default_factory=dict)
    preconditioner: Mapping[str, Any] = field(default_factory=dict)
    iterations: int = 100

    @property
    def local_rows(self) -> float:
        """Rows of the rank that holds most."""
        return float(-(-self.rows // self.ranks))

    @property
    def remote_share(self) -> float:
        """Share of evenly distributed rows that lie on other ranks."""
        return 1.0 - 1.0 / self.ranks


@dataclass(frozen=True)
class PhaseEstimate:
    """Estimate of a phase of a run, on the rank that has most to do.

    Attributes
    ----------
    name
        Name of the phase.
    persistent
        Bytes that stay in memory until the run's end.
    temporary
        Further bytes while the phase lasts.
    sent
        Bytes that the rank sends during the phase.
    advice
        Advice where the phase does not fit into memory.
    note
        A sentence on what else a user should know of the phase on so many ranks.
    """

    name: str
    persistent: float = 0.0
    temporary: float = 0.0
    sent: float = 0.0
    advice: str = "use more ranks or fewer rows"
    note: str = ""


def peaks(phases: Sequence[PhaseEstimate]) -> list[float]:
    """Peak bytes of each phase on the rank that needs most, the process itself included."""
    found, held = [], PROCESS_BYTES
    for phase in phases:
        held += phase.persistent
        found.append(held + phase.temporary)
    return found

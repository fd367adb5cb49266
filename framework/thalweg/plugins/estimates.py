"""Estimates of the memory of a run, which plugins make from the shapes of its data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Bytes of a process that has imported its modules, as measured on one machine; estimates add
#: their compiled kernels.
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
    """

    rows: int
    columns: int
    ranks: int
    objective: Mapping[str, Any] = field(default_factory=dict)
    solver: Mapping[str, Any] = field(default_factory=dict)
    preconditioner: Mapping[str, Any] = field(default_factory=dict)

    @property
    def local_rows(self) -> float:
        """Rows of the rank that holds most."""
        return float(-(-self.rows // self.ranks))


@dataclass(frozen=True)
class PhaseEstimate:
    """Memory of a phase of a run, on the rank that needs most.

    Attributes
    ----------
    name
        Name of the phase.
    persistent
        Bytes that stay in memory until the run's end.
    temporary
        Further bytes while the phase lasts.
    advice
        Advice where the phase does not fit into memory.
    """

    name: str
    persistent: float = 0.0
    temporary: float = 0.0
    advice: str = "use more ranks or fewer rows"


def peaks(phases: Sequence[PhaseEstimate]) -> list[float]:
    """Peak bytes of each phase on the rank that needs most, the process itself included."""
    totals, persistent = [], PROCESS_BYTES
    for phase in phases:
        persistent += phase.persistent
        totals.append(persistent + phase.temporary)
    return totals

"""Planned memory of a configured run, from the shapes of its data."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thalweg.errors import InputError
from thalweg.numerics import decomposed_size
from thalweg.plugins import ObjectiveSpec, PhaseEstimate, Problem, peaks, plugins
from thalweg.plugins.specs import PROCESS_BYTES
from thalweg.workbench.config import Method, read_configuration
from thalweg.workbench.readers.load import data_shape, data_size
from thalweg.workbench.report import format_table

#: Largest number of ranks that is proposed.
MAX_RANKS = 2**20

_UNITS = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Memory that a run, of several methods the one with this label, would take in its phases."""

    problem: Problem
    phases: tuple[PhaseEstimate, ...]
    label: str = ""

    @property
    def memory(self) -> float:
        """Peak bytes of the run on the rank that needs most."""
        return max(peaks(self.phases))

    @property
    def peak_phase(self) -> PhaseEstimate:
        """The phase with the largest peak."""
        return self.phases[peaks(self.phases).index(self.memory)]

    def table(self) -> str:
        """The phases as a table."""
        rows = [
            {"phase": phase.name, "GiB per rank": f"{peak / 2**30:.2f}"}
            for phase, peak in zip(self.phases, peaks(self.phases), strict=True)
        ]
        return format_table(rows)

    def verdict(self, available: float | None) -> str:
        """One sentence: whether it fits into so many bytes per rank, and what to change."""
        ranks, memory = self.problem.ranks, self.memory
        most = f"{_gib(memory)} on the rank that needs most, in the phase '{self.peak_phase.name}'"
        run = f"run of the method '{self.label}'" if self.label else "run"
        if available is None:
            return f"A {run} on {ranks:,} ranks would take {most}."
        if memory <= available:
            fits = f"A {run} on {ranks:,} ranks fits into {_gib(available)} per rank"
            return f"{fits}: it would take {most}."
        if available < PROCESS_BYTES:
            return (
                f"no {run} fits into {_gib(available)} per rank: Python and the libraries alone "
                f"take {_gib(PROCESS_BYTES)}; give each rank more memory"
            )
        more = (ranks * 2**power for power in range(1, MAX_RANKS.bit_length()))
        tried = (planned(replace(self.problem, ranks=n)) for n in more if n <= MAX_RANKS)
        enough = next((one.problem.ranks for one in tried if one.memory <= available), None)
        change = f"use {enough:,} ranks, or" if enough else "no number of ranks helps:"
        return (
            f"a {run} on {ranks:,} ranks does not fit into {_gib(available)} per rank: it would "
            f"take {most}; {change} {self.peak_phase.advice}, or fewer ranks of more threads"
        )


def plans(
    config: Path | str | Mapping[str, Any],
    ranks: int,
    *,
    rows: int | None = None,
    columns: int | None = None,
    changes: Sequence[str] = (),
) -> list[Plan]:
    """Plan the memory of each method of a configuration, one where it has no ``[[method]]``.

    ``rows`` and ``columns`` are the shape of the data in place of that which the configuration
    names; with both, no data are read.  Not collective.
    """
    for name, value in (("--ranks", ranks), ("--rows", rows), ("--columns", columns)):
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, not {value}")
    configuration = read_configuration(config, changes)
    data, read, whole = configuration.data, 0, 0
    shape = (0, 0) if data is None else (rows or 0, columns or 0)
    if data is not None and 0 in shape:
        *stored, whole = data_size(data)
        shape = (rows or stored[0], columns or stored[1])
        whole = whole * math.prod(shape) // math.prod(stored)
        if data.get("components") is not None:
            read = data_shape({**data, "components": None})[1]
    own = Method("", configuration.solver, configuration.preconditioner)
    made = []
    for method in configuration.methods or (own,):
        parts = (configuration.objective, method.solver, method.preconditioner or {})
        made.append(planned(Problem(*shape, ranks, *parts, read, whole), method.label))
    return made


def planned(problem: Problem, label: str = "") -> Plan:
    """The plan of a problem, by the estimate of its objective's plugin."""
    spec, _ = plugins().find(ObjectiveSpec, problem.objective["name"])
    if not spec.estimate:
        raise InputError(
            f"{spec.owner} does not say what it takes; name a function of its plugin in the "
            "field 'estimate' of its ObjectiveSpec"
        )
    phases = spec.resolve(spec.estimate)(problem)
    if problem.read_columns:
        # What is read, centered and multiplied; and a matrix of all columns, or rows, if small.
        wide = problem.read_columns
        size = 24.0 * (problem.local_rows * wide + decomposed_size(problem.rows, wide) ** 2)
        advice = "use data that were projected before"
        phases = [PhaseEstimate("components", 0.0, size, advice), *phases]
    if problem.root_bytes:
        # Measured: 1.1 times the rows for an npz file, 1.8 for MATLAB's, 2.3 for a text table.
        size = 1.5 * problem.root_bytes
        advice = "use a format that each rank reads for itself, such as .npy"
        phases = [PhaseEstimate("file of rank 0", 0.0, size, advice), *phases]
    return Plan(problem, tuple(phases), label)


def bytes_of(text: str) -> float:
    """A size such as ``"4GiB"``, ``"500 MB"`` or ``"2e9"`` in bytes."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    try:
        size = float(match[1]) * _UNITS[match[2]] if match else 0.0
    except (ValueError, KeyError):
        size = 0.0
    if not 0.0 < size < math.inf:
        raise InputError(f"--memory-per-rank needs a size such as 4GiB, not '{text}'")
    return size


def _gib(size: float) -> str:
    return f"{size / 2**30:,.2f} GiB"

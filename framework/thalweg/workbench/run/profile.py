"""Profile of a run: seconds, messages and bytes of each phase, and memory, on every rank."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from typing import Any

from thalweg.parallel import MPI
from thalweg.parallel.traffic import Phase, phases
from thalweg.workbench.report import format_table


def profile(comm: MPI.Comm, since: Mapping[str, Phase] | None = None) -> list[dict[str, Any]]:
    """An entry for each rank, in their order.  Collective.

    Parameters
    ----------
    since
        What the phases had taken when the run began; by default the counts are the
        process's.

    Returns
    -------
    list of dict
        ``phases``: name to seconds (without the phases inside), bytes and messages that
        this rank sent, and calls.  ``peak_memory``: bytes of the process, until now.
    """
    before = since or {}
    found = {}
    for name, now in phases().items():
        then = before.get(name, Phase())
        took = {key: value - getattr(then, key) for key, value in vars(now).items()}
        if took["calls"] or took["messages"]:
            found[name] = took
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    return comm.allgather({"phases": found, "peak_memory": peak})  # type: ignore[no-any-return]


def profile_table(ranks: list[dict[str, Any]]) -> str:
    """A profile as a table: a row for each phase, with the ranks' mean and largest figures."""
    names = sorted({name for rank in ranks for name in rank["phases"]})
    rows = []
    for name in names:
        of_ranks = [rank["phases"].get(name, vars(Phase())) for rank in ranks]
        row: dict[str, Any] = {"phase": name, "calls": max(one["calls"] for one in of_ranks)}
        seconds = [one["seconds"] for one in of_ranks]
        row["s, mean"] = round(sum(seconds) / len(seconds), 3)
        row["s, most"] = round(max(seconds), 3)
        row["messages, most"] = max(one["messages"] for one in of_ranks)
        row["MB sent, mean"] = round(sum(one["bytes"] for one in of_ranks) / len(ranks) / 1e6, 3)
        row["MB sent, most"] = round(max(one["bytes"] for one in of_ranks) / 1e6, 3)
        rows.append(row)
    memory = ", ".join(f"{rank['peak_memory'] / 2**20:.0f}" for rank in ranks)
    return f"{format_table(rows)}\npeak memory of the ranks, MiB: {memory}"

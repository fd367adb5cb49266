"""Profile of a run: seconds, messages and bytes of each phase, and memory, on every rank."""

import resource
import sys
from collections.abc import Mapping
from typing import Any

from thalweg.parallel import MPI
from thalweg.parallel.traffic import Phase, phases
from thalweg.workbench.report import format_table


def profile(comm: MPI.Comm, since: Mapping[str, Phase] | None = None) -> list[dict[str, Any]]:
    """An entry for each rank, in their order.  Collective.

    ``phases``: name to seconds (without the phases inside), bytes and messages that this rank
    sent, and calls, without those of ``since``.  ``peak_memory``: bytes of the process, until now.
    """
    taken = {}
    for name, now in phases().items():
        then = (since or {}).get(name, Phase())
        took = {key: value - getattr(then, key) for key, value in vars(now).items()}
        if took["calls"] or took["messages"]:
            taken[name] = took
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    return comm.allgather({"phases": taken, "peak_memory": peak})  # type: ignore[no-any-return]


def profile_table(ranks: list[dict[str, Any]]) -> str:
    """A profile as a table: a row for each phase, with the ranks' mean and largest figures."""
    rows = []
    for name in sorted({name for rank in ranks for name in rank["phases"]}):
        of_ranks = [vars(Phase()) | rank["phases"].get(name, {}) for rank in ranks]
        taken = {key: [one[key] for one in of_ranks] for key in vars(Phase())}
        row = {
            "phase": name,
            "calls": max(taken["calls"]),
            "s, mean": round(sum(taken["seconds"]) / len(ranks), 3),
            "s, most": round(max(taken["seconds"]), 3),
            "messages, most": max(taken["messages"]),
            "MB sent, mean": round(sum(taken["bytes"]) / len(ranks) / 1e6, 3),
            "MB sent, most": round(max(taken["bytes"]) / 1e6, 3),
        }
        rows.append(row)
    memory = ", ".join(f"{rank['peak_memory'] / 2**20:.0f}" for rank in ranks)
    return f"{format_table(rows)}\npeak memory of the ranks, MiB: {memory}"

"""Tables of numbers, for a terminal and for Markdown."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from thalweg.errors import printable
from thalweg.parallel.traffic import Phase
from thalweg.result import Result


def format_table(rows: Sequence[Mapping[str, Any]], markdown: bool = False) -> str:
    """Rows as lines of aligned columns, perhaps in Markdown; numbers stand to the right.

    The first row gives the columns; None and NaN are shown as a dash.
    """
    if not rows:
        return ""
    headings = list(rows[0])
    cells = [[format_cell(row.get(heading)) for heading in headings] for row in rows]
    shown = [printable(heading) for heading in headings]
    if markdown:
        shown, *cells = [[t.replace("|", "\\|") for t in line] for line in (shown, *cells)]
    columns = ([row.get(heading) for row in rows] for heading in headings)
    numeric = [
        all(isinstance(value, int | float | None) or hasattr(value, "item") for value in column)
        for column in columns
    ]
    widths = [
        max(3, len(heading), *(len(line[column]) for line in cells))
        for column, heading in enumerate(shown)
    ]

    def aligned(line: Sequence[str]) -> list[str]:
        return [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]

    if markdown:
        rule = ["-" * (w - 1) + ":" if n else "-" * w for w, n in zip(widths, numeric, strict=True)]
        return "\n".join("| " + " | ".join(aligned(line)) + " |" for line in [shown, rule, *cells])
    rule = ["─" * width for width in widths]
    return "\n".join("  ".join(aligned(line)).rstrip() for line in (shown, rule, *cells))


def format_cell(value: Any) -> str:
    """A value as text: six significant digits for a fraction, groups of three for a count."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def comparison_rows(results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """One row per method: value, compared metrics, iterations, evaluations, seconds, status.

    A run that did not come to the last stage of a homotopy has no value to compare.
    """
    return [
        {
            "method": name,
            "objective": math.nan if result.stages_left else float(result.objective),
            **{metric: result.metrics.get(metric) for metric in result.compared},
            "iterations": int(result.iterations),
            "evaluations": int(result.evaluations),
            "seconds": round(search_seconds(result), 2),
            "status": result.status.name.lower(),
        }
        for name, result in results.items()
    ]


def search_seconds(result: Result) -> float:
    """Time of the search, as in the trace and its pictures: without checkpoints and measures."""
    return sum(result.seconds.get(part, math.nan) for part in ("setup", "optimize"))


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

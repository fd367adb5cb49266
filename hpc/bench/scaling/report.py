"""The study's table beside the theory, and planned memory at sizes that no one has here."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hpc.bench.scaling.cases import CASES, FEWER_RANKS, ROWS, configuration
from hpc.bench.scaling.times import picture, sections

from thalweg.result import Status
from thalweg.workbench.plan import Plan, plans
from thalweg.workbench.report import format_table

RESULTS = Path(__file__).parents[2] / "results"
FACTORS = RESULTS / "scaling-factorization.json"
COLUMNS = RESULTS / "scaling-columns.json"
TIMES = RESULTS / "scaling-time.json"

#: What the theory says of a rank's bytes per iteration, N rows on P ranks.
THEORY = {
    "t-SNE": (
        "rows to where affinities lie and slopes home, points to slabs and forces home, right-hand "
        "sides and solutions: each N/P; the mesh of M points M/P; edges over borders between cells "
        "of the data. Links that tie components together end anywhere: at most 10 N/P rows, and "
        "no more than N (1 - 1/P)"
    ),
    "Laplacian": (
        "rows on the border, sqrt(N) whatever P is, in each of some ten inner iterations; six "
        "numbers are reduced"
    ),
    "near-isometry": (
        "in an evaluation images of the points that a rank's S/P secants have on others, and sums "
        "for these, min(S/P, N (1 - 1/P)) r each; in scans blocks of points go round: N D/2"
    ),
    "KDAC": "sums of features over rows, 2 (1 - 1/P) times their size, whatever N is",
    "network": "one sum of all weights, 2 (1 - 1/P) times their size, whatever N is",
}

#: Where each family stops first.
WALLS = {
    "t-SNE": (
        "Parts of a mesh: of two dimensions it has at most 2,048 columns of modes to share out for "
        "its transforms, of three dimensions some 190 rows, and rows of cells, of which there are "
        "2 sqrt(N) in two dimensions, are not divided: more ranks have no part of the transforms, "
        "and no points beyond the rows. Centers of "
        "the cells by which rows are brought together, 16 for each rank, are on all ranks: 160,000 "
        "rows at 10,000 ranks. Rows move between three orders, the user's, that of the cells and "
        "that of the slabs, in exchanges whose messages grow as P where a rank's rows go anywhere. "
        "Affinities that are given lie as they are given."
    ),
    "Laplacian": "Latency: neighbors' messages and two reductions in every inner iteration.",
    "near-isometry": (
        "Time: N^2 secants are scanned, 5e17 for 1e9 points, and blocks of points go round half of "
        "the ranks. Maps and tiles do not fall with P."
    ),
    "KDAC": (
        "By features only rows grow with N, and they are shared out: the wall is in the number of "
        "columns, by sums of columns x features. Exact sums are N^2 work. What does not fall with "
        "P are matrices of features x features, a few MB."
    ),
    "network": "Weights, and a solver's vectors of their size, are on every rank.",
}

#: Where planned memory is far from what was measured.
MEMORY = """\
Memory of a near-isometry of 1,000,000 rows on one rank is planned a third above what five
iterations held: the plan is for the two million cuts of a search that goes on, and for the
certificate at its end, which these two runs leave out.
"""

#: Rows, columns and ranks of the extension.
LARGE = ((1_000_000, 64), (1_000_000_000, 10_000))


def write(found: list[dict[str, Any]]) -> None:
    """Write ``scaling.json`` and ``scaling.md``."""
    found = sorted(found, key=lambda e: (list(ROWS).index(e["case"]), e["rows"], e["ranks"]))
    RESULTS.joinpath("scaling.json").write_text(json.dumps(found, indent=1) + "\n")
    RESULTS.joinpath("scaling.md").write_text(text(found))
    if TIMES.exists():
        picture(json.loads(TIMES.read_text()), RESULTS / "scaling-time.png")


def text(found: list[dict[str, Any]]) -> str:
    """The study as Markdown."""
    parts = [
        "# Scaling: what a rank holds and sends, and its seconds",
        "",
        "Memory is what the rank with most holds at its peak, beyond interpreter, libraries and "
        "compiled code, measured after a small run in the same process. Bytes and messages are "
        "those of thalweg's engines on the rank that sends most: in the set-up, with neighbors, "
        "and per iteration. There are more ranks than cores, so that seconds mean nothing in these "
        "tables; they have some of their own below. `planned` is the memory that `thalweg plan` "
        "predicts; its figures were fitted "
        "to other cases than those whose names end in 'held out', which test it.",
        "",
    ]
    for case in ROWS:
        for rows in sorted({e["rows"] for e in found if e["case"] == case}):
            entries = [e for e in found if (e["case"], e["rows"]) == (case, rows)]
            parts += [
                f"## {case}, {rows:,} rows",
                "",
                format_table(_table(case, entries), markdown=True),
                "",
            ]
            parts += [f"{_of_run(entry)}\n" for entry in entries if "run" in entry]
        if case in THEORY:
            parts += [f"Theory, per iteration: {THEORY[case]}.", ""]
    parts += sections(json.loads(TIMES.read_text()), found) if TIMES.exists() else []
    parts += _factorizations()
    parts += _columns()
    parts += _constants(found)
    parts += ["## Planned memory", "", MEMORY]
    parts += ["## On paper", "", "What `thalweg plan` says, 64 columns:", ""]
    table = []
    for points, ranks in LARGE:
        for case in WALLS:
            if case not in CASES:
                continue
            made = _plan(case, points, ranks, 64)
            table.append(
                {
                    "family": case,
                    "rows": f"{points:,}",
                    "ranks": f"{ranks:,}",
                    "GiB per rank": f"{made.memory / 2**30:,.2f}",
                    "at its most in": made.peak_phase.name,
                }
            )
    parts += [format_table(table, markdown=True), ""]
    for case, rows in FEWER_RANKS:
        for ranks in FEWER_RANKS[case, rows]:
            if (case, rows, ranks) not in {(e["case"], e["rows"], e["ranks"]) for e in found}:
                planned = _plan(case, rows, ranks).memory / 2**30
                parts += [
                    f"Not measured: {case}, {rows:,} rows, ranks: {ranks}, planned at "
                    f"{planned:.2f} GiB per rank.",
                    "",
                ]
    parts += ["The first wall that each family meets:", ""]
    parts += [f"- **{case}**: {wall}" for case, wall in WALLS.items()]
    return "\n".join(parts) + "\n"


def _table(case: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    alone = next((e["memory"] for e in entries if e["ranks"] == 1), math.nan)
    rows = []
    for entry in entries:
        row: dict[str, Any] = {"ranks": entry["ranks"], "MB": f"{entry['memory'] / 1e6:.1f}"}
        if alone == alone:
            row["x P / one rank"] = f"{entry['memory'] * entry['ranks'] / alone:.2f}"
        if case in CASES:
            made = _plan(case, entry["rows"], entry["ranks"])
            whole = entry["memory"] + entry["base"]
            row["whole process"] = f"{whole / 1e6:.0f}"
            row["planned"] = f"{made.memory / 1e6:.0f}"
            row["planned / measured"] = f"{made.memory / whole:.2f}"
        row["set-up: MB sent"] = f"{entry['setup_bytes'] / 1e6:.2f}"
        row["messages "] = f"{entry['setup_messages']:.0f}"
        row["iteration: MB sent"] = f"{entry['bytes'] / 1e6:.3f}"
        row["messages"] = f"{entry['messages']:.0f}"
        rows.append(row)
    return rows


def _of_run(entry: dict[str, Any]) -> str:
    """What became of a run to a map that was kept."""
    ran, first = entry["run"], entry["run"]["objective"][0]
    seconds = ran["seconds"]
    search = seconds["setup"] + seconds["optimize"]
    status = ran.get("status", Status.CALLBACK.value)
    return (
        f"From data to a map on {entry['ranks']} ranks of a machine of two cores, which other "
        f"programs used too: {seconds['build']:,.0f} s to affinities, {search:,.0f} s for "
        f"{ran['iterations']} iterations of {ran['evaluations']} evaluations, and "
        f"{seconds['measure']:,.0f} s for the last value; {entry['cpu_seconds']:,.0f} s of a "
        f"processor for each rank. The objective fell from {first:.4g} to "
        f"{ran['objective'][1]:.4g}; the run was not followed to its end ({status}). Of the ten "
        f"nearest neighbors in the data {ran['neighbor_preservation']:.1%} are so in the map, and "
        "the nearest neighbor in the map is of another cluster for "
        f"{ran['nearest_neighbor_error']:.1%}."
    )


def _constants(found: list[dict[str, Any]]) -> list[str]:
    """What a rank holds however many there are, by the figures on one rank and on eight."""
    memory = {(e["case"], e["rows"], e["ranks"]): e["memory"] for e in found}
    table = []
    for case, rows, ranks in memory:
        if ranks != 1 or (case, rows, 8) not in memory:
            continue
        alone, eight = memory[case, rows, 1], memory[case, rows, 8]
        shared = (alone - eight) * 8.0 / 7.0
        table.append(
            {
                "case": case,
                "rows": f"{rows:,}",
                "a, MB": f"{(alone - shared) / 1e6:.1f}",
                "b, MB": f"{shared / 1e6:.1f}",
                "8 M(8) / M(1)": f"{8.0 * eight / alone:.2f}",
            }
        )
    return [
        "## What does not fall with the ranks",
        "",
        "M(P) = a + b / P, by the figures on one rank and on eight:",
        "",
        format_table(table, markdown=True),
        "",
        "The part a hardly grows with the rows, so that at 50,000 points it is much of what a "
        "rank of eight holds: 8 M(8) / M(1) is below 1.4 where b is more than 16.5 a. In a are "
        "buffers of messages, samples of rows by which things are chosen and judged, sums of "
        "columns x features or of weights, blocks of pairs and of rows that are worked on at one "
        "time, and memory that was freed in pieces too small to be given back.",
        "",
    ]


def _factorizations() -> list[str]:
    """The table of Laplacian factorizations, if any was measured."""
    entries = json.loads(FACTORS.read_text()) if FACTORS.exists() else []
    if not entries:
        return []
    order = ("mumps", "blocks", "icc", "amg", "jacobi")
    entries.sort(key=lambda e: (e["rows"], order.index(e["method"]), e["ranks"]))
    table = [
        {
            "rows": f"{e['rows']:,}",
            "method": e["method"],
            "ranks": e["ranks"],
            "set-up, s": f"{e['set-up']:.2f}",
            "solve, ms": f"{1e3 * e['solve']:.0f}",
            "MB of the rank with most": f"{e['memory'] / 1e6:.0f}",
            "entries of the factor / weights": f"{e['fill']:.1f}" if e["fill"] else "-",
        }
        for e in entries
    ]
    return [
        "## Factorizations of a Laplacian",
        "",
        "That of the spectral direction for the t-SNE above, 7 weights a row made symmetric, two "
        "right-hand sides, to 1e-8 where a method iterates: MUMPS's complete factor over the "
        "ranks; complete factors of each rank's block within PETSc's conjugate gradients; "
        "incomplete ones; BoomerAMG; thalweg's own Jacobi. Seconds are those of a machine with two "
        "cores that other programs used too: on 4 and 8 ranks they tell no speed. The default on "
        "several ranks is `icc`; `mumps` is not, since two solves with one of its factors differ "
        "in their last bits on two ranks (its solve adds contributions as they arrive).",
        "",
        format_table(table, markdown=True),
        "",
    ]


def _columns() -> list[str]:
    """The table of NuMax's normal equations, if any was measured."""
    entries = json.loads(COLUMNS.read_text()) if COLUMNS.exists() else []
    if not entries:
        return []
    entries.sort(key=lambda e: (e["columns"], e["method"], e["ranks"]))
    table = [
        {
            "D": e["columns"],
            "method": e["method"],
            "ranks": e["ranks"],
            "seconds": f"{e['seconds']:.1f}",
            "CPU s of a rank": f"{e['cpu']:.1f}",
            "MB of the rank with most": f"{e['memory'] / 1e6:.0f}",
            "ADMM's iterations": e["iterations"],
            "inner": e["inner"],
            "nuclear norm": f"{e['value']:.7g}",
            "ended": e["status"],
        }
        for e in entries
    ]
    return [
        "## Columns of secants",
        "",
        f"NuMax with all {entries[0]['secants']:,} secants of generated points: `dense` solves the "
        'normal equations by a factor on every rank (`inner_solver = "woodbury"`), `columns` by '
        "conjugate gradients on a number for each secant over the ranks (`cg`, PETSc's KSP; the "
        "default from 2,000 columns on). Inner iterations are products with A A*. The machine has "
        "two cores that other programs used too: seconds, above all on 4 ranks, tell little, and "
        "those of a processor hold the waiting for other ranks. With 2,000 columns runs are cut "
        "after five iterations, where their values still differ.",
        "",
        format_table(table, markdown=True),
        "",
    ]


def _plan(case: str, rows: int, ranks: int, columns: int | None = None) -> Plan:
    chosen = configuration(case, rows)
    (found,) = plans(chosen, ranks, rows=rows, columns=columns or chosen["data"]["dimension"])
    return found

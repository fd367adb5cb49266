"""Benchmark of alternative clustering; ``scripts/bench clustering`` calls it.

Parts: Table 1 (ISM, SM, DG from spectral and random starts) with the views of
Figure 2, the descent of ISM, SM and DG from equal starts, Figure 3 (time against
dimension), Figure 4 (the course of ISM), Figure 5 (HSIC beside correlation), the
paper's choice of parameters on a grid, labels of rows held back and three splits
in turn, many rows by exact sums and by features, and, with ``--rivals``, other
programs on data with several true clusterings.  Results go to
``hpc/results`` as JSON, Markdown and PNG as soon as a part, or of the JSON a row,
is done; parts that are not run keep what an earlier call found.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numba
from hpc.bench.clustering.descent import measure_descent
from hpc.bench.clustering.designs import measure_designs
from hpc.bench.clustering.dimension import measure_dimension
from hpc.bench.clustering.figures import measure_course, measure_dependence
from hpc.bench.clustering.grid import measure_tuning
from hpc.bench.clustering.held_back import measure_held_back, measure_splits
from hpc.bench.clustering.large import launch
from hpc.bench.clustering.report import write_report
from hpc.bench.clustering.rivals import measure_rivals
from hpc.bench.clustering.sets import authors_problems, generated_problems
from hpc.bench.clustering.table import METHODS, measure_set, without_search
from hpc.machine import describe_machine
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).resolve().parents[2] / "results"
#: Of the JSON file; what an earlier call found in another one is not kept.
FORMAT = 2

PARTS = (
    "table",
    "descent",
    "dimension",
    "course",
    "dependence",
    "tuning",
    "held-back",
    "large",
    "designs",
)
#: Of ``--rivals``, which needs the programs that it compares with.
RIVALS = "rivals"


def main(argv: list[str]) -> int:
    """Run the parts asked for, and write the report after each and the record as it goes."""
    parser = argparse.ArgumentParser(prog="bench clustering", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few starts, under five minutes")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part")
    parser.add_argument(
        "--rivals", action="store_true", help="only compare with ClustPy and scikit-learn"
    )
    parser.add_argument(
        "--data", type=Path, help="folder of the authors' sets, or its parent (default: generated)"
    )
    parser.add_argument(
        "--set", action="append", help="only this set, or sets whose names begin so"
    )
    parser.add_argument(
        "--method", action="append", choices=tuple(METHODS), help="of the table, only this"
    )
    parser.add_argument("--starts", type=int, help="random starts (default: 10; quick 2)")
    parser.add_argument(
        "--seconds", type=float, help="CPU seconds that a run may take (default: 60; quick 2)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        help="CPU seconds after which no further random start begins (default: 600; quick 4)",
    )
    parser.add_argument("--rows", type=int, help="rows of 'large' (default: 50000; quick 8000)")
    parser.add_argument(
        "--unseen", action="store_true", help="designs that no default was tuned on"
    )
    parser.add_argument(
        "--designs", type=int, default=40, help="number of designs, and of null sets"
    )
    parser.add_argument("--note", help="a sentence for the report, such as what else was running")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    quick = options.quick
    folder: Path | None = options.data
    if folder is not None and (folder / "kdac").is_dir():
        folder = folder / "kdac"
    starts = options.starts or (2 if quick else 10)
    seconds = options.seconds or (2.0 if quick else 60.0)
    budget = options.budget or (4.0 if quick else 600.0)
    rows = options.rows or (8_000 if quick else 50_000)
    # The sets have at most a thousand rows: a second thread would mostly wait.
    numba.set_num_threads(1)
    problems = authors_problems(folder) if folder else generated_problems()
    names = [problem.name for problem in problems]
    beginnings = tuple(name for name in options.set or ("",) if name not in names)
    chosen = [p for p in problems if p.name in (options.set or ()) or p.name.startswith(beginnings)]
    stem = options.out / ("clustering-quick" if quick else "clustering")
    options.out.mkdir(parents=True, exist_ok=True)
    file = stem.with_suffix(".json")
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if found.get("format") != FORMAT:
        found = {"format": FORMAT}
    found["machine"] = describe_machine()
    if options.note:
        found["note"] = options.note

    def save() -> None:
        found["load"] = os.getloadavg()
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    order = [f"{method} {start}" for method in METHODS for start in ("SI", "RI")]

    def place(row: dict[str, Any]) -> tuple[int, int]:
        """Where a row of the table stands."""
        return names.index(row["set"]), order.index(row["method"])

    def run(part: str) -> None:
        if part == "table":
            found["table"] = [row for row in found.get("table", []) if row["set"] in names]
            methods = tuple(options.method or METHODS)
            for problem in chosen:
                for row in measure_set(problem, starts, seconds, budget, methods):
                    key = (row["set"], row["method"])
                    found["table"] = [r for r in found["table"] if (r["set"], r["method"]) != key]
                    found["table"] = sorted([*found["table"], row], key=place)
                    save()
        elif part == "descent":
            for problem in without_search(chosen):
                row = measure_descent(problem, min(starts, 3), 0.5 if quick else 3.0)
                others = [r for r in found.get(part, []) if r["set"] != problem.name]
                found[part] = sorted([*others, row], key=lambda r: names.index(r["set"]))
                save()
        elif part == "dimension":
            most = 128 if quick else 1024
            found[part] = measure_dimension(problems[min(1, len(problems) - 1)], most, 1.0)
        elif part == "course":
            found[part] = [measure_course(p) for p in without_search(chosen) if p.published]
        elif part == "dependence":
            found[part] = measure_dependence()
        elif part == "tuning":
            for problem in without_search(chosen):
                if problem.truth is None or (folder and not problem.published):
                    continue
                for row in measure_tuning(problem):
                    others = [r for r in found.get(part, []) if r["set"] != problem.name]
                    found[part] = sorted([*others, row], key=lambda r: names.index(r["set"]))
                    save()
        elif part == "held-back":
            found[part] = {"sets": measure_held_back(folder), "splits": measure_splits()}
        elif part == "designs":
            found[part] = []
            number = options.designs
            for row in measure_designs(options.unseen, number, number, rows):
                found[part].append(row)
                save()
        elif part == RIVALS:
            longest = 10.0 if quick else 60.0
            for measured in measure_rivals(folder, longest, tuple(options.set or ())):
                others = [row for row in found.get(part, []) if row["set"] != measured[0]["set"]]
                found[part] = others + measured
                save()
        else:
            few = min(rows, 20_000)
            calls: list[tuple[Any, ...]] = [(ranks, folder, rows) for ranks in (1, 2)]
            calls += [(2, None, few, "nystrom", 20)]
            calls += [(ranks, None, 20 * rows, "auto", 20) for ranks in (1, 2)]
            found[part] = []
            for call in calls:
                found[part].append(launch(*call))
                save()

    for part in [RIVALS] if options.rivals else options.part or PARTS:
        with threadpool_limits(1):
            run(part)
        save()
        write_report(found, problems, stem)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Benchmark of near-isometric embeddings; ``scripts/bench isometry`` calls it.

Parts: Tables 7.1, 7.2, 7.3 and Figures 7.2, 7.4 of Luo et al., the oracle's rate on
one and two ranks, and MNIST in full.  Results go to ``hpc/results`` as JSON, Markdown
and PNG; parts that are not run keep what an earlier call found.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from hpc.bench.isometry.neighbours import figure_4, table_3
from hpc.bench.isometry.ranks import launch
from hpc.bench.isometry.report import write_report
from hpc.bench.isometry.tables import figure_2, table_1, table_2

from thalweg.parallel import MPI, limit_threads
from thalweg.report import describe_machine

RESULTS = Path(__file__).resolve().parents[2] / "results"
PARTS = ("table_1", "table_2", "figure_2", "table_3", "figure_4", "oracle", "full")


def main(argv: list[str]) -> int:
    """Run the parts asked for and write the report."""
    parser = argparse.ArgumentParser(prog="bench isometry", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under ten minutes")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part")
    parser.add_argument(
        "--data", type=Path, help="folder with mnist/ and gist/ (default: bundled, generated)"
    )
    parser.add_argument("--seconds", type=float, help="most for one run (default: 120; quick 10)")
    parser.add_argument("--note", help="a sentence for the report, such as what else was running")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    quick, folder = options.quick, options.data
    seconds = options.seconds or (10.0 if quick else 120.0)
    parts = options.part or PARTS
    name = "isometry-quick" if quick else "isometry"
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    found["machine"] = describe_machine()
    if options.note:
        found["note"] = options.note
    rows = 12_000 if quick else 60_000
    limit_threads(MPI.COMM_WORLD)
    work = {
        "table_1": lambda: table_1(quick, seconds),
        "table_2": lambda: table_2(folder, quick, seconds),
        "figure_2": lambda: figure_2(quick, seconds),
        "table_3": lambda: table_3(folder, quick, 3 * seconds),
        "figure_4": lambda: figure_4(folder, quick, seconds),
        "oracle": lambda: [launch("oracle", ranks, 1, folder, rows) for ranks in (1, 2)],
        "full": lambda: launch("full", 2, 1, folder, rows),
    }
    for part in parts:
        found[part] = work[part]()
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write_report(found, options.out / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

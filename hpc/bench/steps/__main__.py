"""Digest solutions and time typical runs, as a column of a table of steps.

A refactoring keeps the digests of the step before, or says why bits move; times are those of one
machine, so that columns are compared only where they were measured side by side.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hpc.bench.steps.cases import DIGESTS, TIMES

RESULTS = Path(__file__).parents[2] / "results" / "steps.json"
#: Key of a column's words about itself.
ABOUT = "about"
LARGE = [*TIMES, "L-BFGS + spectral, 1,000,000 x 2, checkpoints", "secant scan, 60,000 x 50"]


def main() -> int:
    """Run the cases and record them; 1 where a digest is another than in the column compared."""
    parser = argparse.ArgumentParser(prog="scripts/bench steps", description=__doc__)
    parser.add_argument("label", help="name of the column, such as 'before'")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--times", action="store_true", help="time the large runs as well")
    parser.add_argument("--against", metavar="LABEL", help="column whose digests must be kept")
    parser.add_argument("--about", default="", help="what was measured, where: told in the record")
    parser.add_argument("--quick", action="store_true", help="on one rank; nothing is recorded")
    options = parser.parse_args()
    recorded = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    column: dict[str, Any] = {}
    for ranks in [1] if options.quick else options.ranks:
        for case in [*DIGESTS, *(LARGE if options.times else ())]:
            if case.endswith("tao:ntr") and ranks > 1:
                continue
            column[f"{case}, {ranks} ranks"] = row = measured(case, ranks)
            print(case, row, flush=True)
    if options.times:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import thalweg_embedding as t; t.TSNE"], check=True)
        column["import"] = {"seconds": round(time.perf_counter() - began, 3)}
    if not options.quick:
        known = recorded.get(options.label, {ABOUT: ""})
        about = options.about or known[ABOUT]
        recorded[options.label] = {**known, ABOUT: about, **column}
        RESULTS.write_text(json.dumps(recorded, indent=1) + "\n")
        RESULTS.with_suffix(".md").write_text(report(recorded))
    moved = [
        case for case, row in recorded.get(options.against or "", {}).items()
        if "digest" in row and case in column and column[case].get("digest") != row["digest"]
    ]  # fmt: skip
    for case in moved:
        print("other bits:", case)
    return int(bool(moved))


def measured(case: str, ranks: int) -> dict[str, Any]:
    """What the worker prints of a case."""
    command = ["mpirun", "-n", str(ranks), sys.executable, "-m", "hpc.bench.steps.worker", case]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    row = json.loads(lines[-1])
    return {key: value for key, value in row.items() if key not in ("case", "ranks")}


def report(recorded: dict[str, Any]) -> str:
    """The table: a row for each case, digest or seconds and memory of each step."""
    labels = list(recorded)
    cases = list(dict.fromkeys(case for column in recorded.values() for case in column))
    cases.remove(ABOUT)
    lines = ["# Steps", "", "`scripts/bench steps LABEL --times`: digests of solutions, or seconds "
             "and MiB of the largest rank.", "",
             *(f"- *{label}*: {recorded[label].get(ABOUT, '')}" for label in labels), "",
             "| case | " + " | ".join(labels) + " |", "|---|" + "---|" * len(labels)]  # fmt: skip
    for case in cases:
        cells = []
        for label in labels:
            row = recorded[label].get(case, {})
            large = {} if case.rpartition(", ")[0] in DIGESTS else {"seconds": " s", "MiB": " MiB"}
            facts = [f"{row[key]}{unit}" for key, unit in large.items() if key in row]
            cell = ", ".join([*filter(None, [row.get("digest")]), *facts])
            cells.append(cell)
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

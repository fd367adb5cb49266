"""Benchmark of alternative clustering; ``scripts/bench clustering`` calls it.

Table 1 (ISM, SM, DG from spectral and random starts), Figure 2 (the views side by
side) and Figure 3 (time against dimension).  Results go to ``hpc/results``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from thalweg.report import describe_machine

from .dimension import measure_dimension
from .report import write_report
from .sets import authors_problems, generated_problems
from .table import measure_table

RESULTS = Path(__file__).resolve().parents[2] / "results"


def main(argv: list[str]) -> int:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(prog="bench clustering", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few starts, under five minutes")
    parser.add_argument(
        "--data", type=Path, help="folder of the authors' sets (default: generated)"
    )
    parser.add_argument("--starts", type=int, help="random starts (default: 10; quick 2)")
    parser.add_argument("--seconds", type=float, help="cap of a run (default: 60; quick 2)")
    parser.add_argument("--large", type=Path, help="JSON lines from hpc.bench.clustering.large")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    starts = options.starts or (2 if options.quick else 10)
    seconds = options.seconds or (2.0 if options.quick else 60.0)
    problems = authors_problems(options.data) if options.data else generated_problems()
    before = os.getloadavg()[0]
    found = {
        "machine": describe_machine(),
        "seconds": seconds,
        "table": measure_table(problems, starts, seconds),
        "dimension": measure_dimension(
            problems[min(1, len(problems) - 1)], 128 if options.quick else 1024, 1.0
        ),
    }
    found["load"] = [before, os.getloadavg()[0]]
    if options.large is not None:
        lines = options.large.read_text().splitlines()
        found["large"] = [json.loads(line) for line in lines if line.startswith("{")]
    stem = options.out / ("clustering-quick" if options.quick else "clustering")
    options.out.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    write_report(found, problems, stem)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

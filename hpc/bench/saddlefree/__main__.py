"""Benchmark of the saddle-free family; ``scripts/bench saddlefree`` calls it.

Parts: products per direction, the note's differential equation counted by size and in
training, escape from saddles, networks that stall on plateaus, training of networks judged by
rows held out and by training error, and the rates of products and of two ranks.  Results go to
``hpc/results`` as JSON, Markdown and PNG as soon as a part, or a method of a network, is
done; parts that are not run keep what an earlier call found.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from hpc.bench.saddlefree.directions import measure_directions
from hpc.bench.saddlefree.equation import measure_counts
from hpc.bench.saddlefree.equation import measure_training as measure_equation
from hpc.bench.saddlefree.escape import measure_escape
from hpc.bench.saddlefree.plateaus import METHODS as SOLVERS
from hpc.bench.saddlefree.plateaus import NETWORKS, measure_plateaus
from hpc.bench.saddlefree.rates import measure_rates
from hpc.bench.saddlefree.report import write_report
from hpc.bench.saddlefree.training import METHODS, PROBLEMS, measure_training
from hpc.bench.saddlefree.validation import METHODS as JUDGED
from hpc.bench.saddlefree.validation import SETTINGS, measure_validation
from hpc.machine import describe_machine
from threadpoolctl import threadpool_info, threadpool_limits

RESULTS = Path(__file__).resolve().parents[2] / "results"
PARTS = ("directions", "equation", "escape", "plateaus", "rates", "training", "validation")


def blas_pools() -> list[dict[str, Any]]:
    """Libraries of matrix products, with the kernels that they chose."""
    return [pool for pool in threadpool_info() if pool["internal_api"] == "openblas"]


def main(argv: list[str]) -> int:
    """Run the parts asked for and write the report."""
    parser = argparse.ArgumentParser(prog="bench saddlefree", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under ten minutes")
    parser.add_argument(
        "--part",
        action="append",
        choices=PARTS,
        help="only this part; may be repeated (default: all)",
    )
    parser.add_argument(
        "--problem",
        action="append",
        choices=sorted({*PROBLEMS, *SETTINGS, *NETWORKS}),
        help="only this network of training or of the plateaus (default: all)",
    )
    parser.add_argument(
        "--method",
        action="append",
        choices=sorted({*METHODS, *SOLVERS, *JUDGED}),
        help="only this method of training or of the plateaus",
    )
    parser.add_argument(
        "--data", type=Path, help="folder of MNIST's IDX files, or its parent (default: digits)"
    )
    parser.add_argument("--rows", type=int, help="training images (default: 10000; quick 1400)")
    parser.add_argument("--seconds", type=float, help="a method's time (default: 150; quick 2)")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="wall time of all cores, or CPU time, for a machine that others use too",
    )
    parser.add_argument("--seeds", type=int, default=1, help="runs of a method (default: 1)")
    parser.add_argument(
        "--weights", type=Path, help="folder that keeps Adam's last weights, to continue from"
    )
    parser.add_argument("--note", help="a sentence for the report, such as what else was running")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    name = "saddlefree-quick" if options.quick else "saddlefree"
    parts = options.part or PARTS
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{name}.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    found["machine"] = describe_machine()
    found["machine"]["blas"] = sorted(
        {
            f"{pool['internal_api']} {pool['version']} {pool['architecture']}"
            for pool in blas_pools()
        }
    )
    if options.note:
        found["note"] = options.note
    elif not options.part:
        found.pop("note", None)  # it was on a run that this one replaces

    def save() -> None:
        file.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
        write_report(found, options.out / name)

    record: dict[str, Any]
    for part in parts:
        if part == "directions":
            with threadpool_limits(1):  # the vectors are short
                found[part] = measure_directions(size=500 if options.quick else 2000)
        elif part == "equation":
            record = found.setdefault(part, {})
            with threadpool_limits(1):
                for counts in measure_counts():
                    record["counts"] = counts
                for record["training"] in measure_equation(
                    options.seconds or (2.0 if options.quick else 60.0)
                ):
                    save()
        elif part == "escape":
            with threadpool_limits(1):
                found[part] = measure_escape(budget=3000 if options.quick else 20000)
        elif part == "plateaus":
            with threadpool_limits(1):
                seconds = options.seconds or (2.0 if options.quick else 6.0)
                for network in [n for n in NETWORKS if n in (options.problem or NETWORKS)]:
                    record = found.setdefault(part, {})
                    measure_plateaus(
                        record, network, options.method or SOLVERS, seconds, options.seeds
                    )
                    save()
        elif part == "rates":
            found[part] = measure_rates(rows=2048 if options.quick else 8192)
        elif part == "validation":
            record = found.setdefault(part, {})
            judged = [m for m in JUDGED if m in (options.method or JUDGED)]
            for problem in [p for p in SETTINGS if p in (options.problem or SETTINGS)]:
                seconds = 1.0 if options.quick else options.seconds
                for _ in measure_validation(
                    record, problem, options.data, seconds, judged, options.seeds
                ):
                    save()
        else:
            rows = options.rows or (1400 if options.quick else 10000)
            problems = [p for p in PROBLEMS if p in (options.problem or PROBLEMS)]
            methods = [m for m in METHODS if m in (options.method or METHODS)]
            record = found.setdefault(part, {})
            for problem in problems:
                small = options.quick or problem.endswith("-digits")
                seconds = options.seconds or (2.0 if small else 150.0)
                for _ in measure_training(
                    record,
                    problem,
                    options.data,
                    rows,
                    seconds,
                    options.clock,
                    methods,
                    options.seeds,
                    options.weights,
                ):
                    save()
        save()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

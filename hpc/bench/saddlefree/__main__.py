"""Benchmark of the saddle-free family; ``scripts/bench saddlefree`` calls it.

Parts: products per direction, escape from saddles, training of an autoencoder,
and the rates of products and of two ranks.  Results go to ``hpc/results`` as
JSON, Markdown and PNG; parts that are not run keep what an earlier call found.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hpc.bench.saddlefree.autoencoder import METHODS, measure_autoencoder
from hpc.bench.saddlefree.directions import measure_directions
from hpc.bench.saddlefree.escape import measure_escape
from hpc.bench.saddlefree.rates import measure_rates
from hpc.bench.saddlefree.report import write_report
from threadpoolctl import threadpool_limits

from thalweg.report import describe_machine

RESULTS = Path(__file__).resolve().parents[2] / "results"


def main(argv: list[str]) -> int:
    """Run the parts asked for and write the report."""
    parser = argparse.ArgumentParser(prog="bench saddlefree", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under ten minutes")
    parser.add_argument(
        "--part",
        action="append",
        choices=("directions", "escape", "autoencoder", "rates"),
        help="only this part; may be repeated (default: all)",
    )
    parser.add_argument(
        "--method", action="append", choices=METHODS, help="only this method of the autoencoder"
    )
    parser.add_argument(
        "--data", type=Path, help="folder with MNIST's IDX files (default: bundled digits)"
    )
    parser.add_argument("--rows", type=int, help="training images (default: 10000; quick 2000)")
    parser.add_argument("--seconds", type=float, help="a method's budget (default: 300; quick 40)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    name = "saddlefree-quick" if options.quick else "saddlefree"
    parts = options.part or ["directions", "escape", "autoencoder", "rates"]
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{name}.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    found["machine"] = describe_machine()
    if "directions" in parts:
        with threadpool_limits(1):  # the vectors are short
            found["directions"] = measure_directions(size=500 if options.quick else 2000)
    if "escape" in parts:
        with threadpool_limits(1):
            found["escape"] = measure_escape(budget=3000 if options.quick else 20000)
    if "rates" in parts:
        found["rates"] = measure_rates(rows=2048 if options.quick else 8192)
    if "autoencoder" in parts:
        rows = options.rows or (2000 if options.quick else 10000)
        seconds = options.seconds or (40.0 if options.quick else 300.0)
        measured = measure_autoencoder(
            options.data, rows, seconds, options.quick, options.method or METHODS
        )
        earlier = found.get("autoencoder", {})
        if options.method and earlier.get("setting") == measured["setting"]:
            measured["curves"] = {**earlier["curves"], **measured["curves"]}
        found["autoencoder"] = measured
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    write_report(found, options.out / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

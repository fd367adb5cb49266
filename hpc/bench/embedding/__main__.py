"""Benchmark of the embeddings; ``scripts/bench embedding`` calls it.

Parts: the strategies from one start, from random starts and along a homotopy on COIL-20
(bundled digits without ``--data``), on MNIST 20,000, and t-SNE against openTSNE and
scikit-learn on identical affinities.  Results go to ``hpc/results`` as JSON, Markdown and
PNG; parts that are not run keep what an earlier call found.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hpc.bench.embedding.data import mnist, small_images
from hpc.bench.embedding.report import write_report
from hpc.bench.embedding.rivals import measure_rivals
from hpc.bench.embedding.strategies import (
    measure_convergence,
    measure_homotopy,
    measure_large,
    measure_starts,
)

from thalweg.parallel import MPI, limit_threads
from thalweg.report import describe_machine

RESULTS = Path(__file__).resolve().parents[2] / "results"
PARTS = ("convergence", "starts", "homotopy", "large", "rivals")


def main(argv: list[str]) -> int:
    """Run the parts asked for and write the report after each."""
    parser = argparse.ArgumentParser(prog="bench embedding", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under ten minutes")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; repeatable")
    parser.add_argument("--data", type=Path, help="folder with coil20/ and mnist/")
    parser.add_argument("--rows", type=int, help="points of the comparison with openTSNE")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    limit_threads(MPI.COMM_WORLD)
    quick = options.quick
    parts = options.part or [part for part in PARTS if not (quick and part == "large")]
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / ("embedding-quick" if quick else "embedding")
    file = stem.with_suffix(".json")
    found = json.loads(file.read_text()) if file.exists() else {}
    found["machine"] = describe_machine()
    small = small_images(options.data, 360 if quick else 720)
    for part in parts:
        if part == "convergence":
            found[part] = measure_convergence(small, seconds=6.0 if quick else 60.0)
        elif part == "starts":
            found[part] = measure_starts(small, *((3, 2.0) if quick else (50, 5.0)))
        elif part == "homotopy":
            found[part] = measure_homotopy(small, *((12, 300) if quick else (50, 10_000)))
        elif part == "large":
            found[part] = measure_large(mnist(options.data, 20_000), seconds=180.0)
        else:
            rows = options.rows or (3_000 if quick else 70_000)
            found[part] = measure_rivals(mnist(options.data, rows), stem, slow=not quick)
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write_report(found, stem)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

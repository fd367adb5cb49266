"""Benchmark of near-isometric embeddings; ``scripts/bench isometry`` calls it.

Parts: the oracle's rate on one and two ranks, MNIST in full with the rank given, large sets
with the rank sought, up to a million patches of images, and Tables 7.1, 7.2, 7.3 and
Figures 7.2, 7.4 of Luo et al.  Results go to ``hpc/results`` as JSON, Markdown and PNG; parts
that are not run keep what an earlier call found.  The JSON is written after every row, so that
a run that is cut off loses nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hpc.bench.isometry.compressions import ROWS, compressions
from hpc.bench.isometry.large import full, oracles, patches, searches
from hpc.bench.isometry.neighbors import METHODS, TABLE_3, figure_4, figure_4_by_delta, table_3
from hpc.bench.isometry.report import write_report
from hpc.bench.isometry.sets import LARGE_SETS
from hpc.bench.isometry.tables import figure_2, one_square, table_1, table_2
from hpc.machine import describe_machine

from thalweg.parallel import MPI, limit_threads

RESULTS = Path(__file__).resolve().parents[2] / "results"

#: The parts in the order of a full run, and the most seconds of one solver's run in each.
PARTS = {
    "oracle": 0.0,
    "full": 600.0,
    "search": 600.0,
    "patches": 3600.0,
    "compressions": 7200.0,
    "table_1": 60.0,
    "one_square": 60.0,
    "table_2": 15.0,
    "figure_2": 240.0,
    "table_3": 75.0,
    "figure_4": 120.0,
    "figure_4_by_delta": 120.0,
}

#: The most seconds of one solver's run, where the run is quick.
QUICK = 8.0


def main(argv: list[str]) -> int:
    """Run the parts asked for and write the report."""
    parser = argparse.ArgumentParser(prog="bench isometry", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under ten minutes")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part")
    parser.add_argument(
        "--data", type=Path, help="folder with mnist/ and gist/ (default: bundled, generated)"
    )
    parser.add_argument(
        "--set", action="append", choices=LARGE_SETS, help="of the search, only this"
    )
    parser.add_argument("--ranks", type=int, default=2, help="of the full set and the search")
    parser.add_argument("--points", type=int, default=1_000_000, help="of the patches")
    parser.add_argument(
        "--checkpoints", type=Path, help="folder from which the run on patches goes on"
    )
    parser.add_argument(
        "--delta", type=float, action="append", choices=TABLE_3, help="of Table 7.3, only this"
    )
    parser.add_argument(
        "--method", action="append", choices=METHODS, help="of Table 7.3, only this"
    )
    parser.add_argument("--seconds", type=float, help="most for one solver's run")
    parser.add_argument("--note", help="a sentence for the report, such as what else was running")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    quick, folder = options.quick, options.data
    parts = options.part or list(PARTS)
    name = "isometry-quick" if quick else "isometry"
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    found["machine"] = describe_machine()
    found.pop("note", None)
    if options.note:
        found["note"] = options.note
    rows = 12_000 if quick else 60_000
    limit_threads(MPI.COMM_WORLD)
    work: dict[str, Callable[[float], Iterator[Any]]] = {
        "oracle": lambda _: oracles(folder, rows),
        "full": lambda seconds: full(options.ranks, folder, rows, seconds),
        "search": lambda seconds: searches(
            found.get("search", []),
            options.set or list(LARGE_SETS)[:4],
            options.ranks,
            folder,
            rows,
            seconds,
        ),
        "patches": lambda seconds: patches(
            found.get("patches", []),
            min(options.points, rows) if quick else options.points,
            options.ranks,
            folder,
            seconds,
            options.checkpoints,
        ),
        "compressions": lambda seconds: compressions(
            found.get("compressions", []),
            options.set or ["mnist", "textures", "windows", "patches"],
            folder,
            2000 if quick else ROWS,
            seconds,
        ),
        "table_1": lambda seconds: table_1(quick, seconds),
        "one_square": lambda seconds: one_square(quick, seconds),
        "table_2": lambda seconds: table_2(folder, quick, seconds),
        "figure_2": lambda seconds: figure_2(quick, seconds),
        "table_3": lambda seconds: table_3(
            found.get("table_3", {}).get("rows", []),
            options.delta or list(TABLE_3),
            options.method or list(METHODS),
            folder,
            quick,
            seconds,
        ),
        "figure_4": lambda seconds: figure_4(folder, quick, seconds),
        "figure_4_by_delta": lambda seconds: figure_4_by_delta(folder, quick, seconds),
    }
    for part in parts:
        began = time.perf_counter()
        short = quick and part not in ("full", "search", "patches", "compressions")
        most = min(QUICK, PARTS[part]) if short else PARTS[part]
        for so_far in work[part](options.seconds or most):
            found[part] = so_far
            found.setdefault("seconds", {})[part] = round(time.perf_counter() - began, 1)
            write_whole(file, json.dumps(found, indent=1) + "\n")
        write_report(found, options.out / name)
        print(f"{part}: {found['seconds'][part]:.0f} s", flush=True)
    return 0


def write_whole(file: Path, text: str) -> None:
    """Replace a file at once, so that it is never half written."""
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

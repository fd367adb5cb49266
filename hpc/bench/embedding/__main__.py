"""Benchmark of the embeddings; ``scripts/bench embedding`` calls it.

Parts: convergence (the strategies from one start), starts (from random ones), homotopy,
large (MNIST 20,000), rivals (t-SNE against tsne-h2pack, openTSNE and scikit-learn on
identical affinities, meant for one thread), threads (the same for several), sets (the same on
several data sets), untuned (defaults against openTSNE's and umap-learn's on sets that nobody
tuned), costs (of an evaluation, by threads), neighbors (against pynndescent, hnswlib and faiss)
and patches (a million points).
COIL-20 and MNIST come from --data; without it, scikit-learn's digits take their places, and
sets that are not generated are left out.  Results go to ``hpc/results`` as JSON,
Markdown and PNG; parts that are not run keep what an earlier call found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpc.bench.embedding.convergence import measure_convergence
from hpc.bench.embedding.costs import measure_costs
from hpc.bench.embedding.data import SETS, Images, mnist, small_images
from hpc.bench.embedding.homotopy import measure_homotopy
from hpc.bench.embedding.large import measure_large
from hpc.bench.embedding.neighbors import SEARCHES, measure_neighbors
from hpc.bench.embedding.neighbors import SETS as NEIGHBOR_SETS
from hpc.bench.embedding.patches import measure_patches
from hpc.bench.embedding.report import SECTIONS, write_report
from hpc.bench.embedding.rivals import RIVALS, measure_rivals, measure_set, measure_threads
from hpc.bench.embedding.starts import measure_starts
from hpc.bench.embedding.strategies import Note
from hpc.bench.embedding.untuned import measure_untuned
from hpc.bench.embedding.untuned_sets import SETS as UNTUNED_SETS
from hpc.machine import describe_machine

from thalweg.parallel import MPI, limit_threads

RESULTS = Path(__file__).resolve().parents[2] / "results"

#: What --quick measures unless --part says otherwise.
QUICK = ("convergence", "starts", "homotopy", "rivals")


def main(argv: list[str]) -> int:
    """Run the parts asked for and write the report as they go."""
    parser = argparse.ArgumentParser(prog="bench embedding", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under ten minutes")
    parser.add_argument(
        "--part", action="append", choices=tuple(SECTIONS), help="only this; repeatable"
    )
    parser.add_argument("--data", type=Path, help="folder with coil20/, mnist/ and patches/")
    parser.add_argument("--rows", type=int, help="points of the parts rivals, threads and patches")
    parser.add_argument(
        "--rival", action="append", choices=tuple(RIVALS), help="only this; repeatable"
    )
    parser.add_argument(
        "--set",
        action="append",
        choices=tuple({**SETS, **NEIGHBOR_SETS, **UNTUNED_SETS}),
        help="only this of part sets, untuned or neighbors; repeatable",
    )
    parser.add_argument(
        "--search", action="append", choices=tuple(SEARCHES), help="only this; repeatable"
    )
    parser.add_argument(
        "--strategy",
        action="append",
        help="only this of homotopy (or 'adaptive') and large; repeatable",
    )
    parser.add_argument(
        "--problem",
        action="append",
        choices=("EE", "s-SNE", "t-SNE"),
        help="only this of starts and large; repeatable",
    )
    parser.add_argument("--seconds", type=float, help="most for a run of the strategies")
    parser.add_argument("--starts", type=int, help="number of random starts")
    parser.add_argument("--note", help="a sentence for the report, such as what else was running")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    limit_threads(MPI.COMM_WORLD)
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / ("embedding-quick" if options.quick else "embedding")
    file = stem.with_suffix(".json")
    found = json.loads(file.read_text()) if file.exists() else {}
    found["machine"] = describe_machine()
    for part in options.part or (QUICK if options.quick else SECTIONS):

        def note(measured: dict[str, Any], part: str = part) -> None:
            circumstances = {
                "cores": found["machine"]["cores"],
                "load": os.getloadavg()[1],
                "note": options.note,
            }
            found[part] = {**measured, **circumstances}
            file.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")

        note(_measure(part, options, stem, note, found.get(part, {})))
        write_report(found, stem)
    return 0


def _measure(
    part: str, options: argparse.Namespace, stem: Path, note: Note, before: dict[str, Any]
) -> dict[str, Any]:
    quick, folder = options.quick, options.data

    def small() -> Any:
        return small_images(folder, 360 if quick else 720)

    def starts() -> dict[str, Any]:
        count = options.starts or (5 if quick else 50)
        seconds = options.seconds or (1.0 if quick else 2.0)
        kinds = tuple(options.problem or (("EE",) if quick else ("EE", "s-SNE", "t-SNE")))
        return measure_starts(small(), count, seconds, kinds, before, note)

    def convergence() -> dict[str, Any]:
        return measure_convergence(small(), 300 if quick else 1000, options.seconds, note)

    def homotopy() -> dict[str, Any]:
        size = (8, 500) if quick else (50, 10_000)
        chosen = tuple(options.strategy or ())
        return measure_homotopy(small(), *size, options.seconds, chosen, before, note)

    def large() -> dict[str, Any]:
        images = mnist(folder, options.rows or 20_000, components=None)
        seconds = options.seconds or (20.0 if quick else 180.0)
        chosen = tuple(options.strategy or ()), tuple(options.problem or ())
        return measure_large(images, seconds, *chosen, before, stem, note)

    def images() -> Images:
        return mnist(folder, options.rows or (3_000 if quick else 70_000))

    def sets() -> dict[str, Any]:
        chosen = tuple(options.rival or ("tsne-h2pack", "openTSNE"))
        measured = dict(before.get("sets", {}))  # other sets keep what an earlier call found
        for name in filter(SETS.__contains__, options.set or SETS):
            with contextlib.suppress(FileNotFoundError):
                images = SETS[name](folder or Path())
                measured[name] = measure_set(name, images, stem, chosen)
                note({"sets": measured})
        return {"sets": measured}

    def untuned() -> dict[str, Any]:
        chosen = tuple(filter(UNTUNED_SETS.__contains__, options.set or ()))
        return measure_untuned(chosen, quick, stem, before, note)

    rows = options.rows
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "convergence": convergence,
        "starts": starts,
        "homotopy": homotopy,
        "large": large,
        "rivals": lambda: measure_rivals(images(), stem, tuple(options.rival or RIVALS)),
        "threads": lambda: measure_threads(images(), tuple(options.rival or RIVALS)),
        "sets": sets,
        "untuned": untuned,
        "costs": lambda: measure_costs(mnist(folder, rows or 60_000)),
        "neighbors": lambda: measure_neighbors(
            folder, tuple(options.set or ()), tuple(options.search or ()), before, note
        ),
        "patches": lambda: measure_patches(
            folder,
            rows or (20_000 if quick else 1_000_000),
            40 if quick else 500,
            "tsne-h2pack" in (options.rival or ()),
        ),
    }
    return work[part]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

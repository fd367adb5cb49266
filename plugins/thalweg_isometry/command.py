"""``thalweg certify``: what is true of a linear map, or of compressed rows, over all pairs."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.plugins import CommandParser


def main(argv: list[str]) -> int:
    """Run ``thalweg certify``; returns the exit code.  Collective over all ranks."""
    parser = CommandParser(
        prog="thalweg certify",
        description="Bound or measure every pair of a data set: how much does a linear map, or any "
        "compression, change distances or products, and which pair of rows shows it?",
        allow_abbrev=False,
    )
    parser.add_argument("data", metavar="DATA", help="data file, or the name of a data set")
    parser.add_argument(
        "vectors",
        metavar="VECTORS",
        help="file of a map, rank x columns of the data, or of as many compressed rows as data",
    )
    parser.add_argument("--labels", metavar="FILE", help="labels of the rows")
    parser.add_argument("--rows", type=int, metavar="N", help="take the first N rows")
    parser.add_argument("--scale", metavar="HOW", help="scale the data as section [data] does")
    parser.add_argument(
        "--secants",
        default="all",
        choices=("all", "within-class", "neighbors"),
        help="which pairs of points count (all)",
    )
    parser.add_argument(
        "--neighbors", type=int, default=10, metavar="K", help="how many neighbors (10)"
    )
    parser.add_argument(
        "--quantity",
        default="distance",
        choices=("distance", "inner-product", "cosine", "neighbors"),
        help="what compressed rows change (distance), or where the nearest neighbors are then",
    )
    parser.add_argument("--absolute", action="store_true", help="changes are not relative")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)

    from thalweg.parallel import MPI, limit_threads, on_root
    from thalweg.workbench.readers import data_sets, load_data
    from thalweg_isometry.certificate import certify
    from thalweg_isometry.cutting_planes import scan_progress
    from thalweg_isometry.near_isometry import secant_set

    comm = MPI.COMM_WORLD
    limit_threads(comm)
    section: dict[str, Any] = {}
    names = {spec.name for spec in data_sets()}
    # Every rank must decide alike, and not by what its own file system shows.
    exists = comm.bcast(Path(arguments.data).exists() if comm.rank == 0 else None)
    known = arguments.data.partition(":")[0] in names and not exists
    section["name" if known else "path"] = arguments.data
    for option in ("labels", "rows", "scale"):
        if getattr(arguments, option) is not None:
            section[option] = getattr(arguments, option)
    vectors = on_root(comm, lambda: _matrix(arguments.vectors))
    dataset = load_data(section, comm)
    quantity, relative = arguments.quantity, not arguments.absolute
    if len(vectors) == dataset.layout.rows:
        if arguments.secants != "all":
            raise InputError("compressed rows are compared over all pairs; leave --secants out")
        certificate = certify(
            dataset, dataset.layout.local(vectors), quantity=quantity, relative=relative,
            n_neighbors=arguments.neighbors,
        )  # fmt: skip
    elif (quantity, relative) != ("distance", True) or len(vectors) > dataset.layout.columns:
        raise InputError(
            f"'{arguments.vectors}' has {len(vectors):,} rows, the data {dataset.layout.rows:,} of "
            f"{dataset.layout.columns:,} columns; give as many compressed rows as data, or a map "
            "of no more rows than columns without --quantity and --absolute"
        )
    else:
        secants = secant_set(dataset, arguments.secants, arguments.neighbors)
        with scan_progress(secants, 1.0) as progress:
            certificate = certify(secants, vectors, progress=progress)
    if comm.rank == 0:
        print(json.dumps(certificate.as_dict()) if arguments.json else str(certificate))
    return 0


def _matrix(path: str) -> np.ndarray:
    """The map, by the readers of data, which say what is wrong with a file."""
    from thalweg.workbench.readers import load_data

    if Path(path).is_dir():
        raise InputError(f"'{path}' is a folder; give a file of the map")
    return load_data({"path": path}).values

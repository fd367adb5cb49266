"""``thalweg certify``: what is true of any linear map over all secants of a data set."""

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
        description="Bound or measure every secant of a data set: how far is a linear map from an "
        "isometry, which pair of points shows it, and what rank is needed at least?",
        allow_abbrev=False,
    )
    parser.add_argument("data", metavar="DATA", help="data file, or the name of a data set")
    parser.add_argument(
        "components", metavar="COMPONENTS", help="file of the map, rank x columns of the data"
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
    components = on_root(comm, lambda: _matrix(arguments.components))
    dataset = load_data(section, comm)
    secants = secant_set(dataset, arguments.secants, arguments.neighbors)
    if len(components) > secants.dimension:
        raise InputError(
            f"the map '{arguments.components}' has {len(components):,} rows but points have only "
            f"{secants.dimension:,} columns; the order is: thalweg certify DATA COMPONENTS"
        )
    with scan_progress(secants, 1.0) as progress:
        certificate = certify(secants, components, progress)
    if comm.rank == 0:
        print(json.dumps(certificate.as_dict()) if arguments.json else str(certificate))
    return 0


def _matrix(path: str) -> np.ndarray:
    """The map, by the readers of data, which say what is wrong with a file."""
    from thalweg.workbench.readers import load_data

    if Path(path).is_dir():
        raise InputError(f"'{path}' is a folder; give a file of the map")
    return load_data({"path": path}).values

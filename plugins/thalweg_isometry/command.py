"""``thalweg certify``: what is true of a linear map, or of compressed rows, over all pairs."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError, printable
from thalweg.plugins import CommandParser

#: Maps of a given rank that take no search.
RIVALS = ("pca", "secant-pca", "random-projection", "adagio")


def main(argv: list[str]) -> int:
    """Run ``thalweg certify``; returns the exit code.  Collective over all ranks."""
    arguments = _parser().parse_args(argv)

    from thalweg import minimize
    from thalweg.parallel import MPI, limit_threads, on_root
    from thalweg.workbench.readers import load_data
    from thalweg.workbench.strict_json import as_json
    from thalweg_isometry.certificate import Certificate, certify
    from thalweg_isometry.cutting_planes import scan_progress
    from thalweg_isometry.near_isometry import NearIsometry, secant_set

    comm = MPI.COMM_WORLD
    limit_threads(comm)
    rivals = list(dict.fromkeys(name for name in arguments.against.split(",") if name))
    for name in rivals:
        if name not in RIVALS:
            raise InputError(f"--against has no map '{name}'; give any of {', '.join(RIVALS)}")
    if arguments.labels and arguments.secants != "within-class":
        raise InputError("--labels counts only with --secants within-class; give both, or neither")
    vectors = on_root(comm, lambda: _matrix(arguments.vectors))
    dataset = load_data(_section(arguments, comm), comm)
    quantity, relative = arguments.quantity, not arguments.absolute
    of_rows = len(vectors) == dataset.layout.rows
    is_plain = (quantity, relative) == ("distance", True)
    if of_rows and arguments.secants != "all":
        raise InputError("compressed rows are compared over all pairs; leave --secants out")
    if not of_rows and not (is_plain and len(vectors) <= dataset.layout.columns):
        raise InputError(
            f"'{arguments.vectors}' has {len(vectors):,} rows, the data {dataset.layout.rows:,} of "
            f"{dataset.layout.columns:,} columns; give as many compressed rows as data, or a map "
            "of no more rows than columns without --quantity and --absolute"
        )
    secants: Any = None
    if rivals or not of_rows:
        secants = secant_set(dataset, arguments.secants, arguments.neighbors)

    def certified(compressed: np.ndarray) -> Certificate:
        if of_rows:
            return certify(
                dataset, compressed, quantity=quantity, relative=relative,
                n_neighbors=arguments.neighbors, arithmetic=arguments.arithmetic,
            )  # fmt: skip
        with scan_progress(secants, 1.0) as progress:
            return certify(secants, compressed, arithmetic=arguments.arithmetic, progress=progress)

    certificates = {"": certified(dataset.layout.local(vectors) if of_rows else vectors)}
    rank = min(vectors.shape[of_rows], dataset.layout.columns)
    for name in rivals:
        psi = secants.directions[:rank]
        if name != "pca":
            psi = minimize(NearIsometry(secants, None, rank), solver=name).x
        certificates[name] = certified(np.asarray(dataset.values @ psi.T) if of_rows else psi)
    if comm.rank == 0:
        for note in dataset.notes:
            print(f"note: {printable(note)}", file=sys.stderr)
        own, *others = (one.as_dict() for one in certificates.values())
        against = {"against": dict(zip(rivals, others, strict=True))} if rivals else {}
        lines = (f"{name}: {one}" if name else str(one) for name, one in certificates.items())
        print(as_json({**own, **against}, None) if arguments.json else "\n".join(lines))
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="thalweg certify",
        description="Bound or measure every pair of a data set: how much does a linear map, or any "
        "compression, change distances or products, and which pair of rows shows it?",
        allow_abbrev=False,
    )
    parser.add_argument("data", metavar="DATA", help="data file, or the name of a data set")
    what = "file of a map, rank x columns of the data, or of as many compressed rows as data"
    parser.add_argument("vectors", metavar="VECTORS", help=what)
    parser.add_argument("--labels", metavar="FILE", help="labels of the rows")
    parser.add_argument("--rows", type=int, metavar="N", help="take the first N rows")
    parser.add_argument("--scale", metavar="HOW", help="scale the data as section [data] does")
    what = "which pairs of points count (all), or also the sums of two points"
    kinds = ("all", "within-class", "neighbors", "sums")
    parser.add_argument("--secants", default="all", choices=kinds, help=what)
    parser.add_argument("--neighbors", type=int, default=10, metavar="K", help="how many (10)")
    what = "what compressed rows change (distance), or where the nearest neighbors are then"
    quantities = ("distance", "inner-product", "cosine", "neighbors")
    parser.add_argument("--quantity", default="distance", choices=quantities, help=what)
    what = "of products that bound pairs of compressed rows: float32, tf32, bfloat16 (float64)"
    parser.add_argument("--arithmetic", default="float64", metavar="NAME", help=what)
    parser.add_argument("--absolute", action="store_true", help="changes are not relative")
    what = f"certify maps of the same rank too: {', '.join(RIVALS)}"
    parser.add_argument("--against", default="", metavar="NAMES", help=what)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _section(arguments: Any, comm: Any) -> dict[str, Any]:
    """Section ``[data]`` that stands for the arguments.  Collective."""
    from thalweg.workbench.readers import data_sets

    # Every rank must decide alike, and not by what its own file system shows.
    exists = comm.bcast(Path(arguments.data).exists() if comm.rank == 0 else None)
    names = set() if exists else {spec.name for spec in data_sets()}
    section = {name: getattr(arguments, name) for name in ("labels", "rows", "scale")}
    section["name" if arguments.data.partition(":")[0] in names else "path"] = arguments.data
    return section


def _matrix(path: str) -> np.ndarray:
    """The map, by the readers of data, which say what is wrong with a file."""
    from thalweg.workbench.readers import load_data

    if Path(path).is_dir():
        raise InputError(f"'{path}' is a folder; give a file of the map")
    return load_data({"path": path}).values

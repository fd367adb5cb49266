"""``thalweg plot``: draw the pictures of a run directory again."""

from __future__ import annotations

from thalweg.cli.arguments import Parser


def main(argv: list[str]) -> int:
    """Run ``thalweg plot``; returns the exit code."""
    parser = Parser(
        prog="thalweg plot", description="Draw the pictures of a run or of a comparison again."
    )
    parser.add_argument("folder", metavar="DIR", help="run directory")
    arguments = parser.parse_args(argv)

    from thalweg.job import plot
    from thalweg.parallel import MPI, on_root

    drawn = on_root(MPI.COMM_WORLD, lambda: plot(arguments.folder))
    if MPI.COMM_WORLD.rank == 0:
        for file in drawn:
            print(file)
    return 0

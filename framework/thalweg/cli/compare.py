"""``thalweg compare``: several methods on one objective."""

from __future__ import annotations

from pathlib import Path

from thalweg.cli.arguments import configuration_parser


def main(argv: list[str]) -> int:
    """Run ``thalweg compare``; returns the exit code."""
    parser = configuration_parser(
        "compare",
        "Run every [[method]] of a configuration on the same objective from the same start.",
    )
    arguments = parser.parse_args(argv)

    from thalweg.driver.signals import watch_from_now_on
    from thalweg.job import compare
    from thalweg.parallel import MPI
    from thalweg.report import comparison_rows, format_table
    from thalweg.result import Status

    watch_from_now_on()
    comm = MPI.COMM_WORLD
    results = compare(
        arguments.config,
        arguments.out,
        changes=arguments.changes,
        quiet=arguments.quiet,
        comm=comm,
    )
    if comm.rank == 0 and not arguments.quiet:
        print(format_table(comparison_rows(results)))
        if arguments.out:
            _name_pictures(Path(arguments.out))
    statuses = [result.status for result in results.values()]
    if Status.INTERRUPTED in statuses:
        return Status.INTERRUPTED.exit_code
    # A method that diverges is a finding of the comparison, not its failure.
    return 0 if any(not status.failed for status in statuses) else 3


def _name_pictures(folder: Path) -> None:
    pictures = sorted(folder.glob("*.png")) + sorted(folder.glob("*/embedding.png"))
    if pictures:
        print("\npictures:")
        for picture in pictures:
            print(f"  {picture}")

"""``thalweg run``: one configured run."""

from __future__ import annotations

from thalweg.cli.arguments import configuration_parser


def main(argv: list[str]) -> int:
    """Run ``thalweg run``; returns the exit code."""
    parser = configuration_parser("run", "Run a configuration, on one rank or under mpirun.")
    parser.add_argument(
        "--resume", action="store_true", help="go on from the newest checkpoint, if there is one"
    )
    arguments = parser.parse_args(argv)

    from thalweg.driver.signals import watch_from_now_on
    from thalweg.job import run
    from thalweg.parallel import MPI

    watch_from_now_on()
    comm = MPI.COMM_WORLD
    result = run(
        arguments.config,
        arguments.out,
        changes=arguments.changes,
        resume=arguments.resume,
        quiet=arguments.quiet,
        comm=comm,
    )
    if comm.rank == 0 and not arguments.quiet:
        for note in result.notes:
            print(f"note: {note}")
        print(
            f"{result.message}\n"
            f"objective {result.objective:.10g} after {result.iterations} iterations, "
            f"{result.evaluations} evaluations, {result.seconds['total']:.2f} s"
        )
        for name, value in result.metrics.items():
            print(f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}")
    return result.status.exit_code

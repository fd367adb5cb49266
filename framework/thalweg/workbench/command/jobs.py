"""The commands that run configurations and show what came out: run, compare, plan, plot, cite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from thalweg.errors import InputError, printable
from thalweg.plugins import CommandParser


def _watch_signals() -> None:
    """Note signals until the process ends, also during set-up and while results are written."""
    from thalweg.driver.signals import SignalWatch

    SignalWatch().__enter__()


def run_command(argv: list[str]) -> int:
    """Run ``thalweg run``; returns the exit code."""
    parser = _configuration_parser("run", "Run a configuration, on one rank or under mpirun.")
    parser.add_argument(
        "--resume", action="store_true", help="continue from the newest checkpoint, if there is one"
    )
    parser.add_argument(
        "--profile", action="store_true", help="print seconds, messages and bytes by phase"
    )
    given = vars(parser.parse_args(argv))
    profiled = given.pop("profile")

    from thalweg.parallel import MPI
    from thalweg.workbench.run import run
    from thalweg.workbench.run.profile import profile, profile_table

    _watch_signals()
    comm = MPI.COMM_WORLD
    result = run(**given, comm=comm)
    if comm.rank == 0 and not given["quiet"]:
        for note in result.notes:
            print(f"note: {printable(note)}")
        at = f" at the last {result.trace.homotopy_parameter}" if result.stages_left else ""
        print(
            f"{result.message}\n"
            f"objective {result.wanted_objective:.10g}{at} after {result.iterations} iterations, "
            f"{result.evaluations} evaluations, {result.seconds['total']:.2f} s"
        )
        for name, value in result.metrics.items():
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            print(printable(f"{name} {text}"))
    if profiled:
        table = profile_table(profile(comm))
        if comm.rank == 0:
            print(table)
    return result.status.exit_code


def compare_command(argv: list[str]) -> int:
    """Run ``thalweg compare``; returns the exit code."""
    parser = _configuration_parser(
        "compare",
        "Run every [[method]] of a configuration on the same objective from the same start.",
    )
    given = vars(parser.parse_args(argv))

    from thalweg.parallel import MPI
    from thalweg.result import Status
    from thalweg.workbench.report import comparison_rows, format_table
    from thalweg.workbench.run import compare

    _watch_signals()
    comm = MPI.COMM_WORLD
    results = compare(**given, comm=comm)
    if comm.rank == 0 and not given["quiet"]:
        print(format_table(comparison_rows(results)))
        notes: dict[str, list[str]] = {}
        for label, result in results.items():
            for note in result.notes:
                notes.setdefault(note, []).append(label)
        for note, labels in notes.items():
            print(printable(f"note on {', '.join(labels)}: {note}"))
        if given["out"]:
            folder = Path(given["out"])
            pictures = sorted(folder.glob("*.png")) + sorted(folder.glob("*/embedding.png"))
            if pictures:
                print("\npictures:", *(f"  {printable(str(one))}" for one in pictures), sep="\n")
    statuses = [result.status for result in results.values()]
    if Status.INTERRUPTED in statuses:
        return Status.INTERRUPTED.exit_code
    # A method that diverges is a finding of the comparison, not its failure.
    return 0 if any(not status.failed for status in statuses) else 3


def plan_command(argv: list[str]) -> int:
    """Run ``thalweg plan``; returns the exit code, 2 where the run would not fit."""
    parser = CommandParser(
        prog="thalweg plan",
        description="Predict the memory of a run from the shapes of its data.",
        allow_abbrev=False,
    )
    parser.add_argument("config", metavar="CONFIG.toml", help="configuration file")
    parser.add_argument("--ranks", type=int, default=1, metavar="P", help="number of ranks")
    parser.add_argument(
        "--memory-per-rank", metavar="SIZE", help="memory that a rank may use, such as 4GiB"
    )
    parser.add_argument("--rows", type=int, metavar="N", help="rows instead of those of the data")
    parser.add_argument("--columns", type=int, metavar="D", help="columns instead of the data's")
    _add_changes(parser)
    given = vars(parser.parse_args(argv))
    size = given.pop("memory_per_rank")

    from thalweg.parallel import MPI, on_root
    from thalweg.workbench.plan import bytes_of, plans

    def predict() -> tuple[str, str, bool]:
        room = None if size is None else bytes_of(size)
        found = plans(**given)
        titles = [f"{printable(each.label)}\n" if each.label else "" for each in found]
        tables = [title + each.table() for title, each in zip(titles, found, strict=True)]
        most = max(found, key=lambda each: each.memory)
        return "\n\n".join(tables), most.verdict(room), room is None or most.memory <= room

    table, verdict, fits = on_root(MPI.COMM_WORLD, predict)
    if MPI.COMM_WORLD.rank == 0:
        print(table)
    if not fits:
        raise InputError(verdict)
    if MPI.COMM_WORLD.rank == 0:
        print(verdict)
    return 0


def plot_command(argv: list[str]) -> int:
    """Run ``thalweg plot``; returns the exit code."""
    description = "Draw the pictures of a run or of a comparison again."
    html = "write the map as a page as well: embedding.html, with pan, zoom and labels"
    return _folder_command(
        "plot", argv, description, lambda job, folder, page: job.plot(folder, page), html=html
    )


def cite_command(argv: list[str]) -> int:
    """Run ``thalweg cite``; returns the exit code."""
    description = "Print the references of the methods that a run or a comparison used."
    return _folder_command(
        "cite", argv, description, lambda job, folder: job.cite(folder).splitlines()
    )


def _folder_command(
    command: str, argv: list[str], description: str, action: Callable[..., list[Any]], **flags: str
) -> int:
    """A command on a run directory: rank 0 acts and prints what that gives, a line each.

    ``action`` is given the jobs' package, the folder, and whether each of the flags is set, whose
    help texts these are.
    """
    parser = CommandParser(prog=f"thalweg {command}", description=description)
    parser.add_argument("folder", metavar="DIR", help="run directory")
    for flag, text in flags.items():
        parser.add_argument(f"--{flag}", action="store_true", help=text)
    given = list(vars(parser.parse_args(argv)).values())

    from thalweg.parallel import MPI, on_root
    from thalweg.workbench import run as job

    lines = on_root(MPI.COMM_WORLD, lambda: action(job, *given))
    if MPI.COMM_WORLD.rank == 0:
        for line in lines:
            print(printable(str(line)))
    return 0


def _configuration_parser(command: str, description: str) -> CommandParser:
    """Parser of the commands that run a configuration."""
    parser = CommandParser(prog=f"thalweg {command}", description=description, allow_abbrev=False)
    parser.add_argument("config", metavar="CONFIG.toml", help="configuration file")
    _add_changes(parser)
    parser.add_argument("--out", metavar="DIR", help="folder of the results")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser


def _add_changes(parser: CommandParser) -> None:
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="section.key=value",
        action="append",
        default=[],
        help="change one option of the configuration; may be repeated",
    )

"""The commands that run configurations and show what came out: run, compare, plan, plot, cite."""

import os
from collections.abc import Callable
from pathlib import Path

from thalweg.errors import InputError, printable
from thalweg.plugins import CommandParser


def _watch_signals() -> None:
    """Note signals until the process ends, also during set-up and while results are written."""
    from thalweg.driver.signals import SignalWatch

    SignalWatch().__enter__()


def run_command(argv: list[str]) -> int:
    """Run ``thalweg run``; returns the exit code."""
    parser = _configuration_parser("run", "Run a configuration, on one rank or under mpirun.")
    text = "continue from the newest checkpoint, if there is one"
    parser.add_argument("--resume", action="store_true", help=text)
    text = "print seconds, messages and bytes by phase"
    parser.add_argument("--profile", action="store_true", help=text)
    arguments = vars(parser.parse_args(argv))
    profiled = arguments.pop("profile")

    from thalweg.parallel import MPI
    from thalweg.parallel.traffic import profile
    from thalweg.workbench.report.tables import profile_table
    from thalweg.workbench.run import run

    _watch_signals()
    comm = MPI.COMM_WORLD
    result = run(**arguments, comm=comm)
    if comm.rank == 0 and not arguments["quiet"]:
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
    arguments = vars(parser.parse_args(argv))

    from thalweg.parallel import MPI
    from thalweg.result import Status
    from thalweg.workbench.report import comparison_rows, format_table
    from thalweg.workbench.run import compare

    _watch_signals()
    comm = MPI.COMM_WORLD
    results = compare(**arguments, comm=comm)
    if comm.rank == 0 and not arguments["quiet"]:
        print(format_table(comparison_rows(results)))
        notes: dict[str, list[str]] = {}
        for label, result in results.items():
            for note in result.notes:
                notes.setdefault(note, []).append(label)
        for note, labels in notes.items():
            print(printable(f"note on {', '.join(labels)}: {note}"))
        folder = Path(arguments["out"] or os.devnull)
        pictures = sorted(folder.glob("*.png")) + sorted(folder.glob("*/embedding.png"))
        if pictures:
            print("\npictures:", *(f"  {printable(str(path))}" for path in pictures), sep="\n")
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
    parser.add_argument("--memory-per-rank", metavar="SIZE", help="memory of a rank, such as 4GiB")
    parser.add_argument("--rows", type=int, metavar="N", help="rows instead of those of the data")
    parser.add_argument("--columns", type=int, metavar="D", help="columns instead of the data's")
    _add_changes(parser)
    arguments = vars(parser.parse_args(argv))
    size = arguments.pop("memory_per_rank")

    from thalweg.parallel import MPI, on_root
    from thalweg.workbench.plan import bytes_of, plans

    def predict() -> tuple[str, str, bool]:
        room = None if size is None else bytes_of(size)
        methods = plans(**arguments)
        tables = [f"{printable(plan.label)}\n{plan.table()}".lstrip() for plan in methods]
        most = max(methods, key=lambda plan: plan.memory)
        return "\n\n".join(tables), most.verdict(room), room is None or most.memory <= room

    table, verdict, fits = on_root(MPI.COMM_WORLD, predict)
    if MPI.COMM_WORLD.rank == 0:
        print(table, *([verdict] if fits else []), sep="\n")
    if not fits:
        raise InputError(verdict)
    return 0


def plot_command(argv: list[str]) -> int:
    """Run ``thalweg plot``; returns the exit code."""
    parser = _folder_parser("plot", "Draw the pictures of a run or of a comparison again.")
    text = "write the map as a page as well: embedding.html, with pan, zoom and labels"
    parser.add_argument("--html", dest="page", action="store_true", help=text)
    text = "write what can be told of each row to measures.csv too, and offer it on that page"
    parser.add_argument("--measures", action="store_true", help=text)
    text = "write the map into the .h5ad file of the data as well, under this key, such as X_tsne"
    parser.add_argument("--obsm", metavar="KEY", help=text)
    text = "replace what the file has under that key"
    parser.add_argument("--overwrite", action="store_true", help=text)
    arguments = vars(parser.parse_args(argv))
    from thalweg.workbench.run import plot

    return _print_from_root(lambda: [*map(str, plot(**arguments))])


def cite_command(argv: list[str]) -> int:
    """Run ``thalweg cite``; returns the exit code."""
    arguments = _folder_parser(
        "cite", "Print the references of the methods that a run or a comparison used."
    ).parse_args(argv)
    from thalweg.workbench.run import cite

    return _print_from_root(lambda: cite(arguments.folder).splitlines())


def _folder_parser(command: str, description: str) -> CommandParser:
    parser = CommandParser(prog=f"thalweg {command}", description=description)
    parser.add_argument("folder", metavar="DIR", help="run directory")
    return parser


def _print_from_root(action: Callable[[], list[str]]) -> int:
    """Print the lines that an action gives on rank 0 alone; returns the exit code 0."""
    from thalweg.parallel import MPI, on_root

    lines = on_root(MPI.COMM_WORLD, action)
    if MPI.COMM_WORLD.rank == 0:
        print(*map(printable, lines), sep="\n")
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
    text, form = "change one option of the configuration; may be repeated", "section.key=value"
    parser.add_argument(
        "--set", dest="changes", metavar=form, action="append", default=[], help=text
    )

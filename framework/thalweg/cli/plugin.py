"""``thalweg plugin``: begin a plugin distribution, or check a plugin module."""

from __future__ import annotations

from thalweg.cli.arguments import Parser


def main(argv: list[str]) -> int:
    """Run ``thalweg plugin``; returns the exit code."""
    parser = Parser(prog="thalweg plugin", description="Begin a plugin of your own, or check one.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="new | check")
    new = commands.add_parser("new", help="write a distribution to start from")
    new.add_argument("name", metavar="NAME", help="name of the distribution, such as thalweg-mine")
    new.add_argument("folder", metavar="DIR", nargs="?", help="folder to make; by default NAME")
    check = commands.add_parser("check", help="run the conformance suite on a plugin module")
    check.add_argument("module", metavar="MODULE", help="importable name of the plugin module")
    arguments = parser.parse_args(argv)
    if arguments.command == "new":
        return _new(arguments.name, arguments.folder)
    return _check(arguments.module)


def _new(name: str, folder: str | None) -> int:
    from thalweg.plugins.scaffold import write_distribution

    written = write_distribution(name, folder or name)
    print(f"wrote {written}\nnext: pip install -e {written} && thalweg list")
    return 0


def _check(module: str) -> int:
    from importlib.util import find_spec

    from thalweg.errors import InputError
    from thalweg.parallel import MPI
    from thalweg.testing import check_plugin

    try:
        known = find_spec(module) is not None
    except (ImportError, ValueError):
        known = False
    if not known:
        raise InputError(f"no module is called '{module}' here; is its distribution installed?")
    comm = MPI.COMM_WORLD
    findings = check_plugin(module, comm)
    failed = [finding for finding in findings if not finding[1]]
    if comm.rank == 0:
        for name, passed, message in findings:
            print(f"{'pass' if passed else 'FAIL'}  {name}" + (f": {message}" if message else ""))
        print(f"{len(findings) - len(failed)} passed, {len(failed)} failed")
    return 3 if failed else 0

"""The commands that inspect the installation: list, plugin, doctor."""

import dataclasses
import importlib.util
import keyword
import os
import re
import shutil
import string
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thalweg.errors import InputError, PluginError, suggestion
from thalweg.plugins import CommandParser, Option, Spec, plugins
from thalweg.plugins.specs import KINDS
from thalweg.workbench.doctor import Finding, examine, find_mpirun
from thalweg.workbench.strict_json import as_json

#: Options of each section.
Sections = Mapping[str, tuple[Option, ...]]


def list_command(argv: list[str]) -> int:
    """Run ``thalweg list``; returns the exit code."""
    parser = CommandParser(
        prog="thalweg list",
        description="List objectives, preconditioners, solvers and more; with a name, its options.",
    )
    text = "show its options: a name in the list, an estimator's name, or a section such as stop"
    parser.add_argument("name", metavar="NAME", nargs="?", help=text)
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    arguments = parser.parse_args(argv)
    specs, sections = _listing(arguments.name)
    if arguments.json:
        print(as_json(_described_listing(specs, sections)))
    elif arguments.name is None:
        _show_all(specs, sections)
    else:
        for spec in specs:
            print(f"{spec.owner} of {_distribution(spec)}: {spec.summary}")
            _show_options(spec.declared_options)
        for section, options in sections.items():
            print(f"section [{section}]:")
            _show_options(options)
    return 0


def _listing(name: str | None) -> tuple[list[Spec], Sections]:
    """Specs, those of the framework included, and sections of a configuration, or those of a name.

    A section has the options that every configuration may have.
    """
    from thalweg.workbench.config import FIXED
    from thalweg.workbench.readers import data_options, formats, named_sets

    specs: list[Spec] = sorted((*named_sets.CORE, *formats.CORE), key=lambda spec: spec.name)
    specs += [spec for kind in KINDS for spec in plugins().specs(kind)]
    sections = {"data": tuple(data_options()), **FIXED}
    if name is None:
        return specs, sections
    folded = _folded(name.partition(":")[0])
    shown = [spec for spec in specs if folded in map(_folded, (spec.name, *spec.aliases))]
    named = {key: options for key, options in sections.items() if key == name.strip("[]")}
    if not shown and not named:
        names = [*(spec.shown_name for spec in specs), *sections]
        raise InputError(f"nothing is called '{name}'{suggestion(name, names)}")
    return shown, named


def _distribution(spec: Spec) -> str:
    return "thalweg" if spec.provider is None else spec.provider.distribution


def _described_listing(specs: list[Spec], sections: Sections) -> dict[str, Any]:
    """What is listed, for JSON; what cannot be loaded joins what is broken, without options."""
    broken = list(plugins().broken)

    def described(spec: Spec) -> dict[str, Any]:
        facts = {"name": spec.shown_name, "summary": spec.summary, "provider": _distribution(spec)}
        try:
            return {**facts, "options": [*map(_described, spec.declared_options)]}
        except PluginError as error:
            assert spec.provider is not None
            broken.append(dataclasses.replace(spec.provider, error=str(error)))
            return {**facts, "options": []}

    listing: dict[str, Any] = {
        f"{kind.kind}s".replace(" ", "_"): [described(s) for s in specs if isinstance(s, kind)]
        for kind in KINDS
    }
    listing["sections"] = [
        {"name": name, "options": [*map(_described, options)]} for name, options in sections.items()
    ]
    listing["broken"] = [
        {"name": b.name, "provider": b.distribution, "error": b.error} for b in broken
    ]
    return listing


def _described(option: Option) -> dict[str, Any]:
    facts = {key: value for key, value in vars(option).items() if value is not None}
    facts.update(type=option.type.__name__, default=option.default)
    if option.entries is not None:
        facts["entries"] = option.entries.__name__
    return facts


def _show_all(specs: list[Spec], sections: Sections) -> None:
    for kind in KINDS:
        of_kind = [spec for spec in specs if isinstance(spec, kind)]
        width = max((len(spec.shown_name) for spec in of_kind), default=0)
        title = ""
        for spec in of_kind:
            plugin = "" if spec.provider is None else f" of {spec.provider.name}"
            if title != (title := f"{kind.kind}s{plugin}:"):
                print(title)
            by = "" if _distribution(spec) == "thalweg" else f"  [{_distribution(spec)}]"
            print(f"  {spec.shown_name:<{width}}  {spec.summary}{by}")
        if of_kind:
            print()
    print(f"sections of a configuration:\n  {', '.join(sections)}\n")
    for broken in plugins().broken:
        print(f"not loaded: {broken}: {broken.error}")
    print("thalweg list NAME shows the options of one of them, or of a section.")


def _folded(name: str) -> str:
    """A name without what may be written in several ways: ``TSNE`` and ``t-sne`` are the same."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _show_options(options: tuple[Option, ...]) -> None:
    width = max([len(option.name) for option in options], default=0)
    for option in options:
        default = "" if option.default is None else f"; default {as_written(option.default)}"
        print(f"  {option.name:<{width}}  {option.help} ({limits(option)}{default})")
    if not options:
        print("  no options")


def as_written(value: Any) -> str:
    """A default as a configuration would have it, without quotes; a dash for None."""
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)


def limits(option: Option) -> str:
    """Type, unit and bounds of an option, in words."""
    parts = [option.type_name]
    if option.unit:
        parts.append(f"in {option.unit}")
    if option.choices:
        parts.append("one of " + ", ".join(map(str, option.choices)))
    for bound, words in (
        (option.minimum, "at least"),
        (option.above, "above"),
        (option.maximum, "at most"),
        (option.below, "below"),
    ):
        if bound is not None:
            parts.append(f"{words} {bound:g}")
    return "; ".join(parts)


def plugin_command(argv: list[str]) -> int:
    """Run ``thalweg plugin``; returns the exit code."""
    text = "Create a plugin to start from, or check one."
    parser = CommandParser(prog="thalweg plugin", description=text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="new | check")
    new = commands.add_parser("new", help="write a distribution to start from")
    new.add_argument("name", metavar="NAME", help="name of the distribution, such as thalweg-mine")
    new.add_argument("folder", metavar="DIR", nargs="?", help="folder to make; by default NAME")
    check = commands.add_parser("check", help="run the conformance suite on a plugin module")
    check.add_argument("module", metavar="MODULE", help="importable name of the plugin module")
    text = "start the check under mpirun on N ranks"
    check.add_argument("--ranks", type=int, default=1, metavar="N", help=text)
    arguments = parser.parse_args(argv)
    if arguments.command == "new":
        from thalweg.parallel import MPI, on_root

        comm, name = MPI.COMM_WORLD, arguments.name
        written = on_root(comm, lambda: write_distribution(name, arguments.folder or name))
        if comm.rank == 0:
            print(f"wrote {written}\nnext: pip install -e {written} && thalweg list")
        return 0
    return _check(arguments.module, arguments.ranks)


def _check(module: str, ranks: int) -> int:
    if ranks < 1:
        raise InputError(f"--ranks must be at least 1, not {ranks}")
    if ranks > 1:
        mpirun = find_mpirun()
        if mpirun is None:
            raise InputError("mpirun is not on PATH; 'thalweg doctor' says which one is needed")
        code = [sys.executable, "-m", "thalweg", "plugin", "check", module]
        return subprocess.run([mpirun, "-n", str(ranks), *code]).returncode

    from thalweg.parallel import MPI
    from thalweg.workbench.check_plugin import check_plugin

    try:
        known = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        known = False
    if not known:
        raise InputError(f"no module is called '{module}' here; is its distribution installed?")
    comm = MPI.COMM_WORLD
    findings = check_plugin(module, comm)
    failed = sum(not passed for _, passed, _ in findings)
    if comm.rank == 0:
        for name, passed, message in findings:
            print(f"{'pass' if passed else 'FAIL'}  {name}" + (f": {message}" if message else ""))
        size = "1 rank" if comm.size == 1 else f"{comm.size} ranks"
        print(f"{len(findings) - failed} passed, {failed} failed on {size}")
        if comm.size == 1:
            print("whether several ranks agree was not checked; --ranks 2 does that")
    return 3 if failed else 0


def doctor_command(argv: list[str]) -> int:
    """Report on this installation: 0 if all is well, 2 if something is broken.  Collective."""
    parser = CommandParser(
        prog="thalweg doctor",
        description="Show the versions of an installation, and what is wrong with it. "
        "Under mpirun it shows how the ranks share cores and threads, too.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="show whole paths")
    options = parser.parse_args(argv)
    findings = examine()
    broken = sum(finding.broken for finding in findings)
    world = sys.modules.get("mpi4py.MPI")  # missing where it cannot be imported
    if world is None or world.COMM_WORLD.rank == 0:
        report = {"well": not broken, "findings": [dataclasses.asdict(one) for one in findings]}
        print(as_json(report) if options.json else _as_text(findings, broken, options.verbose))
    return 2 if broken else 0


def _as_text(findings: list[Finding], broken: int, verbose: bool) -> str:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        value = finding.value
        if ", /" in value and not verbose:  # several paths: their names
            value = ", ".join(dict.fromkeys(Path(path).name for path in value.split(", ")))
        lines.append(f"{finding.name:<{width}}  {value}".rstrip())
        if finding.problem:
            mark = "BROKEN" if finding.broken else "note"
            advice = f" — {finding.advice}" if finding.advice else ""
            lines.append(f"{'':<{width}}  {mark}: {finding.problem}{advice}")
    return "\n".join([*lines, f"broken: {broken}" if broken else "no problems found"])


#: The template, whose files and folders are called "package" where the package's name stands.
_TEMPLATE = Path(__file__).parents[1] / "template"

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def write_distribution(name: str, folder: Path | str) -> Path:
    """Write a small distribution with an objective, a preconditioner and a solver; its folder.

    It passes ``thalweg plugin check`` as it is, and is meant to be changed.  The package of
    ``thalweg-mine`` is called ``thalweg_mine``, and its plugins after what follows ``thalweg-``.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"'{name}' is not a valid name for a plugin: use lower-case letters, digits and "
            f"single hyphens, beginning with a letter, as in 'thalweg-mine'"
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise InputError(f"'{name}' is a word of Python's own; try 'thalweg-{name}'")
    if importlib.util.find_spec(package) is not None:
        raise InputError(f"a Python package '{package}' is already installed; choose another name")
    short = re.sub(r"^thalweg[-_]", "", name).replace("_", "-")
    manager = plugins()
    taken = {provider.name for provider in (*manager.providers, *manager.broken)}
    taken |= {spec.name for kind in KINDS for spec in manager.specs(kind)}
    if short in taken:
        raise InputError(f"a plugin is already called '{short}'; choose another name than '{name}'")
    names = {"name": name, "package": package, "short": short}
    names["Class"] = "".join(part.capitalize() for part in re.split("[-_]", name))
    if "\0" in str(folder):
        raise InputError(f"the name of a folder must not contain null characters: {folder!r}")
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise InputError(f"'{folder}' already exists; choose another folder or remove it")
    if not folder.parent.is_dir():
        raise InputError(f"the folder '{folder.parent}' to write in does not exist")
    temporary = folder.parent / f".{folder.name}.{os.getpid()}"
    try:
        for source in _TEMPLATE.rglob("*.txt"):
            target = str(source.relative_to(_TEMPLATE).with_suffix(""))
            path = temporary / target.replace("package", names["package"])
            path.parent.mkdir(parents=True, exist_ok=True)
            text = string.Template(source.read_text(encoding="utf-8")).substitute(names)
            path.write_text(text, encoding="utf-8")
        temporary.rename(folder)
    except OSError as error:
        raise InputError(f"'{folder}' cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder

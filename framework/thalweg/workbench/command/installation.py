"""The commands that inspect the installation: list, plugin, doctor."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from thalweg.errors import InputError, PluginError, suggestion
from thalweg.plugins import (
    CommandParser,
    DataSpec,
    FormatSpec,
    Option,
    Plugins,
    Provider,
    Spec,
    plugins,
)
from thalweg.plugins.specs import KINDS
from thalweg.workbench.doctor import Finding, examine, find_mpirun


def list_command(argv: list[str]) -> int:
    """Run ``thalweg list``; returns the exit code."""
    parser = CommandParser(
        prog="thalweg list",
        description="List objectives, preconditioners, solvers and more; with a name, its options.",
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="show its options: a name in the list, the name of an estimator, or a section such as "
        "stop",
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    arguments = parser.parse_args(argv)
    found = plugins()
    if arguments.json:
        print(json.dumps(_described_listing(found, arguments.name), indent=2))
    elif arguments.name is not None:
        _show_one(found, arguments.name)
    else:
        _show_all(found)
    return 0


def _sections() -> dict[str, tuple[Option, ...]]:
    """Options of the sections that every configuration may have."""
    from thalweg.workbench.config import FIXED
    from thalweg.workbench.readers import data_options

    return {"data": tuple(data_options()), **FIXED}


def _options(spec: Spec, broken: list[Provider]) -> tuple[Option, ...]:
    """The options of a spec; code that cannot be loaded joins what is broken, and has none."""
    try:
        return spec.declared_options
    except PluginError as error:
        assert spec.provider is not None
        broken.append(dataclasses.replace(spec.provider, error=str(error)))
        return ()


def _specs(found: Plugins, kind: type[Spec]) -> list[tuple[Spec, str]]:
    """Specs of a kind with who provides them, the framework's own data sets included."""
    specs: list[tuple[Spec, str]] = [
        (spec, found.provider(spec).distribution) for spec in found.specs(kind)
    ]
    if kind in (DataSpec, FormatSpec):
        from thalweg.workbench.readers import formats, named_sets

        core: tuple[Spec, ...] = named_sets.CORE if kind is DataSpec else formats.CORE
        specs += [(spec, "thalweg") for spec in core]
    return sorted(specs, key=lambda pair: pair[0].name)


def _described_listing(found: Plugins, name: str | None) -> dict[str, Any]:
    """Everything, or what has a name, for JSON."""
    listing: dict[str, Any] = {}
    broken = list(found.broken)
    kinds = {kind: _specs(found, kind) for kind in KINDS}
    sections = _sections()
    if name is not None:
        named, sections = _named(found, name)
        kinds = {kind: [pair for pair in kinds[kind] if pair in named] for kind in KINDS}
    for kind in KINDS:
        listing[f"{kind.kind}s".replace(" ", "_")] = [
            {
                "name": spec.shown_name,
                "summary": spec.summary,
                "provider": provider,
                "options": [_described(option) for option in _options(spec, broken)],
            }
            for spec, provider in kinds[kind]
        ]
    listing["sections"] = [
        {"name": name, "options": [_described(option) for option in options]}
        for name, options in sections.items()
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


def _show_all(found: Plugins) -> None:
    for kind in KINDS:
        specs = _specs(found, kind)
        if not specs:
            continue
        print(f"{kind.kind}s:")
        width = max(len(spec.shown_name) for spec, _ in specs)
        for spec, provider in specs:
            by = "" if provider == "thalweg" else f"  [{provider}]"
            print(f"  {spec.shown_name:<{width}}  {spec.summary}{by}")
        print()
    print("sections of a configuration:")
    print("  " + ", ".join(_sections()))
    print()
    for broken in found.broken:
        print(f"not loaded: {broken}: {broken.error}")
    print("thalweg list NAME shows the options of one of them, or of a section.")


def _named(
    found: Plugins, name: str
) -> tuple[list[tuple[Spec, str]], dict[str, tuple[Option, ...]]]:
    """What has a name, with who provides it, and the section of that name."""
    wanted = _folded(name.partition(":")[0])
    shown = [
        (spec, provider)
        for kind in KINDS
        for spec, provider in _specs(found, kind)
        if wanted in map(_folded, (spec.name, *spec.aliases))
    ]
    sections = {key: options for key, options in _sections().items() if key == name.strip("[]")}
    if not shown and not sections:
        known = [spec.shown_name for kind in KINDS for spec, _ in _specs(found, kind)]
        raise InputError(f"nothing is called '{name}'{suggestion(name, [*known, *_sections()])}")
    return shown, sections


def _show_one(found: Plugins, name: str) -> None:
    shown, sections = _named(found, name)
    for spec, provider in shown:
        print(f"{spec.owner} of {provider}: {spec.summary}")
        _show_options(spec.declared_options)
    for key, options in sections.items():
        print(f"section [{key}]:")
        _show_options(options)


def _folded(name: str) -> str:
    """A name without what may be written in several ways: ``TSNE`` and ``t-sne`` are the same."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _show_options(options: Iterable[Option]) -> None:
    options = tuple(options)
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
    parser = CommandParser(
        prog="thalweg plugin", description="Create a plugin to start from, or check one."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="new | check")
    new = commands.add_parser("new", help="write a distribution to start from")
    new.add_argument("name", metavar="NAME", help="name of the distribution, such as thalweg-mine")
    new.add_argument("folder", metavar="DIR", nargs="?", help="folder to make; by default NAME")
    check = commands.add_parser("check", help="run the conformance suite on a plugin module")
    check.add_argument("module", metavar="MODULE", help="importable name of the plugin module")
    check.add_argument(
        "--ranks", type=int, default=1, metavar="N", help="start the check under mpirun on N ranks"
    )
    arguments = parser.parse_args(argv)
    if arguments.command == "new":
        return _new(arguments.name, arguments.folder)
    if arguments.ranks < 1:
        raise InputError(f"--ranks must be at least 1, not {arguments.ranks}")
    if arguments.ranks > 1:
        return _check_on_ranks(arguments.module, arguments.ranks)
    return _check(arguments.module)


def _new(name: str, folder: str | None) -> int:
    from thalweg.parallel import MPI, on_root
    from thalweg.workbench.scaffold import write_distribution

    comm = MPI.COMM_WORLD
    written = on_root(comm, lambda: write_distribution(name, folder or name))
    if comm.rank == 0:
        print(f"wrote {written}\nnext: pip install -e {written} && thalweg list")
    return 0


def _check(module: str) -> int:
    from importlib.util import find_spec

    from thalweg.parallel import MPI
    from thalweg.workbench.check_plugin import check_plugin

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
        print(f"{len(findings) - len(failed)} passed, {len(failed)} failed on {_ranks(comm.size)}")
        if comm.size == 1:
            print("whether several ranks agree was not checked; --ranks 2 does that")
    return 3 if failed else 0


def _check_on_ranks(module: str, ranks: int) -> int:
    mpirun = find_mpirun()
    if mpirun is None:
        raise InputError("mpirun is not on PATH; 'thalweg doctor' says which one is needed")
    command = [sys.executable, "-m", "thalweg.workbench.command.main", "plugin", "check", module]
    return subprocess.run([mpirun, "-n", str(ranks), *command]).returncode


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def doctor_command(argv: list[str]) -> int:
    """Report on this installation: 0 if all is well, 2 if something is broken.  Collective."""
    parser = CommandParser(
        prog="thalweg doctor",
        description="Show the versions of an installation, and what is wrong with it. "
        "Under mpirun it shows how the ranks share cores and threads, too.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    findings = examine()
    broken = any(finding.broken for finding in findings)
    if _rank() == 0:
        print(_as_json(findings) if options.json else _as_text(findings))
    return 2 if broken else 0


def _as_text(findings: list[Finding]) -> str:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.name:<{width}}  {finding.value}".rstrip())
        if finding.problem:
            mark = "BROKEN" if finding.broken else "note"
            advice = f" — {finding.advice}" if finding.advice else ""
            lines.append(f"{'':<{width}}  {mark}: {finding.problem}{advice}")
    broken = sum(finding.broken for finding in findings)
    lines.append("no problems found" if not broken else f"broken: {broken}")
    return "\n".join(lines)


def _as_json(findings: list[Finding]) -> str:
    report: dict[str, Any] = {
        "well": not any(finding.broken for finding in findings),
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }
    return json.dumps(report, indent=2)


def _rank() -> int:
    module = sys.modules.get("mpi4py.MPI")
    return module.COMM_WORLD.rank if module is not None else 0

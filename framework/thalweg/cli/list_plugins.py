"""``thalweg list``: what there is to choose from, with options."""

from __future__ import annotations

import json
from typing import Any

from thalweg.cli.arguments import Parser
from thalweg.errors import InputError, suggestion
from thalweg.plugins import Option, Plugins, Spec, plugins
from thalweg.plugins.manager import HOOKS

#: Plural of each kind, as key and heading.
_PLURALS = {
    "objective": "objectives",
    "preconditioner": "preconditioners",
    "solver": "solvers",
    "data set": "data sets",
    "metric": "metrics",
    "command": "commands",
}


def main(argv: list[str]) -> int:
    """Run ``thalweg list``; returns the exit code."""
    parser = Parser(
        prog="thalweg list",
        description="List objectives, preconditioners, solvers and more; with a name, its options.",
    )
    parser.add_argument("name", nargs="?", help="show the options of this one")
    parser.add_argument("--json", action="store_true", help="everything, for programs")
    arguments = parser.parse_args(argv)
    found = plugins()
    if arguments.json:
        print(json.dumps(_everything(found), indent=2))
    elif arguments.name is not None:
        _show_one(found, arguments.name)
    else:
        _show_all(found)
    return 0


def _specs(found: Plugins, kind: type[Spec]) -> list[tuple[Spec, str]]:
    """Specs of a kind with who provides them, the framework's own data sets included."""
    specs: list[tuple[Spec, str]] = [
        (spec, found.provider(spec).distribution) for spec in found.specs(kind)
    ]
    if kind.kind == "data set":
        from thalweg.data.sets import CORE

        specs += [(spec, "thalweg") for spec in CORE]
    return sorted(specs, key=lambda pair: pair[0].name)


def _shown_name(spec: Spec) -> str:
    variant = getattr(spec, "variant", "")
    return f"{spec.name}:{variant.upper()}" if variant else spec.name


def _everything(found: Plugins) -> dict[str, Any]:
    listing: dict[str, Any] = {}
    for kind in HOOKS:
        listing[_PLURALS[kind.kind].replace(" ", "_")] = [
            {
                "name": _shown_name(spec),
                "summary": spec.summary,
                "provider": provider,
                "options": [_described(option) for option in spec.declared_options],
            }
            for spec, provider in _specs(found, kind)
        ]
    listing["broken"] = [
        {"name": b.name, "provider": b.distribution, "error": b.error} for b in found.broken
    ]
    return listing


def _described(option: Option) -> dict[str, Any]:
    facts = {key: value for key, value in vars(option).items() if value is not None}
    facts.update(type=option.type.__name__, default=option.default)
    if option.entries is not None:
        facts["entries"] = option.entries.__name__
    return facts


def _show_all(found: Plugins) -> None:
    for kind in HOOKS:
        specs = _specs(found, kind)
        if not specs:
            continue
        print(f"{_PLURALS[kind.kind]}:")
        width = max(len(_shown_name(spec)) for spec, _ in specs)
        for spec, provider in specs:
            by = "" if provider == "thalweg" else f"  [{provider}]"
            print(f"  {_shown_name(spec):<{width}}  {spec.summary}{by}")
        print()
    for broken in found.broken:
        print(f"not loaded: {broken}: {broken.error}")
    print("thalweg list NAME shows the options of one of them.")


def _show_one(found: Plugins, name: str) -> None:
    shown = [
        (spec, provider)
        for kind in HOOKS
        for spec, provider in _specs(found, kind)
        if name in (spec.name, _shown_name(spec)) or name.startswith(spec.name + ":")
    ]
    if not shown:
        known = [_shown_name(spec) for kind in HOOKS for spec, _ in _specs(found, kind)]
        raise InputError(f"nothing is called '{name}'{suggestion(name, known)}")
    for spec, provider in shown:
        print(f"{spec.owner} of {provider}: {spec.summary}")
        width = max([len(option.name) for option in spec.declared_options], default=0)
        for option in spec.declared_options:
            default = "automatic" if option.default is None else f"default {option.default}"
            print(f"  {option.name:<{width}}  {option.help} ({limits(option)}; {default})")


def limits(option: Option) -> str:
    """Type, unit and bounds of an option, in words."""
    parts = [option.type.__name__]
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

"""From a TOML file and ``--set`` arguments to a checked configuration."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thalweg.driver.assembly import resolve_method, without_name
from thalweg.errors import InputError, suggestion
from thalweg.files import refuse_special_file
from thalweg.plugins import ObjectiveSpec, plugins, resolve_options
from thalweg.workbench.config.configuration import Configuration, Method, Section, method_label
from thalweg.workbench.config.sections import FIXED, SECTIONS


def read_configuration(
    source: Path | str | Mapping[str, Any], changes: Sequence[str] = ()
) -> Configuration:
    """Read and check a configuration.  Not collective: rank 0 reads, and broadcasts.

    Parameters
    ----------
    source
        Path of a TOML file, or its content as a mapping.
    changes
        ``"section.option=value"`` each, with the value in TOML's notation; what is
        not a TOML value is taken as a string.

    Raises
    ------
    InputError
        No such file, not TOML, an unknown section, option or name (the nearest are
        named), a wrong type or range.
    """
    folder = Path()
    if isinstance(source, Mapping):
        raw = dict(source)
    else:
        path = Path(source)
        folder = path.parent
        raw = _read_toml(path)
    for change in changes:
        raw = _changed(raw, change)
    for name, section in raw.items():
        if name not in SECTIONS:
            raise InputError(f"there is no section [{name}]{suggestion(name, SECTIONS)}")
        wanted = list if name == "method" else Mapping
        if not isinstance(section, wanted):
            form = f"[[{name}]]" if name == "method" else f"[{name}]"
            raise InputError(f"'{name}' must be written as a table {form}")
    return _resolved(raw, folder)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if Path(os.path.realpath(path)).is_fifo():  # that of the shell's <(command) has no name
            refuse_special_file(path)
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise InputError(
            f"cannot read the configuration '{path}': {error.strerror or error}"
        ) from error
    except RecursionError as error:
        raise InputError(f"'{path}' is nested too deeply to be a configuration") from error
    except ValueError as error:  # of TOML, of UTF-8, or an integer of thousands of digits
        raise InputError(f"'{path}' is not valid TOML: {error}") from error


def _changed(raw: Mapping[str, Any], change: str) -> dict[str, Any]:
    key, equals, text = change.partition("=")
    section, dot, option = key.strip().partition(".")
    if not equals or not dot or not section or not option:
        raise InputError(f"--set needs section.option=value, not '{change}'")
    if section == "method":
        raise InputError("--set cannot change a [[method]]; edit the file")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except RecursionError as error:
        raise InputError(f"the value of --set {section}.{option} is nested too deeply") from error
    except ValueError:
        parsed = {}
    # More than one value is no value, but a string that holds a line break.
    value = parsed["value"] if parsed.keys() == {"value"} else text
    table = raw.get(section, {})
    if not isinstance(table, Mapping):
        raise InputError(f"'{section}' must be written as a table [{section}]")
    table = dict(table)
    if option == "name" and table.get("name") != value:
        table = {}  # the options belong to the plugin of the old name
    if section == "data" and option in ("name", "path"):
        table.pop("path" if option == "name" else "name", None)
    return {**raw, section: {**table, option: value}}


def _resolved(raw: Mapping[str, Any], folder: Path) -> Configuration:
    given = raw.get("objective", {})
    name = _name_of(given, "objective", "")
    objective_spec, _ = plugins().find(ObjectiveSpec, name)
    objective = {"name": name, **plugins().options(objective_spec, without_name(given))}
    data: Section | None = raw.get("data")
    if objective_spec.data == "required" and data is None:
        raise InputError(f"{objective_spec.owner} needs a section [data]")
    if objective_spec.data == "none" and data is not None:
        raise InputError(f"{objective_spec.owner} takes no data; remove the section [data]")
    default = Method("default", {"name": objective_spec.solver}, None)
    solver, preconditioner = _method_parts(
        raw.get("solver", {}), raw.get("preconditioner"), default, objective_spec
    )
    if isinstance(raw.get("stop", {}), Mapping):
        raw = {**raw, "stop": {**objective_spec.stop, **raw.get("stop", {})}}
    fixed = {
        section: resolve_options(options, raw.get(section, {}), f"section [{section}]")
        for section, options in FIXED.items()
    }
    fixed["run"] = _with_paths(fixed["run"], folder, ("start",))
    base = Method("base", solver, preconditioner)
    return Configuration(
        data=None if data is None else _with_paths(data, folder, ("path", "labels")),
        objective=objective,
        preconditioner=preconditioner,
        solver=solver,
        stop=fixed["stop"],
        run=fixed["run"],
        output=fixed["output"],
        homotopy=fixed["homotopy"] if "homotopy" in raw else None,
        methods=_methods(raw.get("method", []), base, objective_spec),
    )


def _with_paths(section: Section, folder: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The section with paths beside the configuration file made absolute."""
    found = dict(section)
    for key in keys:
        value = found.get(key)
        if isinstance(value, str):
            for place in (folder / value, Path(value)):
                if place.exists():
                    found[key] = str(place.absolute())
                    break
    return found


def _methods(tables: Sequence[Any], base: Method, objective: ObjectiveSpec) -> tuple[Method, ...]:
    methods: list[Method] = []
    for table in tables:
        if not isinstance(table, Mapping):
            raise InputError("each [[method]] must be a table")
        for key in table:
            if key not in ("label", "solver", "preconditioner"):
                known = suggestion(key, ("label", "solver", "preconditioner"))
                raise InputError(f"[[method]] has no option '{key}'{known}")
        solver, preconditioner = _method_parts(
            table.get("solver", {}), table.get("preconditioner"), base, objective
        )
        label = table.get("label") or method_label(solver, preconditioner)
        if not isinstance(label, str) or "/" in label or label.startswith("."):
            raise InputError(f"the label of a [[method]] must be a plain name, not {label!r}")
        if label in {method.label for method in methods}:
            raise InputError(f"two [[method]] tables are called '{label}'; give them a label")
        methods.append(Method(label, solver, preconditioner))
    return tuple(methods)


def _method_parts(
    solver: Any, preconditioner: Any, base: Method, objective: ObjectiveSpec
) -> tuple[Section, Section | None]:
    """Resolved solver and preconditioner; what is not given comes from ``base``."""
    chosen = _inheriting(_table(solver, "solver"), base.solver, "solver")
    default = base.preconditioner or {"name": objective.preconditioner}
    inner = None
    if preconditioner is not None:
        inner = _inheriting(_table(preconditioner, "preconditioner"), default, "preconditioner")
    return resolve_method(chosen, inner, default)


def _inheriting(given: Section, base: Section, kind: str) -> dict[str, Any]:
    """A section with the options of ``base``, where that is of the same name."""
    name = _name_of(given, kind, base["name"])
    inherited = without_name(base) if name == base["name"] else {}
    return {"name": name, **inherited, **without_name(given)}


def _table(value: Any, section: str) -> Section:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping):
        raise InputError(f"'{section}' must be a name or a table, not {value!r}")
    return value


def _name_of(section: Section, kind: str, default: str) -> str:
    name = section.get("name", default)
    if not isinstance(name, str) or not name:
        raise InputError(f"section [{kind}] needs a name")
    return name

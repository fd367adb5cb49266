"""Configuration files, checked against what the plugins declare, every option with its value."""

import hashlib
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from thalweg.driver import STOP_OPTIONS, HomotopySchedule, Stop
from thalweg.driver.assembly import resolve_method, without_name
from thalweg.errors import InputError, suggestion
from thalweg.files import refuse_special_file
from thalweg.plugins import (
    SWITCHED_OFF,
    ObjectiveSpec,
    Option,
    PreconditionerSpec,
    SolverSpec,
    Spec,
    plugins,
    resolve_options,
    unknown_option,
)

__all__ = ["Configuration", "Method", "read_configuration"]

#: Sections with fixed options; data, objective, preconditioner and solver depend on names.
FIXED: dict[str, tuple[Option, ...]] = {
    "stop": STOP_OPTIONS,
    "run": (
        Option("seed", int, 0, "seed of the starting point", minimum=0),
        Option("start", str, None, "npy file with the starting point, instead of a random one"),
        Option(
            "checkpoint", float, 60.0, "time between checkpoints", unit="s", minimum=0, finite=False
        ),
        Option("petsc", str, None, "options for PETSc, written as on its command line"),
        Option(
            "watchdog", float, 0.0,
            "abort the run, with a traceback of each rank, when one iteration or the set-up takes "
            "longer than this; 0: never", unit="s", minimum=0,
        ),
    ),
    "output": (
        Option("dir", str, None, "folder of the results"),
        Option("pictures", bool, True, "draw the result and the convergence"),
        Option("animation", bool, False, "write an animation of the run, as of its resumption"),
    ),
    "homotopy": (
        Option(
            "values", list, None,
            "values of the homotopy parameter in order, instead of first and stages",
            entries=float, minimum=0,
        ),
        Option(
            "first", float, None, "first value; the last is the option of the objective", above=0
        ),
        Option("stages", int, 1, "number of values, spaced evenly in the logarithm", minimum=1),
        Option(
            "error", float, None, "adapt steps between the values to this relative error of their "
            "prediction, such as 0.1; by default each value has a stage", above=0,
        ),
        Option(
            "keep", bool, False,
            "keep the result of each value, which the rules of [stop] then end",
        ),
        Option("iterations", int, 10_000, "maximum number of iterations of a stage", minimum=1),
        Option("decrease", float, 1e-6, "relative decrease that ends a stage", minimum=0),
    ),
}  # fmt: skip

#: All sections, in the order in which they are written.
SECTIONS = (
    "data", "objective", "preconditioner", "solver", "homotopy", "stop", "run", "output", "method",
)  # fmt: skip

Section = Mapping[str, Any]

#: What a [[method]] may have.
METHOD = ("label", "solver", "preconditioner")

#: Sections whose options depend on their name.
NAMED: dict[str, type[Spec]] = {
    "objective": ObjectiveSpec, "preconditioner": PreconditionerSpec, "solver": SolverSpec,
}  # fmt: skip


@dataclass(frozen=True)
class Method:
    """A solver with its preconditioner, as one of several to be compared."""

    label: str  # in tables, pictures and folders
    solver: Section
    preconditioner: Section | None  # None for solvers that take none


@dataclass(frozen=True)
class Configuration:
    """All sections with names and options; None where a section does not apply."""

    data: Section | None
    objective: Section
    preconditioner: Section | None
    solver: Section
    stop: Section
    run: Section
    output: Section
    homotopy: Section | None = None
    methods: tuple[Method, ...] = ()

    @property
    def method(self) -> str:
        """Solver and preconditioner in words, such as ``"lbfgs + spectral"``."""
        return method_label(self.solver, self.preconditioner)

    @property
    def keeps_stages(self) -> bool:
        """Whether a homotopy keeps the result of each stage."""
        return bool(self.homotopy and self.homotopy["keep"])

    def stopping(self) -> Stop:
        """The stopping rules; the limit of iterations is that of all stages that are kept."""
        rules, stages = Stop(**self.stop), self.schedule(1.0) if self.keeps_stages else None
        if stages is not None and rules.iterations is not None:
            rules = replace(rules, iterations=rules.iterations * len(stages.values))
        return rules

    def schedule(self, own: float) -> HomotopySchedule | None:
        """The homotopy stages, if any; the last has ``own``, the objective's own parameter."""
        section = self.homotopy
        if section is None:
            return None
        stage = Stop(iterations=section["iterations"], decrease=section["decrease"], window=1)
        if self.keeps_stages:
            if section["error"] is not None:
                raise InputError("homotopy.keep needs a stage for each value; leave out error")
            stage = Stop(**self.stop)
        if section["values"] is not None:
            return HomotopySchedule(tuple(section["values"]), stage, section["error"])
        first = own if section["first"] is None else section["first"]
        return HomotopySchedule.logarithmic(first, own, section["stages"], stage, section["error"])

    def with_method(self, method: Method) -> Self:
        """This configuration with another solver and preconditioner."""
        return replace(self, solver=method.solver, preconditioner=method.preconditioner, methods=())

    def identity(self) -> dict[str, Any]:
        """Options in which a resumed run must agree, as ``{"section.option": value}``.

        Files may move: a digest of their content stands for their paths.
        """
        files = _file_options(plugins().find(ObjectiveSpec, self.objective["name"])[0])
        sections = {
            "data": {k: v for k, v in (self.data or {}).items() if k not in ("path", "labels")},
            "objective": {k: _content(v) if k in files else v for k, v in self.objective.items()},
            "preconditioner": self.preconditioner or {},
            "solver": self.solver,
            "homotopy": self.homotopy or {},
            "run": {"seed": self.run["seed"]},
        }
        # A default may be a tuple; read from a file it is a list.
        return {
            f"{section}.{key}": list(value) if isinstance(value, tuple) else value
            for section, options in sections.items()
            for key, value in options.items()
        }

    def to_toml(self) -> str:
        """The configuration as a file that gives the same run again."""
        import tomli_w

        tables: dict[str, Any] = {}
        for name in SECTIONS[:-1]:
            section = getattr(self, name)
            if section is not None:
                tables[name] = _written(section, name)
        for method in self.methods:
            table: dict[str, Any] = {"label": method.label}
            for name in ("solver", "preconditioner"):
                if (section := getattr(method, name)) is not None:
                    table[name] = _written(section, name)
            tables.setdefault("method", []).append(table)
        return tomli_w.dumps(tables)


def _content(value: Any) -> Any:
    """An option, with a digest in place of each file that it names."""
    if isinstance(value, list | tuple):
        return [_content(one) for one in value]
    if isinstance(value, str) and value and (path := Path(value).expanduser()).is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return value


def method_label(solver: Section, preconditioner: Section | None) -> str:
    """Solver and preconditioner in words, without the identity."""
    second = None if preconditioner is None else preconditioner["name"]
    first = str(solver["name"])
    return first if second in (None, "identity") else f"{first} + {second}"


def _written(section: Section, name: str) -> dict[str, Any]:
    # TOML has no null: an option that is left to the plugin is left out, one that the user
    # switched off says so.
    options = FIXED.get(name, ())
    if name in NAMED:
        options = plugins().find(NAMED[name], section["name"])[0].declared_options
    off = {option.name for option in options if option.can_be_switched_off}
    return {
        key: SWITCHED_OFF if value is None else value
        for key, value in section.items()
        if value is not None or key in off
    }


def read_configuration(
    source: Path | str | Mapping[str, Any], changes: Sequence[str] = ()
) -> Configuration:
    """Read and check a configuration.  Not collective: rank 0 reads, and broadcasts.

    ``source`` is the path of a TOML file, or its content.  Changes are "section.option=value" with
    the value in TOML's notation; what is not a TOML value is taken as a string.
    """
    if isinstance(source, Mapping):
        folder, raw = Path(), dict(source)
    else:
        folder, raw = Path(source).parent, _read_toml(Path(source))
    for change in changes:
        raw = _changed(raw, change)
    for name, section in raw.items():
        if name not in SECTIONS:
            raise InputError(f"there is no section [{name}]{suggestion(name, SECTIONS)}")
        listed = isinstance(section, list)
        tables = section if listed else [section]
        if listed != (name == "method") or not all(isinstance(t, Mapping) for t in tables):
            form = f"[[{name}]]" if name == "method" else f"[{name}]"
            raise InputError(f"'{name}' must be written as a table {form}")
    for key in {key: 0 for table in raw.get("method", []) for key in table}:
        if key not in METHOD:
            raise unknown_option(key, METHOD, "[[method]]")
    return _resolved(raw, folder)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if Path(os.path.realpath(path)).is_fifo():  # that of the shell's <(command) has no name
            refuse_special_file(path)
        with open(path, encoding="utf-8-sig", newline="") as stream:  # as Windows' editors save
            return tomllib.loads(stream.read())
    except OSError as error:
        said = error.strerror or error
        raise InputError(f"cannot read the configuration '{path}': {said}") from error
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
    chosen = _section(raw.get("objective", {}), "objective", {"name": ""})
    spec, _ = plugins().find(ObjectiveSpec, chosen["name"])
    options = plugins().options(spec, without_name(chosen))
    objective = {"name": chosen["name"], **_with_paths(options, folder, _file_options(spec))}
    data: Section | None = raw.get("data")
    if spec.data == "required" and data is None:
        raise InputError(f"{spec.owner} needs a section [data]")
    if spec.data == "none" and data is not None:
        raise InputError(f"{spec.owner} takes no data; remove the section [data]")
    default = Method("default", {"name": spec.solver}, {"name": spec.preconditioner})
    own = _method(raw, default)
    base = replace(own, preconditioner=own.preconditioner or default.preconditioner)
    raw = {**raw, "stop": {**spec.stop, **raw.get("stop", {})}}
    fixed = {
        section: resolve_options(options, raw.get(section, {}), f"section [{section}]")
        for section, options in FIXED.items()
    }
    fixed["run"] = _with_paths(fixed["run"], folder, ("start",))
    if "homotopy" not in raw:
        del fixed["homotopy"]
    methods: dict[str, Method] = {}
    for table in raw.get("method", []):
        method = _method(table, base)
        if method.label in methods:
            raise InputError(f"two [[method]] tables are named '{method.label}'; give them a label")
        methods[method.label] = method
    return Configuration(
        data=None if data is None else _with_paths(data, folder, ("path", "labels")),
        objective=objective,
        preconditioner=own.preconditioner,
        solver=own.solver,
        methods=tuple(methods.values()),
        **fixed,
    )


def _file_options(spec: ObjectiveSpec) -> list[str]:
    """Names of the options of an objective that name files."""
    return [option.name for option in spec.declared_options if option.is_file]


def _with_paths(section: Section, folder: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The section with paths beside the configuration file made absolute."""

    def absolute(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [absolute(entry) for entry in value]
        if not isinstance(value, str):
            return value
        places = (place for place in (folder / value, Path(value)) if place.exists())
        return next((str(place.absolute()) for place in places), value)

    return {**section, **{key: absolute(section[key]) for key in keys if key in section}}


def _method(table: Section, base: Method) -> Method:
    """The method of a table; what it leaves out comes from ``base``."""
    inner, default = table.get("preconditioner"), base.preconditioner or {}
    if inner is not None:
        inner = _section(inner, "preconditioner", default)
    solver = _section(table.get("solver", {}), "solver", base.solver)
    solver, inner = resolve_method(solver, inner, default)
    label = table.get("label") or method_label(solver, inner)
    if not isinstance(label, str) or "/" in label or label.startswith("."):
        raise InputError(f"the label of a [[method]] must be a plain name, not {label!r}")
    return Method(label, solver, inner)


def _section(section: Any, kind: str, base: Section) -> dict[str, Any]:
    """A section, or the name alone, with the options of ``base`` where that is of the same name."""
    if isinstance(section, str):
        section = {"name": section}
    if not isinstance(section, Mapping):
        raise InputError(f"'{kind}' must be a name or a table, not {section!r}")
    name = section.get("name", base["name"])
    if not isinstance(name, str) or not name:
        raise InputError(f"section [{kind}] needs a name")
    inherited = without_name(base) if name == base["name"] else {}
    return {"name": name, **inherited, **without_name(section)}

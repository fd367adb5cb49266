"""A configuration, fully resolved: every option has its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from thalweg.driver import HomotopySchedule, Stop
from thalweg.plugins import (
    SWITCHED_OFF,
    ObjectiveSpec,
    Option,
    PreconditionerSpec,
    SolverSpec,
    Spec,
    plugins,
)
from thalweg.workbench.config.sections import FIXED, SECTIONS

Section = Mapping[str, Any]

#: Sections whose options depend on their name.
KINDS: dict[str, type[Spec]] = {
    "objective": ObjectiveSpec,
    "preconditioner": PreconditionerSpec,
    "solver": SolverSpec,
}


@dataclass(frozen=True)
class Method:
    """A solver with its preconditioner, as one of several to be compared.

    Attributes
    ----------
    label
        Name in tables, pictures and folders.
    solver, preconditioner
        Name and options; ``preconditioner`` is None for solvers that take none.
    """

    label: str
    solver: Section
    preconditioner: Section | None


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

    def stopping(self) -> Stop:
        """The stopping rules."""
        return Stop(**self.stop)

    def schedule(self, own: float) -> HomotopySchedule | None:
        """The homotopy stages, None if there are none.

        Parameters
        ----------
        own
            The objective's own value of the parameter, which the last stage has.
        """
        section = self.homotopy
        if section is None:
            return None
        stage = Stop(iterations=section["iterations"], decrease=section["decrease"], window=1)
        if section["values"] is not None:
            return HomotopySchedule(tuple(section["values"]), stage)
        first = own if section["first"] is None else section["first"]
        return HomotopySchedule.logarithmic(first, own, section["stages"], stage)

    def with_method(self, method: Method) -> Configuration:
        """This configuration with another solver and preconditioner."""
        return replace(self, solver=method.solver, preconditioner=method.preconditioner, methods=())

    def identity(self) -> dict[str, Any]:
        """Options in which a resumed run must agree, as ``{"section.option": value}``.

        Files may move: their content is identified by digests, not by their paths.
        """
        moving = ("path", "labels")
        sections = {
            "data": {k: v for k, v in (self.data or {}).items() if k not in moving},
            "objective": self.objective,
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
            table["solver"] = _written(method.solver, "solver")
            if method.preconditioner is not None:
                table["preconditioner"] = _written(method.preconditioner, "preconditioner")
            tables.setdefault("method", []).append(table)
        return tomli_w.dumps(tables)


def method_label(solver: Section, preconditioner: Section | None) -> str:
    """Solver and preconditioner in words, without the identity."""
    second = None if preconditioner is None else preconditioner["name"]
    first = str(solver["name"])
    return first if second in (None, "identity") else f"{first} + {second}"


def _written(section: Section, name: str) -> dict[str, Any]:
    # TOML has no null: an option that is left to the plugin is left out, one that the user
    # switched off says so.
    off = {o.name for o in _options(section, name) if o.can_be_switched_off}
    return {
        key: SWITCHED_OFF if value is None else value
        for key, value in section.items()
        if value is not None or key in off
    }


def _options(section: Section, name: str) -> tuple[Option, ...]:
    if name in FIXED:
        return FIXED[name]
    if name not in KINDS:
        return ()
    spec, _ = plugins().find(KINDS[name], section["name"])
    return spec.declared_options

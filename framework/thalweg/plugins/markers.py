"""The hooks that a plugin module may define, and the mark that it puts on them."""

from __future__ import annotations

import pluggy

from thalweg.plugins.specs import (
    CommandSpec,
    DataSpec,
    FormatSpec,
    MetricSpec,
    ObjectiveSpec,
    PreconditionerSpec,
    SolverSpec,
)

#: Entry-point group in which distributions register their plugin modules.
GROUP = "thalweg"

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


class Hooks:
    """Every hook returns a list of specs; a plugin defines those it needs."""

    @hookspec
    def thalweg_objectives(self) -> list[ObjectiveSpec]:  # type: ignore[empty-body]
        """Objectives that this plugin provides."""

    @hookspec
    def thalweg_preconditioners(self) -> list[PreconditionerSpec]:  # type: ignore[empty-body]
        """Preconditioners that this plugin provides."""

    @hookspec
    def thalweg_solvers(self) -> list[SolverSpec]:  # type: ignore[empty-body]
        """Solvers that this plugin provides."""

    @hookspec
    def thalweg_data(self) -> list[DataSpec]:  # type: ignore[empty-body]
        """Named data sets that this plugin provides."""

    @hookspec
    def thalweg_formats(self) -> list[FormatSpec]:  # type: ignore[empty-body]
        """File formats of data that this plugin reads."""

    @hookspec
    def thalweg_metrics(self) -> list[MetricSpec]:  # type: ignore[empty-body]
        """Metrics that this plugin provides."""

    @hookspec
    def thalweg_commands(self) -> list[CommandSpec]:  # type: ignore[empty-body]
        """Subcommands of ``thalweg`` that this plugin provides."""

"""How strangers' code is found: hooks, specs, and the manager that reads them."""

from thalweg.plugins.manager import Plugins, Provider, plugins
from thalweg.plugins.markers import hookimpl
from thalweg.plugins.options import SWITCHED_OFF, Option, resolve_options
from thalweg.plugins.specs import (
    CommandSpec,
    DataSpec,
    MetricSpec,
    ObjectiveSpec,
    PreconditionerSpec,
    SolverSpec,
    Spec,
)

__all__ = [
    "SWITCHED_OFF",
    "CommandSpec",
    "DataSpec",
    "MetricSpec",
    "ObjectiveSpec",
    "Option",
    "Plugins",
    "PreconditionerSpec",
    "Provider",
    "SolverSpec",
    "Spec",
    "hookimpl",
    "plugins",
    "resolve_options",
]

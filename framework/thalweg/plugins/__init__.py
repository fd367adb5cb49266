"""Discovery of plugins: hooks, specs, and the manager that reads them."""

from thalweg.plugins.estimators import check_parameters, estimator
from thalweg.plugins.manager import API_VERSION, Plugins, hookimpl, plugins, specs_of
from thalweg.plugins.options import (
    SWITCHED_OFF,
    Help,
    Option,
    check_declared,
    declared_options,
    resolve_options,
    unknown_option,
    with_options,
)
from thalweg.plugins.specs import (
    CommandParser,
    CommandSpec,
    DataSpec,
    FormatSpec,
    MetricSpec,
    ObjectiveSpec,
    PhaseEstimate,
    PreconditionerSpec,
    Problem,
    Provider,
    SolverSpec,
    Spec,
    citation,
    peaks,
)

__all__ = [
    "API_VERSION", "SWITCHED_OFF", "CommandParser", "CommandSpec", "DataSpec",
    "FormatSpec", "Help", "MetricSpec", "ObjectiveSpec", "Option", "PhaseEstimate", "Plugins",
    "PreconditionerSpec", "Problem", "Provider", "SolverSpec", "Spec", "check_declared",
    "check_parameters", "citation", "declared_options", "estimator", "hookimpl", "peaks", "plugins",
    "resolve_options", "specs_of", "unknown_option", "with_options",
]  # fmt: skip

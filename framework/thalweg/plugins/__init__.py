"""Discovery of plugins: hooks, specs, and the manager that reads them."""

from thalweg.plugins.citations import citation, specs_of
from thalweg.plugins.declared import Help, check_declared, declared_options, with_options
from thalweg.plugins.estimates import PhaseEstimate, Problem, peaks
from thalweg.plugins.estimators import estimator
from thalweg.plugins.manager import API_VERSION, Plugins, hookimpl, plugins
from thalweg.plugins.options import (
    SWITCHED_OFF,
    Option,
    check_parameters,
    resolve_options,
    unknown_option,
)
from thalweg.plugins.specs import (
    CommandParser,
    CommandSpec,
    DataSpec,
    FormatSpec,
    MetricSpec,
    ObjectiveSpec,
    PreconditionerSpec,
    Provider,
    SolverSpec,
    Spec,
)

__all__ = [
    "API_VERSION", "SWITCHED_OFF", "CommandParser", "CommandSpec", "DataSpec",
    "FormatSpec", "Help", "MetricSpec", "ObjectiveSpec", "Option", "PhaseEstimate", "Plugins",
    "PreconditionerSpec", "Problem", "Provider", "SolverSpec", "Spec", "check_declared",
    "check_parameters", "citation", "declared_options", "estimator", "hookimpl", "peaks", "plugins",
    "resolve_options", "specs_of", "unknown_option", "with_options",
]  # fmt: skip

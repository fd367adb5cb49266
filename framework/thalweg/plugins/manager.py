"""Discovery of plugins through entry points, and the look-up of names."""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pluggy

from thalweg.errors import InputError, PluginError, suggestion
from thalweg.plugins.markers import GROUP, Hooks
from thalweg.plugins.options import resolve_options
from thalweg.plugins.specs import (
    CommandSpec,
    DataSpec,
    MetricSpec,
    ObjectiveSpec,
    PreconditionerSpec,
    SolverSpec,
    Spec,
)

HOOKS: dict[type[Spec], str] = {
    ObjectiveSpec: "thalweg_objectives",
    PreconditionerSpec: "thalweg_preconditioners",
    SolverSpec: "thalweg_solvers",
    DataSpec: "thalweg_data",
    MetricSpec: "thalweg_metrics",
    CommandSpec: "thalweg_commands",
}

AnySpec = TypeVar("AnySpec", bound=Spec)


@dataclass(frozen=True)
class Provider:
    """One entry point: what it is called, and the distribution it comes from."""

    name: str
    distribution: str
    version: str
    error: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} (entry point '{self.name}')"


class Plugins:
    """The plugins of this process.

    A plugin that cannot be imported, or that misspells a hook, is kept as
    *broken* with its reason: the rest works, and asking for a name that only it
    could provide tells the reason.

    Parameters
    ----------
    only
        Entry-point names to load; None loads all.  By default what the
        environment variable ``THALWEG_PLUGINS`` lists, separated by commas.
    """

    def __init__(self, only: Sequence[str] | None = None) -> None:
        if only is None and "THALWEG_PLUGINS" in os.environ:
            only = [n.strip() for n in os.environ["THALWEG_PLUGINS"].split(",") if n.strip()]
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(Hooks)
        self.providers: list[Provider] = []
        self.broken: list[Provider] = []
        self._specs: dict[type[Spec], dict[str, tuple[Spec, Provider]]] = {k: {} for k in HOOKS}
        found = _entry_points()
        if only is not None:
            for name in only:
                if name not in {entry.name for entry in found}:
                    known = suggestion(name, [entry.name for entry in found])
                    raise PluginError(f"THALWEG_PLUGINS names no plugin '{name}'{known}")
            found = [entry for entry in found if entry.name in only]
        _refuse_twins(found)
        for entry in found:
            self._load(entry)

    def _load(self, entry: importlib.metadata.EntryPoint) -> None:
        provider = _provider(entry)
        try:
            module = entry.load()
            self.register(module, provider)
        except PluginError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self.broken.append(
                Provider(provider.name, provider.distribution, provider.version, reason)
            )

    def register(self, module: Any, provider: Provider) -> None:
        """Add the specs of a plugin module.

        Raises
        ------
        PluginError
            A name that another distribution already provides.
        TypeError
            A misspelled hook, or a hook that returns something else than specs.
        """
        self._manager.register(module, name=provider.name)
        try:
            self._manager.check_pending()
            gathered = {kind: self._specs_of(module, kind, hook) for kind, hook in HOOKS.items()}
        except Exception as error:
            self._manager.unregister(module)
            if isinstance(error, pluggy.PluginValidationError):
                raise TypeError(str(error)) from error
            raise
        for kind, specs in gathered.items():
            for spec in specs:
                if spec.name in self._specs[kind]:
                    other = self._specs[kind][spec.name][1]
                    raise PluginError(
                        f"{spec.owner} is provided twice: by {other} and by {provider}"
                    )
                self._specs[kind][spec.name] = (spec, provider)
        self.providers.append(provider)

    def _specs_of(self, module: Any, kind: type[Spec], hook: str) -> list[Spec]:
        others = [plugin for plugin in self._manager.get_plugins() if plugin is not module]
        answers = self._manager.subset_hook_caller(hook, others)()
        specs = [spec for answer in answers for spec in answer]
        for spec in specs:
            if not isinstance(spec, kind):
                raise TypeError(f"hook {hook} returned {spec!r}, which is no {kind.__name__}")
        return specs

    # -- look-up ---------------------------------------------------------------------------

    def specs(self, kind: type[AnySpec]) -> list[AnySpec]:
        """All specs of a kind, sorted by name."""
        return [self._specs[kind][name][0] for name in sorted(self._specs[kind])]  # type: ignore[misc]

    def provider(self, spec: Spec) -> Provider:
        """Where a spec comes from."""
        return self._specs[type(spec)][spec.name][1]

    def find(self, kind: type[AnySpec], name: str) -> tuple[AnySpec, dict[str, Any]]:
        """Spec of that name, and the option that a ``name:variant`` form fills.

        Raises
        ------
        InputError
            Unknown name; the nearest are named, and broken plugins with their reason.
        """
        known = self._specs[kind]
        if name in known:
            return known[name][0], {}  # type: ignore[return-value]
        family, colon, variant = name.partition(":")
        if colon and family in known and getattr(known[family][0], "variant", ""):
            spec = known[family][0]
            return spec, {spec.variant: variant}  # type: ignore[attr-defined, return-value]
        names = [n + ":TYPE" if getattr(s, "variant", "") else n for n, (s, _) in known.items()]
        text = f"no {kind.kind} is called '{name}'{suggestion(name, names)}"
        if self.broken:
            text += " (not loaded: " + "; ".join(f"{b}: {b.error}" for b in self.broken) + ")"
        raise InputError(text)

    def options(self, spec: Spec, given: dict[str, Any]) -> dict[str, Any]:
        """Options of a spec, checked, with defaults (see :func:`resolve_options`)."""
        return resolve_options(spec.options, given, spec.owner)

    def signature(self) -> str:
        """Text that is the same on ranks that see the same plugins."""
        return ", ".join(sorted(str(provider) for provider in (*self.providers, *self.broken)))


def _entry_points() -> list[importlib.metadata.EntryPoint]:
    # A path that is on sys.path twice shows its distributions twice.
    unique = {
        (e.name, e.value, e.dist.name if e.dist else ""): e
        for e in importlib.metadata.entry_points(group=GROUP)
    }
    return [unique[key] for key in sorted(unique)]


def _provider(entry: importlib.metadata.EntryPoint) -> Provider:
    if entry.dist is None:
        return Provider(entry.name, entry.value, "")
    return Provider(entry.name, entry.dist.name, entry.dist.version)


def _refuse_twins(entries: Sequence[importlib.metadata.EntryPoint]) -> None:
    # pluggy keeps the first of two entry points of one name and drops the other silently.
    seen: dict[str, Provider] = {}
    for entry in entries:
        provider = _provider(entry)
        if entry.name in seen:
            raise PluginError(
                f"entry point '{entry.name}' is registered twice: "
                f"by {seen[entry.name]} and by {provider}"
            )
        seen[entry.name] = provider


@functools.cache
def plugins() -> Plugins:
    """The plugins of this process, discovered at the first call."""
    return Plugins()

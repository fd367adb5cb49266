"""Discovery of plugins through entry points, and the look-up of names."""

import contextlib
import functools
import importlib.metadata
import itertools
import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pluggy

from thalweg.errors import InputError, PluginError, reason, suggestion, with_article
from thalweg.plugins.options import resolve_options
from thalweg.plugins.specs import KINDS, ObjectiveSpec, Provider, Spec

#: Entry-point group in which distributions register their plugin modules.
GROUP = "thalweg"

hookimpl = pluggy.HookimplMarker(GROUP)

AnySpec = TypeVar("AnySpec", bound=Spec)

#: Version of the interface that plugins are written for.  A plugin module may state
#: ``THALWEG_API = 1``; it is not loaded by a thalweg whose interface has another version.
API_VERSION = 1


@pluggy.HookspecMarker(GROUP)
def _hook() -> list[Spec]:  # type: ignore[empty-body]
    """Every hook returns a list of specs; a plugin defines those it needs."""


class Plugins:
    """The plugins of this process.

    A plugin that cannot be imported, or that misspells a hook, is kept as *broken* with its reason:
    the rest works, and asking for a name that only it could provide gives the reason.

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
        self._manager.add_hookspecs(type("Hooks", (), {kind.hook: _hook for kind in KINDS}))
        self.providers: list[Provider] = []
        self.broken: list[Provider] = []
        self._specs: dict[type[Spec], dict[str, Spec]] = {kind: {} for kind in KINDS}
        self._contested: dict[tuple[type[Spec], str], str] = {}
        entries = _entry_points()
        if only is not None:
            known = [entry.name for entry in entries]
            for name in [name for name in only if name not in known]:
                hint = suggestion(name, known)
                raise PluginError(f"THALWEG_PLUGINS names no plugin '{name}'{hint}")
            entries = [entry for entry in entries if entry.name in only]
        for name, group in itertools.groupby(entries, lambda entry: entry.name):
            entry, *others = twins = list(group)
            if not others:
                self._load(entry)
            for twin in twins if others else ():
                listed = " and by ".join(str(_provider(each)) for each in twins)
                text = f"entry point '{name}' is registered twice: by {listed}"
                self._break(_provider(twin), text)

    def _load(self, entry: importlib.metadata.EntryPoint) -> None:
        provider = _provider(entry)
        try:
            with contextlib.chdir(os.curdir):  # a plugin must not change where results go
                self.register(entry.load(), provider)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # extensions in Rust raise what is no Exception
            self._break(provider, reason(error))

    def _break(self, provider: Provider, text: str) -> None:
        self.broken.append(replace(provider, error=text))

    def register(self, module: Any, provider: Provider) -> None:
        """Add the specs of a plugin module.

        Raises
        ------
        PluginError
            It is written for another version of the interface.
        TypeError
            It is no module; a misspelled hook, or one that returns something else than specs.
        """
        if not isinstance(module, types.ModuleType):
            raise TypeError(f"a plugin is a module, not {module!r}")
        version = getattr(module, "THALWEG_API", API_VERSION)
        if version != API_VERSION:
            raise PluginError(
                f"{provider} is written for version {version!r} of the plugin interface, this "
                f"thalweg has version {API_VERSION}; install releases of the two that fit"
            )
        self._manager.register(module, name=provider.name)
        try:
            self._manager.check_pending()
            gathered = {kind: self._specs_of(module, kind) for kind in KINDS}
        except BaseException as error:
            self._manager.unregister(module)
            if isinstance(error, pluggy.PluginValidationError):
                raise TypeError(str(error)) from error
            raise
        for kind, specs in gathered.items():
            for spec in specs:
                object.__setattr__(spec, "provider", provider)
                self._add(kind, spec)
        self.providers.append(provider)

    def _add(self, kind: type[Spec], spec: Spec) -> None:
        """Add a spec; a name that two plugins provide is broken for both."""
        if spec.name in self._specs[kind]:
            other = self._specs[kind].pop(spec.name)
            self._contested[kind, spec.name] = (
                f"{spec.owner} is provided twice: by {other.provider} and by {spec.provider}; "
                f"uninstall one of them, or restrict THALWEG_PLUGINS"
            )
            for contender in (other, spec):
                self._break(self.provider(contender), self._contested[kind, spec.name])
        elif (kind, spec.name) not in self._contested:
            self._specs[kind][spec.name] = spec

    def _specs_of(self, module: Any, kind: type[Spec]) -> list[Spec]:
        others = [plugin for plugin in self._manager.get_plugins() if plugin is not module]
        specs: list[Spec] = []
        for answer in self._manager.subset_hook_caller(kind.hook, others)():
            if not isinstance(answer, list | tuple):
                raise TypeError(f"hook {kind.hook} returned {answer!r}, which is not a list")
            specs += answer
        for spec in specs:
            if not isinstance(spec, kind):
                raise TypeError(f"hook {kind.hook} returned {spec!r}, not of type {kind.__name__}")
        return specs

    def specs(self, kind: type[AnySpec]) -> list[AnySpec]:
        """All specs of a kind: those of each plugin together, in the order it lists them."""
        every: Any = self._specs[kind].values()
        return sorted(every, key=lambda spec: self.provider(spec).name)

    def provider(self, spec: Spec) -> Provider:
        """Distribution and entry point that provide a spec."""
        assert spec.provider is not None
        return spec.provider

    def find(self, kind: type[AnySpec], name: str) -> tuple[AnySpec, dict[str, Any]]:
        """Spec of that name, and the option that a ``name:variant`` form fills.

        Raises
        ------
        InputError
            Unknown name; the nearest are named, and broken plugins with their reason.
        PluginError
            Two distributions provide the name.
        """
        known = self._specs[kind]
        family, colon, variant = name.partition(":")
        for taken in (name, family):
            if (kind, taken) in self._contested:
                raise PluginError(self._contested[kind, taken])
        if name in known:
            return known[name], {}  # type: ignore[return-value]
        if colon and family in known and known[family].variant:
            return known[family], {known[family].variant: variant}  # type: ignore[return-value]
        names = [spec.shown_name for spec in known.values()]
        text = f"no {kind.kind} is called {name!r}{suggestion(name, names)}"
        for other, specs in self._specs.items():
            if family in specs and other is not kind:
                this, needed = with_article(other.kind), with_article(kind.kind)
                text = f"{name!r} is {this}, not {needed}{suggestion(name, names)}"
        if self.broken:
            text += " (not loaded: " + "; ".join(f"{b}: {b.error}" for b in self.broken) + ")"
        raise InputError(text)

    def options(self, spec: Spec, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a spec, checked, with defaults (see :func:`resolve_options`)."""
        return resolve_options(spec.declared_options, given, spec.owner, ["name"])

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
    known = (entry.value, "") if entry.dist is None else (entry.dist.name, entry.dist.version)
    return Provider(entry.name, *known)


@functools.cache
def plugins() -> Plugins:
    """The plugins of this process, discovered at the first call."""
    return Plugins()


def specs_of(*parts: Any) -> list[Spec]:
    """Specs of an objective, a preconditioner or a solver, which may be built by hand.

    They are found by the class that ``load`` names, or by the attribute ``label``, which
    :meth:`ObjectiveSpec.build <thalweg.plugins.Spec.build>` gives to objectives.
    """
    known: list[Spec] = [spec for kind in KINDS for spec in plugins().specs(kind)]
    specs = []
    for part in parts:
        code = f"{type(part).__module__}:{type(part).__qualname__}"
        label = getattr(part, "label", None)
        specs += [spec for spec in known if spec.load == code]
        specs += [spec for spec in known if isinstance(spec, ObjectiveSpec) and spec.name == label]
    return specs

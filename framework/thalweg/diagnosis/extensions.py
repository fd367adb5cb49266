"""Plugins, from whom they are, and which are broken."""

from __future__ import annotations

from collections.abc import Iterator

from thalweg.diagnosis.finding import Finding


def plugins() -> Iterator[Finding]:
    """Plugins, and why some are broken."""
    from thalweg.plugins import plugins as found

    for provider in found().providers:
        yield Finding(f"plugin {provider.name}", f"{provider.distribution} {provider.version}")
    for provider in found().broken:
        yield Finding(
            f"plugin {provider.name}",
            f"{provider.distribution} {provider.version}",
            f"not loaded: {provider.error}",
            f"fix {provider.distribution} or uninstall it",
            True,
        )

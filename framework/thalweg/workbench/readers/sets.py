"""The named data sets: scikit-learn's, generated ones, OpenML's, and those of plugins."""

from __future__ import annotations

from typing import Any

from thalweg.errors import InputError, suggestion
from thalweg.plugins import DataSpec, plugins

#: Data sets of the core, described as a plugin describes its own.
CORE: tuple[DataSpec, ...] = tuple(
    DataSpec(
        name=name,
        summary=summary,
        load=f"thalweg.workbench.readers.{module}:{name.replace('-', '_')}",
        variant="dataset" if name == "openml" else "",
    )
    for module, name, summary in (
        ("scikit_learn", "digits", "1,797 digits of 8 x 8 pixels, 10 classes (scikit-learn)"),
        ("scikit_learn", "iris", "150 flowers, 4 measurements, 3 species (scikit-learn)"),
        ("scikit_learn", "wine", "178 wines, 13 measurements, 3 cultivars (scikit-learn)"),
        ("scikit_learn", "breast-cancer", "569 tumors, 30 measurements, 2 classes (scikit-learn)"),
        ("scikit_learn", "diabetes", "442 patients, 10 measurements, no classes (scikit-learn)"),
        ("generated", "blobs", "Gaussian clusters around random centers (generated)"),
        ("generated", "swiss-roll", "a rolled-up rectangle in three dimensions (generated)"),
        ("generated", "s-curve", "a sheet bent to an S in three dimensions (generated)"),
        ("generated", "moons", "two interleaved half circles in the plane (generated)"),
        ("scikit_learn", "openml", "any numeric data set of OpenML"),
    )
)


def data_sets() -> list[DataSpec]:
    """All named data sets, those of plugins included, sorted by name."""
    return sorted([*CORE, *plugins().specs(DataSpec)], key=lambda spec: spec.name)


def find_data_set(name: str) -> tuple[DataSpec, dict[str, Any]]:
    """Data set of that name, and the option that ``openml:NAME`` fills.

    Raises
    ------
    InputError
        Unknown name; the nearest are named.
    """
    core = {spec.name: spec for spec in CORE}
    family, _, rest = name.partition(":")
    if family == "openml":
        if not rest:
            raise InputError("name a data set of OpenML as 'openml:NAME'")
        return core["openml"], {"dataset": rest}
    # Underscores are forgiven, since scikit-learn's own names have them.
    plain = name.replace("_", "-")
    if plain in core:
        return core[plain], {}
    manager = plugins()
    names = [spec.shown_name for spec in data_sets()]
    if name in {spec.name for spec in manager.specs(DataSpec)}:
        return manager.find(DataSpec, name)
    text = f"no data set is called '{name}'{suggestion(name, names)}"
    if manager.broken:
        text += " (not loaded: " + "; ".join(f"{b}: {b.error}" for b in manager.broken) + ")"
    raise InputError(text)

"""The named data sets: scikit-learn's, generated ones, OpenML's, and those of plugins."""

from __future__ import annotations

from typing import Any

from thalweg.errors import InputError, suggestion
from thalweg.plugins import DataSpec, plugins

#: Data sets of the core, described as a plugin describes its own.
CORE: tuple[DataSpec, ...] = (
    DataSpec(
        name="digits",
        summary="1,797 handwritten digits of 8 x 8 pixels, 10 classes (scikit-learn)",
        load="thalweg.data.scikit_learn:digits",
    ),
    DataSpec(
        name="iris",
        summary="150 flowers, 4 measurements, 3 species (scikit-learn)",
        load="thalweg.data.scikit_learn:iris",
    ),
    DataSpec(
        name="wine",
        summary="178 wines, 13 measurements, 3 cultivars (scikit-learn)",
        load="thalweg.data.scikit_learn:wine",
    ),
    DataSpec(
        name="breast-cancer",
        summary="569 tumors, 30 measurements, 2 classes (scikit-learn)",
        load="thalweg.data.scikit_learn:breast_cancer",
    ),
    DataSpec(
        name="diabetes",
        summary="442 patients, 10 measurements, no classes (scikit-learn)",
        load="thalweg.data.scikit_learn:diabetes",
    ),
    DataSpec(
        name="blobs",
        summary="normal clouds around random centers (generated)",
        load="thalweg.data.generated:blobs",
    ),
    DataSpec(
        name="swiss-roll",
        summary="a rolled-up rectangle in three dimensions (generated)",
        load="thalweg.data.generated:swiss_roll",
    ),
    DataSpec(
        name="s-curve",
        summary="a sheet bent to an S in three dimensions (generated)",
        load="thalweg.data.generated:s_curve",
    ),
    DataSpec(
        name="moons",
        summary="two interleaved half circles in the plane (generated)",
        load="thalweg.data.generated:moons",
    ),
    DataSpec(
        name="openml",
        summary="any numeric data set of OpenML, written openml:NAME",
        load="thalweg.data.scikit_learn:openml",
    ),
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
    names = [spec.name for spec in data_sets() if spec.name != "openml"] + ["openml:NAME"]
    if name in {spec.name for spec in manager.specs(DataSpec)}:
        return manager.find(DataSpec, name)
    text = f"no data set is called '{name}'{suggestion(name, names)}"
    if manager.broken:
        text += " (not loaded: " + "; ".join(f"{b}: {b.error}" for b in manager.broken) + ")"
    raise InputError(text)

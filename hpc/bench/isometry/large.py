"""The oracle's rate, and the least rank of large sets; each run is a call of ``mpirun``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hpc.bench.isometry.ranks import launch
from hpc.bench.isometry.sets import LARGE_SETS


def oracles(folder: Path | None, rows: int) -> Iterator[list[dict[str, Any]]]:
    """The oracle on one rank and on two, one thread each."""
    found = []
    for ranks in (1, 2):
        found.append(launch("oracle", ranks, 1, folder, rows))
        yield found


def full(ranks: int, folder: Path | None, rows: int, seconds: float) -> Iterator[dict[str, Any]]:
    """MNIST with the rank given."""
    yield launch("full", ranks, 1, folder, rows, seconds)


def searches(
    before: list[dict[str, Any]],
    names: Sequence[str],
    ranks: int,
    folder: Path | None,
    rows: int,
    seconds: float,
) -> Iterator[list[dict[str, Any]]]:
    """The least rank of large sets; what was found before on others, or other ranks, stays."""
    found = {(row["set"], row["ranks"]): row for row in before}
    for name in names:
        run = launch("search", ranks, 1, folder, rows, seconds, name)
        found[name, ranks] = {"set": name, "ranks": ranks, **run}
        yield [found[key] for key in sorted(found, key=_place)]


def patches(
    before: list[dict[str, Any]],
    points: int,
    ranks: int,
    folder: Path | None,
    seconds: float,
    checkpoints: Path | None,
) -> Iterator[list[dict[str, Any]]]:
    """The least rank of so many patches, in one session or several with checkpoints.

    What was found before on other numbers of points or ranks stays.
    """
    found = {(row["points"], row["ranks"]): row for row in before}
    old = found.get((points, ranks), {}) if checkpoints and checkpoints.exists() else {}
    run = launch("search", ranks, 1, folder, points, seconds, "patches", checkpoints)
    # A session that a signal ends does not measure the map.
    row = {**old, **run, "points": points, "ranks": ranks}
    if "error" not in run:
        lower = [s for s in run["certified"] if s["rank"] not in _ranks_of(old)]
        row["certified"] = [*old.get("certified", []), *lower]
        row["sessions"] = [*old.get("sessions", []), row.pop("session")]
    found[points, ranks] = row
    yield [found[key] for key in sorted(found)]


def _ranks_of(row: dict[str, Any]) -> list[int]:
    return [step["rank"] for step in row.get("certified", [])]


def _place(key: tuple[str, int]) -> tuple[int, int]:
    name, ranks = key
    return list(LARGE_SETS).index(name), ranks

"""What the README says of alternative clustering."""

from __future__ import annotations

from typing import Any

#: Share of the faces held back whose labels the text compares.
HELD_BACK = 0.2


def summary(found: dict[str, Any]) -> str:
    """Markdown of the recorded results."""
    table = {(row["set"], row["method"]): row for row in found["table"]}
    small = [table[name, "ISM SI"] for name in ("Moon", "MoonN", "SG", "LG")]
    lowest = min(row["NMI"][0] for row in small)
    highest = max(row["Novelty"][0] for row in small)
    faces = table["Faces (pose given, k = 20)", "ISM SI"]
    held = next(
        row
        for row in found["held-back"]["sets"]
        if row["set"] == faces["set"] and row["share"] == HELD_BACK
    )
    runs = [row for row in found["large"] if "error" not in row]
    exact = max((row for row in runs if row["approximation"] == "exact"), key=_size)
    features = max((row for row in runs if row["approximation"] == "auto"), key=_size)
    return f"""
**[Alternative clustering](hpc/results/clustering.md)**
(`scripts/bench clustering`). The moons and Gaussians
of the paper: NMI ≥ {_floor(lowest):.2f} with the alternative, at most {highest:.2f} with the given
clustering. Faces, pose given, {faces["clusters"]} clusters: NMI
{faces["NMI"][0]:.2f} with the identities in {faces["CPU"][0]:.1f} CPU seconds.
Of {HELD_BACK:.0%} of
them, held back, the labels predicted have NMI {held["predicted"]:.2f} with those of a fit of all;
on the others both fits have {held["refitted"]:.2f}.
Exact ISM of {exact["rows"]:,} points takes {exact["seconds"]:.0f} s on {_ranks(exact)}; of
{features["rows"]:,} points with {features["features"]} features, by landmarks,
{features["seconds"]:.0f} s and {features["mebibytes"]:.0f} MiB on {_ranks(features)}.
"""


def _size(row: dict[str, Any]) -> tuple[int, float]:
    """The most rows; of these, the fastest."""
    return row["rows"], -row["seconds"]


def _ranks(row: dict[str, Any]) -> str:
    ranks = "one rank" if row["ranks"] == 1 else f"{row['ranks']} ranks"
    return ranks + (", which share a core" if row["cores"] < row["ranks"] else "")


def _floor(share: float) -> float:
    """Rounded down, since the text says "at least"."""
    return int(100 * share + 1e-9) / 100

"""What the README says of alternative clustering."""

from __future__ import annotations

from typing import Any


def summary(found: dict[str, Any]) -> str:
    """Markdown of the recorded results."""
    table = {(row["set"], row["method"]): row for row in found["table"]}
    small = [table[name, "ISM SI"] for name in ("Moon", "MoonN", "SG", "LG")]
    lowest = min(row["NMI"][0] for row in small)
    highest = max(row["Novelty"][0] for row in small)
    faces = table["Faces (pose given, k = 20)", "ISM SI"]
    large = found["large"][-1]
    return f"""
**[Alternative clustering](hpc/results/clustering.md)**
(`scripts/bench clustering`). The moons and Gaussians
of the paper: NMI ≥ {_floor(lowest):.2f} with the alternative, at most {highest:.2f} with the given
clustering. Faces, pose given, {faces["clusters"]} clusters: NMI
{faces["NMI"][0]:.2f} with the identities in {faces["Time"][0]:.1f} s.
Exact ISM of {large["rows"]:,} points: {large["seconds"]:.0f} s on
{large["ranks"]} ranks, {large["mebibytes"]:.0f} MiB each.
"""


def _floor(share: float) -> float:
    """Rounded down, since the text says "at least"."""
    return int(100 * share + 1e-9) / 100

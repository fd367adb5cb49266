"""Rows of the README's table about alternative clustering."""

from __future__ import annotations

from typing import Any

#: NMI of the faces' second clustering with the identities, and seconds (Table 1 of the paper).
PUBLISHED = "paper 0.57, with 4 clusters, 1.5 s"


def rows(records: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What was measured, ours, and others'."""
    table = {(row["set"], row["method"]): row for row in records["table"]}
    faces = table["Faces (pose given, k = 20)", "ISM SI"]
    runs = [row for row in records["large"] if "error" not in row]
    rows = [
        (
            f"faces, pose given, {faces['clusters']} clusters: NMI with the identities, CPU s",
            f"{faces['NMI'][0]:.2f}, {faces['CPU'][0]:.1f}",
            PUBLISHED,
        )
    ]
    for approximation, how in (("exact", "all pairs"), ("auto", "landmarks")):
        sizes = (row for row in runs if row["approximation"] == approximation)
        run = max(sizes, key=_size)
        what = f"KDAC, {run['rows']:,} points, {how}, {run['ranks']} ranks"
        rows.append((what, f"{run['seconds']:.0f} s, {run['mebibytes']:.0f} MiB", "–"))
    return rows


def _size(row: dict[str, Any]) -> tuple[int, float]:
    """The most rows; of these, the fastest."""
    return row["rows"], -row["seconds"]

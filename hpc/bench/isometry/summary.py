"""Rows of the README's table about the near-isometric embeddings."""

from __future__ import annotations

from typing import Any

from hpc.bench.isometry.report import NAMES


def rows(records: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What was measured, ours, and others'."""
    full = records["full"]
    certified = (
        f"{full['n_points']:,} images of MNIST to {full['rank']} columns, all "
        f"{full['n_secants']:,} pairs certified: δ, seconds on {_ranks(full)}",
        f"{full['delta']:.3f}, {full['seconds']:.0f}",
        "–",
    )
    return [certified, *_search(records), *_patches(records), *_published(records)]


def _search(records: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The least rank certified for the full set, on most ranks."""
    runs = [r for r in records["search"] if r["set"] == "mnist" and r.get("certified")]
    run = max(runs, key=lambda r: int(r["ranks"]))
    steps = [f"{step['rank']} after {step['seconds']:.0f} s" for step in run["certified"]]
    return [(f"the same, fewest columns sought for δ = 0.4, {_ranks(run)}", ", ".join(steps), "–")]


def _patches(records: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The largest set of patches with a certified map."""
    run = max(
        (run for run in records["patches"] if run.get("certified")), key=lambda r: int(r["points"])
    )
    step, count = run["certified"][-1], run["points"]
    what = f"{count:,} patches of 64 pixels, {count * (count - 1) // 2:,} pairs, δ = 0.4"
    return [(what, f"{step['rank']} columns after {step['seconds'] / 60:.0f} min", "–")]


def _published(records: dict[str, Any]) -> list[tuple[str, str, str]]:
    """When the methods of the papers certified the published ranks of Table 7.3."""
    table = [row for row in records["table_3"]["rows"] if row["wanted_rank"] and row["reached"]]
    rows = []
    for method in ("numax", "fromax"):
        served = [row for row in table if row["method"] == method and row["published"]]
        deltas = ", ".join(str(row["wanted_delta"]) for row in served)
        hours = ", ".join(f"{row['published']['hours']:.1f}" for row in served)
        what = (
            f"{NAMES[method]}, {records['table_3']['points']:,} crops of 20 × 20 pixels, the "
            f"published ranks, δ = {deltas}"
        )
        seconds = ", ".join(f"{row['seconds']:.0f}" for row in served)
        rows.append((what, f"{seconds} s", f"published {hours} hours"))
    return rows


def _ranks(record: dict[str, Any]) -> str:
    return "one rank" if record["ranks"] == 1 else f"{record['ranks']} ranks"

"""What the README says of the near-isometric embeddings."""

from __future__ import annotations

from typing import Any

from hpc.bench.isometry.report import NAMES


def summary(found: dict[str, Any]) -> str:
    """Markdown of the recorded results."""
    full = found["full"]
    rows = found["table_2"]["rows"]
    points = max(r["points"] for r in rows)
    wanted = sorted({r["wanted_delta"] for r in rows}, reverse=True)
    ours = _ranks(rows, "hinge-lbfgs", points, wanted, "rank")
    published = _ranks(rows, "nile-pro", points, wanted, "published_rank")
    seconds = _ranks(rows, "hinge-lbfgs", points, wanted, "seconds")
    status = "" if full["status"] == "CONVERGED" else f" (ended {full['status'].lower()})"
    return f"""
**[Near-isometric embeddings](hpc/results/isometry.md)**
(`scripts/bench isometry`). All
{full["n_secants"]:,} secants of {full["n_points"]:,} training images of MNIST, with the rank
*given*: a map to {full["rank"]} dimensions with δ = {full["delta"]:.3f}, certified{status}, in
{full["seconds"]:.0f} s on {full["ranks"]} ranks, {full["memory_gib"]:.1f} GiB in all. With the rank
*sought*:{_search(found)}{_patches(found)} {points} images of a digit, δ = {_listed(wanted)}, ranks
{_listed(ours)} in
{_listed([f"{s:.1f}" for s in seconds])} s (NILE-Pro's published ranks: {_listed(published)}).
{_published(found)}
"""


def _search(found: dict[str, Any]) -> str:
    """When which rank of the full set was certified, for each number of ranks."""
    runs = []
    for run in found.get("search", []):
        if run["set"] == "mnist" and run.get("certified"):
            steps = [f"{s['rank']} after {s['seconds']:.0f} s" for s in run["certified"]]
            ranks = "one rank" if run["ranks"] == 1 else f"{run['ranks']} ranks"
            runs.append(f"{_listed(steps)} on {ranks}")
    return f" the same images, δ = 0.4: {'; '.join(runs)}." if runs else ""


def _patches(found: dict[str, Any]) -> str:
    """The largest set of patches with a certified map."""
    runs = [run for run in found.get("patches", []) if run.get("certified")]
    if not runs:
        return ""
    run = max(runs, key=lambda run: int(run["points"]))
    step, count = run["certified"][-1], run["points"]
    ranks = "one rank" if run["ranks"] == 1 else f"{run['ranks']} ranks"
    return (
        f" {count:,} patches of 8 × 8 pixels, {count * (count - 1) // 2:,} pairs: {step['rank']} "
        f"after {step['seconds'] / 60:.0f} minutes on {ranks}."
    )


def _published(found: dict[str, Any]) -> str:
    """When the methods of the papers certified the published ranks of Table 7.3."""
    rows = [row for row in found.get("table_3", {}).get("rows", []) if row["wanted_rank"]]
    runs = []
    for method in ("numax", "fromax", "nile-pro"):
        served = [row for row in rows if row["method"] == method and row["reached"]]
        if served:
            seconds = [f"{row['seconds']:.0f}" for row in served]
            text = f"{NAMES[method]} {_listed(seconds)} s"
            if all(row["published"] for row in served):
                hours = [f"{row['published']['hours']:.1f}" for row in served]
                text += f" (published: {_listed(hours)} hours)"
            runs.append(f"{text} at δ = {_listed([row['wanted_delta'] for row in served])}")
    if not runs:
        return ""
    return (
        f"{found['table_3']['points']:,} crops of 20 × 20 pixels, the published ranks given, all "
        f"secants certified on one rank: {'; '.join(runs)}."
    )


def _ranks(
    rows: list[dict[str, Any]], method: str, points: int, wanted: list[float], column: str
) -> list[Any]:
    """One column of Table 7.2, for each delta; a dash where delta was not reached."""
    cells = []
    for delta in wanted:
        row = next(
            r
            for r in rows
            if (r["method"], r["points"], r["wanted_delta"]) == (method, points, delta)
        )
        cells.append(row[column] if column != "rank" or row["reached"] else "–")
    return cells


def _listed(values: list[Any]) -> str:
    *first, last = [str(value) for value in values]
    return f"{', '.join(first)} and {last}" if first else last

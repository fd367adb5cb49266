"""Markdown and pictures of what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpc.bench.isometry.tables import rank_of

from thalweg.report.figures import new_figure, save_figure, style
from thalweg.report.tables import format_table

NAMES = {
    "hinge-lbfgs": "squared hinge",
    "nile-pro": "NILE-Pro",
    "fromax": "FroMax",
    "numax": "NuMax",
    "secant-pca": "PCA of secants",
    "random-projection": "random projection",
}


def write_report(found: dict[str, Any], target: Path) -> None:
    """Write ``target``.md and the pictures beside it."""
    parts = ["# Near-isometric linear embeddings", _machine(found["machine"])]
    parts += [found["note"]] if "note" in found else []
    if "table_1" in found:
        parts += ["## Table 7.1: translating squares at NuMax's ranks", _first(found)]
    if "table_2" in found:
        parts += [
            f"## Table 7.2: images of the digit 5 ({found['table_2']['data']}), rank free",
            "The bound is certified: no embedding of these points with this delta, linear or "
            "not, has a lower rank.  A dash in place of a rank: delta was not reached within "
            "the time allowed.",
            _second(found),
        ]
    if "table_3" in found:
        parts += ["## Table 7.3: nearest-neighbour classification", _third(found["table_3"])]
    if "figure_2" in found:
        name = f"{target.name}-rank-delta.png"
        draw_ranks(found["figure_2"], target.with_name(name))
        parts += ["## Figure 7.2: rank against delta", f"![rank against delta]({name})"]
    if "figure_4" in found:
        name = f"{target.name}-neighbours.png"
        draw_neighbours(found["figure_4"], target.with_name(name))
        parts += ["## Figure 7.4: neighbours preserved", f"![neighbours preserved]({name})"]
    for part, title in (("oracle", "The oracle"), ("full", "All secants of the full set")):
        if part in found:
            parts += [f"## {title}", _plain(found[part])]
    target.with_suffix(".md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory']:.0f} GiB, "
        f"{machine['system']}; {versions}."
    )


def _first(found: dict[str, Any]) -> str:
    rows = [
        {
            "points": r["points"],
            "delta": r["wanted_delta"],
            "rank": r["wanted_rank"],
            "method": NAMES[r["method"]],
            "delta found": round(r["delta"], 4),
            "seconds": round(r["seconds"], 2),
            "published s": r["published_seconds"],
        }
        for r in found["table_1"]
    ]
    return format_table(rows, markdown=True)


def _second(found: dict[str, Any]) -> str:
    rows = [
        {
            "delta": r["wanted_delta"],
            "points": r["points"],
            "method": NAMES[r["method"]],
            "rank": r["rank"] if r["reached"] else None,
            "published": r["published_rank"],
            "bound": r["rank_lower_bound"],
            "seconds": round(r["seconds"], 2),
            "published s": r["published_seconds"],
        }
        for r in found["table_2"]["rows"]
    ]
    return format_table(rows, markdown=True)


def _third(table: dict[str, Any]) -> str:
    rows = [
        {
            "delta": r["wanted_delta"],
            "rank": r["rank"],
            "delta found": round(r["delta"], 4),
            "error %": round(100 * r["error"], 2),
            "seconds": round(r["seconds"], 1),
            "published rank": r["published"]["rank"],
            "NuMax %": 100 * r["published"]["numax"],
            "FroMax %": 100 * r["published"]["fromax"],
        }
        for r in table["rows"]
    ]
    head = (
        f"{table['data']}, {table['points']} training images; unprojected error "
        f"{100 * table['unprojected']:.2f} % (published 3.47 %)."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _plain(facts: Any) -> str:
    rows = facts if isinstance(facts, list) else [facts]
    lines = []
    for row in rows:
        flat: dict[str, Any] = {}
        for key, value in row.items():
            if isinstance(value, dict):
                flat.update({f"{key} {k}": v for k, v in value.items()})
            else:
                flat[key] = value
        shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in flat.items())
        lines.append("- " + ", ".join(shown))
    return "\n".join(lines)


def draw_ranks(rows: list[dict[str, Any]], path: Path) -> None:
    """Rank against delta, one line a method."""
    with style():
        figure = new_figure(6.0, 4.0)
        axes = figure.subplots()
        for solver, name in NAMES.items():
            deltas, ranks = rank_of(rows, solver)
            if len(deltas):
                axes.plot(deltas, ranks, marker="o", markersize=3, label=name)
        axes.set_yscale("log")
        axes.set_xlabel("isometry constant wanted")
        axes.set_ylabel("rank")
        axes.legend()
        save_figure(figure, path)


def draw_neighbours(facts: dict[str, Any], path: Path) -> None:
    """Share of neighbours preserved against the rank, one line a method."""
    with style():
        figure = new_figure(6.0, 4.0)
        axes = figure.subplots()
        for solver, name in NAMES.items():
            good = [r for r in facts["rows"] if r["method"] == solver]
            if good:
                ranks = [r["wanted_rank"] for r in good]
                kept = [100 * r["kept"] for r in good]
                axes.plot(ranks, kept, marker="o", markersize=3, label=name)
        axes.set_xlabel("rank")
        axes.set_ylabel("10 nearest neighbours preserved, %")
        axes.legend()
        save_figure(figure, path)

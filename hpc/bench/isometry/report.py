"""Markdown and pictures of what was measured."""

from __future__ import annotations

from collections.abc import Callable
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
    sections: tuple[tuple[str, str, Callable[[Any], str] | None], ...] = (
        ("oracle", "The oracle", _oracle),
        ("full", "All secants of the full set", _full),
        ("table_1", "Table 7.1: translating squares at NuMax's ranks", _first),
        ("table_2", "Table 7.2: images of the digit 5, rank free", _second),
        ("figure_2", "Figure 7.2: rank against delta", None),
        ("table_3", "Table 7.3: nearest-neighbour classification", _third),
        ("figure_4", "Figure 7.4: neighbours preserved", _fourth),
    )
    pictures: dict[str, tuple[str, str, Callable[[Any, Path], None]]] = {
        "figure_2": ("rank-delta", "rank against delta", draw_ranks),
        "figure_4": ("neighbours", "neighbours preserved", draw_neighbours),
    }
    for part, title, text in sections:
        if part not in found:
            continue
        parts.append(f"## {title}")
        if text is not None:
            parts.append(text(found[part]))
        if part in pictures:
            ending, caption, draw = pictures[part]
            name = f"{target.name}-{ending}.png"
            draw(found[part], target.with_name(name))
            parts.append(f"![{caption}]({name})")
    if "seconds" in found:
        spent = (f"{part} {seconds:.0f} s" for part, seconds in found["seconds"].items())
        parts.append("Time of the parts: " + ", ".join(spent) + ".")
    target.with_suffix(".md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory']:.0f} GiB, "
        f"{machine['system']}; {versions}."
    )


def _first(table: list[dict[str, Any]]) -> str:
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
        for r in table
    ]
    return format_table(rows, markdown=True)


def _second(table: dict[str, Any]) -> str:
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
        for r in table["rows"]
    ]
    head = (
        f"{table['data']}.  The bound is certified: no embedding of these points with this "
        "delta, linear or not, has a lower rank.  A dash in place of a rank: delta was not "
        "reached within the time allowed."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _third(table: dict[str, Any]) -> str:
    rows = []
    for r in table["rows"]:
        published = r["published"] if r["wanted_rank"] is not None else None
        rows.append(
            {
                "delta": r["wanted_delta"],
                "rank": r["rank"],
                "method": NAMES[r["method"]] + ("" if r["wanted_rank"] else ", rank free"),
                "delta found": round(r["delta"], 4),
                "error %": round(100 * r["error"], 2),
                "seconds": round(r["seconds"], 1),
                "published %": 100 * published["error"] if published else None,
                "published s": round(3600 * published["hours"]) if published else None,
            }
        )
    head = (
        f"{table['data']}, {table['points']} training images; unprojected error "
        f"{100 * table['unprojected']:.2f} % (published 3.47 %).  The published columns have "
        "ranks 72, 98 and 167.  A delta found above the one wanted: the time was over, or the "
        "method cannot reach it at this rank; the error is that of the map it had."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _fourth(facts: dict[str, Any]) -> str:
    ranks = sorted({r["wanted_rank"] for r in facts["rows"]})
    table = []
    for solver, name in NAMES.items():
        for what, of in (("kept %", "kept"), ("delta", "delta")):
            row: dict[str, Any] = {"method": name, "": what}
            for rank in ranks:
                cells = [
                    r[of]
                    for r in facts["rows"]
                    if r["method"] == solver and r["wanted_rank"] == rank
                ]
                scale, digits = (100, 1) if of == "kept" else (1, 3)
                row[f"rank {rank}"] = round(scale * cells[0], digits) if cells else None
            table.append(row)
    head = (
        f"{facts['data']}: {facts['queries']} queries among {facts['points']} points.  The "
        "published methods were asked for 1.1 times the squared hinge's delta; where theirs is "
        "larger, their time was over."
    )
    return head + "\n\n" + format_table(table, markdown=True)


def _oracle(runs: list[dict[str, Any]]) -> str:
    rows = []
    for run in runs:
        if "error" in run:
            return str(run["error"])
        for name in ("full", "bounded"):
            found = run[name]
            rows.append(
                {
                    "ranks": run["ranks"],
                    "columns in products": found["columns"],
                    "seconds": round(found["seconds"], 2),
                    "GFLOP/s": round(found["rate"], 1),
                    "products alone": round(run["product_rate"], 1),
                    "share %": round(100 * found["share"]),
                    "times one rank": round(runs[0][name]["seconds"] / found["seconds"], 2),
                    "delta": round(found["delta"], 6),
                    "pair": "{} {}".format(*found["pair"]),
                }
            )
    head = (
        "Complete looks with one thread a rank.  The rate counts the operations of full "
        "products with all columns; with fewer columns the bounds spare most of them, so that "
        "the share may exceed 100 %."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _full(run: dict[str, Any]) -> str:
    if "error" in run:
        return str(run["error"])
    return format_table(
        [
            {
                "points": run["n_points"],
                "secants": run["n_secants"],
                "ranks": run["ranks"],
                "rank": run["rank"],
                "delta": round(run["delta"], 4),
                "status": run["status"].lower(),
                "rank bound": run["rank_lower_bound"],
                "active": run["active"],
                "evaluations": run["evaluations"],
                "seconds": round(run["seconds"], 1),
                "GiB of all ranks": round(run["memory_gib"], 2),
            }
        ],
        markdown=True,
    )


def draw_ranks(rows: list[dict[str, Any]], path: Path) -> None:
    """Rank against delta, one line a method."""
    with style():
        figure = new_figure(7.5, 4.0)
        axes = figure.subplots()
        for solver, name in NAMES.items():
            deltas, ranks = rank_of(rows, solver)
            if len(deltas):
                axes.plot(deltas, ranks, marker="o", markersize=3, label=name)
        axes.set_yscale("log")
        axes.set_xlabel("isometry constant wanted")
        axes.set_ylabel("rank")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save_figure(figure, path)


def draw_neighbours(facts: dict[str, Any], path: Path) -> None:
    """Share of neighbours preserved against the rank, one line a method."""
    with style():
        figure = new_figure(7.5, 4.0)
        axes = figure.subplots()
        for solver, name in NAMES.items():
            good = [r for r in facts["rows"] if r["method"] == solver]
            if good:
                ranks = [r["wanted_rank"] for r in good]
                kept = [100 * r["kept"] for r in good]
                axes.plot(ranks, kept, marker="o", markersize=3, label=name)
        axes.set_xlabel("rank")
        axes.set_ylabel("10 nearest neighbours preserved, %")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save_figure(figure, path)

"""Markdown and pictures of what was measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpc.bench.isometry.sets import LARGE_SETS
from hpc.bench.isometry.tables import TABLE_1, rank_of

from thalweg.workbench.report.figures import new_figure, save_figure, style
from thalweg.workbench.report.tables import format_table

NAMES = {
    "hinge-lbfgs": "squared hinge",
    "nile-pro": "NILE-Pro",
    "fromax": "FroMax",
    "numax": "NuMax",
    "secant-avoidance": "secant avoidance",
    "hessian-descent": "Hessian descent",
    "secant-pca": "PCA of secants",
    "random-projection": "random projection",
    "adagio": "ADAGIO",
}

#: What the tables say of how a run ended.
STATUS = {
    "CONVERGED": "converged",
    "TIME_LIMIT": "out of time",
    "TARGET_NOT_REACHED": "infeasible",
    "INTERRUPTED": "stopped by a signal",
}


def _compressions(rows: list[dict[str, Any]]) -> str:
    """What is certified of each compression, and what a million random pairs show."""
    head = [
        "set", "rows × columns", "compression", "largest change of a squared distance",
        "of 99 % of the pairs", "largest of 10⁶ random pairs", "10 nearest among the first",
        "of 99 % of the rows", "CPU s, changes", "CPU s, neighbors",
    ]  # fmt: skip
    lines = [
        [
            LARGE_SETS[row["set"]], f"{row['rows']:,} × {row['columns']}", row["compression"],
            f"{row['delta']:.4g}", f"{row['quantiles'][2][2]:.3g}", f"{row['sampled']:.4g}",
            f"{row['candidates']:,}", f"{row['candidate_quantiles'][2][1]:,}",
            f"{row['cpu_seconds']:.0f}", f"{row['neighbor_cpu_seconds']:.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    text = (
        "Relative changes of squared distances, certified over all pairs (`certify`), beside the "
        "largest among a million random pairs; and among how many first candidates the ten nearest "
        "of every row are.  A change above 1 lengthens.  Seconds of one thread; those of neighbors "
        "hold the exact search.  Product codes are those of FAISS where it is installed, else of "
        "k-means in scikit-learn."
    )
    table = [dict(zip(head, line, strict=True)) for line in lines]
    return text + "\n\n" + format_table(table, markdown=True)


def status_of(row: dict[str, Any]) -> str:
    """How a run ended, in the tables' words."""
    return STATUS.get(row["status"], row["status"].lower().replace("_", " "))


def final_rank(row: dict[str, Any]) -> int | None:
    """The rank of a run that ended by itself with the wanted delta certified; else none."""
    done = row["status"] == "CONVERGED"
    wanted = row["wanted_delta"]
    return row["rank"] if done and (wanted is None or row["delta"] <= wanted) else None


def write_report(found: dict[str, Any], target: Path) -> None:
    """Write ``target``.md and the pictures beside it."""
    parts = ["# Near-isometric linear embeddings", _machine(found["machine"])]
    parts += [found["note"]] if "note" in found else []
    sections: tuple[tuple[str, str, Callable[[Any], str] | None], ...] = (
        ("oracle", "The oracle", _oracle),
        ("full", "All secants of the full set", _full),
        ("search", "The least rank of large sets", _search),
        ("patches", "Patches of images", _patches),
        ("compressions", "Compressions of vectors", _compressions),
        ("table_1", "Table 7.1: translating squares, rank given", _first),
        ("one_square", "Table 7.1: squares of one size", _one_square),
        ("table_2", "Table 7.2: images of the digit 5, rank free", _second),
        ("figure_2", "Figure 7.2: rank against delta", None),
        ("table_3", "Table 7.3: nearest-neighbor classification", _third),
        ("figure_4_by_delta", "Figure 7.4: neighbors preserved, as published", _fourth_by_delta),
        ("figure_4", "The same at given ranks, by all methods", _fourth),
    )
    pictures: dict[str, tuple[str, str, Callable[[Any, Path], None]]] = {
        "figure_2": ("rank-delta", "rank against delta", draw_ranks),
        "figure_4": ("neighbors", "neighbors preserved", draw_neighbors),
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
        parts.append("Time of the last run of each part: " + ", ".join(spent) + ".")
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
            "method": NAMES[r["method"]],
            "rank given": None if r["method"] == "numax" else r["wanted_rank"],
            "rank": final_rank(r),
            "published rank": TABLE_1[r["points"], r["wanted_delta"]][0],
            "delta found": round(r["delta"], 4),
            "status": status_of(r),
            "seconds": round(r["seconds"], 2),
            "published s": r["published_seconds"],
        }
        for r in table
    ]
    head = (
        "The methods get the rank that NuMax found here; where NuMax had not converged, the "
        "published one.  The paper does not say how large its squares are, so that its ranks "
        "need not suit these, whose sides vary."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _one_square(table: list[dict[str, Any]]) -> str:
    ranks: dict[tuple[int, float, int], dict[str, str]] = {}
    for r in table:
        at = ranks.setdefault((r["edge"], r["side"], r["images"]), {})
        served = r["rank"] if r["delta"] <= r["wanted_delta"] else "–"
        at[f"{r['wanted_delta']}"] = f"{served}{'' if r['status'] == 'CONVERGED' else '*'}"
    rows = [
        {"edge": edge, "side": side, "images": images, **at}
        for (edge, side, images), at in ranks.items()
    ]
    published = "; ".join(
        f"{count} images, " + ", ".join(str(TABLE_1[count, d][0]) for d in (0.4, 0.25, 0.1))
        for count in (60, 200)
    )
    head = (
        "The rank that NuMax finds for translations of one square, by delta; a star: out of time.  "
        f"Published: {published}.  So many images of one side cannot differ at whole pixels (one "
        "pixel alone has 49 and 196 places): where 60 or 200 are listed, squares lie between."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _second(table: dict[str, Any]) -> str:
    rows = [
        {
            "delta": r["wanted_delta"],
            "points": r["points"],
            "method": NAMES[r["method"]],
            "rank": final_rank(r),
            "best so far": r["rank"] if r["reached"] and final_rank(r) is None else None,
            "published rank": r["published_rank"],
            "bound": r["rank_lower_bound"],
            "status": status_of(r),
            "seconds": round(r["seconds"], 2),
            "published s": r["published_seconds"],
        }
        for r in table["rows"]
    ]
    head = (
        f"{table['data']}.  The bound is certified: no embedding of these points with this "
        "delta, linear or not, has a lower rank.  A rank is final where the method ended by "
        "itself; a method out of time shows the best rank that it had certified, if any."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _third(table: dict[str, Any]) -> str:
    rows = []
    for r in table["rows"]:
        published = r["published"] if r["wanted_rank"] is not None else None
        rows.append(
            {
                "delta": r["wanted_delta"],
                "method": NAMES[r["method"]] + ("" if r["wanted_rank"] else ", rank free"),
                "rank given": r["wanted_rank"],
                "rank": final_rank(r),
                "best so far": r["rank"] if r["reached"] and final_rank(r) is None else None,
                "delta found": round(r["delta"], 4),
                "status": status_of(r),
                "error %": round(100 * r["error"], 2),
                "seconds": round(r["seconds"], 1),
                "published %": 100 * published["error"] if published else None,
                "published s": round(3600 * published["hours"]) if published else None,
            }
        )
    head = (
        f"{table['data']}, {table['points']} training images; unprojected error "
        f"{100 * table['unprojected']:.2f} % (published 3.47 %).  The published columns have "
        "ranks 72, 98 and 167.  Where a run is out of time or infeasible at the rank, the delta "
        "and the error are those of the map it had, whatever its rank; the best so far is a rank "
        "that was certified, but from which the search was still going down."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _fourth(facts: dict[str, Any]) -> str:
    ranks = sorted({r["wanted_rank"] for r in facts["rows"]})
    table = []
    for solver in dict.fromkeys(r["method"] for r in facts["rows"]):
        name = NAMES[solver]
        for what, of in (("kept %", "kept"), ("delta", "delta")):
            row: dict[str, Any] = {"method": name, "": what}
            for rank in ranks:
                cells = [
                    (r[of], "" if r["status"] == "CONVERGED" else "*")
                    for r in facts["rows"]
                    if r["method"] == solver and r["wanted_rank"] == rank
                ]
                scale, digits = (100, 1) if of == "kept" else (1, 3)
                shown = [f"{scale * value:.{digits}f}{mark}" for value, mark in cells]
                row[f"rank {rank}"] = shown[0] if shown else None
            table.append(row)
    head = (
        f"{facts['data']}: {facts['queries']} queries among {facts['points']} points.  The "
        "published methods were asked for 1.1 times the squared hinge's delta.  A star: not "
        "converged, out of time or infeasible at that delta; the lines of such methods are broken."
    )
    return head + "\n\n" + format_table(table, markdown=True)


def _fourth_by_delta(facts: dict[str, Any]) -> str:
    table = [
        {
            "delta wanted": row["wanted_delta"],
            "method": NAMES[row["method"]],
            "rank": row["rank"],
            "delta": round(row["delta"], 3),
            "kept %": round(100 * row["kept"], 1),
            "seconds": round(row["seconds"], 1),
            "ended": status_of(row),
        }
        for row in facts["rows"]
    ]
    head = (
        f"{facts['data']}: {facts['queries']} queries among {facts['points']} points.  NuMax finds "
        "the rank for the wanted delta; FroMax has the same delta and that rank."
    )
    return head + "\n\n" + format_table(table, markdown=True)


def _oracle(runs: list[dict[str, Any]]) -> str:
    rows = []
    for run in runs:
        if "error" in run:
            return str(run["error"])
        for name, stages in (("full", "all"), ("one stage", "leading"), ("bounded", "two stages")):
            if name not in run:
                continue
            found = run[name]
            rows.append(
                {
                    "ranks": run["ranks"],
                    "columns": stages,
                    "in products": found["columns"],
                    "seconds": round(found["seconds"], 2),
                    "GFLOP/s": round(found["rate"], 1),
                    "products alone": round(run["product_rate"], 1),
                    "share %": round(100 * found["share"]),
                    "times one rank": round(runs[0][name]["seconds"] / found["seconds"], 2),
                    "times leading": _ratio(run.get("one stage"), found),
                    "delta": round(found["delta"], 6),
                    "pair": "{} {}".format(*found["pair"]),
                }
            )
    head = (
        "Complete separation rounds with one thread per rank.  The rate counts the operations of "
        "full products with all columns; with fewer columns the bounds spare most of them, so that "
        "the share may exceed 100 %.  `leading`: that number of leading columns with which a round "
        "is fastest, and pairs that they leave undecided are measured; `two stages`: fewer leading "
        "columns, and further ones for those pairs first, as every scan does."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _ratio(other: dict[str, Any] | None, found: dict[str, Any]) -> float | None:
    return None if other is None else round(other["seconds"] / found["seconds"], 2)


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
                "status": status_of(run),
                "rank bound": run["rank_lower_bound"],
                "active": run["active"],
                "evaluations": run["evaluations"],
                "seconds": round(run["seconds"], 1),
                "GiB of all ranks": round(run["memory_gib"], 2),
            }
        ],
        markdown=True,
    )


def _search(runs: list[dict[str, Any]]) -> str:
    rows = []
    for run in runs:
        if "error" in run:
            rows.append(
                {"set": LARGE_SETS[run["set"]], "ranks": run["ranks"], "status": run["error"]}
            )
            continue
        steps = run["certified"]
        first = steps[0] if steps else {"rank": None, "seconds": None}
        least = min(s["rank"] for r in runs if r["set"] == run["set"] for s in _steps(r, run))
        near = next((s for s in steps if s["rank"] <= least + 2), {"seconds": None})
        rows.append(
            {
                "set": LARGE_SETS[run["set"]],
                "points": run["n_points"],
                "ranks": run["ranks"],
                "first rank": first["rank"],
                "after s": _seconds(first),
                "rank": run["rank"],
                "delta": round(run["delta"], 4),
                "status": status_of(run),
                "seconds": round(run["seconds"]),
                "within 2 after s": _seconds(near),
                "processor s of a rank": round(run["processor_seconds"]),
                "evaluations": run["evaluations"],
                "GiB of all ranks": round(run["memory_gib"], 2),
            }
        )
    head = (
        "delta 0.4, the rank sought from nothing: the first rank that was certified over all "
        "secants and when, the least at the end, and when one within 2 of the least that any run "
        "on the set found was certified.  The "
        "words, textures and windows are generated (`hpc/bench/isometry/generated.py`)."
    )
    return head + "\n\n" + format_table(rows, markdown=True)


def _steps(run: dict[str, Any], otherwise: dict[str, Any]) -> list[dict[str, Any]]:
    """The certified ranks of a run, or where there are none the rank at the end of another."""
    return run.get("certified") or [otherwise]


def _patches(runs: list[dict[str, Any]]) -> str:
    rows = []
    for run in runs:
        if "error" in run:
            rows.append({"points": run["points"], "ranks": run["ranks"], "status": run["error"]})
            continue
        steps = run["certified"]
        rows.append(
            {
                "points": run["points"],
                "pairs": run["points"] * (run["points"] - 1) // 2,
                "ranks": run["ranks"],
                "certified": ", ".join(f"{s['rank']} after {s['seconds']:.0f} s" for s in steps),
                "rank": steps[-1]["rank"] if steps else None,
                "delta": round(steps[-1]["delta"], 4) if steps else None,
                "status": status_of(run),
                "seconds": round(run["sessions"][-1]["at"]["seconds"]),
                "sessions": len(run["sessions"]),
                "GiB of all ranks": round(run["memory_gib"], 2),
            }
        )
    parts = [
        "Patches of 8 x 8 pixels of photographs, delta 0.4, the rank sought from nothing.  Seconds "
        "are those of all sessions together; the last certified rank is the best so far of a "
        "search that was stopped.",
        format_table(rows, markdown=True),
    ]
    for run in runs:
        if len(run.get("sessions", [])) > 1:
            ends = [_session(session) for session in run["sessions"]]
            parts.append(f"{run['points']:,} patches, the sessions: {'; '.join(ends)}.")
    return "\n\n".join(parts)


def _session(session: dict[str, Any]) -> str:
    """How a session ended, and where it was then."""
    at = session["at"]
    where = f", {at['pairs']:,} pairs into a scan" if at["pairs"] else ""
    return f"{status_of(session)} after {at['seconds']:.0f} s in all{where}"


def _seconds(step: dict[str, Any]) -> int | None:
    return None if step["seconds"] is None else round(step["seconds"])


def draw_ranks(rows: list[dict[str, Any]], path: Path) -> None:
    """Rank against delta, one line per method."""
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


def draw_neighbors(facts: dict[str, Any], path: Path) -> None:
    """Share of neighbors preserved against the rank, one line per method."""
    with style():
        figure = new_figure(7.5, 4.0)
        axes = figure.subplots()
        for solver, name in NAMES.items():
            rows = [r for r in facts["rows"] if r["method"] == solver]
            if rows:
                ended = all(r["status"] == "CONVERGED" for r in rows)
                ranks = [r["wanted_rank"] for r in rows]
                kept = [100 * r["kept"] for r in rows]
                axes.plot(ranks, kept, "o-" if ended else "o--", markersize=3, label=name)
        axes.set_xlabel("rank")
        axes.set_ylabel("10 nearest neighbors preserved, %")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save_figure(figure, path)

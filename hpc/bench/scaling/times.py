"""Seconds as cores are added, by ranks and by threads, beside what the machine itself gives."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from hpc.bench.scaling.cases import ALL_PAIRS, ESTIMATOR, TIMED
from hpc.bench.scaling.model import PAPER_RANKS, SAME, predict, predict_scan
from hpc.machine import describe_machine

from thalweg.parallel.threads import usable_cores
from thalweg.workbench.report import format_table

#: Names of phases, where those of the code say little.
PHASES = {
    "optimize": "optimizer, other than below",
    "evaluate": "evaluations",
    "laplacian": "solves with the Laplacian",
    "setup": "set-up of method and preconditioner",
}

#: How threads wait, as commands of thalweg set it; the benchmark loads NumPy before.
WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_THREAD_TIMEOUT": "4"}

Entry = dict[str, Any]


def grid(cores: int) -> list[tuple[int, int]]:
    """Ranks and threads that are measured: one core, then all by ranks, by threads, and mixed."""
    found = [(1, 1)]
    many = 2
    while many <= cores:
        found += [(many, 1), (1, many)]
        found += [(many // threads, threads) for threads in (2, 4) if many // threads > 1]
        many *= 2
    return found


def measure(
    path: Path, cases: Sequence[str], quick: bool, rounds: int, environment: Mapping[str, str]
) -> list[Entry]:
    """Measure in rounds over ranks x threads; of each phase the quickest round is kept.

    A case is measured at its rows, and on several cores at so many rows for each of them, too.
    Entries of other machines in the file ``path`` stay; nothing is written if ``quick``.
    """
    machine = describe_machine()["processor"]
    entries: list[Entry] = json.loads(path.read_text()) if path.exists() else []
    fresh: set[tuple[Any, ...]] = set()
    for _ in range(rounds):
        for ranks, threads in grid(len(usable_cores())):
            wanted: list[str] = []
            for case in cases:
                if case == ESTIMATOR:  # has processes of its own, below
                    continue
                rows = TIMED[case][1 if quick else 0]
                sizes = [rows]
                if ranks * threads > 1:
                    growth = (ranks * threads) ** (0.5 if case in ALL_PAIRS else 1.0)
                    sizes.append(round(rows * growth))
                for size in sizes:
                    wanted += [case, str(size)]
            command = ["mpirun", "-n", str(ranks)]
            if threads > 1 and ranks > 1:
                command += ["--bind-to", "none"]
            command += [sys.executable, "-m", "hpc.bench.scaling.seconds", *wanted]
            printed = _printed(command, {**WAITING, **environment, "THALWEG_THREADS": str(threads)})
            if ESTIMATOR in cases and ranks == 1:
                rows = TIMED[ESTIMATOR][1 if quick else 0]
                command = [sys.executable, "-m", "hpc.bench.scaling.estimator"]
                printed += _printed([*command, str(rows), str(threads)], environment)
            for line in printed.splitlines():
                if line.startswith("{"):
                    print(line, flush=True)
                    _keep(entries, {"machine": machine, **json.loads(line)}, fresh)
            if not quick:  # small sizes would stand in the tables in place of the others
                path.write_text(json.dumps(entries, indent=1) + "\n")
    return entries


def _printed(command: list[str], environment: Mapping[str, str]) -> str:
    return subprocess.run(
        command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _key(entry: Entry) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in ("machine", "case", "rows", "ranks", "threads"))


def _keep(entries: list[Entry], entry: Entry, fresh: set[tuple[Any, ...]]) -> None:
    """Take an entry in: what an earlier call found goes, of this call's the quickest stays."""
    kind = "seconds" if "case" in entry else "ceilings"
    for place, old in enumerate(entries):
        if _key(old) == _key(entry):
            if _key(entry) in fresh:
                least = {**old[kind], **entry[kind]}
                least.update({n: min(v, old[kind].get(n, v)) for n, v in entry[kind].items()})
                entry = {**entry, kind: least}
            entries[place] = entry
            break
    else:
        entries.append(entry)
    fresh.add(_key(entry))


def sections(entries: list[Entry], counts: list[Entry]) -> list[str]:
    """The tables as Markdown: what the machine gives, each case by phases, more ranks on paper.

    ``counts`` are entries with the bytes and messages of the cases.
    """
    if not entries:
        return []
    parts = [
        "## Seconds",
        "",
        "Wall time, of each phase the quickest of several rounds in turn, and of the slowest rank. "
        "A column names ranks x threads; behind the seconds on one core stand gains: x 2.00 is "
        "half the time. 'Rows per core' is the same gain, in rows a second, where the rows "
        "(for sums over all pairs: the pairs) grow with the cores. Above each table stands what "
        "the machine gives to loops that do nothing but arithmetic, copies of 256 MB, gathers at "
        "random from 32 MB, measured in the last run on a machine of that name (on AMD EPYC: "
        "that of neighbors, secants and exact KDAC; t-SNE's own gave gathers x 1.73 and x 1.43). "
        "Imbalance is the "
        "slowest rank's seconds over the mean of the ranks.",
        "",
    ]
    for machine in dict.fromkeys(e["machine"] for e in entries):
        mine = [e for e in entries if e["machine"] == machine]
        parts += [f"### {machine}", ""]
        for case in TIMED:
            table = _table(case, mine)
            if table:
                rows = min(e["rows"] for e in mine if e.get("case") == case)
                name = case.removesuffix(", timed")
                parts += [f"#### {name}, {rows:,} rows", "", format_table(table, markdown=True), ""]
        parts += [_messages(mine), "", *_on_paper(mine, counts)]
    return parts


def _on_paper(entries: list[Entry], counts: list[Entry]) -> list[str]:
    made = {case: found for case in SAME if (found := predict(case, counts, entries))}
    if scan := predict_scan(entries):
        made["near-isometry, a scan"] = scan
    if not made:
        return []
    table, held = [], []
    for case, found in made.items():
        held += [
            f"{case}, {rows:,} rows: {1e3 * measured:.0f} ms measured, {1e3 * said:.0f} predicted"
            for rows, measured, said in found["held"]
        ]
        for row in found["paper"]:
            columns = zip(PAPER_RANKS, row["seconds"], strict=True)
            table.append(
                {
                    "family": case,
                    "rows": f"{row['rows']:,}",
                    **{f"{ranks:,} ranks": f"{seconds:.3g}" for ranks, seconds in columns},
                    "no gain beyond": f"{row['no gain beyond']:,}",
                }
            )
    return [
        "#### On paper",
        "",
        "Seconds of an iteration, or of a complete scan of all secants of points of 200 columns: "
        "the work of one core, shared out, and bytes and messages as counted above on up to 16 "
        "ranks and drawn on as lines (of the scan as they follow from the ring), at 2 microseconds "
        "a message and 10 GB/s for a node of 64 ranks (assumed). By the measured costs, on two "
        f"ranks here: {'; '.join(held)}.",
        "",
        format_table(table, markdown=True),
        "",
    ]


def _messages(entries: list[Entry]) -> str:
    both = [e for e in entries if "latency" in e and e["ranks"] == 2]
    if not both:
        return ""
    latency = min(e["latency"] for e in both)
    rate = 1.0 / min(e["seconds per byte"] for e in both)
    return (
        f"A message between two ranks takes {1e6 * latency:.1f} microseconds and "
        f"{rate / 1e9:.1f} GB move in a second."
    )


def _table(case: str, entries: list[Entry]) -> list[dict[str, str]]:
    """Ceilings, then phases, of a case on one machine: seconds on a core, gains on several."""
    measured = [e for e in entries if e.get("case") == case]
    if not measured:
        return []
    rows = min(e["rows"] for e in measured)
    fixed = {(e["ranks"], e["threads"]): e["seconds"] for e in measured if e["rows"] == rows}
    grown = {(e["ranks"], e["threads"]): e for e in measured if e["rows"] > rows}
    limits = {(e["ranks"], e["threads"]): e["ceilings"] for e in entries if "ceilings" in e}
    if (1, 1) not in fixed or (1, 1) not in limits:
        return []
    cores = [key for key in fixed if key != (1, 1)]
    table = []
    for kind, alone in limits[1, 1].items():
        row = {"": f"*{kind}*", "one core, s": f"{alone:.3f}"}
        for key in cores:
            row[_name(key)] = f"x {alone / limits[key][kind]:.2f}"
        table.append(row)
    alone = fixed[1, 1]
    for phase in sorted(alone, key=lambda name: (name == "total", -alone[name][0])):
        if alone[phase][0] < 0.01 * alone["total"][0]:
            continue
        row = {"": PHASES.get(phase, phase), "one core, s": f"{alone[phase][0]:.2f}"}
        for key in cores:
            slowest, mean = fixed[key].get(phase, [0.0, 0.0])
            row[_name(key)] = f"x {alone[phase][0] / slowest:.2f}" if slowest else "-"
            if key in grown:
                entry = grown[key]
                growth = (entry["rows"] / rows) ** (2 if case in ALL_PAIRS else 1)
                more = entry["seconds"].get(phase, [0.0])[0]
                name = f"{_name(key)}, rows per core"
                row[name] = f"x {growth * alone[phase][0] / more:.2f}" if more else "-"
            if key[0] > 1:
                row[f"{_name(key)}, imbalance"] = f"{slowest / mean:.2f}" if mean else "-"
        table.append(row)
    columns = {name: "" for row in table for name in row}
    return [{**columns, **row} for row in table]


def _name(key: tuple[int, int]) -> str:
    ranks, threads = key
    return f"{ranks} rank{'s' * (ranks > 1)} x {threads} thread{'s' * (threads > 1)}"


def picture(entries: list[Entry], path: Path) -> None:
    """Seconds by phase as bars, one for each ranks x threads, of all cases on the last machine."""
    mine = [e for e in entries if e["machine"] == entries[-1]["machine"]]
    cases = [case for case in TIMED if _table(case, mine)]
    figure, panels = plt.subplots(2, (len(cases) + 1) // 2, figsize=(15, 9), squeeze=False)
    for axes in panels.flat[len(cases) :]:
        axes.set_visible(False)
    for axes, case in zip(panels.flat, cases, strict=False):
        measured = [e for e in mine if e.get("case") == case]
        rows = min(e["rows"] for e in measured)
        bars = sorted(
            ((e["ranks"], e["threads"]), e["seconds"]) for e in measured if e["rows"] == rows
        )
        names = [name for name in bars[0][1] if name != "total"] or ["total"]
        bottom = [0.0] * len(bars)
        for name in names:
            heights = [seconds.get(name, [0.0, 0.0])[0] for _, seconds in bars]
            axes.bar(range(len(bars)), heights, 0.7, bottom, label=PHASES.get(name, name))
            bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        axes.set_xticks(range(len(bars)), [f"{r} x {t}" for (r, t), _ in bars])
        axes.set_title(f"{case.removesuffix(', timed')}, {rows:,} rows", fontsize=9)
        axes.set_ylim(0.0, 1.8 * max(bottom))  # room for the legend
        axes.legend(fontsize=7, loc="upper right", reverse=True)  # as the bars lie
    figure.supxlabel("ranks x threads")
    figure.supylabel("seconds of the slowest rank")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)

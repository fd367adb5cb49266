"""Curves of several strategies on several problems, and maps of several programs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from hpc.bench.pictures import save_picture

from thalweg.workbench.report import write_map_page

COLORS = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]


def draw_curves(problems: dict[str, Any], stem: Path, part: str) -> str:
    """The objective above the lowest, against evaluations and against seconds."""
    figure, panels = plt.subplots(
        2, len(problems), figsize=(4.4 * len(problems), 6.6), squeeze=False
    )
    for column, (problem, strategies) in zip(panels.T, problems.items(), strict=True):
        curves = {name: np.array(curve) for name, curve in strategies.items()}
        lowest = min(curve[:, 2].min() for curve in curves.values())
        height = max(curve[0, 2] for curve in curves.values()) - lowest
        for place, (name, curve) in enumerate(curves.items()):
            above = np.maximum(curve[:, 2] - lowest, 1e-8 * height)
            for axes, x in zip(column, (0, 1), strict=True):
                axes.loglog(
                    np.maximum(curve[:, x], 1e-2),
                    above,
                    color=COLORS[place % len(COLORS)],
                    linestyle="-" if place < len(COLORS) else "--",
                    label=name,
                    linewidth=2.2 if "SD" in name else 1.3,
                )
        column[0].set(title=problem, xlabel="evaluations")
        column[1].set(xlabel="seconds")
    for row in panels:
        row[0].set_ylabel("objective above the lowest")
    longest = max(panels[0], key=lambda axes: len(axes.lines))
    longest.legend(fontsize=7)
    figure.tight_layout()
    return save_picture(figure, stem, part)


def draw_maps(
    maps: dict[str, np.ndarray],
    labels: np.ndarray | None,
    captions: dict[str, str],
    stem: Path,
    part: str,
) -> str:
    """Maps side by side, each in its own scale, which is drawn as a bar."""
    figure, panels = plt.subplots(1, len(maps), figsize=(3.6 * len(maps), 3.9), squeeze=False)
    for axes, (name, places) in zip(panels[0], maps.items(), strict=True):
        size = min(6.0, 6000.0 / len(places))
        colors = {} if labels is None else {"c": labels, "cmap": "tab20"}
        axes.scatter(*places.T, s=size, linewidths=0.0, **colors)
        axes.set_aspect("equal")
        axes.set(xticks=[], yticks=[], title=name)
        axes.set_xlabel(captions[name], fontsize=8)
        bar = 10.0 ** np.floor(np.log10(0.4 * float(np.ptp(places, axis=0).max())))
        low, left = places.min(axis=0)[1], places.min(axis=0)[0]
        axes.plot([left, left + bar], [low, low], color="black", linewidth=2.0)
        axes.annotate(f"{bar:g}", (left, low), (0, 4), textcoords="offset points", fontsize=7)
    figure.tight_layout()
    return save_picture(figure, stem, part)


def draw_trajectories(programs: dict[str, list[dict[str, float]]], stem: Path, part: str) -> str:
    """Divergence and quality of each program's maps on the way, against CPU seconds."""
    measures = {"kl": "KL divergence", "recall": "recall of 15 neighbors", "accuracy": "accuracy"}
    shown = [name for name in measures if all(name in curve[-1] for curve in programs.values())]
    figure, panels = plt.subplots(1, len(shown), figsize=(3.9 * len(shown), 3.4), squeeze=False)
    for axes, measure in zip(panels[0], shown, strict=True):
        for color, (name, curve) in zip(COLORS, programs.items(), strict=False):
            seconds = [point["CPU seconds"] for point in curve]
            heights = [point[measure] for point in curve]
            axes.plot(seconds, heights, "o-", ms=3, color=color, label=name)
        axes.set(xscale="log", xlabel="CPU seconds of optimization", title=measures[measure])
    panels[0, 0].legend(fontsize=7)
    figure.tight_layout()
    return save_picture(figure, stem, part)


#: Points at row 700 of a page.
POINTING = """<script>window.addEventListener("load", () => setTimeout(() => {
  const place = {clientX: width / 2 + (places[1400] - middle[0]) * scale,
    clientY: height / 2 - (places[1401] - middle[1]) * scale, bubbles: true};
  canvas.dispatchEvent(new PointerEvent("pointermove", place));
}, 200));</script></html>"""


def photograph_page(path: Path, places: np.ndarray, **shown: Any) -> None:
    """Write what a browser shows of a page of a map, where Chromium is installed."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        write_map_page(page, places, **shown)
        text = page.read_text(encoding="utf-8").replace("</html>", POINTING)
        page.write_text(text, encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--window-size=1000,760", f"--user-data-dir={folder}/browser"]
        command += ["--virtual-time-budget=3000", f"--screenshot={path.resolve()}", page.as_uri()]
        subprocess.run(command, capture_output=True, timeout=300, check=False)

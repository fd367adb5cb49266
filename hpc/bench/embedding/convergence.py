"""All strategies from the same start: near a minimum, and from random points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.embedding.data import Images
from hpc.bench.embedding.pictures import draw_curves
from hpc.bench.embedding.strategies import (
    AUTHORS,
    SEARCHED,
    STRATEGIES,
    Note,
    curve_of,
    problems,
    reached,
    run,
)

from thalweg.workbench.report import format_table

#: After the name of a kind of start: with the line search of the paper's authors.
SHRINKING = ", steps shrink"

_TITLES = {
    "near a minimum" + SHRINKING: "From a point near a minimum, as in the paper",
    "near a minimum": "From a point near a minimum, with this project's line search",
    "random" + SHRINKING: "From a random start, with the authors' line search",
    "random": "From a random start, with this project's line search",
}

#: Deviation of what is added to a minimum, as a share of the map's.
MOVED = 0.1

#: Shares of the way from the start to the lowest value that may be left.
LEFT = (1e-2, 1e-3, 1e-4)


def measure_convergence(
    images: Images, evaluations: int, seconds: float | None, note: Note
) -> dict[str, Any]:
    """Curves of all strategies on the three problems from two kinds of start.

    Each by this project's line search and, under the kind's name with ``SHRINKING`` after it, by
    that of the paper's authors.

    Near a minimum: that of L-BFGS with the spectral direction, each coordinate moved at
    random by a tenth of the map's deviation.  Random: normal numbers of deviation 1e-5,
    as in the authors' code.
    """
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "evaluations": evaluations,
        "seconds": seconds,
        **{kind: {} for kind in _TITLES},
    }
    budget = {"evaluations": evaluations, "iterations": evaluations, "seconds": seconds}
    for name, objective in problems(images).items():
        normal = np.random.default_rng(0).standard_normal((len(images.values), 2))
        minimum = run(objective, "L-BFGS + SD", iterations=1000, decrease=1e-12).x
        starts = {
            "near a minimum": minimum + MOVED * minimum.std() * normal,
            "random": 1e-5 * normal,
        }
        for kind, start in starts.items():
            curves, shrinking = (found[k].setdefault(name, {}) for k in (kind, kind + SHRINKING))
            for strategy in STRATEGIES:
                result = run(objective, strategy, x0=start, decrease=1e-11, **budget)
                curves[strategy] = curve_of(result)
                if strategy in SEARCHED:
                    result = run(objective, strategy, x0=start, decrease=1e-11, **budget, **AUTHORS)
                shrinking[strategy] = curve_of(result)
                note(found)
    return found


def convergence_section(found: dict[str, Any], stem: Path) -> list[str]:
    """Tables and pictures."""
    clock = f" and {found['seconds']:g} s" if found["seconds"] else ""
    lines = [
        "## Convergence from one start",
        "",
        f"{found['data']}, {found['rows']} points, perplexity 20; elastic embedding with "
        "lambda = 100 and w- the squared distances. Each run had at most "
        f"{found['evaluations']:,} evaluations{clock}. The columns 1e-2, 1e-3 and 1e-4 give the "
        "evaluations after which this share of the way from the start to the lowest value of all "
        "is left; a dash means never, within the budget or because the strategy went to another "
        "minimum. *As GD* gives the evaluations after which the strategy is as low as gradient "
        "descent at its end, and how many times fewer these are. "
        "The authors' line search begins with a step of 1, which only shrinks after it, with "
        "Armijo's constant 0.1; conjugate gradients and L-BFGS have searches of their own.",
        "",
    ]
    for kind, title in _TITLES.items():
        if not found[kind]:
            continue
        rows = []
        for problem, curves in found[kind].items():
            rows += _rows(problem, curves)
        part = kind.split()[0].rstrip(",") + "-shrinking" * kind.endswith(SHRINKING)
        file = draw_curves(found[kind], stem, f"convergence-{part}")
        lines += [f"### {title}", "", format_table(rows, markdown=True), "", file, ""]
    return lines


def _rows(problem: str, curves: dict[str, Any]) -> list[dict[str, Any]]:
    lowest = min(curve[-1][2] for curve in curves.values())
    first = curves["GD"][0][2]
    goal = curves["GD"][-1][2]
    spent = reached(curves["GD"], goal)
    assert spent is not None
    rows = []
    for strategy, curve in curves.items():
        as_gd = reached(curve, goal)
        rows.append(
            {
                "problem": problem,
                "strategy": strategy,
                "final value": curve[-1][2],
                "evaluations": int(curve[-1][0]),
                **{f"{left:.0e}": _at(curve, lowest + left * (first - lowest)) for left in LEFT},
                "as GD": None if as_gd is None else int(as_gd),
                "times fewer": None if as_gd is None else round(spent / as_gd, 1),
            }
        )
    return rows


def _at(curve: Any, value: float) -> int | None:
    evaluations = reached(curve, value)
    return None if evaluations is None else int(evaluations)

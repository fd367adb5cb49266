"""The paper's choice of sigma, lambda and q: the highest CQ under condition (10) on a grid."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import thalweg
from thalweg import Dataset
from thalweg_clustering import build_kdac

from .sets import Problem

#: Values of sigma and of lambda within (0, 10]; the paper's grid has a step of 0.01.
SIGMAS = tuple(float(value) for value in np.geomspace(0.05, 10.0, 12).round(3))
PENALTIES = tuple(float(value) for value in np.geomspace(0.01, 10.0, 8).round(3))


def measure_tuning(problem: Problem) -> Iterator[dict[str, Any]]:
    """Every cell of the grid, what the paper's rule chooses of them, and the search here.

    The subspace has at first as many dimensions as there are clusters; where no cell satisfies
    condition (10), eq. (11) then gives q.
    """
    first = min(problem.clusters, problem.points.shape[1] - 1)
    began = time.process_time()
    cells = []
    for sigma in SIGMAS:
        for penalty in PENALTIES:
            cell = replace(problem, sigma=sigma, penalty=penalty, components=first)
            cells.append(_solved(cell))
    allowed = [cell for cell in cells if cell["condition"] >= 1]
    nearest = max(cells, key=lambda cell: cell["condition"])
    best = max(allowed, key=lambda cell: cell["CQ"]) if allowed else nearest
    chosen = replace(problem, sigma=best["sigma"], penalty=best["lambda"], components=first)
    if not allowed:
        q = min(best["widest gap"] or first, problem.points.shape[1] - 1)
        chosen = replace(chosen, components=q)
    found: dict[str, Any] = {
        "set": problem.name,
        "cells": len(cells),
        "under (10)": len(allowed),
        "grid": _solved(chosen),
        "best of the grid": max(cells, key=lambda cell: cell["NMI"]),
        "seconds": time.process_time() - began,
    }
    yield found
    dataset = Dataset.from_array(problem.points)
    for rule in ("cq", "score"):
        began = time.process_time()
        objective = build_kdac(
            dataset, dataset.comm, clusters=problem.clusters, tuning=rule, condition=False,
            labelings=[problem.given],
        )  # fmt: skip
        cell = replace(
            problem,
            sigma=objective.kernel.sigma,
            penalty=objective.penalty,
            components=objective.layout.columns,
        )
        found[rule] = {**_solved(cell), "seconds": time.process_time() - began}
        yield found


def _solved(problem: Problem) -> dict[str, Any]:
    """One cell: its parameters, the measures, and how far condition (10) holds."""
    dataset = Dataset.from_array(problem.points)
    objective = build_kdac(
        dataset, dataset.comm, clusters=problem.clusters, components=problem.components,
        sigma=problem.sigma, lambda_=problem.penalty, labelings=[problem.given],
        true_labels=problem.truth,
    )  # fmt: skip
    measures = thalweg.minimize(objective).metrics
    sides = measures["condition_10"]
    return {
        "sigma": problem.sigma,
        "lambda": problem.penalty,
        "components": problem.components,
        "NMI": measures["nmi"],
        "CQ": measures["cq"],
        "novelty": measures["novelty"],
        "condition": sides["left"] / sides["right"] if sides["right"] > 0 else 0.0,
        "widest gap": measures["eigengap_components"],
    }


def tuning_section(rows: list[dict[str, Any]]) -> list[str]:
    """What each way of choosing found."""
    text = [
        "## Choice of sigma, lambda and q",
        "",
        f"The paper's rule on a grid of {len(SIGMAS)} sigmas and {len(PENALTIES)} lambdas in "
        "(0, 10], evenly spaced in the logarithm, where the paper's has 1,000 of each: the "
        "highest CQ of the cells that satisfy condition (10), and where none does, the cell "
        "nearest to it, with q of eq. (11). *Holds* is the left over the right side of (10). "
        "*Best of the grid* is chosen by the true labels, which a search does not know.",
        "",
        "| set | way | cells under (10) | sigma | lambda | q | NMI | CQ | novelty | holds "
        "| CPU seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    names = {
        "grid": "the paper's rule, grid",
        "cq": '`tuning = "cq"`',
        "score": '`tuning = "score"`',
        "best of the grid": "best of the grid",
    }
    for row in rows:
        for key, way in names.items():
            if key not in row:
                continue
            cell = row[key]
            seconds = row["seconds"] if key == "grid" else cell.get("seconds")
            count = f"{row['under (10)']} of {row['cells']}" if key == "grid" else ""
            text.append(
                f"| {row['set']} | {way} | {count} | {cell['sigma']:.3g} | {cell['lambda']:.3g} | "
                f"{cell['components']} | {cell['NMI']:.3f} | {cell['CQ']:.3f} | "
                f"{cell['novelty']:.3f} | {cell['condition']:.2g} | "
                f"{'' if seconds is None else f'{seconds:.0f}'} |"
            )
    return [*text, ""]

"""Estimates of a clustering for ``thalweg plan``, from its shapes."""

from __future__ import annotations

from thalweg.plugins import PhaseEstimate, Problem
from thalweg_clustering.build import FEATURES, approximation_for
from thalweg_clustering.exact_sums import STORED_ROWS
from thalweg_clustering.feature_sums import BLOCK
from thalweg_clustering.kernels import kernel_function

#: Matrices of the stored kernel's size that a run on few rows, or on a sample, holds at once.
STORED_MATRICES = 9.0

#: Bytes of compiled kernels, and of the libraries that they need.
KERNELS = 85e6

#: Columns of the U-step's basis, per column of U.
BASIS = 12.0


def estimate(problem: Problem) -> list[PhaseEstimate]:
    """Loading, the run on a sample that gives the start, and iterations of KDAC."""
    options = problem.objective
    n, columns, ranks, rows = problem.local_rows, problem.columns, problem.ranks, problem.rows
    k = float(options.get("clusters") or 10)
    q = float(options.get("components") or k)
    size = float(options.get("features") or FEATURES)
    kind = options.get("approximation", "auto")
    stored = float(options.get("stored_rows", STORED_ROWS))
    if kind == "auto":
        kernel = options.get("kernel", "gaussian")
        of = kernel_function(kernel, options.get("degree", 2), options.get("offset", 1.0))
        kind = approximation_for(rows, of, bool(options.get("local_scaling")))
    load = PhaseEstimate("load", KERNELS + 8.0 * n * (2.0 * columns + 2.0), 8.0 * n * columns)
    sample = float(min(rows, STORED_ROWS))
    start = PhaseEstimate(
        "start", 0.0, STORED_MATRICES * 8.0 * sample**2,
        sent=8.0 * sample * columns / ranks * (ranks - 1), messages=4.0 * (ranks - 1),
        operations=40.0 * sample**3,
    )  # fmt: skip
    times = float(problem.iterations)
    if kind == "exact" and rows <= stored:
        iterations = PhaseEstimate(
            "iterations", 0.0, STORED_MATRICES * 8.0 * n * rows,
            sent=times * 8.0 * n * (q + k) * (ranks - 1), messages=times * 6.0 * (ranks - 1),
            operations=times * 40.0 * n * rows, advice="lower stored_rows",
        )  # fmt: skip
    elif kind == "exact":
        width = q + columns + k + 2.0
        iterations = PhaseEstimate(
            "iterations", 8.0 * n * (BASIS * k + 4.0 * k), 3.0 * 8.0 * n * width,
            sent=times * 10.0 * 8.0 * n * width * (ranks - 1) / 2.0,
            messages=times * 10.0 * (ranks - 1), operations=times * 10.0 * 12.0 * n * rows,
            advice="use approximation = 'fourier'",
        )  # fmt: skip
    else:
        moments = 8.0 * size * (columns + 1.0) * (k + 1.0)
        iterations = PhaseEstimate(
            "iterations", 8.0 * n * 5.0 * k, 8.0 * 6.0 * BLOCK * size + 8.0 * n * 2.0 * k + moments,
            sent=times * 2.0 * (moments + 8.0 * size * size) * min(1.0, ranks - 1.0),
            messages=times * 6.0 * min(1.0, ranks - 1.0),
            operations=times * 6.0 * n * size * (q + columns + k), advice="use fewer features",
        )  # fmt: skip
    return [load, start, iterations]

"""Estimates of a clustering for ``thalweg plan``, from its shapes."""

from __future__ import annotations

from thalweg.plugins import PhaseEstimate, Problem
from thalweg_clustering.build import FEATURES, approximation_for
from thalweg_clustering.exact_sums import STORED_ROWS
from thalweg_clustering.feature_sums import BLOCK
from thalweg_clustering.kernels import kernel_function

#: Matrices of the stored kernel's size that a run on few rows holds at once.
STORED_MATRICES = 9.0

#: Bytes of compiled kernels, and of the libraries that they need.
KERNELS = 88e6

#: Columns of the U-step's basis, per column of U, and of all that a run by features keeps.
BASIS, KEPT = 12.0, 15.0

#: Rows whose pairs give the default width, and copies of a rank's share of their distances.
MEDIAN_ROWS, MEDIAN_COPIES = 2000.0, 1.7


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
    load = PhaseEstimate("load", KERNELS + 8.0 * n * (2.5 * columns + 2.0), 8.0 * n * columns)
    sample = float(min(rows, STORED_ROWS))
    some = 0.0 if options.get("sigma") else min(float(rows), MEDIAN_ROWS)
    start = PhaseEstimate(
        "start", MEDIAN_COPIES * 4.0 * some**2 / ranks,
        sent=8.0 * sample * columns / ranks * (ranks - 1),
    )  # fmt: skip
    times = float(problem.iterations)
    if kind == "exact" and rows <= stored:
        iterations = PhaseEstimate(
            "iterations", 0.0, STORED_MATRICES * 8.0 * n * rows,
            sent=times * 8.0 * n * (q + k) * (ranks - 1),
            advice="lower stored_rows",
        )  # fmt: skip
    elif kind == "exact":
        width = q + columns + k + 2.0
        iterations = PhaseEstimate(
            "iterations", 8.0 * n * (BASIS * k + 4.0 * k), 3.0 * 8.0 * n * width,
            sent=times * 10.0 * 8.0 * n * width * (ranks - 1) / 2.0,

            advice="use approximation = 'fourier'",
        )  # fmt: skip
    else:
        size *= 2.0 if kind == "fourier" else 1.0  # cosines and sines
        moments = 8.0 * size * (columns + 1.0) * (k + 1.0)
        iterations = PhaseEstimate(
            "iterations", 8.0 * n * KEPT * k,
            8.0 * n * 2.0 * k + moments + 8.0 * (3.0 * BLOCK * size + 2.0 * size**2),
            sent=times * 2.0 * problem.remote_share * (2.0 * moments + 8.0 * size**2),
            advice="use fewer features",
        )  # fmt: skip
    return [load, start, iterations]

"""Memory of a clustering for ``thalweg plan``, from its shapes."""

from thalweg.plugins import PhaseEstimate, Problem
from thalweg_clustering.build import FEATURES, approximation_for
from thalweg_clustering.kernels import kernel_function

#: Bytes of compiled kernels, and of the libraries that they need, on one machine.
KERNELS = 88e6

#: Rows whose kernel with the landmarks is in memory at one time.
BLOCK = 512

#: Columns of the U-step's basis, per column of U, and of all that a run by features keeps.
BASIS, KEPT = 12.0, 15.0

#: Matrices of columns by columns, on every rank: Phi, the last ones of the mixing, eigenvectors.
MATRICES = 6.0

#: Rows whose pairs give the default width, and copies of a rank's share of their distances.
MEDIAN_ROWS, MEDIAN_COPIES = 2000.0, 1.7


def estimate(problem: Problem) -> list[PhaseEstimate]:
    """Loading, the run on a sample that gives the start, and iterations of KDAC."""
    n, columns = problem.local_rows, problem.columns
    load = PhaseEstimate("load", KERNELS + 8.0 * n * (2.5 * columns + 2.0), 8.0 * n * columns)
    sample = 0.0 if problem.objective.get("sigma") else min(float(problem.rows), MEDIAN_ROWS)
    first = MEDIAN_COPIES * 4.0 * sample**2 / problem.ranks + MATRICES * 8.0 * columns**2
    start = PhaseEstimate("start", first, advice="use [data] components")
    return [load, start, _iterations(problem)]


def _iterations(problem: Problem) -> PhaseEstimate:
    options, n, columns = problem.objective, problem.local_rows, problem.columns
    k = float(options.get("clusters") or 10)
    kernel = options.get("kernel", "gaussian")
    function = kernel_function(kernel, options.get("degree", 2), options.get("offset", 1.0))
    kind: str = options.get("approximation", "auto")
    if kind == "auto":
        kind = approximation_for(problem.rows, function, options.get("sigma") is not None)
    if kind == "exact":
        width = float(options.get("components") or k) + columns + k + 2.0
        basis, advice = 8.0 * n * (BASIS * k + 4.0 * k), "use approximation = 'nystrom'"
        return PhaseEstimate("iterations", basis, 3.0 * 8.0 * n * width, advice)
    size = float(options.get("features") or FEATURES)
    moments = 8.0 * size * (columns + 1.0) * (k + 1.0)
    sums = 8.0 * n * 2.0 * k + moments + 8.0 * (3.0 * BLOCK * size + 2.0 * size**2)
    return PhaseEstimate("iterations", 8.0 * n * KEPT * k, sums, "use fewer features")

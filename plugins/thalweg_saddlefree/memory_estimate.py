"""Memory of training for ``thalweg plan``, from the shapes of network and data."""

import itertools

from thalweg.plugins import PhaseEstimate, Problem
from thalweg_saddlefree.networks.build import whole_network
from thalweg_saddlefree.networks.objective import CHUNK

#: Vectors of the weights' size that were measured on one machine, by solver; others take the last.
VECTORS = {"lbfgs": 30.0, "saddle-free-subspace": 40.0, "hessian-free": 25.0, "": 30.0}

#: Largest number of bytes of activations kept on a rank for curvature products: all or none.
ACTIVATIONS = 2e9

#: Classes, and the code's width, where the configuration does not say.
CLASSES, HIDDEN = 10.0, 64.0


def estimate(problem: Problem) -> list[PhaseEstimate]:
    """Loading, replicated weights, and gradients over this rank's rows."""
    options = problem.objective
    n, columns = problem.local_rows, float(problem.columns)
    auto = options["name"] == "autoencoder"
    layers = options.get("layers")
    given = whole_network(layers, problem.columns) if auto else layers or (columns, HIDDEN, CLASSES)
    sizes = [float(size) for size in given]
    number = 8.0 if options.get("precision", "double") == "double" else 4.0
    weights = sum((a + 1.0) * b for a, b in itertools.pairwise(sizes))
    rounded = number * n * columns if number < 8.0 else 0.0
    rows = 8.0 * n * columns + rounded + 8.0 * n * (1.0 if auto else 1.0 + sizes[-1])
    load = PhaseEstimate("load", rows, 16.0 * n * columns)
    solver = str(problem.solver.get("name", ""))
    vectors = VECTORS.get(solver, VECTORS[""]) + 2.0 * max(problem.solver.get("memory", 0) - 10, 0)
    advice = "use a smaller network: every rank holds all weights"
    start = PhaseEstimate("weights", vectors * 8.0 * weights, advice=advice)
    factors = 0.0
    if problem.preconditioner.get("name") == "kronecker":
        factors = 8.0 * 3.0 * sum((a + 1.0) ** 2 + b**2 for a, b in itertools.pairwise(sizes))
    chunk = number * CHUNK * 4.0 * sum(sizes)
    stored = 0.0
    if factors or solver in ("saddle-free-subspace", "hessian-free"):
        # Those of the last point are there while those of the next are made.
        activations = number * n * (2.0 * sum(sizes) - sizes[0])
        stored = 2.0 * activations if activations <= ACTIVATIONS else 0.0
    advice, products = "use precision = 'single', or a smaller network", chunk + 3.0 * 8.0 * weights
    return [load, start, PhaseEstimate("training", factors + stored, products, advice)]

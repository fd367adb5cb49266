"""
Away from a saddle
==================

At the saddle of x³ − 3xy² even the Hessian vanishes.  Steps by the absolute Hessian, from Hessian
products alone, leave it along negative curvature.  The function is written in JAX, which gives the
products.
"""

import matplotlib.pyplot as plt
import numpy as np

import thalweg
from thalweg.parallel import MPI
from thalweg_saddlefree.jax_objective import JaxObjective


def height(at):
    x, y = at
    return x**3 - 3 * x * y**2 + (x**2 + y**2) ** 2 / 4


grid = np.linspace(-3.5, 3.5, 200)
figure, axes = plt.subplots(figsize=(5, 4.5), layout="constrained")
axes.contourf(grid, grid, np.minimum(height(np.meshgrid(grid, grid)), 20), 30, cmap="Greys_r")
evaluations = {}
for solver in ("saddle-free", "gradient-descent"):
    path = []
    result = thalweg.minimize(
        JaxObjective(MPI.COMM_SELF, height, np.array([0.01, 0.002])),
        solver=solver,
        callback=lambda iterate, path=path: path.append(iterate.rows.ravel().copy()),
        iterations=200,
    )
    evaluations[solver] = result.evaluations
    label = f"{solver}: {result.objective:.3f} after {result.evaluations} evaluations"
    axes.plot(*np.array(path).T, marker=".", label=label)
axes.legend(loc="lower left", fontsize=8)
assert np.isclose(result.objective, -27 / 4)
